package archtest

import (
	"bytes"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strconv"
	"strings"
)

// module is a parsed source tree.
type module struct {
	path     string        // as the module line of go.mod says
	requires []requirement // the direct requirements, in the order of go.mod
	files    []*file       // in the order of their paths
}

// file is one parsed Go file.
type file struct {
	path      string // from the root of the module, with slashes
	folder    string // "." is the root
	lines     int
	test      bool // its name ends in _test.go
	generated bool // it says that it is generated, so sizes do not count
	syntax    *ast.File
	positions *token.FileSet
}

// reference is a qualified name that a file uses, such as time.Now.
type reference struct {
	pkg  string // the import path of the package
	name string
	node ast.Node
}

// moduleRoot returns the nearest folder at or above dir that holds a go.mod.
func moduleRoot(dir string) (string, error) {
	for {
		if _, err := os.Stat(filepath.Join(dir, "go.mod")); err == nil {
			return dir, nil
		}
		parent := filepath.Dir(dir)
		if parent == dir {
			return "", fmt.Errorf("find go.mod: %w", fs.ErrNotExist)
		}
		dir = parent
	}
}

// load parses the module whose go.mod stands at the root of tree. What the go command ignores is left out: hidden folders,
// those that begin with an underscore, testdata, node_modules, vendor, and modules within the module.
func load(tree fs.FS) (*module, error) {
	text, err := fs.ReadFile(tree, "go.mod")
	if err != nil {
		return nil, fmt.Errorf("read go.mod: %w", err)
	}
	m := parseGoMod(string(text))
	positions := token.NewFileSet()
	err = fs.WalkDir(tree, ".", func(name string, entry fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case name == ".":
			return nil
		case entry.IsDir() && ignored(tree, name):
			return fs.SkipDir
		case entry.IsDir(), path.Ext(name) != ".go", hidden(name):
			return nil
		}
		f, err := parseFile(tree, name, positions)
		if err != nil {
			return err
		}
		m.files = append(m.files, f)
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("load module: %w", err)
	}
	return m, nil
}

func hidden(name string) bool {
	base := path.Base(name)
	return base[0] == '.' || base[0] == '_'
}

func ignored(tree fs.FS, folder string) bool {
	switch path.Base(folder) {
	case "testdata", "node_modules", "vendor":
		return true
	}
	_, err := fs.Stat(tree, path.Join(folder, "go.mod"))
	return hidden(folder) || err == nil
}

func parseFile(tree fs.FS, name string, positions *token.FileSet) (*file, error) {
	source, err := fs.ReadFile(tree, name)
	if err != nil {
		return nil, err
	}
	syntax, err := parser.ParseFile(positions, name, source, parser.ParseComments|parser.SkipObjectResolution)
	if err != nil {
		return nil, err
	}
	return &file{
		path:      name,
		folder:    path.Dir(name),
		lines:     bytes.Count(source, []byte("\n")),
		test:      strings.HasSuffix(name, "_test.go"),
		generated: ast.IsGenerated(syntax),
		syntax:    syntax,
		positions: positions,
	}, nil
}

// line returns the line of the file on which pos stands.
func (f *file) line(pos token.Pos) int { return f.positions.Position(pos).Line }

// symbol returns the name by which an exception calls a declaration of the file: store/sqlite.Open, store.Journal.Settle;
// in the root the name of the package stands before it.
func (f *file) symbol(name string) string {
	if f.folder == "." {
		return f.syntax.Name.Name + "." + name
	}
	return f.folder + "." + name
}

// suite reports whether the file belongs to a package of laws, which is a test in all but its file names.
func (f *file) suite() bool {
	switch f.folder {
	case "store/storetest", "engine/enginetest", "model/modeltest", "tool/tooltest":
		return true
	}
	return false
}

// references returns the qualified names that the file uses, in their order. A local name that hides an import is not
// told apart from it.
func (f *file) references() []reference {
	paths := f.importsByName()
	var refs []reference
	ast.Inspect(f.syntax, func(n ast.Node) bool {
		selector, ok := n.(*ast.SelectorExpr)
		if !ok {
			return true
		}
		if x, ok := selector.X.(*ast.Ident); ok && paths[x.Name] != "" {
			refs = append(refs, reference{pkg: paths[x.Name], name: selector.Sel.Name, node: selector})
		}
		return true
	})
	return refs
}

// qualifiedType returns the import path and name of a type of another package, joined by a dot; it is empty for others.
func (f *file) qualifiedType(expr ast.Expr) string {
	selector, ok := expr.(*ast.SelectorExpr)
	if !ok {
		return ""
	}
	x, ok := selector.X.(*ast.Ident)
	if !ok {
		return ""
	}
	return f.importsByName()[x.Name] + "." + selector.Sel.Name
}

func (f *file) importsByName() map[string]string {
	paths := make(map[string]string)
	for _, spec := range f.syntax.Imports {
		paths[importName(spec)] = importPath(spec)
	}
	return paths
}

func importPath(spec *ast.ImportSpec) string {
	p, _ := strconv.Unquote(spec.Path.Value) // the parser has checked it
	return p
}

// importName returns the name an import has in its file. Without one of its own it is guessed from the path, which is right
// for the standard library.
func importName(spec *ast.ImportSpec) string {
	if spec.Name != nil {
		return spec.Name.Name
	}
	p := importPath(spec)
	if base := path.Base(p); len(base) != 2 || base[0] != 'v' { // v2 to v9 are versions, and the name stands before them
		return base
	}
	return path.Base(path.Dir(p))
}

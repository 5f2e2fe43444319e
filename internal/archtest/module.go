package archtest

import (
	"bytes"
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// module is a parsed source tree.
type module struct {
	path     string        // as the module line of go.mod says
	requires []requirement // the direct requirements, in the order of go.mod
	files    []*file       // in the order of their paths
	glossary string        // the text of docs/glossary.md; empty: there is none
	spec     []string      // the pages of docs/spec
}

// file is one parsed Go file.
type file struct {
	path      string // from the root of the module, with slashes
	folder    string // "." is the root
	lines     int
	test      bool // its name ends in _test.go
	generated bool // marked as generated; size limits do not apply
	syntax    *ast.File
	positions *token.FileSet
	source    []byte
}

// reference is a qualified name that a file uses, such as time.Now.
type reference struct {
	pkg  string // import path of the package
	name string
	node ast.Node
}

// moduleRoot returns the nearest folder at or above dir with a go.mod.
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

// load parses the module whose go.mod is at the root of tree. It skips what the go command ignores:
// hidden folders, folders that begin with an underscore, testdata, node_modules, vendor, and nested
// modules, except for those in houseModules.
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
	return m, m.readDocs(tree)
}

// readDocs reads the documents that rules refer to. A tree need not have them.
func (m *module) readDocs(tree fs.FS) error {
	glossary, err := fs.ReadFile(tree, glossaryPath)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("read the glossary: %w", err)
	}
	m.glossary = string(glossary)
	pages, err := fs.Glob(tree, specFolder+"/*.md")
	if err != nil {
		return err
	}
	for _, name := range pages {
		page, err := fs.ReadFile(tree, name)
		if err != nil {
			return fmt.Errorf("read the specification: %w", err)
		}
		m.spec = append(m.spec, string(page))
	}
	return nil
}

func hidden(name string) bool {
	base := path.Base(name)
	return base[0] == '.' || base[0] == '_'
}

// houseModules are the folders of nested modules that follow the rules of the house. Their import
// paths are those that they would have without a go.mod of their own.
var houseModules = []string{"engine/temporal"}

func ignored(tree fs.FS, folder string) bool {
	switch path.Base(folder) {
	case "testdata", "node_modules", "vendor":
		return true
	}
	_, err := fs.Stat(tree, path.Join(folder, "go.mod"))
	return hidden(folder) || err == nil && !slices.Contains(houseModules, folder)
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
		source:    source,
	}, nil
}

// ownLine reports whether only tabs stand before a comment on its line.
func (f *file) ownLine(c *ast.Comment) bool {
	offset := f.positions.Position(c.Pos()).Offset
	start := bytes.LastIndexByte(f.source[:offset], '\n') + 1
	return len(bytes.Trim(f.source[start:offset], "\t")) == 0
}

// line returns the line of the file on which pos stands.
func (f *file) line(pos token.Pos) int { return f.positions.Position(pos).Line }

// symbol returns the name of a declaration in exceptions: store/sqlite.Open, store.Journal.Settle;
// in the root it begins with the name of the package.
func (f *file) symbol(name string) string {
	if f.folder == "." {
		return f.syntax.Name.Name + "." + name
	}
	return f.folder + "." + name
}

// suite reports whether the file belongs to a test suite of a port, which is a test in all but its
// file names.
func (f *file) suite() bool {
	switch f.folder {
	case "store/storetest", "engine/enginetest", "model/modeltest", "tool/tooltest":
		return true
	}
	return false
}

// references returns the qualified names that the file uses, in order. It cannot distinguish an
// import from a local variable of the same name.
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

// qualifiedType returns the import path and name of a type of another package, joined with a dot;
// it is empty for other types.
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
	p, _ := strconv.Unquote(spec.Path.Value) // the parser has validated it
	return p
}

// importName returns the name of an import in its file. Without an explicit name it is guessed from
// the path, which is correct for the standard library.
func importName(spec *ast.ImportSpec) string {
	if spec.Name != nil {
		return spec.Name.Name
	}
	p := importPath(spec)
	if base := path.Base(p); len(base) != 2 || base[0] != 'v' { // v2 to v9 are versions, preceded by the name
		return base
	}
	return path.Base(path.Dir(p))
}

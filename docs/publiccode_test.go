package docs_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path"
	"slices"
	"strings"
	"testing"
)

// publicCode is what the packages declare that other modules can import.
type publicCode struct {
	files    map[string][]string // by the last word of a package's path
	packages map[string]declared // those that were read
}

// declared is what a package declares. A type of a member is the name of a type of the same
// package; empty: it has another one.
type declared struct {
	names      map[string]bool              // types, functions and values
	interfaces map[string]bool              // types that are interfaces
	members    map[string]map[string]string // by type: methods and fields, with their types
	embedded   map[string][]string          // by type: the types of this package that it embeds
	aliases    map[string]string            // by type: the type of another package that it is, as package.Type
}

// newPublicCode finds the files of the public packages.
func newPublicCode(t *testing.T) *publicCode {
	t.Helper()
	c := &publicCode{files: map[string][]string{}, packages: map[string]declared{}}
	err := fs.WalkDir(os.DirFS(root), ".", func(file string, entry fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case entry.IsDir():
			hidden := []string{"internal", "cmd", "bench", "examples", "docs", "testdata", "node_modules"}
			if file != "." && (slices.Contains(hidden, entry.Name()) || strings.HasPrefix(entry.Name(), ".")) {
				return fs.SkipDir
			}
		case strings.HasSuffix(file, ".go") && !strings.HasSuffix(file, "_test.go"):
			name := path.Base(path.Dir(file))
			if name == "." {
				name = "perdure"
			}
			c.files[name] = append(c.files[name], file)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// read returns what a package declares.
func (c *publicCode) read(t *testing.T, name string) declared {
	t.Helper()
	found, ok := c.packages[name]
	if ok {
		return found
	}
	found = declared{names: map[string]bool{}, interfaces: map[string]bool{}, members: map[string]map[string]string{},
		embedded: map[string][]string{}, aliases: map[string]string{}}
	for _, file := range c.files[name] {
		tree, err := parser.ParseFile(token.NewFileSet(), path.Join(root, file), nil, parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		found.read(tree)
	}
	c.packages[name] = found
	return found
}

// declares reports whether package.Name or package.Type.Member is declared.
func (c *publicCode) declares(t *testing.T, name string) bool {
	t.Helper()
	parts := strings.Split(name, ".")
	found := c.read(t, parts[0])
	switch len(parts) {
	case 2:
		return found.names[parts[1]]
	case 3:
		_, ok := found.all(parts[1])[parts[2]]
		other, alias := found.aliases[parts[1]]
		return ok || alias && c.declares(t, other+"."+parts[2])
	}
	return false
}

// TestExamplesArePublic: another module can do what the programs in examples do.
func TestExamplesArePublic(t *testing.T) {
	t.Parallel()
	seen := 0
	err := fs.WalkDir(os.DirFS(root), "examples", func(file string, _ fs.DirEntry, err error) error {
		if err != nil || !strings.HasSuffix(file, ".go") || strings.HasSuffix(file, "_test.go") {
			return err
		}
		seen++
		tree, err := parser.ParseFile(token.NewFileSet(), path.Join(root, file), nil, parser.ImportsOnly)
		if err != nil {
			return err
		}
		for _, one := range tree.Imports {
			if strings.Contains(one.Path.Value, "/internal/") {
				t.Errorf("%s imports %s, which another module cannot", file, one.Path.Value)
			}
		}
		return nil
	})
	if err != nil || seen == 0 {
		t.Errorf("%d files: %v", seen, err)
	}
}

// all returns the methods and fields of a type, also those of types that it embeds.
func (d declared) all(of string) map[string]string {
	found := map[string]string{}
	for member, kind := range d.members[of] {
		found[member] = kind
	}
	for _, part := range d.embedded[of] {
		for member, kind := range d.all(part) {
			found[member] = kind
		}
	}
	return found
}

// types returns the interfaces of this package that the members of a type have as their types.
func (d declared) types(of string) (found []string) {
	for _, kind := range d.members[of] {
		if d.interfaces[kind] {
			found = append(found, kind)
		}
	}
	return found
}

// methods returns the methods of a type by their full names.
func (d declared) methods(in, of string) (found []string) {
	for member := range d.all(of) {
		found = append(found, in+"."+of+"."+member)
	}
	return found
}

// read adds what a file declares.
func (d declared) read(tree *ast.File) {
	for _, decl := range tree.Decls {
		switch decl := decl.(type) {
		case *ast.FuncDecl:
			if decl.Recv == nil {
				d.names[decl.Name.Name] = true
				continue
			}
			d.add(typeName(decl.Recv.List[0].Type), decl.Name.Name, "")
		case *ast.GenDecl:
			for _, spec := range decl.Specs {
				d.readSpec(spec)
			}
		}
	}
}

// add adds a member of a type.
func (d declared) add(of, member, kind string) {
	if d.members[of] == nil {
		d.members[of] = map[string]string{}
	}
	d.members[of][member] = kind
}

func (d declared) readSpec(spec ast.Spec) {
	switch spec := spec.(type) {
	case *ast.ValueSpec:
		for _, name := range spec.Names {
			d.names[name.Name] = true
		}
	case *ast.TypeSpec:
		of := spec.Name.Name
		d.names[of] = true
		switch shape := spec.Type.(type) {
		case *ast.InterfaceType:
			d.interfaces[of] = true
			d.readFields(of, shape.Methods)
		case *ast.StructType:
			d.readFields(of, shape.Fields)
		case *ast.SelectorExpr:
			if in, ok := shape.X.(*ast.Ident); ok && spec.Assign.IsValid() {
				d.aliases[of] = in.Name + "." + shape.Sel.Name
			}
		}
	}
}

// readFields adds the fields of a struct, or the methods of an interface.
func (d declared) readFields(of string, list *ast.FieldList) {
	for _, field := range list.List {
		for _, name := range field.Names {
			d.add(of, name.Name, typeName(field.Type))
		}
		if len(field.Names) == 0 {
			d.embedded[of] = append(d.embedded[of], typeName(field.Type))
		}
	}
}

// typeName returns the name of a type of the same package, or of the one result of a function
// without parameters; empty: it is another one.
func typeName(e ast.Expr) string {
	switch e := e.(type) {
	case *ast.Ident:
		return e.Name
	case *ast.StarExpr:
		return typeName(e.X)
	case *ast.IndexExpr:
		return typeName(e.X)
	case *ast.FuncType:
		if e.Params.NumFields() == 0 && e.Results.NumFields() == 1 {
			return typeName(e.Results.List[0].Type)
		}
	}
	return ""
}

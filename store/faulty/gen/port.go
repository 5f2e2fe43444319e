package main

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// port is the parsed package store.
type port struct {
	interfaces map[string]*ast.InterfaceType
	imports    map[string]string // the imports of all files, by local name
	names      map[string]bool   // the packages of types that were written
}

// field is one parameter or result.
type field struct {
	name string
	typ  ast.Expr
}

// parse reads the files of a package, without tests.
func parse(folder string) (*port, error) {
	p := &port{
		interfaces: map[string]*ast.InterfaceType{},
		imports:    map[string]string{"store": "github.com/perdure/perdure/store"},
		names:      map[string]bool{"store": true},
	}
	paths, err := filepath.Glob(filepath.Join(folder, "*.go"))
	if err != nil {
		return nil, err
	}
	for _, path := range paths {
		if strings.HasSuffix(path, "_test.go") {
			continue
		}
		text, err := os.ReadFile(path)
		if err != nil {
			return nil, err
		}
		file, err := parser.ParseFile(token.NewFileSet(), path, text, parser.SkipObjectResolution)
		if err != nil {
			return nil, err
		}
		p.add(file)
	}
	return p, nil
}

func (p *port) add(file *ast.File) {
	for _, spec := range file.Imports {
		path, _ := strconv.Unquote(spec.Path.Value)
		name := path[strings.LastIndex(path, "/")+1:]
		if spec.Name != nil {
			name = spec.Name.Name
		}
		p.imports[name] = path
	}
	ast.Inspect(file, func(n ast.Node) bool {
		if spec, ok := n.(*ast.TypeSpec); ok {
			if iface, ok := spec.Type.(*ast.InterfaceType); ok {
				p.interfaces[spec.Name.Name] = iface
			}
		}
		return true
	})
}

// used returns the imports of what was written, the standard library first.
func (p *port) used() []string {
	var standard, ours []string
	for _, name := range slices.Sorted(maps.Keys(p.names)) {
		if path := p.imports[name]; strings.Contains(path, ".") {
			ours = append(ours, strconv.Quote(path))
		} else {
			standard = append(standard, strconv.Quote(path))
		}
	}
	return append(append(standard, ""), ours...)
}

// collect adds the methods of an interface and of its embedded interfaces.
func (p *port) collect(name string, into map[string]*ast.FuncType) error {
	iface, ok := p.interfaces[name]
	if !ok {
		return fmt.Errorf("no interface %s in the package", name)
	}
	for _, f := range iface.Methods.List {
		switch t := f.Type.(type) {
		case *ast.FuncType:
			for _, method := range f.Names {
				into[method.Name] = t
			}
		case *ast.Ident:
			if err := p.collect(t.Name, into); err != nil {
				return err
			}
		default:
			return fmt.Errorf("%s embeds a %T", name, t)
		}
	}
	return nil
}

// fields returns parameters or results one by one. One without a name is named by prefix and index.
func fields(list *ast.FieldList, prefix string) []field {
	if list == nil {
		return nil
	}
	var found []field
	for _, f := range list.List {
		for _, name := range f.Names {
			found = append(found, field{name.Name, f.Type})
		}
		if len(f.Names) == 0 {
			found = append(found, field{fmt.Sprint(prefix, len(found)), f.Type})
		}
	}
	return found
}

// typeText returns a type of package store as another package writes it.
func (p *port) typeText(expr ast.Expr) (string, error) {
	switch t := expr.(type) {
	case *ast.Ident:
		if ast.IsExported(t.Name) {
			return "store." + t.Name, nil
		}
		return t.Name, nil
	case *ast.SelectorExpr:
		pkg, ok := t.X.(*ast.Ident)
		if !ok {
			return "", fmt.Errorf("a name in a %T", t.X)
		}
		p.names[pkg.Name] = true
		return pkg.Name + "." + t.Sel.Name, nil
	case *ast.StarExpr:
		of, err := p.typeText(t.X)
		return "*" + of, err
	case *ast.ArrayType:
		if t.Len != nil {
			return "", fmt.Errorf("an array")
		}
		of, err := p.typeText(t.Elt)
		return "[]" + of, err
	case *ast.FuncType:
		params, err := p.listText(t.Params)
		if err != nil {
			return "", err
		}
		results, err := p.listText(t.Results)
		if strings.Contains(results, ",") {
			results = "(" + results + ")"
		}
		return strings.TrimSuffix("func("+params+") "+results, " "), err
	}
	return "", fmt.Errorf("a %T, which this program cannot write yet", expr)
}

func (p *port) listText(list *ast.FieldList) (string, error) {
	var texts []string
	for _, f := range fields(list, "") {
		text, err := p.typeText(f.typ)
		if err != nil {
			return "", err
		}
		texts = append(texts, text)
	}
	return strings.Join(texts, ", "), nil
}

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

// declared is one method of an interface.
type declared struct {
	name      string
	signature *ast.FuncType
}

// methods returns the methods of an interface in their order, with those of what it embeds but for
// one interface, whose methods another wrapper has.
func (p *port) methods(name, without string) ([]declared, error) {
	iface, ok := p.interfaces[name]
	if !ok {
		return nil, fmt.Errorf("no interface %s in the package", name)
	}
	var found []declared
	if name == without {
		return nil, nil
	}
	for _, f := range iface.Methods.List {
		switch t := f.Type.(type) {
		case *ast.FuncType:
			for _, method := range f.Names {
				found = append(found, declared{method.Name, t})
			}
		case *ast.Ident:
			if p.embeds(without, t.Name) {
				continue
			}
			inner, err := p.methods(t.Name, without)
			if err != nil {
				return nil, err
			}
			found = append(found, inner...)
		default:
			return nil, fmt.Errorf("%s embeds a %T", name, t)
		}
	}
	return found, nil
}

// embeds reports whether an interface is another one, or has all methods of it.
func (p *port) embeds(name, other string) bool {
	if name == other {
		return true
	}
	iface := p.interfaces[name]
	if iface == nil || p.interfaces[other] == nil {
		return false
	}
	for _, f := range iface.Methods.List {
		if inner, ok := f.Type.(*ast.Ident); ok && p.embeds(inner.Name, other) {
			return true
		}
	}
	// a composition has the methods of another one that embeds the same parts
	parts := p.interfaces[other].Methods.List
	for _, part := range parts {
		inner, ok := part.Type.(*ast.Ident)
		if !ok || !p.embeds(name, inner.Name) {
			return false
		}
	}
	return len(parts) > 0
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

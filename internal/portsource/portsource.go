// Package portsource reads the interfaces of a package from its source, for programs that write
// wrappers of them.
//
// It may import nothing of ours. The one thing to know: it parses and does not type-check, so it
// works while the package that the wrappers belong to does not compile.
package portsource

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

// Port is a parsed package.
type Port struct {
	name       string // of the package
	interfaces map[string]*ast.InterfaceType
	imports    map[string]string // the imports of all files, by local name
	names      map[string]bool   // the packages of types that were written
}

// Method is one method of an interface.
type Method struct {
	Name      string
	Signature *ast.FuncType
}

// Field is one parameter or result.
type Field struct {
	Name string
	Type ast.Expr
}

// Parse reads the files of the package with the import path path in a folder, without tests.
func Parse(folder, path string) (*Port, error) {
	name := path[strings.LastIndex(path, "/")+1:]
	p := &Port{
		name:       name,
		interfaces: map[string]*ast.InterfaceType{},
		imports:    map[string]string{name: path},
		names:      map[string]bool{name: true},
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

// Interface reports whether the package declares an interface of that name.
func (p *Port) Interface(name string) bool { return p.interfaces[name] != nil }

func (p *Port) add(file *ast.File) {
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

// Used returns the imports of what was written, the standard library first.
func (p *Port) Used() []string {
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

// Methods returns the methods of an interface in their order, with those of what it embeds but for
// one interface, whose methods another wrapper has.
func (p *Port) Methods(name, without string) ([]Method, error) {
	iface, ok := p.interfaces[name]
	if !ok {
		return nil, fmt.Errorf("no interface %s in the package", name)
	}
	var found []Method
	if name == without {
		return nil, nil
	}
	for _, f := range iface.Methods.List {
		switch t := f.Type.(type) {
		case *ast.FuncType:
			for _, method := range f.Names {
				found = append(found, Method{method.Name, t})
			}
		case *ast.Ident:
			if p.Embeds(without, t.Name) {
				continue
			}
			inner, err := p.Methods(t.Name, without)
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

// Embeds reports whether an interface is another one, or has all methods of it.
func (p *Port) Embeds(name, other string) bool {
	if name == other {
		return true
	}
	iface := p.interfaces[name]
	if iface == nil || p.interfaces[other] == nil {
		return false
	}
	for _, f := range iface.Methods.List {
		if inner, ok := f.Type.(*ast.Ident); ok && p.Embeds(inner.Name, other) {
			return true
		}
	}
	// A composition has the methods of another one that embeds the same parts
	parts := p.interfaces[other].Methods.List
	for _, part := range parts {
		inner, ok := part.Type.(*ast.Ident)
		if !ok || !p.Embeds(name, inner.Name) {
			return false
		}
	}
	return len(parts) > 0
}

// Fields returns parameters or results one by one. One without a name is named by prefix and index.
func Fields(list *ast.FieldList, prefix string) []Field {
	if list == nil {
		return nil
	}
	var found []Field
	for _, f := range list.List {
		for _, name := range f.Names {
			found = append(found, Field{name.Name, f.Type})
		}
		if len(f.Names) == 0 {
			found = append(found, Field{fmt.Sprint(prefix, len(found)), f.Type})
		}
	}
	return found
}

// TypeText returns a type of the package as another package writes it.
func (p *Port) TypeText(expr ast.Expr) (string, error) {
	switch t := expr.(type) {
	case *ast.Ident:
		if ast.IsExported(t.Name) {
			return p.name + "." + t.Name, nil
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
		of, err := p.TypeText(t.X)
		return "*" + of, err
	case *ast.ArrayType:
		if t.Len != nil {
			return "", fmt.Errorf("an array")
		}
		of, err := p.TypeText(t.Elt)
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

func (p *Port) listText(list *ast.FieldList) (string, error) {
	var texts []string
	for _, f := range Fields(list, "") {
		text, err := p.TypeText(f.Type)
		if err != nil {
			return "", err
		}
		texts = append(texts, text)
	}
	return strings.Join(texts, ", "), nil
}

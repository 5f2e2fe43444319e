package archtest

import "go/ast"

// method is a method that an interface declares itself.
type method struct {
	name      *ast.Ident
	doc       *ast.CommentGroup
	signature *ast.FuncType
}

// functions returns the functions and methods that a file declares.
func functions(f *file) []*ast.FuncDecl {
	var fns []*ast.FuncDecl
	for _, decl := range f.syntax.Decls {
		if fn, ok := decl.(*ast.FuncDecl); ok {
			fns = append(fns, fn)
		}
	}
	return fns
}

// forEachType calls fn for each type that a file declares, including those inside functions.
func forEachType(f *file, fn func(*ast.TypeSpec)) {
	ast.Inspect(f.syntax, func(n ast.Node) bool {
		if spec, ok := n.(*ast.TypeSpec); ok {
			fn(spec)
		}
		return true
	})
}

// methodsOf returns the methods of an interface type, without embedded ones; it is empty for other
// types.
func methodsOf(spec *ast.TypeSpec) []method {
	iface, ok := spec.Type.(*ast.InterfaceType)
	if !ok {
		return nil
	}
	var methods []method
	for _, field := range iface.Methods.List {
		signature, ok := field.Type.(*ast.FuncType)
		if !ok {
			continue
		}
		for _, name := range field.Names {
			methods = append(methods, method{name: name, doc: field.Doc, signature: signature})
		}
	}
	return methods
}

// receiver returns the name of the type of a method; it is empty for a function.
func receiver(fn *ast.FuncDecl) string {
	if fn.Recv == nil || len(fn.Recv.List) == 0 {
		return ""
	}
	expr := fn.Recv.List[0].Type
	for {
		switch e := expr.(type) {
		case *ast.StarExpr:
			expr = e.X
		case *ast.ParenExpr:
			expr = e.X
		case *ast.IndexExpr:
			expr = e.X
		case *ast.IndexListExpr:
			expr = e.X
		case *ast.Ident:
			return e.Name
		default:
			return ""
		}
	}
}

// qualified returns the name of a function, or the type and name of a method.
func qualified(fn *ast.FuncDecl) string {
	if r := receiver(fn); r != "" {
		return r + "." + fn.Name.Name
	}
	return fn.Name.Name
}

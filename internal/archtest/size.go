package archtest

import (
	"fmt"
	"go/ast"
)

// The limits. Generated files are exempt.
const (
	maxSourceLines   = 500
	maxTestLines     = 800
	maxFunctionLines = 80
	maxMethods       = 6  // of an interface; what it embeds and its accessors count in the total only
	maxPackageFiles  = 25 // tests not counted
	maxParameters    = 4  // after ctx
)

func checkFileSize(m *module) []finding {
	var found []finding
	for _, f := range written(m) {
		limit := maxSourceLines
		if f.test {
			limit = maxTestLines
		}
		if f.lines > limit {
			found = append(found, finding{path: f.path, message: fmt.Sprintf(
				"has %d lines, the limit is %d: split it by noun", f.lines, limit)})
		}
	}
	return found
}

func checkFunctionSize(m *module) []finding {
	var found []finding
	for _, f := range written(m) {
		for _, fn := range functions(f) {
			lines := f.line(fn.End()) - f.line(fn.Pos()) + 1
			if lines <= maxFunctionLines || flatSwitch(fn.Body) {
				continue
			}
			found = append(found,
				finding{path: f.path, line: f.line(fn.Pos()), symbol: f.symbol(qualified(fn)), message: fmt.Sprintf(
					"%s has %d lines, the limit is %d: move its steps to functions", qualified(fn), lines,
					maxFunctionLines)})
		}
	}
	return found
}

func checkInterfaceSize(m *module) []finding {
	known := interfaces(m)
	var found []finding
	for _, f := range written(m) {
		forEachType(f, func(spec *ast.TypeSpec) {
			methods := 0
			for _, method := range methodsOf(spec) {
				if !m.accessor(f, known, method.signature) {
					methods++
				}
			}
			if methods <= maxMethods {
				return
			}
			found = append(found,
				finding{path: f.path, line: f.line(spec.Pos()), symbol: f.symbol(spec.Name.Name), message: fmt.Sprintf(
					"interface %s has %d methods, the limit is %d: embed smaller interfaces", spec.Name.Name, methods,
					maxMethods)})
		})
	}
	return found
}

// accessor reports whether a method only returns an interface of the module: a list of such methods
// is a table of contents and not a thing to be understood at once.
func (m *module) accessor(f *file, known map[string]declared, signature *ast.FuncType) bool {
	if signature.Params.NumFields() > 0 || signature.Results.NumFields() != 1 {
		return false
	}
	_, ok := known[m.typeKey(f, signature.Results.List[0].Type)]
	return ok
}

func checkPackageSize(m *module) []finding {
	counts := make(map[string]int)
	var folders []string
	for _, f := range written(m) {
		if f.test {
			continue
		}
		if counts[f.folder] == 0 {
			folders = append(folders, f.folder)
		}
		counts[f.folder]++
	}
	var found []finding
	for _, folder := range folders {
		if counts[folder] > maxPackageFiles {
			found = append(found, finding{path: folder, message: fmt.Sprintf(
				"has %d files without tests, the limit is %d: move a part of it to a new package", counts[folder],
				maxPackageFiles)})
		}
	}
	return found
}

func checkParameters(m *module) []finding {
	var found []finding
	for _, f := range written(m) {
		check := func(name string, node ast.Node, signature *ast.FuncType) {
			if n := countParameters(f, signature); n > maxParameters {
				found = append(found,
					finding{path: f.path, line: f.line(node.Pos()), symbol: f.symbol(name), message: fmt.Sprintf(
						"%s takes %d parameters after ctx, the limit is %d: group them in a struct", name, n,
						maxParameters)})
			}
		}
		for _, fn := range functions(f) {
			check(qualified(fn), fn, fn.Type)
		}
		forEachType(f, func(spec *ast.TypeSpec) {
			for _, method := range methodsOf(spec) {
				check(spec.Name.Name+"."+method.name.Name, method.name, method.signature)
			}
		})
	}
	return found
}

// written returns the files that are not generated.
func written(m *module) []*file {
	var files []*file
	for _, f := range m.files {
		if !f.generated {
			files = append(files, f)
		}
	}
	return files
}

// flatSwitch reports whether a body is a single switch, perhaps followed by a return, without
// nested switches.
func flatSwitch(body *ast.BlockStmt) bool {
	if body == nil || len(body.List) == 0 || len(body.List) > 2 {
		return false
	}
	if len(body.List) == 2 {
		if _, ok := body.List[1].(*ast.ReturnStmt); !ok {
			return false
		}
	}
	if !isSwitch(body.List[0]) {
		return false
	}
	switches := 0
	ast.Inspect(body, func(n ast.Node) bool {
		if isSwitch(n) {
			switches++
		}
		return true
	})
	return switches == 1
}

func isSwitch(n ast.Node) bool {
	switch n.(type) {
	case *ast.SwitchStmt, *ast.TypeSwitchStmt, *ast.SelectStmt:
		return true
	}
	return false
}

// countParameters counts the parameters of a signature, without a leading ctx.
func countParameters(f *file, signature *ast.FuncType) int {
	n := 0
	for i, field := range signature.Params.List {
		if i == 0 && f.qualifiedType(field.Type) == "context.Context" {
			n += max(len(field.Names)-1, 0)
			continue
		}
		n += max(len(field.Names), 1)
	}
	return n
}

package archtest

import (
	"fmt"
	"go/ast"
)

// The hard limits. Generated files do not count.
const (
	maxSourceLines   = 500
	maxTestLines     = 800
	maxFunctionLines = 80
	maxMethods       = 6  // of an interface; what it embeds counts as nothing
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
				"has %d lines, the limit is %d: it tells more than one story, so split it by noun", f.lines, limit)})
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
			found = append(found, finding{path: f.path, line: f.line(fn.Pos()), symbol: f.symbol(qualified(fn)), message: fmt.Sprintf(
				"%s has %d lines, the limit is %d: let it order the steps, and give each step a function", qualified(fn), lines, maxFunctionLines)})
		}
	}
	return found
}

func checkInterfaceSize(m *module) []finding {
	var found []finding
	for _, f := range written(m) {
		forEachType(f, func(spec *ast.TypeSpec) {
			methods := len(methodsOf(spec))
			if methods <= maxMethods {
				return
			}
			found = append(found, finding{path: f.path, line: f.line(spec.Pos()), symbol: f.symbol(spec.Name.Name), message: fmt.Sprintf(
				"interface %s has %d methods, the limit is %d: embed smaller named ones", spec.Name.Name, methods, maxMethods)})
		})
	}
	return found
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
				"has %d files that are not tests, the limit is %d: make a room of a part of it", counts[folder], maxPackageFiles)})
		}
	}
	return found
}

func checkParameters(m *module) []finding {
	var found []finding
	for _, f := range written(m) {
		check := func(name string, node ast.Node, signature *ast.FuncType) {
			if n := countParameters(f, signature); n > maxParameters {
				found = append(found, finding{path: f.path, line: f.line(node.Pos()), symbol: f.symbol(name), message: fmt.Sprintf(
					"%s takes %d parameters after ctx, the limit is %d: make a struct of them", name, n, maxParameters)})
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

// written returns the files that people write.
func written(m *module) []*file {
	var files []*file
	for _, f := range m.files {
		if !f.generated {
			files = append(files, f)
		}
	}
	return files
}

// flatSwitch reports whether a body is one switch, perhaps with a return after it, that holds no other switch.
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

// countParameters counts the parameters of a signature, without the ctx that comes first.
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

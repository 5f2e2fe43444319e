package docs_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// longestWalk is how many functions of ours one call may go through.
const longestWalk = 25

// walkRow is a row of the table "One call, function by function".
var walkRow = regexp.MustCompile("(?m)^\\| (\\d+) \\| `([^`]+)` \\| `([^`]+)` \\| ([^|]+) \\|$")

// TestWalk follows the table of functions that one call goes through: each function exists in its
// file, and one that calls the next names it.
func TestWalk(t *testing.T) {
	t.Parallel()
	_, rest, _ := strings.Cut(read(t, "docs/architecture.md"), "## One call, function by function")
	section, _, _ := strings.Cut(rest, "\n## ")
	rows := walkRow.FindAllStringSubmatch(section, -1)
	if len(rows) < 20 || len(rows) > longestWalk {
		t.Fatalf("the walk has %d functions, want at most %d, and not so few that some are left out", len(rows), longestWalk)
	}
	for i, row := range rows {
		function, file, then := row[2], row[3], row[4]
		body := bodyOf(t, file, function)
		if body == nil {
			t.Errorf("%s has no function %s", file, function)
			continue
		}
		if !strings.HasPrefix(then, "calls") || i+1 == len(rows) || strings.HasPrefix(then, "calls the tool") {
			continue
		}
		if next := plainName(rows[i+1][2]); !names(body, next) {
			t.Errorf("%s does not call %s", function, next)
		}
	}
}

// plainName is the name of a function without its receiver.
func plainName(function string) string { return function[strings.LastIndex(function, ".")+1:] }

// bodyOf returns the body of a function, written as (*Type).Name, (Type).Name or Name; nil: there
// is none.
func bodyOf(t *testing.T, file, function string) *ast.BlockStmt {
	t.Helper()
	syntax, err := parser.ParseFile(token.NewFileSet(), filepath.Join("..", file), nil, parser.SkipObjectResolution)
	if err != nil {
		t.Error(err)
		return nil
	}
	for _, decl := range syntax.Decls {
		fn, ok := decl.(*ast.FuncDecl)
		if !ok || fn.Name.Name != plainName(function) {
			continue
		}
		receiver := ""
		if fn.Recv != nil {
			switch typ := fn.Recv.List[0].Type.(type) {
			case *ast.StarExpr:
				receiver = "(*" + typ.X.(*ast.Ident).Name + ")."
			case *ast.Ident:
				receiver = "(" + typ.Name + ")."
			}
		}
		if receiver+fn.Name.Name == function {
			return fn.Body
		}
	}
	return nil
}

// names reports whether a function's body has an identifier.
func names(body *ast.BlockStmt, name string) (found bool) {
	ast.Inspect(body, func(n ast.Node) bool {
		if id, ok := n.(*ast.Ident); ok && id.Name == name {
			found = true
		}
		return true
	})
	return found
}

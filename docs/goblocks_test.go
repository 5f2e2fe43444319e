package docs_test

import (
	"bytes"
	"fmt"
	"go/ast"
	"go/format"
	"go/parser"
	"go/token"
	"maps"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// The pages whose pieces of Go are equal to packages of ours, which other tests see to.
const piecewise = "README.md docs/how-to/write-a-tool.md docs/how-to/long-tools.md docs/how-to/approvals.md docs/how-to/cancelling.md docs/how-to/webhooks.md docs/how-to/crash-test-your-tool.md docs/how-to/embed.md"

// goBlock finds a block of Go with the comment before it, unseen by readers, which says where the
// block stands in a program:
//
//	<!-- go
//	func _(ctx context.Context) {
//	BLOCK
//	}
//	-->
//
// Imports are not written: they are found by their names. A block without that comment is a file as
// it stands, but for its package.
var goBlock = regexp.MustCompile("(?ms)(?:^<!-- go\n([^`]*?)-->\n)?^```go\n(.*?)^```$")

// TestGoBlocks compiles the Go of all other pages, each block in a package of its own, in a module
// outside of ours, so that no page shows what a reader cannot import.
func TestGoBlocks(t *testing.T) {
	t.Parallel()
	dir, where := t.TempDir(), map[string]string{}
	writeModule(t, dir)
	homes := importable(t)
	for name, text := range pages(t) {
		if slices.Contains(strings.Fields(piecewise), name) {
			continue
		}
		for _, at := range goBlock.FindAllStringSubmatchIndex(text, -1) {
			around, block := "BLOCK", text[at[4]:at[5]]
			if at[2] >= 0 {
				around = text[at[2]:at[3]]
			}
			folder := fmt.Sprintf("p%d", len(where))
			where[folder] = fmt.Sprintf("%s, line %d", name, 1+strings.Count(text[:at[4]], "\n"))
			program, err := wholeProgram(strings.Replace(around, "BLOCK", block, 1), homes)
			if err != nil {
				t.Errorf("%s: %v\n%s", where[folder], err, block)
				continue
			}
			if err := os.MkdirAll(filepath.Join(dir, folder), 0o755); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(filepath.Join(dir, folder, "page.go"), program, 0o644); err != nil {
				t.Fatal(err)
			}
		}
	}
	if len(where) < 10 {
		t.Errorf("only %d blocks were compiled", len(where))
	}
	cmd := exec.CommandContext(t.Context(), "go", "vet", "-mod=mod", "./...")
	cmd.Dir, cmd.Env = dir, append(os.Environ(), "GOPROXY=off", "GOFLAGS=", "GOWORK=off")
	if out, err := cmd.CombinedOutput(); err != nil {
		said := regexp.MustCompile(`p\d+\b`).ReplaceAllStringFunc(string(out), func(folder string) string { return where[folder] })
		t.Errorf("%v\n%s", err, said)
	}
}

// TestGoBlocksAreCompiled: what a program outside cannot have is seen before the compiler is asked.
func TestGoBlocksAreCompiled(t *testing.T) {
	t.Parallel()
	homes := importable(t)
	for code, want := range map[string]bool{
		"var _ = tool.Spec{Name: fmt.Sprint(1)}": true, "var _ = supervise.Config{}": false, "var _ = nothing.At{}": false, "if {": false,
		"func _(tool int) { _ = tool }": true,
	} {
		program, err := wholeProgram(code, homes)
		if (err == nil) != want {
			t.Errorf("%s: %v\n%s", code, err, program)
		}
	}
}

// wholeProgram is a file with the imports that it needs.
func wholeProgram(code string, homes map[string]string) ([]byte, error) {
	file, err := parser.ParseFile(token.NewFileSet(), "page.go", "package page\n"+code, 0)
	if err != nil {
		return nil, err
	}
	free := map[string]bool{} // names that are declared nowhere in the file
	for _, name := range file.Unresolved {
		free[name.Name] = true
	}
	needed := map[string]bool{}
	ast.Inspect(file, func(n ast.Node) bool {
		selector, ok := n.(*ast.SelectorExpr)
		if !ok {
			return true
		}
		if base, ok := selector.X.(*ast.Ident); ok && free[base.Name] {
			needed[base.Name] = true
		}
		return true
	})
	var out bytes.Buffer
	out.WriteString("package page\n\nimport (\n")
	for _, name := range slices.Sorted(maps.Keys(needed)) {
		if homes[name] == "" {
			return nil, fmt.Errorf("nobody outside can import %s", name)
		}
		fmt.Fprintf(&out, "\t%s %q\n", name, homes[name])
	}
	out.WriteString(")\n\n" + code)
	return format.Source(out.Bytes())
}

// importable returns the packages that a block may use, by name: the packages of this module that
// are not internal, and those of the standard library that pages use.
func importable(t *testing.T) map[string]string {
	t.Helper()
	const ours = "github.com/perdure/perdure"
	all := map[string]string{"perdure": ours}
	for _, folder := range goFolders(t) {
		if folder != "." && !regexp.MustCompile(`(^|/)(internal|cmd|bench|examples)(/|$)`).MatchString(folder) {
			all[path.Base(folder)] = ours + "/" + folder
		}
	}
	for _, name := range []string{"context", "encoding/json", "errors", "fmt", "io/fs", "net/http", "os", "path/filepath", "testing", "time"} {
		all[path.Base(name)] = name
	}
	return all
}

// writeModule makes a module that requires ours, with what ours requires.
func writeModule(t *testing.T, dir string) {
	t.Helper()
	module, err := filepath.Abs(root)
	if err != nil {
		t.Fatal(err)
	}
	listed := strings.Join(regexp.MustCompile(`(?ms)^require \(.*?^\)$|^exclude [^\n]*$`).FindAllString(read(t, "go.mod"), -1), "\n")
	mod := "module example.com/page\n\ngo 1.26.0\n\nrequire github.com/perdure/perdure v0.0.0\n\nreplace github.com/perdure/perdure => " + module + "\n\n" + listed + "\n"
	for name, text := range map[string]string{"go.mod": mod, "go.sum": read(t, "go.sum")} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

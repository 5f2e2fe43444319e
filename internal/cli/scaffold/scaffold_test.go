package scaffold

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/perdure/perdure"
)

// TestF04Init checks that a new tool of each class builds, is formatted, passes its crash test, and
// is short.
func TestF04Init(t *testing.T) {
	t.Parallel()
	checkout, err := filepath.Abs("../../..")
	if err != nil {
		t.Fatal(err)
	}
	for name, class := range map[string]perdure.EffectClass{"hello": perdure.Idempotent, "send_mail": perdure.AtMostOnce, "tooltest": perdure.Pure} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			files, err := Tool{Name: name, Class: class, Replace: checkout}.Files()
			if err != nil {
				t.Fatal(err)
			}
			for _, file := range files {
				if err := os.WriteFile(filepath.Join(dir, file.Name), []byte(file.Text), 0o600); err != nil {
					t.Fatal(err)
				}
				if n := strings.Count(file.Text, "\n"); n > 30 {
					t.Errorf("%s has %d lines", file.Name, n)
				}
			}
			for _, line := range [][]string{{"gofmt", "-d", "."}, {"go", "vet", "-mod=mod", "./..."}, {"go", "test", "-mod=mod", "-v", "./..."}} {
				cmd := exec.CommandContext(t.Context(), line[0], line[1:]...)
				cmd.Dir = dir
				// its dependencies are also dependencies of this checkout
				cmd.Env = append(os.Environ(), "GOPROXY=off", "GOSUMDB=off", "GOFLAGS=", "GOWORK=off")
				said, err := cmd.CombinedOutput()
				if err != nil || line[0] == "gofmt" && len(said) > 0 {
					t.Fatalf("%v: %v\n%s", line, err, said)
				}
				if line[1] == "test" && !strings.Contains(string(said), name+", in the foreground, killed before and after each commit") {
					t.Errorf("it was not killed:\n%s", said)
				}
			}
		})
	}
}

// TestModule checks that go.mod names a downloadable version, or else says how to get it.
func TestModule(t *testing.T) {
	t.Parallel()
	for _, test := range []struct{ version, replace, has, next string }{
		{"v1.2.3", "", "require " + Module + " v1.2.3\n", "go test -mod=mod ./..."},
		{"v1.2.3-0.20261123001858-83690d9c0ffe", "", "require " + Module + " v1.2.3-0.20261123001858-83690d9c0ffe\n", "go test -mod=mod ./..."},
		{"v1.2.3", "/a b", "replace " + Module + " => \"/a b\"\n", "go test -mod=mod ./..."},
		{"(devel)", "", "go 1.26.0\n", "go get " + Module + "@latest && go test -mod=mod ./..."},
		{"v1.2.3+dirty", "", "go 1.26.0\n", "go get " + Module + "@latest && go test -mod=mod ./..."},
	} {
		tool := Tool{Name: "hello", Class: perdure.Pure, Version: test.version, Replace: test.replace}
		files, err := tool.Files()
		if err != nil || !strings.HasSuffix(files[0].Text, test.has) || tool.Next() != test.next {
			t.Errorf("%+v: %v, %q, next %q", test, err, files, tool.Next())
		}
	}
}

// TestNames checks that names are refused that Go or a model would not accept.
func TestNames(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"", "Hello", "send-mail", "_a", "a_", "a__b", "9a", "../x", "a/b", "func", "go", "main", "documentation", "é", strings.Repeat("a", 65)} {
		if _, err := (Tool{Name: name, Class: perdure.Pure}).Files(); !errors.Is(err, perdure.Invalid) {
			t.Errorf("%q: %v", name, err)
		}
	}
}

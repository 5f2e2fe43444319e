package archtest

import (
	"flag"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/google/go-cmp/cmp"
	"github.com/rogpeppe/go-internal/txtar"
)

var update = flag.Bool("update", false, "write what the rules find into testdata")

// TestHouse runs every rule over this module. A finding says what to do; exceptions.go lists the
// places where that would make the code worse.
func TestHouse(t *testing.T) {
	t.Parallel()
	here, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	root, err := moduleRoot(here)
	if err != nil {
		t.Fatal(err)
	}
	house := mustLoad(t, os.DirFS(root))

	for _, r := range rules() {
		t.Run(r.name, func(t *testing.T) {
			t.Parallel()

			left, idle := applyExceptions(r.name, r.check(house), exceptions())

			for _, f := range left {
				t.Error(f)
			}
			for _, e := range idle {
				t.Errorf("exceptions.go: %s is not needed any more for %s: take the line out", e.rule, e.where)
			}
		})
	}
}

// TestRules runs each rule over its own small tree, testdata/NAME.txtar, which follows the rule in
// some files and breaks it in others. The file want lists the expected findings. TestLimits tests
// the rules about lengths.
func TestRules(t *testing.T) {
	t.Parallel()
	for _, r := range rules() {
		if slices.ContainsFunc(limits(), func(l limit) bool { return l.rule == r.name }) {
			continue
		}
		t.Run(r.name, func(t *testing.T) {
			t.Parallel()
			name := filepath.Join("testdata", r.name+".txtar")
			archive, err := txtar.ParseFile(name)
			if err != nil {
				t.Fatal(err)
			}

			got := printed(r.check(mustLoad(t, tree(archive))))

			if *update {
				setWant(archive, got)
				if err := os.WriteFile(name, txtar.Format(archive), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			want := wanted(archive)
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("findings (-want +got):\n%s", diff)
			}
			if want == "" {
				t.Errorf("%s wants no finding, so it does not prove that the rule can fail", name)
			}
		})
	}
}

// tree returns the files of an archive. If the archive has no go.mod, it gets that of this module.
func tree(archive *txtar.Archive) fs.FS {
	files := fstest.MapFS{"go.mod": {Data: []byte("module github.com/perdure/perdure\n")}}
	for _, f := range archive.Files {
		files[f.Name] = &fstest.MapFile{Data: f.Data}
	}
	return files
}

func printed(found []finding) string {
	var lines strings.Builder
	for _, f := range found {
		lines.WriteString(f.String() + "\n")
	}
	return lines.String()
}

func wanted(archive *txtar.Archive) string {
	for _, f := range archive.Files {
		if f.Name == "want" {
			return string(f.Data)
		}
	}
	return ""
}

func setWant(archive *txtar.Archive, text string) {
	for i, f := range archive.Files {
		if f.Name == "want" {
			archive.Files[i].Data = []byte(text)
			return
		}
	}
	archive.Files = slices.Insert(archive.Files, 0, txtar.File{Name: "want", Data: []byte(text)})
}

func mustLoad(t *testing.T, tree fs.FS) *module {
	t.Helper()
	m, err := load(tree)
	if err != nil {
		t.Fatal(err)
	}
	return m
}

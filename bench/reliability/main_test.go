//go:build unix

package main

import (
	"io"
	"path/filepath"
	"strings"
	"testing"
)

func TestParse(t *testing.T) {
	t.Parallel()
	o, err := parse([]string{"-scale", "quick", "-seed", "7", "-only", "R1,lanes"}, io.Discard)
	if err != nil || o.scale != "quick" || o.seed != 7 || !wanted(o.only, "LANES") || wanted(o.only, "R2") || !wanted(nil, "R2") {
		t.Errorf("got %+v, %v", o, err)
	}
	for _, args := range [][]string{{"-scale", "huge"}, {"more"}, {"-seed", "x"}, {"-count", "R1"}} {
		if _, err := parse(args, io.Discard); err == nil {
			t.Errorf("%v was taken", args)
		}
	}
}

func TestCarryOut(t *testing.T) {
	t.Parallel()
	held := row{ID: "a", Args: []string{"sh", "-c", `printf -- '    a_test.go:12: 40 of 40 held\n{"kills":3}\nother\n'`}}.execute(t.Context())
	if held.Failed != "" || held.verdict() != "held" || strings.Join(held.Figures, "|") != `40 of 40 held|{"kills":3}` {
		t.Errorf("got %+v", held)
	}
	for name, script := range map[string]string{"it fails": "echo broken; exit 1", "it has no test": "echo 'ok  p  0.1s [no tests to run]'"} {
		failed := row{ID: "b", Args: []string{"sh", "-c", script}}.execute(t.Context())
		if failed.Failed == "" || failed.verdict() != "FAILED" || failed.Tail == "" {
			t.Errorf("%s: got %+v", name, failed)
		}
	}
}

func TestPage(t *testing.T) {
	t.Parallel()
	o := options{keep: filepath.Join(t.TempDir(), "kept.json"), out: filepath.Join(t.TempDir(), "page.md")}
	first := page{results: []result{
		{Row: row{ID: "R1", What: "kills", Trial: "kills", N: 10, Args: []string{"/x/perdure", "chaos"}}},
		{Row: row{ID: "R2", What: "points", Args: []string{"go", "test"}, Env: []string{"A=1"}}, Failed: "exit status 1", Tail: "it broke"},
	}}
	if err := first.save(o); err != nil {
		t.Fatal(err)
	}
	p, err := load(o.keep)
	if err != nil {
		t.Fatal(err)
	}
	p.full = []row{{ID: "R1", Trial: "kills", N: 5000}, {ID: "R2"}, {ID: "R9"}}
	p.add(result{Row: row{ID: "R1", What: "kills", Trial: "kills", N: 1000, Args: []string{"/x/perdure", "chaos"}}, Figures: []string{`{"kills":1000}`}})
	text := p.text()
	for _, want := range []string{
		"| R1 | kills | 1000 kills | 0 | 0.003 | 0s |", "| R2 | points |  | **failed** |  | 0s |", "\nperdure chaos\n", "\nA=1 go test\n", `{"kills":1000}`,
		"**R2**: exit status 1", "it broke", "**Not run**: R9.", "**Not run in full**: R1 with 1000 of 5000 kills.",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("the page has no %q:\n%s", want, text)
		}
	}
	if p.failed() != 1 || strings.Contains(text, "None in these runs.") {
		t.Errorf("%d failed:\n%s", p.failed(), text)
	}
}

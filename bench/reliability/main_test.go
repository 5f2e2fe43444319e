//go:build unix

package main

import (
	"errors"
	"io"
	"strings"
	"testing"
	"time"
)

func TestParse(t *testing.T) {
	t.Parallel()
	o, err := parse([]string{"-scale", "quick", "-seed", "7", "-only", "R1,lanes"}, io.Discard)
	if err != nil || o.scale != "quick" || o.seed != 7 || !wanted(o.only, "LANES") || wanted(o.only, "R2") || !wanted(nil, "R2") {
		t.Errorf("got %+v, %v", o, err)
	}
	for _, args := range [][]string{{"-scale", "huge"}, {"more"}, {"-seed", "x"}} {
		if _, err := parse(args, io.Discard); err == nil {
			t.Errorf("%v was taken", args)
		}
	}
}

func TestCarryOut(t *testing.T) {
	t.Parallel()
	held := row{id: "a", args: []string{"sh", "-c", `printf -- '    a_test.go:12: 40 of 40 held\n{"kills":3}\nother\n'`}}.carryOut(t.Context())
	if held.err != nil || held.verdict() != "held" || strings.Join(held.figures, "|") != `40 of 40 held|{"kills":3}` {
		t.Errorf("got %+v", held)
	}
	for name, script := range map[string]string{"it fails": "echo broken; exit 1", "it has no test": "echo 'ok  p  0.1s [no tests to run]'"} {
		failed := row{id: "b", args: []string{"sh", "-c", script}}.carryOut(t.Context())
		if failed.err == nil || failed.verdict() != "FAILED" || failed.tail == "" {
			t.Errorf("%s: got %+v", name, failed)
		}
	}
}

func TestPage(t *testing.T) {
	t.Parallel()
	p := page{scale: "full", seed: 1, begun: time.Unix(0, 0), machine: "2 cores", results: []result{
		{row: row{id: "R1", what: "kills", trial: "kills", n: 1000, args: []string{"/tmp/x/perdure", "chaos"}}, figures: []string{`{"kills":1000}`}},
		{row: row{id: "R2", what: "points", args: []string{"go", "test"}, env: []string{"A=1"}}, err: errors.New("exit status 1"), tail: "it broke"},
	}}
	text := p.text()
	for _, want := range []string{
		"| R1 | kills | 1000 kills | 0 | 0.003 | 0s |", "| R2 | points |  | **failed** |  | 0s |", "`perdure chaos`", "`A=1 go test`", `{"kills":1000}`,
		"**R2**: exit status 1", "it broke",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("the page has no %q:\n%s", want, text)
		}
	}
	if p.failed() != 1 || strings.Contains(text, "None in this run.") {
		t.Errorf("%d failed:\n%s", p.failed(), text)
	}
}

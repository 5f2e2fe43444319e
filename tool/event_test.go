package tool_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/tool"
)

func TestCheckEvent(t *testing.T) {
	t.Parallel()
	for name, valid := range map[string]bool{
		"done": true, "step.done": true, "a-b_c.d9": true, strings.Repeat("a", tool.MaxEventNameBytes): true,
		"": false, ".": false, "a.": false, ".a": false, "a..b": false, "Done": false, "a b": false, "a/b": false, "é": false, "a\n": false,
		strings.Repeat("a", tool.MaxEventNameBytes+1): false,
	} {
		if _, err := tool.CheckEvent(name, nil); (err == nil) != valid || err != nil && !errors.Is(err, perdure.Invalid) {
			t.Errorf("%q: %v", name, err)
		}
	}
	for _, data := range []any{make(chan int), func() {}, strings.Repeat("x", tool.MaxEventBytes)} {
		if _, err := tool.CheckEvent("done", data); !errors.Is(err, perdure.Invalid) {
			t.Errorf("data of type %T: %v", data, err)
		}
	}
	body, err := tool.CheckEvent("done", map[string]int{"n": 1})
	if err != nil || string(body) != `{"n":1}` {
		t.Errorf("%s, %v", body, err)
	}
}

func TestResultMetadata(t *testing.T) {
	t.Parallel()
	record, err := tool.Success(1).WithMetadata(map[string]any{"b": 1, "a": "x"}).Record("call")
	if err != nil || string(record.Metadata) != `{"a":"x","b":1}` || string(record.Result) != "1" {
		t.Errorf("%s of %s, %v", record.Metadata, record.Result, err)
	}
	failed, err := tool.Error("no").WithMetadata(map[string]any{"a": 1}).Record("call")
	if err != nil || string(failed.Metadata) != `{"a":1}` {
		t.Errorf("of an error: %s, %v", failed.Metadata, err)
	}
	for _, bad := range []any{make(chan int), strings.Repeat("x", perdure.MaxResultMetadataBytes)} {
		record, err := tool.Success(1).WithMetadata(map[string]any{"a": bad}).Record("call")
		if err == nil || len(record.Metadata) > 0 || string(record.Result) != "1" {
			t.Errorf("metadata that cannot be stored: %v, %+v", err, record)
		}
	}
}

// narrow is a sink without ReportProgress.
type narrow struct{ lines []string }

func (n *narrow) Status(text string) perdure.Cause { n.lines = append(n.lines, text); return "" }
func (n *narrow) Progress(current, total float64, label string) perdure.Cause {
	p := perdure.Progress{Current: &current, Total: &total, Label: label}
	n.lines = append(n.lines, p.String())
	return ""
}
func (n *narrow) Output(string, []byte) perdure.Cause     { return "" }
func (n *narrow) Artifact(perdure.Artifact) perdure.Cause { return "" }
func (n *narrow) Heartbeat() perdure.Cause                { return "" }

func TestReportProgress(t *testing.T) {
	t.Parallel()
	three, eight := 3.0, 8.0
	sink := &narrow{}
	for _, p := range []perdure.Progress{
		{Current: &three, Total: &eight, Unit: "files", Label: "compiling"},
		{Current: &three, Unit: "files"}, {Label: "compiling"},
	} {
		tool.ReportProgress(sink, p)
	}
	want := "3/8 · files · compiling|3 · files|compiling"
	if got := strings.Join(sink.lines, "|"); got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}

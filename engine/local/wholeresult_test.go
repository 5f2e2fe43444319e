package local_test

import (
	"context"
	"encoding/json"
	"strings"
	"testing"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/engine/local"
	"github.com/perdure/perdure/store"
	"github.com/perdure/perdure/tool"
)

// giver is a tool that returns the same result in both lanes.
type giver struct{ gives tool.Result }

func (giver) Spec() tool.Spec {
	return tool.Spec{Name: "report", Description: "x", Class: perdure.Pure}
}
func (g giver) Run(context.Context, tool.Call, tool.Env) tool.Result { return g.gives }
func (g giver) RunBackground(context.Context, tool.Call, tool.Env, tool.Sink) tool.Result {
	return g.gives
}

// file reads a file of the session; empty: there is none.
func (s *shop) file(path string) string {
	var file store.File
	_ = s.st.View(context.WithoutCancel(s.ctx), func(r store.Reader) (err error) {
		file, err = r.Files().Get(s.id, path)
		return err
	})
	return string(file.Content)
}

// metaFile is the description of a result in meta.json.
type metaFile struct {
	Status          string `json:"status"`
	ResultBytes     int    `json:"result_bytes"`
	ResultTruncated bool   `json:"result_truncated"`
}

// cutRow is a result in the ledger that was cut for a model.
type cutRow struct {
	Truncated bool   `json:"truncated"`
	Bytes     int    `json:"bytes"`
	Path      string `json:"path"`
	RawPath   string `json:"raw_path"`
}

// TestResultFileIsWhole has a background run's result beyond what a model reads: result.json, the
// summary and the notification are made from the full result, and the ledger's row names the file
// (TL16, BG14).
func TestResultFileIsWhole(t *testing.T) {
	t.Parallel()
	long, raw := strings.Repeat("ä", 50_000), strings.Repeat("raw ", 100_000)
	for name, gives := range map[string]tool.Result{
		"an object":     tool.Success(map[string]string{"name": "report", "text": long}),
		"beside raw":    tool.Success(map[string]string{"name": "report", "text": long}).WithRaw(raw),
		"beyond a file": tool.Success(map[string]string{"name": "report", "text": strings.Repeat("x", 9<<20)}),
		"an error":      tool.Error("report: " + long),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := openShop(t, spawns("report"), local.Config{}, giver{gives})
			s.run()
			s.session()
			s.say("go")
			s.rest()

			record, _ := gives.Record("")
			want := string(record.Result)
			if name == "an error" {
				want = `{"status":"failed","error":"report: ` + long + `"}`
			}
			got, about := s.artifact("result.json"), metaFile{}
			if err := json.Unmarshal([]byte(s.artifact("meta.json")), &about); err != nil {
				t.Fatal(err)
			}
			if name == "beyond a file" {
				var cut struct {
					Truncated bool
					Bytes     int
				}
				if json.Unmarshal([]byte(got), &cut) != nil || !cut.Truncated || cut.Bytes != len(want) || !about.ResultTruncated || about.ResultBytes != len(want) {
					t.Errorf("result.json begins %.100s; meta.json says %+v, want %d bytes", got, about, len(want))
				}
			} else if !sameJSON(got, want) || about.ResultTruncated || about.ResultBytes != len(got) {
				t.Errorf("result.json has %d bytes and begins %.100s; meta.json says %+v", len(got), got, about)
			}
			task := s.onlyTask()
			if !strings.Contains(task.Summary, "report") || strings.HasPrefix(task.Summary, "{") || strings.Contains(task.Notification(), "truncated") {
				t.Errorf("the summary is %.200s, the notification %.300s", task.Summary, task.Notification())
			}
			row := cutRow{}
			for _, c := range callsOf(t, s) {
				if c.Task == task.ID {
					_ = json.Unmarshal(c.Result.Result, &row)
				}
			}
			if name != "an error" && (!row.Truncated || row.Path != task.ResultPath || row.Bytes != len(want)) {
				t.Errorf("the row says %+v, and the task %s", row, task.ResultPath)
			}
			if name == "beside raw" && (s.file(row.RawPath) != raw || !strings.HasPrefix(s.artifact("output.log"), "raw raw")) {
				t.Errorf("the raw output is in %q, with %d bytes, want %d", row.RawPath, len(s.file(row.RawPath)), len(raw))
			}
		})
	}
}

// TestLargeResultBesideRaw has a foreground call that returns a large result and raw output: both
// are stored, each in its file.
func TestLargeResultBesideRaw(t *testing.T) {
	t.Parallel()
	gives := tool.Success(map[string]string{"text": strings.Repeat("ä", 50_000)}).WithRaw("the raw output")
	s := openShop(t, "steps: [{calls: [{name: report, args: {}}]}, {text: done, repeat: true}]", local.Config{}, giver{gives})
	s.run()
	s.session()
	s.say("go")
	s.rest()

	row, cut := callsOf(t, s)[0], cutRow{}
	if err := json.Unmarshal(row.Result.Result, &cut); err != nil {
		t.Fatal(err)
	}
	whole, _ := gives.Record("")
	if got := s.file(cut.Path); got != string(whole.Result) {
		t.Errorf("%s has %d bytes and begins %.60s, want the %d of the result", cut.Path, len(got), got, len(whole.Result))
	}
	if got := s.file(tool.OutputPath(row.Key.Call)); got != "the raw output" || cut.RawPath != tool.OutputPath(row.Key.Call) {
		t.Errorf("the raw output is in %q: %.60s", cut.RawPath, got)
	}
}

func sameJSON(a, b string) bool {
	var one, other any
	if json.Unmarshal([]byte(a), &one) != nil || json.Unmarshal([]byte(b), &other) != nil {
		return false
	}
	x, _ := json.Marshal(one)
	y, _ := json.Marshal(other)
	return string(x) == string(y)
}

func callsOf(t *testing.T, s *shop) []perdure.Call {
	t.Helper()
	calls, err := s.eng.Calls().List(context.WithoutCancel(s.ctx), s.id)
	if err != nil || len(calls) == 0 {
		t.Fatalf("%d calls, %v", len(calls), err)
	}
	return calls
}

// TestToolGivesTheSummary: the summary that a tool returns is in the record, the notification and
// the list of tasks, in one line and within its length; without one the runtime writes it.
func TestToolGivesTheSummary(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ given, want string }{
		"a line":    {"3 services deployed", "3 services deployed"},
		"two lines": {" 3 services\n\tdeployed ", "3 services deployed"},
		"too long":  {strings.Repeat("é", 3000), strings.Repeat("é", perdure.MaxSummaryChars)},
		"none":      {"", "n: 1"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := openShop(t, spawns("report"), local.Config{}, giver{tool.Success(map[string]int{"n": 1}).WithSummary(c.given)})
			s.run()
			s.session()
			s.say("go")
			s.rest()

			task := s.onlyTask()
			if task.Summary != c.want || !strings.Contains(task.Notification(), "- summary: "+c.want+"\n") {
				t.Errorf("the record says %.60q, the notification %.300q", task.Summary, task.Notification())
			}
			for _, call := range callsOf(t, s) {
				if call.Task == task.ID && call.Result.Brief() != c.want {
					t.Errorf("the ledger says %.60q", call.Result.Brief())
				}
			}
		})
	}
}

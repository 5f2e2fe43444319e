package tool_test

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/tool"
)

func TestExecute(t *testing.T) {
	t.Parallel()

	t.Run("an unknown name is a Go error", func(t *testing.T) {
		_, err := registry(t).Execute(t.Context(), tool.Call{Tool: "ghost"}, tool.Env{})

		if err == nil || err.Error() != "Tool not found: ghost" || !errors.Is(err, perdure.NotFound) {
			t.Errorf("got %v", err)
		}
	})
	t.Run("a tool that needs a session says so", func(t *testing.T) {
		spec := named("spawn_background")
		spec.NeedsEnv = true
		r := registry(t, plain{spec: spec})

		without, _ := r.Execute(t.Context(), tool.Call{Tool: spec.Name}, tool.Env{})
		with, _ := r.Execute(t.Context(), tool.Call{Tool: spec.Name, Session: "session_1"}, tool.Env{})
		byEnv, _ := r.Execute(t.Context(), tool.Call{Tool: spec.Name}, tool.Env{Call: tool.Call{Session: "session_1"}})

		if without.Text != "spawn_background requires context. This tool must be executed with session context." {
			t.Errorf("got %q", without.Text)
		}
		if !with.IsSuccess() || !byEnv.IsSuccess() {
			t.Errorf("got %+v, %+v", with, byEnv)
		}
	})
	t.Run("the tool reads one call in both places", func(t *testing.T) {
		var seen [2]tool.Call
		r := registry(t, plain{named("probe"), func(_ context.Context, call tool.Call, env tool.Env) tool.Result {
			seen = [2]tool.Call{call, env.Call}
			return tool.Success(nil)
		}})

		_, _ = r.Execute(t.Context(), tool.Call{Tool: "probe", ID: "call_2"}, tool.Env{Call: tool.Call{ID: "call_1", Session: "session_1"}})

		if diff := cmp.Diff(seen[0], seen[1]); diff != "" || seen[0].ID != "call_2" || seen[0].Session != "session_1" {
			t.Errorf("%+v\n%s", seen[0], diff)
		}
	})
	t.Run("a panic is an internal error with its stack in the log", func(t *testing.T) {
		var log bytes.Buffer
		r := registry(t, plain{named("bomb"), func(context.Context, tool.Call, tool.Env) tool.Result { panic("boom") }})
		r.LogTo(slog.New(slog.NewTextHandler(&log, nil)))

		result, err := r.Execute(t.Context(), tool.Call{Tool: "bomb", ID: "call_7"}, tool.Env{})

		rec, logged := result.Record("call_7")
		if err != nil || rec.ErrorKind != perdure.ErrorPanic || rec.Error != perdure.GenericToolError || !strings.Contains(logged.Error(), "boom") {
			t.Errorf("got %+v, %v, %v", rec, logged, err)
		}
		for _, want := range []string{"boom", "call_7", "bomb", "execute_test.go"} {
			if !strings.Contains(log.String(), want) {
				t.Errorf("the log lacks %q: %s", want, log.String())
			}
		}
	})
}

// batches are the two helpers of TL21.
func batches(r *tool.Registry) map[string]func(context.Context, []tool.Call, tool.Env) ([]tool.Result, error) {
	return map[string]func(context.Context, []tool.Call, tool.Env) ([]tool.Result, error){
		"sequential": r.ExecuteAll, "parallel": r.ExecuteParallel,
	}
}

func TestBatch(t *testing.T) {
	t.Parallel()
	var mu sync.Mutex
	ran := 0
	r := registry(t, tool.New(named("echo"), func(_ context.Context, in note, _ tool.Env) (note, error) {
		mu.Lock()
		defer mu.Unlock()
		ran++
		return in, nil
	}))
	call := func(args string) tool.Call { return tool.Call{Tool: "echo", Args: []byte(args)} }
	for name, execute := range batches(r) {
		t.Run(name+" keeps the order of the calls", func(t *testing.T) {
			results, err := execute(t.Context(), []tool.Call{call(`{"text":"a"}`), call(`{"text":7}`), call(`{"text":"c"}`)}, tool.Env{})

			if err != nil || len(results) != 3 || results[0].Value != (note{"a"}) || results[2].Value != (note{"c"}) {
				t.Fatalf("got %+v, %v", results, err)
			}
			if !results[1].Refused || results[1].Text != "Invalid arguments for echo: /text: got number, want string" {
				t.Errorf("got %+v", results[1])
			}
		})
		t.Run(name+" runs nothing without a definition", func(t *testing.T) {
			before := ran

			_, err := execute(t.Context(), []tool.Call{call(`{"text":"a"}`), {Tool: "ghost"}}, tool.Env{})

			if err == nil || err.Error() != "Tool definition not found: ghost" || !errors.Is(err, perdure.NotFound) || ran != before {
				t.Errorf("got %v after %d runs", err, ran-before)
			}
		})
		t.Run(name+" stops with the cause", func(t *testing.T) {
			ctx, cancel := context.WithCancelCause(t.Context())
			cancel(perdure.CauseShutdown)

			_, err := execute(ctx, []tool.Call{call(`{"text":"a"}`)}, tool.Env{})

			if !errors.Is(err, perdure.CauseShutdown) {
				t.Errorf("got %v", err)
			}
		})
	}
}

func TestBatchConcurrencyClass(t *testing.T) {
	t.Parallel()
	var mu sync.Mutex
	var order []perdure.CallID
	both := make(chan struct{}) // closed when the two free calls run at once
	free := 0
	meet := func(_ context.Context, _ tool.Call, _ tool.Env) tool.Result {
		mu.Lock()
		free++
		if free == 2 {
			close(both)
		}
		mu.Unlock()
		<-both
		return tool.Success(nil)
	}
	write := func(_ context.Context, call tool.Call, _ tool.Env) tool.Result {
		mu.Lock()
		defer mu.Unlock()
		order = append(order, call.ID)
		return tool.Success(nil)
	}
	writes := named("write")
	writes.Concurrency = "workspace"
	r := registry(t, plain{writes, write}, plain{named("meet"), meet})

	_, err := r.ExecuteParallel(t.Context(), []tool.Call{
		{Tool: "write", ID: "1"}, {Tool: "meet"}, {Tool: "write", ID: "2"}, {Tool: "meet"}, {Tool: "write", ID: "3"},
	}, tool.Env{})

	if diff := cmp.Diff([]perdure.CallID{"1", "2", "3"}, order); diff != "" || err != nil {
		t.Error(diff, err)
	}
}

// sulky says that it validates itself, and takes anything.
type sulky struct{ plain }

func (sulky) ValidatesItself() bool { return true }

func TestSelfValidating(t *testing.T) {
	t.Parallel()
	spec := named("sulky")
	spec.Parameters = []byte(`{"type":"object","required":["tool"]}`)
	r := registry(t, sulky{plain{spec: spec}})

	results, err := r.ExecuteAll(t.Context(), []tool.Call{{Tool: "sulky"}}, tool.Env{})

	if err != nil || !results[0].IsSuccess() {
		t.Errorf("got %+v, %v", results, err)
	}
	if r.Validate("sulky", nil) == nil {
		t.Error("the tool cannot ask for the faults that it has no words for")
	}
}

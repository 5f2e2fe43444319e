package local_test

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/engine/local"
	"github.com/perdure/perdure/tool"
)

// elsewhere is an executor that does not enter the tool work.
type elsewhere struct {
	calls, runs atomic.Int32
	fail        error
}

func (e *elsewhere) Execute(ctx context.Context, call tool.Call, env tool.Env) (tool.Result, error) {
	if call.Tool != "work" {
		return env.Registry.Execute(ctx, call, env)
	}
	e.calls.Add(1)
	return tool.Success("elsewhere"), e.fail
}

// both is an executor for background runs, too.
type both struct{ elsewhere }

func (b *both) ExecuteBackground(context.Context, tool.Call, tool.Env, tool.Sink) (tool.Result, error) {
	b.runs.Add(1)
	return tool.Success("elsewhere"), nil
}

const executedScript = `
rules:
  - when: {last_role: notification}
    text: the run has ended
  - when: {user_contains: go, not_called: work}
    calls: [{name: work, args: {}}]
  - when: {user_contains: go, not_called: spawn_background}
    calls: [{name: spawn_background, args: {tool: work, args: {}}}]
steps: [{text: ok, repeat: true}]
`

// TestExecutor: calls go to the executor, background runs only if it takes them, and its error is
// an internal error of the call.
func TestExecutor(t *testing.T) {
	t.Parallel()
	var plain, failing elsewhere
	var whole both
	failing.fail = errors.New("a secret cause")
	for name, c := range map[string]struct {
		executor tool.Executor
		counts   *elsewhere
		entered  int32 // the tool, in this process
		runs     int32
		errorIs  perdure.ErrorKind
	}{
		"calls only": {&plain, &plain, 1, 0, ""}, "background too": {&whole, &whole.elsewhere, 0, 1, ""},
		"failing": {&failing, &failing, 1, 0, perdure.ErrorInternal},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var entered atomic.Int32
			work := tool.NewBackground(tool.Spec{Name: "work", Description: "x", Class: perdure.Idempotent},
				func(context.Context, struct{}, tool.Env) (string, error) {
					entered.Add(1)
					return "here", nil
				})
			s := openShop(t, executedScript, local.Config{Ports: local.Ports{Executor: c.executor}}, work)
			s.run()
			defer s.over()
			s.session()
			s.say("go")
			s.rest()

			ends, _ := s.ends()
			var kind perdure.ErrorKind
			for _, end := range ends {
				if end.Name == "work" {
					kind = end.Result.ErrorKind
				}
			}
			task := s.onlyTask()
			if _, err := s.eng.Tasks().Wait(s.ctx, task.ID); err != nil {
				t.Fatal(err)
			}
			if entered.Load() != c.entered || c.counts.calls.Load() != 1 || c.counts.runs.Load() != c.runs || kind != c.errorIs {
				t.Errorf("entered %d, %d runs elsewhere, error %q", entered.Load(), c.counts.runs.Load(), kind)
			}
		})
	}
}

// TestDirectCallUsesTheExecutor: so does a call outside any session, and a panic of the executor
// is an internal error.
func TestDirectCallUsesTheExecutor(t *testing.T) {
	t.Parallel()
	var plain elsewhere
	for name, executor := range map[string]tool.Executor{"plain": &plain, "panicking": panickingExecutor{}} {
		s := openShop(t, "steps: [{text: one}]", local.Config{Ports: local.Ports{Executor: executor}}, plainTool("work"))
		got, err := s.eng.Tools().Call(t.Context(), "work", []byte(`{}`))
		if name == "plain" && (err != nil || string(got.Result) != `"elsewhere"`) || name == "panicking" && (err != nil || got.ErrorKind != perdure.ErrorPanic) {
			t.Errorf("%s: got %+v, %v", name, got, err)
		}
	}
}

type panickingExecutor struct{}

func (panickingExecutor) Execute(context.Context, tool.Call, tool.Env) (tool.Result, error) {
	panic("no")
}

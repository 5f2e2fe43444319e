package local_test

import (
	"context"
	"encoding/json"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/engine"
	"github.com/perdure/perdure/engine/enginetest"
	"github.com/perdure/perdure/engine/local"
	"github.com/perdure/perdure/model/scripted"
	"github.com/perdure/perdure/store/memory"
	"github.com/perdure/perdure/tool"
	"github.com/perdure/perdure/tool/background"
)

// shop is an engine with its own configuration over an in-memory store.
type shop struct {
	t    *testing.T
	ctx  context.Context
	st   *hooked
	eng  *local.Engine
	stop context.CancelFunc
	done chan error
	id   perdure.SessionID
}

// openShop opens an engine over cfg.Store, or over a new in-memory store.
func openShop(t *testing.T, script string, cfg local.Config, tools ...tool.Tool) *shop {
	t.Helper()
	if cfg.Store == nil {
		cfg.Store = memory.New(memory.Config{})
	}
	m, err := scripted.Parse("law", []byte(script))
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 60*time.Second)
	t.Cleanup(cancel)
	h := &hooked{Store: cfg.Store}
	cfg.Store, cfg.Model = h, m
	cfg.Tools = tool.NewRegistry(append(tools, background.Tools(background.Config{})...)...)
	if cfg.Timing.Drain == 0 {
		cfg.Timing.Drain = -1
	}
	eng, err := local.Open(ctx, cfg)
	if err != nil {
		t.Fatal(err)
	}
	s := &shop{t: t, ctx: ctx, st: h, eng: eng, done: make(chan error, 1)}
	return s
}

func (s *shop) run() {
	ctx, stop := context.WithCancel(context.WithoutCancel(s.ctx))
	s.stop = stop
	s.t.Cleanup(stop)
	go func() { s.done <- s.eng.Run(ctx) }()
}

func (s *shop) session() {
	session, err := s.eng.Sessions().Create(s.ctx, perdure.Agent{})
	if err != nil {
		s.t.Fatal(err)
	}
	s.id = session.ID
}

func (s *shop) say(text string) {
	s.t.Helper()
	if _, err := s.eng.Send(s.ctx, s.id, perdure.Text(text)); err != nil {
		s.t.Fatal(err)
	}
}

func (s *shop) rest() {
	s.t.Helper()
	if err := s.eng.Sessions().WaitIdle(s.ctx, s.id); err != nil {
		s.t.Errorf("WaitIdle: %v; %s", err, (&rig{eng: s.eng, id: s.id}).story())
	}
}

// A result that arrives while the engine shuts down counts.
func TestFaultResultAtShutdown(t *testing.T) {
	t.Parallel()
	for _, lane := range []string{"foreground", "background"} {
		t.Run(lane, func(t *testing.T) {
			t.Parallel()
			entered := make(chan struct{}, 9)
			effects := 0
			pay := func(ctx context.Context, _ words, _ tool.Env) (answer, error) {
				entered <- struct{}{}
				<-ctx.Done() // the shutdown starts while the payment is in progress, and the payment succeeds
				effects++
				return answer{"paid": "yes"}, nil
			}
			spec := tool.Spec{Name: "pay", Description: "x", Class: perdure.AtMostOnce}
			script := `
rules:
  - when: {not_called: pay}
    calls: [{name: pay, args: {}}]
  - when: {called: pay}
    text: done
`
			if lane == "background" {
				script = strings.ReplaceAll(spawnOne, "bg_note", "pay")
			}
			st := memory.New(memory.Config{})
			a := openShop(t, script, local.Config{Store: st}, tool.NewBackground(spec, pay))
			a.run()
			a.session()
			a.say("go")
			<-entered
			a.stop()
			<-a.done
			b := openShop(t, script, local.Config{Store: st}, tool.NewBackground(spec, pay))
			b.id = a.id
			b.run()
			b.rest()
			calls, _ := b.eng.Calls().List(b.ctx, b.id)
			for _, c := range calls {
				if c.State != perdure.CallSettled {
					t.Errorf("%s is %s after a clean stop; it returned its success %d times", c.Tool, c.State, effects)
				}
			}
			b.stop()
			<-b.done
		})
	}
}

// A tool that failed with an empty text has failed.
func TestFaultEmptyError(t *testing.T) {
	t.Parallel()
	fail := tool.NewBackground(tool.Spec{Name: "fail", Description: "x", Class: perdure.Pure}, func(context.Context, words, tool.Env) (answer, error) { return nil, tool.Errorf("") })
	a := openShop(t, `
steps:
  - calls: [{name: fail, args: {}}, {name: spawn_background, args: {tool: fail, args: {}}}]
  - {text: done, repeat: true}
`, local.Config{}, fail)
	a.run()
	a.session()
	a.say("go")
	a.rest()
	tasks, _ := a.eng.Tasks().List(context.Background(), a.id)
	if tasks[0].State != perdure.TaskFailed {
		t.Errorf("the task is %s", tasks[0].State)
	}
	events, _ := a.eng.Events(context.Background(), a.id, 0, 0)
	for _, e := range events {
		if f, ok := e.Fact.(perdure.ToolCompleted); ok && f.Name == "fail" && f.Status != perdure.StatusError {
			t.Errorf("the call is %s", f.Status)
		}
	}
	a.stop()
	<-a.done
}

// Fenced work cannot write any more (RC6).
func TestFaultFencedWrites(t *testing.T) {
	t.Parallel()
	entered, release, wrote := make(chan struct{}), make(chan struct{}), make(chan struct{})
	stubborn := tool.NewBackground(tool.Spec{Name: "stubborn", Description: "x", Class: perdure.Pure}, func(ctx context.Context, _ words, env tool.Env) (answer, error) {
		close(entered)
		<-release
		env.Sink.Output("stdout", []byte("from the grave"))
		env.Sink.Artifact(perdure.Artifact{Name: "late"})
		close(wrote)
		return answer{}, nil
	})
	a := openShop(t, strings.ReplaceAll(spawnOne, "bg_note", "stubborn"), local.Config{Timing: local.Timing{Grace: 10 * time.Millisecond}}, stubborn)
	a.run()
	a.session()
	a.say("go")
	<-entered
	tasks, _ := a.eng.Tasks().List(a.ctx, a.id)
	a.eng.Tasks().Cancel(a.ctx, tasks[0].ID, "user", "")
	if _, err := a.eng.Tasks().Wait(a.ctx, tasks[0].ID); err != nil {
		t.Fatal(err)
	}
	a.rest()
	before, _ := a.eng.Sessions().Get(a.ctx, a.id)
	close(release)
	<-wrote
	a.stop()
	<-a.done
	after, _ := a.eng.Sessions().Get(context.Background(), a.id)
	log, _ := a.eng.Tasks().Log(context.Background(), tasks[0].ID, 0, 1000)
	task, _ := a.eng.Tasks().Get(context.Background(), tasks[0].ID)
	if before.LastSeq != after.LastSeq || log.End != 0 || len(task.Artifacts) > 0 {
		t.Errorf("after the fence: %d events more, %d bytes of log, artifacts %v", after.LastSeq-before.LastSeq, log.End, task.Artifacts)
	}
}

// Output is not lost by a single store error, and NaN progress does not discard output.
func TestFaultOutputLost(t *testing.T) {
	t.Parallel()
	nan := tool.NewBackground(tool.Spec{Name: "nan", Description: "x", Class: perdure.Pure}, func(ctx context.Context, _ words, env tool.Env) (answer, error) {
		env.Sink.Progress(math.NaN(), math.Inf(1), "x")
		env.Sink.Output("stdout", []byte("precious"))
		return answer{}, nil
	})
	plain := tool.NewBackground(tool.Spec{Name: "plain", Description: "x", Class: perdure.Pure}, func(ctx context.Context, _ words, env tool.Env) (answer, error) {
		env.Sink.Output("stdout", []byte("precious"))
		env.Sink.Artifact(perdure.Artifact{Name: "a"})
		return answer{}, nil
	})
	for _, name := range []string{"nan", "plain"} {
		a := openShop(t, strings.ReplaceAll(spawnOne, "bg_note", name), local.Config{}, nan, plain)
		if name == "plain" {
			judge, _ := once(aborts, func(f []perdure.Fact) bool {
				return has(f, func(u perdure.TaskUpdated) bool { return len(u.Task.Artifacts) > 0 })
			})
			a.st.set(judge)
		}
		a.run()
		a.session()
		a.say("go")
		a.rest()
		tasks, _ := a.eng.Tasks().List(context.Background(), a.id)
		log, _ := a.eng.Tasks().Log(context.Background(), tasks[0].ID, 0, 1000)
		if log.End != int64(len("precious")) {
			t.Errorf("%s: %d bytes of log; task %s, artifacts %v", name, log.End, tasks[0].State, tasks[0].Artifacts)
		}
		a.stop()
		<-a.done
	}
}

type resultTool struct {
	spec tool.Spec
	run  func(context.Context, tool.Env) tool.Result
}

func (r *resultTool) Spec() tool.Spec { return r.spec }
func (r *resultTool) Run(ctx context.Context, _ tool.Call, env tool.Env) tool.Result {
	return r.run(ctx, env)
}

type unknownTool struct {
	resultTool
	then tool.Background
}

func (u *unknownTool) RunBackground(ctx context.Context, call tool.Call, env tool.Env, sink tool.Sink) tool.Result {
	if call.Execution == 1 {
		r := tool.Error("?")
		r.ErrorKind = perdure.ErrorUnknown
		return r
	}
	return tool.Success("second")
}

// A canceled task whose end was committed in doubt has one receipt.
func TestFaultOneReceipt(t *testing.T) {
	t.Parallel()
	r := newRig(t, enginetest.Setup{Script: strings.ReplaceAll(spawnOne, "bg_note", "bg_hold")})
	judge, _ := once(forgets, func(f []perdure.Fact) bool { return has(f, any1[perdure.TaskCancelReceipt]) })
	r.st.set(judge)
	r.say("go")
	r.Entered(t, "bg_hold", 1)
	tasks, _ := r.eng.Tasks().List(r.ctx, r.id)
	r.eng.Tasks().Cancel(r.ctx, tasks[0].ID, "user", "")
	r.rest()
	n := strings.Count(r.story(), "task.cancel_receipt")
	if n != 1 {
		t.Errorf("%d receipts: %s", n, r.story())
	}
}

// lostLook is a survivor whose state cannot be read.
type lostLook struct{ unknownTool }

func (l *lostLook) Prepare(context.Context, tool.Call) error { return nil }
func (l *lostLook) Inspect(context.Context, tool.Call) (perdure.ExecutionRemains, error) {
	return "", perdure.Unavailable
}
func (l *lostLook) Adopt(context.Context, tool.Call, tool.Env, tool.Sink) tool.Result {
	return tool.Success(1)
}
func (l *lostLook) Stop(context.Context, tool.Call) error { return nil }
func (l *lostLook) RunBackground(ctx context.Context, call tool.Call, env tool.Env, sink tool.Sink) tool.Result {
	<-ctx.Done()
	return tool.Internal(context.Cause(ctx))
}

// One task whose state cannot be read must not keep the engine from starting.
func TestFaultPoisonedTakeOver(t *testing.T) {
	t.Parallel()
	st := memory.New(memory.Config{})
	bad := &lostLook{unknownTool{resultTool: resultTool{spec: tool.Spec{Name: "bad", Description: "x", Class: perdure.AtMostOnce}}}}
	script := strings.ReplaceAll(spawnOne, "bg_note", "bad")
	a := openShop(t, script, local.Config{Store: st}, bad)
	a.run()
	a.session()
	a.say("go")
	for {
		if tasks, _ := a.eng.Tasks().List(a.ctx, a.id); len(tasks) > 0 {
			break
		}
	}
	a.stop()
	<-a.done
	b := openShop(t, "steps: [{text: hi, repeat: true}]", local.Config{Store: st}, bad)
	b.run()
	b.session()
	b.say("another session")
	done := make(chan error, 1)
	go func() { done <- b.eng.Sessions().WaitIdle(b.ctx, b.id) }()
	select {
	case err := <-b.done:
		t.Errorf("Run ended: %v", err)
	case <-done:
		b.stop()
		<-b.done
	}
}

var _ = json.Valid

// A read of an unknown end that was resolved meanwhile must not hide the new end.
func TestFaultReadRacesResolve(t *testing.T) {
	t.Parallel()
	entered, release := make(chan perdure.TaskID, 1), make(chan struct{})
	n := 0
	once1 := tool.NewBackground(tool.Spec{Name: "once", Description: "x", Class: perdure.AtMostOnce}, func(ctx context.Context, _ words, env tool.Env) (answer, error) {
		if n++; n == 1 {
			return nil, tool.Errorf("x")
		}
		return answer{"second": "time"}, nil
	})
	reader := &resultTool{spec: tool.Spec{Name: "read", Description: "x", Class: perdure.Pure}, run: func(ctx context.Context, env tool.Env) tool.Result {
		tasks, _ := env.Tasks.List(ctx)
		r := tool.Success("it is " + string(tasks[0].State))
		r.ReadTasks = []perdure.TaskID{tasks[0].ID}
		entered <- tasks[0].ID
		<-release
		return r
	}}
	unknown := &unknownTool{resultTool{spec: tool.Spec{Name: "pay", Description: "x", Class: perdure.AtMostOnce}}, once1.(tool.Background)}
	a := openShop(t, `
steps:
  - calls: [{name: spawn_background, args: {tool: pay, args: {}}}]
  - calls: [{name: read, args: {}}]
  - {text: done, repeat: true}
`, local.Config{}, reader, unknown)
	a.run()
	a.session()
	a.say("go")
	id := <-entered
	task, err := a.eng.Tasks().Wait(a.ctx, id)
	if err != nil || task.State != perdure.TaskUnknown {
		t.Fatal(task.State, err)
	}
	if err := a.eng.Tasks().Resolve(a.ctx, id, engine.Resolution{Answer: perdure.ResolveRunAgain, By: "op"}); err != nil {
		t.Fatal(err)
	}
	for {
		if task, err = a.eng.Tasks().Get(a.ctx, id); err != nil || task.State == perdure.TaskSucceeded {
			break
		}
	}
	close(release)
	a.rest()
	events, _ := a.eng.Events(context.Background(), a.id, 0, 0)
	home := 0
	for _, e := range events {
		if _, ok := e.Fact.(perdure.TaskDelivered); ok {
			home++
		}
	}
	task, _ = a.eng.Tasks().Get(context.Background(), id)
	if home == 0 {
		t.Errorf("the end %s was never delivered; delivered %s", task.State, task.Delivered)
	}
	a.stop()
	<-a.done
}

package local_test

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/engine"
	"github.com/perdure/perdure/engine/enginetest"
	"github.com/perdure/perdure/engine/local"
	"github.com/perdure/perdure/internal/enginerig"
	"github.com/perdure/perdure/internal/supervise"
	"github.com/perdure/perdure/internal/supervise/supervisetest"
	"github.com/perdure/perdure/model/scripted"
	"github.com/perdure/perdure/store/faulty"
	"github.com/perdure/perdure/store/memory"
	"github.com/perdure/perdure/tool"
	"github.com/perdure/perdure/tool/shell"
)

// killScript is one turn with a call in the foreground, one that is detached, one that needs an
// approval, a supervised command and a run in the background.
const killScript = `
rules:
  - when: {not_called: plain}
    calls:
      - {name: plain, args: {text: a}}
      - {name: away, args: {text: b}}
      - {name: asked, args: {text: c}}
      - {name: bash, args: {command: work}}
      - {name: spawn_background, args: {tool: later, args: {}}}
steps: [{text: x}, {text: it goes on, repeat: true}]
`

// killStride is the step from one tested point of the matrix to the next; KILLPOINT_STRIDE=1 and
// SCALE=full test all.
const killStride = 151

// lastWords is how long an engine continues after a panic that it recovered from: what the panic
// broke off may have to wait for the next start.
const lastWords = 300 * time.Millisecond

// ways are how a point of the matrix fails: before the call, after it, and after it without a
// result. An error after a returned result is an error before the next call, and a panic returns
// nothing.
func ways() map[faulty.Act]string {
	return map[faulty.Act]string{
		faulty.Fail: "error before", faulty.DoAndTimeout: "error after, silent",
		faulty.Panic: "panic before", faulty.PanicAfter: "panic after, silent",
		faulty.Die: "kill before", faulty.DieAfterReply: "kill after", faulty.DieAfter: "kill after, silent",
	}
}

// killPoint is one cell of the matrix.
type killPoint struct {
	at  faulty.Point
	act faulty.Act
}

// String returns the point and the way, for failure messages.
func (p killPoint) String() string {
	return fmt.Sprintf("%s %s call %d", ways()[p.act], p.at.Method, p.at.N)
}

// early reports one of the first commits, in which calls are detached: a panic after one of them,
// without a result, made it twice.
func (p killPoint) early() bool {
	return p.act == faulty.PanicAfter && p.at.Method == "InTx" && p.at.N <= 12
}

// matrix is the cells of one effect class.
type matrix struct {
	class     perdure.EffectClass
	runs      string         // where commands have their run directories
	abandoned sync.WaitGroup // engines that panicked, whose end no run waits for
}

// points runs once without faults and lists every cell. The order of a turn varies, so the maximum
// over some runs counts.
func (m *matrix) points(t *testing.T) (all []killPoint, methods int) {
	t.Helper()
	const plays = 3
	most := map[string]int{}
	for range plays {
		var mu sync.Mutex
		m.playWith(t, "dry", faulty.Plan{At: func(p faulty.Point) faulty.Fault {
			mu.Lock()
			defer mu.Unlock()
			most[p.Method] = max(most[p.Method], p.N)
			return faulty.Fault{}
		}})
	}
	for method, n := range most {
		if method == "Close" {
			continue
		}
		methods++
		for i := range n {
			for act := range ways() {
				all = append(all, killPoint{faulty.Point{Method: method, N: i + 1}, act})
			}
		}
	}
	slices.SortFunc(all, func(a, b killPoint) int {
		return cmp.Or(cmp.Compare(a.at.Method, b.at.Method), a.at.N-b.at.N, int(a.act-b.act))
	})
	return all, methods
}

// play runs one cell and reports whether its fault happened.
func (m *matrix) play(t *testing.T, p killPoint) bool {
	t.Helper()
	var hit atomic.Bool
	m.playWith(t, p, faulty.Plan{At: func(at faulty.Point) faulty.Fault {
		if at != p.at {
			return faulty.Fault{}
		}
		hit.Store(true)
		return faulty.Fault{Act: p.act}
	}})
	return hit.Load()
}

// playWith runs one engine over a store with planned faults, and the next one to the end.
func (m *matrix) playWith(t *testing.T, point any, plan faulty.Plan) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	w := m.world(t)
	defer w.commands.Close()
	id := w.ask(ctx, t)

	w.begin(ctx, t, plan).untilDeathOrRest(ctx, t, id, point)

	last := w.begin(ctx, t, faulty.Plan{})
	defer last.end()
	leave := last.attend(ctx, id)
	defer leave()
	for _, do := range []func() error{
		func() error { return last.eng.Sessions().WaitIdle(ctx, id) },
		func() error { // delivers what does not wake the session
			_, err := last.eng.Send(ctx, id, perdure.Text("what else?"))
			return err
		},
		func() error { return last.eng.Sessions().WaitIdle(ctx, id) },
	} {
		if err := do(); err != nil {
			t.Fatalf("%v: %v; journal:\n%s", point, err, (&rig{eng: last.eng, id: id}).story())
		}
	}
	effects := map[string]perdure.EffectClass{"plain": m.class, "away": m.class, "asked": m.class, "later": m.class, "bash": perdure.AtMostOnce}
	a := aftermath{eng: last.eng, id: id, world: &world{Outside: w.Outside}, point: point, effects: effects}
	if p, ok := point.(killPoint); ok && p.act != faulty.Die && p.act != faulty.DieAfterReply && p.act != faulty.DieAfter {
		a.excused = map[string]string{"plain": "plain", "away": "away", "asked": "asked", "bash": "bash", "later": "spawn_background"}
	}
	checkAftermath(t, a)
}

// killWorld is what outlives the engines of one run.
type killWorld struct {
	*enginerig.Outside
	m        *matrix
	model    *scripted.Model
	store    *memory.Store
	commands *supervisetest.World
}

func (m *matrix) world(t *testing.T) *killWorld {
	t.Helper()
	answers, err := scripted.Parse("kill", []byte(killScript))
	if err != nil {
		t.Fatal(err)
	}
	w := &killWorld{Outside: enginerig.NewOutside(), m: m, model: answers, store: memory.New(memory.Config{})}
	w.commands = supervisetest.NewWorld(map[string]supervisetest.Program{"/bin/bash": func(p supervisetest.Process) int {
		w.Effect("bash", p.Args[len(p.Args)-1])
		fmt.Fprintln(p.Stdout, "done")
		return 0
	}})
	return w
}

// tools are the tools of the class, and bash.
func (w *killWorld) tools(t *testing.T, runner supervise.Runner) *tool.Registry {
	t.Helper()
	work := func(name string) func(context.Context, words, tool.Env) (answer, error) {
		return func(ctx context.Context, in words, env tool.Env) (answer, error) {
			w.Effect(name, env.Call.Key)
			_ = env.Sink.Output("stdout", []byte("working\n")) // a failing log does not matter
			if name == "away" {
				return answer{"did": in.Text}, w.Hold(ctx, name)
			}
			return answer{"did": in.Text}, nil
		}
	}
	asked := enginerig.Spec("asked", w.m.class)
	asked.Policy = tool.PolicyRequiresApproval
	bash, err := shell.New(shell.Config{Runner: runner, RunsDir: w.m.runs, Dir: w.m.runs})
	if err != nil {
		t.Fatal(err)
	}
	return w.Tools(
		tool.New(enginerig.Spec("plain", w.m.class), work("plain")),
		tool.New(enginerig.Spec("away", w.m.class), work("away")),
		tool.New(asked, work("asked")),
		tool.NewBackground(enginerig.Spec("later", w.m.class), work("later")),
		bash,
	)
}

// ask creates a session with a message in it, without a running engine.
func (w *killWorld) ask(ctx context.Context, t *testing.T) perdure.SessionID {
	t.Helper()
	runner := w.commands.NewRunner()
	eng, err := local.Open(ctx, enginerig.Config(enginetest.Setup{}, w.store, w.model, w.tools(t, runner)))
	if err != nil {
		t.Fatal(err)
	}
	s, err := eng.Sessions().Create(ctx, perdure.Agent{})
	if err == nil {
		_, err = eng.Send(ctx, s.ID, perdure.Text("go"))
	}
	if err != nil {
		t.Fatal(err)
	}
	return s.ID
}

// mortality is one engine, from its start to its death.
type mortality struct {
	w      *killWorld
	eng    *local.Engine
	store  *fuse
	runner *supervisetest.Runner
	stop   context.CancelFunc
	ended  chan error // capacity 1; closed after the result of Run
}

// begin starts an engine over a handle of the store.
func (w *killWorld) begin(ctx context.Context, t *testing.T, plan faulty.Plan) *mortality {
	t.Helper()
	l := &mortality{w: w, store: &fuse{gone: make(chan struct{}), caught: make(chan struct{})}, runner: w.commands.NewRunner(), ended: make(chan error, 1)}
	plan.Died = func() {
		l.runner.Die()
		l.store.blow()
	}
	l.store.Store = faulty.New(w.store, plan)
	commands := &plannedRunner{Runner: l.runner, plan: plan, store: l.store.Store, counts: map[string]int{}}
	eng, err := local.Open(ctx, enginerig.Config(enginetest.Setup{MaxRuns: 5}, l.store, w.model, w.tools(t, commands)))
	if err != nil {
		t.Fatal(err)
	}
	l.eng = eng
	run, stop := context.WithCancel(context.WithoutCancel(ctx))
	l.stop = stop
	go func() {
		defer close(l.ended) // also where a panic ended Run
		l.ended <- eng.Run(run)
	}()
	return l
}

// end kills the engine: its store and its commands are cut off, and then the test process cleans
// up.
func (l *mortality) end() {
	l.kill()
	<-l.ended
}

func (l *mortality) kill() {
	l.store.Kill()
	l.runner.Die()
	l.stop()
}

// untilDeathOrRest lets the engine run until the fault has ended it, or the session is idle.
func (l *mortality) untilDeathOrRest(ctx context.Context, t *testing.T, id perdure.SessionID, point any) {
	t.Helper()
	leave := l.attend(ctx, id)
	rest := make(chan error, 1) // one result; nobody may be listening
	go func() {
		err := l.eng.Sessions().WaitIdle(ctx, id)
		for err != nil && ctx.Err() == nil && !l.store.blown() { // this was the failing call
			err = l.eng.Sessions().WaitIdle(ctx, id)
		}
		rest <- err
	}()
	late := make(<-chan time.Time) // never
	select {
	case <-l.store.caught:
		late = time.After(lastWords)
	case <-l.store.gone:
	case <-l.ended:
	case err := <-rest:
		rest <- err
	}
	select {
	case <-late:
	case <-l.store.gone:
	case <-l.ended: // an error at the start ends Run
	case err := <-rest:
		if err != nil && !l.store.blown() {
			t.Errorf("%v: %v; journal:\n%s", point, err, (&rig{eng: l.eng, id: id}).story())
		}
	}
	l.kill()
	if l.store.panicked.Load() { // some of its goroutines may wait for others that are gone
		l.w.m.abandoned.Go(leave)
		l.w.m.abandoned.Go(func() { <-l.ended })
		return
	}
	leave()
	<-l.ended
}

// attend plays a person who approves calls and detaches them, and retries after an error. What an
// engine did not do before it died is requested again from its successor. It ends with leave.
func (l *mortality) attend(ctx context.Context, id perdure.SessionID) (leave func()) {
	ctx, stop := context.WithCancel(ctx)
	var group sync.WaitGroup
	see := func(f engine.Frame) error {
		if f.Event == nil {
			return nil
		}
		switch fact := f.Event.Fact.(type) {
		case perdure.ApprovalRequested:
			group.Go(func() {
				persist(ctx, func() error {
					open, err := l.eng.Approvals().List(ctx, engine.ApprovalFilter{Session: id, State: perdure.ApprovalOpen})
					if err != nil || !slices.ContainsFunc(open, func(a perdure.Approval) bool { return a.ID == fact.Approval.ID }) {
						return err
					}
					_, err = l.eng.Approvals().Decide(ctx, fact.Approval.ID, perdure.Verdict{Approve: true, By: "user"})
					return err
				})
			})
		case perdure.ToolStarted:
			if fact.Name == "away" {
				group.Go(func() { sendAway(ctx, l.eng, perdure.CallKey{Session: id, Call: fact.CallID}) })
			}
		case perdure.TaskCreated:
			if fact.Task.Tool == "away" {
				l.w.Release("away")
			}
		}
		return nil
	}
	group.Go(func() {
		for ctx.Err() == nil && !l.store.blown() {
			_ = l.eng.Follow(ctx, id, 0, see) // again after an error
		}
	})
	return func() { stop(); group.Wait() }
}

// persist repeats an operation until it succeeds or ctx ends.
func persist(ctx context.Context, do func() error) {
	again := time.NewTicker(time.Millisecond)
	defer again.Stop()
	for do() != nil {
		select {
		case <-again.C:
		case <-ctx.Done():
			return
		}
	}
}

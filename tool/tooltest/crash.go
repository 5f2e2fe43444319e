package tooltest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/engine"
	"github.com/perdure/perdure/engine/local"
	"github.com/perdure/perdure/model/scripted"
	"github.com/perdure/perdure/store/faulty"
	"github.com/perdure/perdure/store/memory"
	"github.com/perdure/perdure/tool"
)

// crashTime bounds one death and the recovery from it.
const crashTime = 30 * time.Second

// Crash calls the tool once for each step of a turn at which a runtime can die, kills the runtime there, both
// before the step and after it without telling, starts another one over the same store, and checks what the
// tool did, by its own effect class (G6):
//
//   - an at_most_once tool was entered at most once, and its call ended with its result or as unknown;
//   - a pure or idempotent tool was entered again where needed, always under the same key, and its call
//     ended with a result that is no error;
//   - the call has exactly one result in the transcript, and the conversation came to rest.
//
// in is encoded as the arguments. The tool is entered many times in all, each time in a session of its own.
func Crash(t *testing.T, subject tool.Tool, in any) {
	t.Helper()
	args, err := json.Marshal(in)
	if err != nil {
		t.Fatalf("encode the arguments: %v", err)
	}
	for _, act := range []faulty.Act{faulty.Die, faulty.DieAfter} {
		for n := 1; ; n++ {
			c := &crash{t: t, subject: subject, args: args, act: act, n: n}
			if !c.run() {
				break
			}
		}
	}
}

// crash is one death and what follows.
type crash struct {
	t       *testing.T
	subject tool.Tool
	args    json.RawMessage
	act     faulty.Act
	n       int // the transaction at which the runtime dies

	mu   sync.Mutex
	keys []string // guarded by mu; of each entry into the tool
}

// run plays the turn with one death, and reports whether it came to that.
func (c *crash) run() bool {
	c.t.Helper()
	ctx, cancel := context.WithTimeout(c.t.Context(), crashTime)
	defer cancel()
	memory := memory.New(memory.Config{})
	id := c.ask(ctx, memory)

	life, end := context.WithCancel(ctx)
	plan := faulty.Nth("InTx", c.n, faulty.Fault{Act: c.act})
	plan.Died = end
	first := faulty.New(memory, plan)
	c.live(life, first, id, false)
	end()

	eng := c.live(ctx, faulty.New(memory, faulty.Plan{}), id, true)
	c.check(ctx, eng, id)
	return first.Dead()
}

// ask makes a session with a message in it.
func (c *crash) ask(ctx context.Context, st *memory.Store) perdure.SessionID {
	c.t.Helper()
	eng := c.open(ctx, faulty.New(st, faulty.Plan{}))
	s, err := eng.NewSession(ctx, perdure.Agent{})
	if err == nil {
		err = eng.Send(ctx, s.ID, perdure.Text("go"))
	}
	if err != nil {
		c.t.Fatalf("ask: %v", err)
	}
	return s.ID
}

// open makes an engine whose model calls the tool once.
func (c *crash) open(ctx context.Context, st *faulty.Store) *local.Engine {
	c.t.Helper()
	script, err := json.Marshal(map[string]any{"steps": []any{
		map[string]any{"calls": []any{map[string]any{"name": c.subject.Spec().Name, "args": c.args}}},
		map[string]any{"text": "done", "repeat": true},
	}})
	if err != nil {
		c.t.Fatal(err)
	}
	m, err := scripted.Parse("crash", script)
	if err != nil {
		c.t.Fatal(err)
	}
	eng, err := local.Open(ctx, local.Config{
		Store: st, Model: m, Tools: tool.NewRegistry(c.counted()), Drain: -1, MaxExecutions: -1, Beat: time.Hour, Lease: 4 * time.Hour,
	})
	if err != nil {
		c.t.Fatalf("open: %v", err)
	}
	return eng
}

// live runs an engine until the session is at rest or ctx ends.
func (c *crash) live(ctx context.Context, st *faulty.Store, id perdure.SessionID, whole bool) engine.Engine {
	c.t.Helper()
	eng := c.open(ctx, st)
	work, stop := context.WithCancel(ctx)
	ended := make(chan error, 1) // one result
	go func() { ended <- eng.Run(work) }()
	err := eng.WaitIdle(ctx, id)
	stop()
	runErr := <-ended
	if whole && (err != nil || runErr != nil) {
		c.t.Fatalf("%s: the conversation did not come to rest: %v", c, errors.Join(err, runErr))
	}
	return eng
}

// check judges what the tool did.
func (c *crash) check(ctx context.Context, eng engine.Engine, id perdure.SessionID) {
	c.t.Helper()
	events, err := eng.Events(ctx, id, 0, 0)
	if err != nil {
		c.t.Fatalf("%s: %v", c, err)
	}
	var results []perdure.ToolCompleted
	for _, event := range events {
		if f, ok := event.Fact.(perdure.ToolCompleted); ok {
			results = append(results, f)
		}
	}
	if len(results) != 1 {
		c.t.Fatalf("%s: the call has %d results, want 1", c, len(results))
	}
	c.mu.Lock()
	keys := c.keys
	c.mu.Unlock()
	for _, key := range keys {
		if key != keys[0] {
			c.t.Errorf("%s: the keys %q and %q: one call has one key", c, keys[0], key)
		}
	}
	class, status := c.subject.Spec().Class, results[0].Status
	switch {
	case class == perdure.AtMostOnce && len(keys) > 1:
		c.t.Errorf("%s: entered %d times, and it is at_most_once", c, len(keys))
	case class == perdure.AtMostOnce && status == perdure.StatusUnknown:
	case status != perdure.StatusSuccess:
		c.t.Errorf("%s: the call ended as %s: %s", c, status, results[0].Result.Error)
	}
}

// String says where the runtime died, for a failure's text.
func (c *crash) String() string {
	when := "before"
	if c.act == faulty.DieAfter {
		when = "after"
	}
	return fmt.Sprintf("%s, killed %s commit %d", c.subject.Spec().Name, when, c.n)
}

// counted is the tool under test, with its entries counted. It keeps a Reconciler one.
func (c *crash) counted() tool.Tool {
	entries := counted{Tool: c.subject, c: c}
	if reconciler, ok := c.subject.(tool.Reconciler); ok {
		return countedReconciler{counted: entries, reconciler: reconciler}
	}
	return entries
}

// counted counts the entries into a tool.
type counted struct {
	tool.Tool
	c *crash
}

// Run enters the tool.
func (k counted) Run(ctx context.Context, call tool.Call, env tool.Env) tool.Result {
	k.c.mu.Lock()
	k.c.keys = append(k.c.keys, call.Key)
	k.c.mu.Unlock()
	return k.Tool.Run(ctx, call, env)
}

// countedReconciler is counted for a tool that can reconcile.
type countedReconciler struct {
	counted
	reconciler tool.Reconciler
}

// Reconcile asks the tool.
func (k countedReconciler) Reconcile(ctx context.Context, call tool.Call, env tool.Env) (tool.Reconciled, error) {
	return k.reconciler.Reconcile(ctx, call, env)
}

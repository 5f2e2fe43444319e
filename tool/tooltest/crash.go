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
	"github.com/perdure/perdure/tool/background"
)

// crashTime bounds one crash and the recovery from it.
const crashTime = 30 * time.Second

// Crash kills the engine around a call of the tool, starts another engine on the same store, and
// checks what the tool did against its effect class.
//
// It kills at each named moment (before the claim, after it, while the tool runs, after its effect,
// before and after the settlement), and then at every commit of the turn: before the commit, and
// after it without reporting success. It does so in the foreground, and also in the background if
// the tool can run there. It checks that
//
//   - an at_most_once tool was entered at most once, and its call ended with its result or as
//     unknown. It may be entered again only if the tool itself reported that nothing had happened
//     (tool.Reconciler, tool.Adoptable);
//   - a pure or idempotent tool was entered again where needed, always with the same key, and its
//     call ended with a success;
//   - the call has exactly one result in the transcript, the result of a background run was
//     delivered exactly once, and the session came to rest.
//
// The test's log says for each moment what happened and what crash recovery did (go test -v). in is
// encoded as the arguments. The tool is entered many times, each time in a new session.
func Crash(t *testing.T, subject tool.Tool, in any) {
	t.Helper()
	args, err := json.Marshal(in)
	if err != nil {
		t.Fatalf("encode the arguments: %v", err)
	}
	lanes := []perdure.Lane{perdure.Foreground}
	if _, can := subject.(tool.Background); can {
		lanes = append(lanes, perdure.Background)
	}
	for _, lane := range lanes {
		for _, at := range moments() {
			c := &crash{t: t, subject: subject, args: args, lane: lane, at: at, settling: make(chan struct{})}
			c.run()
			if !c.reached() {
				t.Errorf("%s: this moment was not reached", c)
			}
			t.Log(c.summary())
		}
		sweep(t, &crash{subject: subject, args: args, lane: lane})
	}
}

// sweep kills the engine at every commit, one after another.
func sweep(t *testing.T, like *crash) {
	t.Helper()
	ends, deaths := map[string]int{}, 0
	for _, act := range []faulty.Act{faulty.Die, faulty.DieAfter} {
		for n := 1; ; n++ {
			c := &crash{t: t, subject: like.subject, args: like.args, lane: like.lane, act: act, n: n, settling: make(chan struct{})}
			if !c.run() {
				break
			}
			deaths++
			ends[c.end]++
		}
	}
	t.Logf("%s, in the %s, killed before and after each commit, %d times in total: it ended as %v",
		like.subject.Spec().Name, like.lane, deaths, ends)
}

// crash is one crash and the recovery.
type crash struct {
	t       *testing.T
	subject tool.Tool
	args    json.RawMessage
	lane    perdure.Lane
	at      moment     // at which the engine is killed; empty: at the nth transaction
	act     faulty.Act // how it is killed at the nth transaction
	n       int

	settling chan struct{} // closed when the call that requests a background run is being settled

	mu           sync.Mutex
	kill         context.CancelFunc // guarded by mu; stops the first engine
	dying        bool               // guarded by mu; every call of the store fails as if the process had died
	settled      bool               // guarded by mu; dying starts with the next transaction
	firstEntries int                // guarded by mu; entries in the first engine
	keys         []string           // guarded by mu; of each entry into the tool
	notHappened  int                // guarded by mu; how often the tool reported that nothing had happened

	takenOver perdure.TakeOver // how crash recovery took over the call; empty: there was nothing to take over
	end       string           // how the call ended
}

// run runs the turn with one crash, and reports whether the crash happened.
func (c *crash) run() bool {
	c.t.Helper()
	ctx, cancel := context.WithTimeout(c.t.Context(), crashTime)
	defer cancel()
	memory := memory.New(memory.Config{})
	id := c.createSession(ctx, memory)

	life, end := context.WithCancel(ctx)
	plan := faulty.Nth("InTx", c.n, faulty.Fault{Act: c.act})
	if c.at != "" {
		plan = faulty.Plan{At: c.fault}
	}
	plan.Died, c.kill = end, end
	first := faulty.New(memory, plan)
	c.runUntilIdle(life, first, id, false)
	end()
	c.mu.Lock()
	c.firstEntries = len(c.keys)
	c.mu.Unlock()

	eng := c.runUntilIdle(ctx, faulty.New(memory, faulty.Plan{}), id, true)
	c.check(ctx, eng, id)
	return first.Dead()
}

// createSession creates a session with a message.
func (c *crash) createSession(ctx context.Context, st *memory.Store) perdure.SessionID {
	c.t.Helper()
	eng := c.open(ctx, faulty.New(st, faulty.Plan{}), false)
	s, err := eng.Sessions().Create(ctx, perdure.Agent{})
	if err == nil {
		_, err = eng.Send(ctx, s.ID, perdure.Text("go"))
	}
	if err != nil {
		c.t.Fatalf("create session: %v", err)
	}
	return s.ID
}

// open opens an engine whose model calls the tool once. final is true for the engine that must not
// crash.
func (c *crash) open(ctx context.Context, st *faulty.Store, final bool) *local.Engine {
	c.t.Helper()
	name, args := c.subject.Spec().Name, any(c.args)
	if c.lane == perdure.Background {
		args = map[string]any{"tool": name, "args": c.args}
		name = "spawn_background"
	}
	script, err := json.Marshal(map[string]any{
		"rules": []any{map[string]any{"when": map[string]any{"last_role": "user"}, "calls": []any{map[string]any{"name": name, "args": args}}}},
		"steps": []any{map[string]any{"text": "done", "repeat": true}},
	})
	if err != nil {
		c.t.Fatal(err)
	}
	m, err := scripted.Parse("crash", script)
	if err != nil {
		c.t.Fatal(err)
	}
	tools := tool.NewRegistry(c.instrumented(final))
	if c.lane == perdure.Background {
		for _, t := range background.Tools(background.Config{}) {
			tools.Register(t)
		}
	}
	eng, err := local.Open(ctx, local.Config{
		Store: st, Model: m, Tools: tools, Timing: local.Timing{Drain: -1},
		Limits:  local.Limits{MaxExecutions: -1, NoProgress: -1},
		Workers: local.Workers{Beat: time.Hour, Lease: 4 * time.Hour},
	})
	if err != nil {
		c.t.Fatalf("open: %v", err)
	}
	return eng
}

// runUntilIdle runs an engine until the session is at rest or ctx ends.
func (c *crash) runUntilIdle(ctx context.Context, st *faulty.Store, id perdure.SessionID, final bool) engine.Engine {
	c.t.Helper()
	eng := c.open(ctx, st, final)
	work, stop := context.WithCancel(ctx)
	ended := make(chan error, 1) // one result
	go func() { ended <- eng.Run(work) }()
	err := eng.Sessions().WaitIdle(ctx, id)
	stop()
	runErr := <-ended
	if final && (err != nil || runErr != nil) {
		c.t.Fatalf("%s: the session did not come to rest: %v", c, errors.Join(err, runErr))
	}
	return eng
}

// String says where the engine was killed, for messages.
func (c *crash) String() string {
	when := string(c.at)
	if c.at == "" {
		when = fmt.Sprintf("before commit %d", c.n)
		if c.act == faulty.DieAfter {
			when = fmt.Sprintf("after commit %d", c.n)
		}
	}
	return fmt.Sprintf("%s, in the %s, killed %s", c.subject.Spec().Name, c.lane, when)
}

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

// crashTime bounds one death and the recovery from it.
const crashTime = 30 * time.Second

// Crash kills the runtime around a call of the tool, starts another one over the same store, and checks what the tool
// did, by its own effect class (G6). It does so at each moment that has a name (before its claim, after it, while it
// runs, after its effect, before and after its settlement), and then at every commit of the turn, both before it and
// after it without telling; in the foreground, and in the background where the tool can run there.
//
//   - an at_most_once tool was entered at most once, and its call ended with its result or as unknown; it was entered
//     again only where it said itself that nothing had happened (tool.Reconciler, tool.Survivor);
//   - a pure or idempotent tool was entered again where needed, always under the same key, and its call
//     ended with a result that is no error;
//   - the call has exactly one result in the transcript, a background run came home exactly once, and the conversation
//     came to rest.
//
// For each moment the test's log says what happened and what the runtime did about it (go test -v). in is encoded as
// the arguments. The tool is entered many times in all, each time in a session of its own.
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
				t.Errorf("%s: it never came to that", c)
			}
			t.Log(c.story())
		}
		sweep(t, &crash{subject: subject, args: args, lane: lane})
	}
}

// sweep kills the runtime at every commit, one after another.
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
	t.Logf("%s, in the %s, killed before and after each commit, %d times in all: it ended as %v", like.subject.Spec().Name, like.lane, deaths, ends)
}

// crash is one death and what follows.
type crash struct {
	t       *testing.T
	subject tool.Tool
	args    json.RawMessage
	lane    perdure.Lane
	at      moment     // at which the runtime dies; empty: at the nth transaction
	act     faulty.Act // likewise, how it dies at that
	n       int

	settling chan struct{} // closed when the call that asks for a background run is being settled

	mu      sync.Mutex
	kill    context.CancelFunc // guarded by mu; ends the first life
	dying   bool               // guarded by mu; every call of the store dies
	settled bool               // guarded by mu; likewise, from the next transaction on
	first   int                // guarded by mu; entries in the first life
	keys    []string           // guarded by mu; of each entry into the tool
	denied  int                // guarded by mu; how often the tool said that nothing had happened

	how perdure.TakeOver // what recovery did with the call; empty: nothing was left to take over
	end string           // how the call ended
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
	if c.at != "" {
		plan = faulty.Plan{At: c.fault}
	}
	plan.Died, c.kill = end, end
	first := faulty.New(memory, plan)
	c.live(life, first, id, false)
	end()
	c.mu.Lock()
	c.first = len(c.keys)
	c.mu.Unlock()

	eng := c.live(ctx, faulty.New(memory, faulty.Plan{}), id, true)
	c.check(ctx, eng, id)
	return first.Dead()
}

// ask makes a session with a message in it.
func (c *crash) ask(ctx context.Context, st *memory.Store) perdure.SessionID {
	c.t.Helper()
	eng := c.open(ctx, faulty.New(st, faulty.Plan{}), false)
	s, err := eng.NewSession(ctx, perdure.Agent{})
	if err == nil {
		err = eng.Send(ctx, s.ID, perdure.Text("go"))
	}
	if err != nil {
		c.t.Fatalf("ask: %v", err)
	}
	return s.ID
}

// open makes an engine whose model calls the tool once. whole is one that is not to die.
func (c *crash) open(ctx context.Context, st *faulty.Store, whole bool) *local.Engine {
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
	tools := tool.NewRegistry(c.counted(whole))
	if c.lane == perdure.Background {
		for _, t := range background.Tools(background.Config{}) {
			tools.Register(t)
		}
	}
	eng, err := local.Open(ctx, local.Config{
		Store: st, Model: m, Tools: tools, Drain: -1, MaxExecutions: -1, NoProgress: -1, Beat: time.Hour, Lease: 4 * time.Hour,
	})
	if err != nil {
		c.t.Fatalf("open: %v", err)
	}
	return eng
}

// live runs an engine until the session is at rest or ctx ends.
func (c *crash) live(ctx context.Context, st *faulty.Store, id perdure.SessionID, whole bool) engine.Engine {
	c.t.Helper()
	eng := c.open(ctx, st, whole)
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

// String says where the runtime died, for a failure's text.
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

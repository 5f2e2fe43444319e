package local_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"runtime"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/engine"
	"github.com/perdure/perdure/engine/enginetest"
	"github.com/perdure/perdure/engine/local"
	"github.com/perdure/perdure/model/scripted"
	"github.com/perdure/perdure/store"
	"github.com/perdure/perdure/store/memory"
	"github.com/perdure/perdure/tool"
	"github.com/perdure/perdure/tool/background"
	"github.com/perdure/perdure/tool/subagent"
)

// slowStart is a store in which the start of a subagent blocks before its commit.
type slowStart struct {
	store.Store
	reached, open chan struct{}
	fails         bool // nothing is started then: the store is away
}

// InTx blocks before a commit that claims a handle.
func (s *slowStart) InTx(ctx context.Context, fn func(store.Tx) error) error {
	look := errors.New("it claims")
	err := s.Store.InTx(ctx, func(tx store.Tx) error {
		spy := &claimSpy{Tx: tx}
		err := fn(spy)
		if spy.looked {
			select {
			case <-s.open:
			default:
				return look
			}
		}
		return err
	})
	if !errors.Is(err, look) {
		return err
	}
	close(s.reached)
	<-s.open
	if s.fails {
		return perdure.Unavailable
	}
	return s.Store.InTx(ctx, fn)
}

// claimSpy records that a handle is claimed.
type claimSpy struct {
	store.Tx
	looked bool
}

// claimSpySpawns overrides a part of one noun.
type claimSpySpawns struct {
	store.Spawns
	*claimSpy
}

func (s *claimSpy) Spawns() store.Spawns { return claimSpySpawns{s.Tx.Spawns(), s} }

// claimSpyReader reads what the transaction shows.
type claimSpyReader struct {
	store.Reader
	tx *claimSpy
}

func (s *claimSpy) Reader() store.Reader { return claimSpyReader{s.Tx.Reader(), s} }

func (r claimSpyReader) Spawns() store.SpawnReader { return r.tx.Spawns() }

// Spawn records it.
func (s claimSpySpawns) Get(key perdure.CallKey) (store.Spawn, error) {
	s.looked = true
	return s.Spawns.Get(key)
}

// lateBirth opens a world in which the start of a subagent blocks before its commit.
func lateBirth(t *testing.T, s enginetest.Setup) (*rig, *slowStart) {
	t.Helper()
	slow := &slowStart{reached: make(chan struct{}), open: make(chan struct{})}
	f := newFamily(t, s, func(st store.Store) store.Store { slow.Store = st; return slow })
	r := &rig{world: f.world, ctx: f.ctx, t: t}
	r.eng = r.Start(t)
	session, err := r.eng.Sessions().Create(f.ctx, s.Agent)
	if err != nil {
		t.Fatal(err)
	}
	r.id = session.ID
	r.say("go")
	select {
	case <-slow.reached:
	case <-f.ctx.Done():
		t.Fatalf("nothing was started; journal: %s", r.story())
	}
	return r, slow
}

// TestSubagentRefusedAfterItLeft: a call that was detached before its subagent could not be started
// has no child to end it.
func TestSubagentRefusedAfterItLeft(t *testing.T) {
	t.Parallel()
	r, slow := lateBirth(t, enginetest.Setup{Script: parentOf(waitOne, childDoes("echo"))})
	started := r.until(func(f perdure.Fact) bool { _, ok := f.(perdure.ToolStarted); return ok }).(perdure.ToolStarted)
	if _, err := r.eng.Calls().Detach(r.ctx, perdure.CallKey{Session: r.id, Call: started.CallID}, "user"); err != nil {
		t.Fatal(err)
	}
	slow.fails = true
	close(slow.open)
	r.rest()
	if tasks, err := r.eng.Tasks().List(r.ctx, r.id); err != nil || len(tasks) != 1 || tasks[0].State != perdure.TaskFailed {
		t.Errorf("got %+v, %v", tasks, err)
	}
}

// TestSubagentCanceledBeforeItsBirth cancels a call that has become a task, before the commit that
// would create its subagent: none is created (SA11).
func TestSubagentCanceledBeforeItsBirth(t *testing.T) {
	t.Parallel()
	for _, how := range []string{"routed", "detached"} {
		t.Run(how, func(t *testing.T) {
			t.Parallel()
			s := enginetest.Setup{Script: parentOf(waitOne, childDoes("note"))}
			if how == "routed" {
				s.Background = []string{"spawn_subagent"}
			}
			r, slow := lateBirth(t, s)
			if how == "detached" {
				started := r.until(func(f perdure.Fact) bool { _, ok := f.(perdure.ToolStarted); return ok }).(perdure.ToolStarted)
				if _, err := r.eng.Calls().Detach(r.ctx, perdure.CallKey{Session: r.id, Call: started.CallID}, "user"); err != nil {
					t.Fatal(err)
				}
			}
			task := r.until(func(f perdure.Fact) bool { _, ok := f.(perdure.TaskCreated); return ok }).(perdure.TaskCreated).Task
			if _, err := r.eng.Tasks().Cancel(r.ctx, task.ID, "user", "enough"); err != nil {
				t.Fatal(err)
			}
			close(slow.open)
			r.rest()
			tasks, err := r.eng.Tasks().List(r.ctx, r.id)
			if err != nil || len(tasks) != 1 || tasks[0].State != perdure.TaskCanceled || len(r.Effects("note")) > 0 {
				t.Errorf("got %+v, %v; effects %v", tasks, err, r.Effects("note"))
			}
		})
	}
}

// TestSubagentOfStoppedParent stops a subagent before the commits in which it starts a subagent and
// a run of its own.
func TestSubagentOfStoppedParent(t *testing.T) {
	t.Parallel()
	for name, call := range map[string]string{"below": "{name: spawn_subagent, args: {name: two, task: below, background: true}}", "run": "{name: spawn_background, args: {tool: bg_hold, args: {}}}"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			slow := &slowBirth{reached: make(chan struct{}), open: make(chan struct{})}
			f := newFamily(t, enginetest.Setup{Script: parentOf(freeOne, `  - when: {user_contains: below, not_called: hold}
    calls: [{name: hold, args: {}}]
  - when: {user_contains: piece, not_called: spawn}
    calls: [`+call+`]`)}, func(st store.Store) store.Store { slow.Store = st; return slow })
			r := &rig{world: f.world, ctx: f.ctx, t: t}
			r.eng = r.Start(t)
			session, err := r.eng.Sessions().Create(f.ctx, perdure.Agent{})
			if err != nil {
				t.Fatal(err)
			}
			r.id = session.ID
			r.say("go")
			task := r.subagent(anyTask)
			select {
			case <-slow.reached:
			case <-f.ctx.Done():
				t.Fatalf("it started nothing; journal: %s", r.story())
			}
			if _, err := r.eng.Tasks().Cancel(r.ctx, task.ID, "user", "enough"); err != nil {
				t.Fatal(err)
			}
			close(slow.open)
			r.rest()
			if task = r.subagent(func(t perdure.Task) bool { return t.State.Terminal() }); task.State != perdure.TaskCanceled {
				t.Errorf("got %+v", task)
			}
		})
	}
}

// slowBirth blocks the first commit in which a session that is named later adds a task.
type slowBirth struct {
	store.Store
	reached, open chan struct{}
	done          atomic.Bool
}

// InTx runs the chosen transaction once without committing it.
func (s *slowBirth) InTx(ctx context.Context, fn func(store.Tx) error) error {
	found := errors.New("it adds a task")
	err := s.Store.InTx(ctx, func(tx store.Tx) error {
		spy := &spyTx{Tx: tx}
		if err := fn(spy); err != nil {
			return err
		}
		if has(spy.facts, func(c perdure.TaskCreated) bool { return c.Task.Session != c.Task.RootSession }) && s.done.CompareAndSwap(false, true) {
			return found
		}
		return nil
	})
	if !errors.Is(err, found) {
		return err
	}
	close(s.reached)
	<-s.open
	return s.Store.InTx(ctx, fn)
}

// peek is a tool that gives the test its environment, and waits until the test has read it.
func peek(seen chan tool.Env, letGo <-chan struct{}) tool.Tool {
	return tool.New(tool.Spec{Name: "peek", Description: "Looks around.", Class: perdure.Pure, NeedsEnv: true},
		func(ctx context.Context, _ words, env tool.Env) (tool.Result, error) {
			seen <- env
			select {
			case <-letGo:
			case <-ctx.Done():
			}
			r := tool.Success(answer{"saw": "it"})
			tasks, err := env.Tasks.List(context.WithoutCancel(ctx))
			// also what is delivered elsewhere: it is delivered there, and the turn continues
			for _, task := range tasks {
				if task.State.Terminal() {
					r.ReadTasks = append(r.ReadTasks, task.ID)
				}
			}
			return r, err
		})
}

// scopeScript is a root with two subagents, of which the first has one of its own. All of them list
// what they can reach.
const scopeScript = `
rules:
  - when: {user_contains: lower, not_called: peek}
    calls: [{name: peek, args: {}}]
  - when: {user_contains: middle, not_called: peek}
    calls: [{name: spawn_subagent, args: {name: low, task: lower, background: true}}, {name: peek, args: {}}]
  - when: {user_contains: beside, not_called: peek}
    calls: [{name: peek, args: {}}]
  - when: {user_contains: go, not_called: peek}
    calls:
      - {name: spawn_subagent, args: {name: mid, task: middle, background: true}}
      - {name: spawn_subagent, args: {name: next, task: beside, background: true}}
      - {name: peek, args: {}}
steps: [{text: done, repeat: true}]
`

// lookers starts the four agents and returns what each of them can reach, by its title. The root
// has no title.
func lookers(ctx context.Context, t *testing.T, letGo <-chan struct{}) (eng engine.Engine, envs map[string]tool.Env) {
	t.Helper()
	m, err := scripted.Parse("law", []byte(scopeScript))
	if err != nil {
		t.Fatal(err)
	}
	seen := make(chan tool.Env)
	tools := tool.NewRegistry(append(append(background.Tools(background.Config{}), subagent.Tools()...), peek(seen, letGo))...)
	own, err := local.Open(ctx, local.Config{Store: memory.New(memory.Config{}), Model: m, Tools: tools, Timing: local.Timing{Drain: -1}})
	if err != nil {
		t.Fatal(err)
	}
	runs, stop := context.WithCancel(context.WithoutCancel(ctx))
	ended := make(chan error, 1) // one result
	go func() { ended <- own.Run(runs) }()
	t.Cleanup(func() { stop(); <-ended })
	s, err := own.Sessions().Create(ctx, perdure.Agent{})
	if err == nil {
		_, err = own.Send(ctx, s.ID, perdure.Text("go"))
	}
	if err != nil {
		t.Fatal(err)
	}
	envs = map[string]tool.Env{}
	for range 4 {
		select {
		case env := <-seen:
			row, err := own.Sessions().Get(ctx, env.Call.Session)
			if err != nil {
				t.Fatal(err)
			}
			if row.ID == s.ID {
				row.Title = ""
			}
			envs[row.Title] = env
		case <-ctx.Done():
			t.Fatal("not all of them looked around")
		}
	}
	return own, envs
}

// reaches checks that a session reaches a task through all its ports, or, if not reaches, through
// none of them.
func reaches(ctx context.Context, env tool.Env, id string, want bool) error {
	_, err := env.Tasks.Task(ctx, id)
	_, logErr := env.Tasks.Log(ctx, id, 0, 10)
	_, waitErr := env.Tasks.Wait(ctx, tool.WaitRequest{IDs: []string{id}, Timeout: time.Millisecond})
	if want {
		return errors.Join(err, logErr, waitErr)
	}
	_, _, stopErr := env.Tasks.Cancel(ctx, id, "mine")
	_, sendErr := env.TaskMessenger.Send(ctx, id, perdure.TaskMessage{Text: "mine"})
	for i, err := range []error{err, logErr, waitErr, stopErr, sendErr} {
		if !errors.Is(err, perdure.NotFound) {
			return fmt.Errorf("port %d answers %w", i, err)
		}
	}
	return nil
}

// TestSubagentScope pins SA7 and BG22: a parent reaches its tasks and those of all its descendants;
// a subagent reaches its own, and neither those of its parent nor of its siblings.
func TestSubagentScope(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	letGo := make(chan struct{})
	eng, envs := lookers(ctx, t, letGo)
	records := map[string]perdure.Task{}
	for _, title := range []string{"", "mid"} {
		tasks, err := eng.Tasks().List(ctx, envs[title].Call.Session)
		if err != nil {
			t.Fatal(err)
		}
		for _, task := range tasks {
			records[task.DisplayName] = task
		}
	}
	for who, below := range map[string][]string{"": {"low", "mid", "next"}, "mid": {"low"}, "next": {}, "low": {}} {
		tasks, err := envs[who].Tasks.List(ctx)
		names := []string{}
		for _, task := range tasks {
			names = append(names, task.DisplayName)
		}
		if slices.Sort(names); err != nil || !slices.Equal(names, below) {
			t.Errorf("%q lists %v, %v; want %v", who, names, err, below)
		}
		for name, record := range records {
			for _, id := range []string{string(record.ID), string(record.Run)} {
				if err := reaches(ctx, envs[who], id, slices.Contains(below, name)); err != nil {
					t.Errorf("%q and %q: %v", who, name, err)
				}
			}
		}
	}
	root, low := envs[""], string(records["low"].ID)
	waited := make(chan []perdure.Task, 1) // one result
	go func() {
		tasks, _ := root.Tasks.Wait(ctx, tool.WaitRequest{IDs: []string{low}, Timeout: time.Minute})
		waited <- tasks
	}()
	if _, task, err := root.Tasks.Cancel(ctx, low, "enough"); err != nil || task.State != perdure.TaskCanceled {
		t.Errorf("got %+v, %v", task, err)
	}
	if tasks := <-waited; len(tasks) != 1 || tasks[0].State != perdure.TaskCanceled {
		t.Errorf("the wait returned %+v", tasks)
	}
	close(letGo)
	if err := eng.Sessions().WaitIdle(ctx, root.Call.Session); err != nil {
		t.Error(err)
	}
}

// TestSubagentReadsGrandchild lets a parent wait for a task of its subagent and read its end: the
// end is delivered to its own session, and the parent's turn continues.
func TestSubagentReadsGrandchild(t *testing.T) {
	t.Parallel()
	r := newRig(t, enginetest.Setup{Script: parentOf(freeOne, `  - when: {user_contains: look, last_role: user}
    calls: [{name: list_tasks, args: {}}, {name: check_background_tool, args: {list: true}}]
  - when: {user_contains: look}
    text: "{{last}}"
  - when: {user_contains: piece, not_called: spawn_background}
    calls: [{name: spawn_background, args: {tool: bg_hold, title: its run, args: {}}}]`)})
	r.say("go")
	task := r.subagent(anyTask)
	r.Entered(t, "bg_hold", 1)
	r.say("look")
	shown := r.until(func(f perdure.Fact) bool { d, ok := f.(perdure.ToolCompleted); return ok && d.Name == "list_tasks" }).(perdure.ToolCompleted)
	if !strings.Contains(string(shown.Result.Result), "its run") || !strings.Contains(string(shown.Result.Result), string(task.Links.ChildSession)) {
		t.Errorf("got %s", shown.Result.Result)
	}
	r.Release("bg_hold")
	r.rest()
}

// slowEnd delays the wait of a call: it reads the end of its subagent later.
type slowEnd struct {
	store.Store
	ended chan struct{} // closed when the end is committed
	open  chan struct{}
	shut  atomic.Bool
}

// InTx records the end.
func (s *slowEnd) InTx(ctx context.Context, fn func(store.Tx) error) error {
	var facts []perdure.Fact
	err := s.Store.InTx(ctx, func(tx store.Tx) error {
		spy := &spyTx{Tx: tx}
		err := fn(spy)
		facts = spy.facts
		return err
	})
	if err == nil && toldEnd(facts) && s.shut.CompareAndSwap(false, true) {
		close(s.ended)
	}
	return err
}

// View blocks once the end is committed.
func (s *slowEnd) View(ctx context.Context, fn func(store.Reader) error) error {
	if s.shut.Load() {
		<-s.open
	}
	return s.Store.View(ctx, fn)
}

// TestSubagentEndedAsItsCallLeaves requests to detach a call whose subagent has ended, and which
// has not read that yet: it stays, since its row in the ledger would never be settled.
func TestSubagentEndedAsItsCallLeaves(t *testing.T) {
	t.Parallel()
	slow := &slowEnd{ended: make(chan struct{}), open: make(chan struct{})}
	f := newFamily(t, enginetest.Setup{Script: parentOf(waitOne, childDoes("hold"))}, func(st store.Store) store.Store { slow.Store = st; return slow })
	r := &rig{world: f.world, ctx: f.ctx, t: t}
	r.eng = r.Start(t)
	session, err := r.eng.Sessions().Create(f.ctx, perdure.Agent{})
	if err != nil {
		t.Fatal(err)
	}
	r.id = session.ID
	r.say("go")
	r.Entered(t, "hold", 1)
	key := perdure.CallKey{Session: r.id, Call: r.until(func(f perdure.Fact) bool { _, ok := f.(perdure.ToolStarted); return ok }).(perdure.ToolStarted).CallID}
	r.Release("hold")
	<-slow.ended
	asked := make(chan error, 1) // one answer
	go func() {
		_, err := r.eng.Calls().Detach(r.ctx, key, "user")
		asked <- err
	}()
	// the call may end first: then there is nothing to detach
	time.AfterFunc(50*time.Millisecond, func() { close(slow.open) })
	if err := <-asked; err == nil {
		t.Error("it left its turn")
	}
	r.rest()
	if calls, err := r.eng.Calls().List(r.ctx, r.id); err != nil || len(calls) != 1 || calls[0].State != perdure.CallSettled {
		t.Errorf("the ledger has %+v, %v", calls, err)
	}
}

// TestSubagentsAtRestNeedNoGoroutine pins that a background subagent which waits for a person needs
// no goroutine of its own.
func TestSubagentsAtRestNeedNoGoroutine(t *testing.T) {
	const most = 12
	grown := func(n int) int {
		calls := strings.TrimSuffix(strings.Repeat("{name: spawn_subagent, args: {name: one, task: piece one, background: true}}, ", n), ", ")
		r := newRig(t, enginetest.Setup{Script: parentOf(calls, `  - when: {user_contains: piece, not_called: spawn_background}
    calls: [{name: spawn_background, args: {tool: bg_needs, args: {}}}]
  - when: {user_contains: piece}
    text: "it waits for a person"`)})
		defer r.Kill(t)
		r.say("go")
		for i := range n {
			waits := map[perdure.TaskID]bool{}
			r.until(func(f perdure.Fact) bool {
				if u, ok := f.(perdure.TaskUpdated); ok && u.Task.State == perdure.TaskAwaitingInput {
					waits[u.Task.ID] = true
				}
				return len(waits) > i
			})
		}
		least := runtime.NumGoroutine()
		for range 200 { // drivers are on their way out
			runtime.Gosched()
			time.AfterFunc(0, func() {})
			least = min(least, runtime.NumGoroutine())
		}
		return least
	}
	few, many := grown(1), grown(most)
	if many-few > most/3 {
		t.Errorf("%d goroutines with one subagent, %d with %d", few, many, most)
	}
}

// counting checks the limits of a tree of subagents at every commit.
type counting struct {
	store.Store
	depth, live, total int
	fault              atomic.Value // string: the first breach
	mostLive           atomic.Int64
}

// InTx counts what fn would commit.
func (c *counting) InTx(ctx context.Context, fn func(store.Tx) error) error {
	return c.Store.InTx(ctx, func(tx store.Tx) error {
		if err := fn(tx); err != nil {
			return err
		}
		handles, err := tx.Spawns().List("")
		if err != nil {
			return err
		}
		live := 0
		for _, h := range handles {
			if h.State.Live() {
				live++
			}
			if h.Depth > c.depth {
				c.fault.CompareAndSwap(nil, fmt.Sprintf("a depth of %d", h.Depth))
			}
		}
		if live > c.live || len(handles) > c.total {
			c.fault.CompareAndSwap(nil, fmt.Sprintf("%d live, %d in all", live, len(handles)))
		}
		c.mostLive.Store(max(c.mostLive.Load(), int64(live)))
		return nil
	})
}

// treeScript is a script in which each of a random tree of agents starts those below it.
func treeScript(t *rapid.T) string {
	rules := ""
	var grow func(name string, depth int)
	grow = func(name string, depth int) {
		var calls []string
		for i := range rapid.IntRange(0, 3-depth/2).Draw(t, "below "+name) {
			below := fmt.Sprintf("%s.%d", name, i)
			free := rapid.Bool().Draw(t, below+" in the background")
			calls = append(calls, fmt.Sprintf("{name: spawn_subagent, args: {name: n, task: 'node %s;', background: %t}}", below, free))
			if depth < 3 {
				grow(below, depth+1)
			}
		}
		if len(calls) > 0 {
			rules += fmt.Sprintf("  - when: {user_contains: 'node %s;', not_called: spawn_subagent}\n    calls: [%s]\n", name, strings.Join(calls, ", "))
		}
	}
	grow("0", 0)
	return "rules:\n" + rules + "  - when: {user_contains: nothing at all}\n    text: x\nsteps: [{text: done, repeat: true}]\n"
}

// TestSubagentLimitsHold pins PR12: over random trees, with cancels at random, no limit is exceeded
// at any commit, and in the end none is live.
func TestSubagentLimitsHold(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(rt *rapid.T) {
		st := memory.New(memory.Config{})
		c := &counting{
			Store: st, depth: rapid.IntRange(1, 3).Draw(rt, "depth"), live: rapid.IntRange(1, 6).Draw(rt, "live"), total: rapid.IntRange(1, 12).Draw(rt, "total"),
		}
		m, err := scripted.Parse("tree", []byte(treeScript(rt)))
		if err != nil {
			rt.Fatal(err)
		}
		eng, err := local.Open(t.Context(), local.Config{
			Store: c, Model: m,
			Tools:  tool.NewRegistry(append(background.Tools(background.Config{}), subagent.Tools()...)...),
			Timing: local.Timing{Drain: -1},
			Limits: local.Limits{SubagentDepth: c.depth, SubagentsLive: c.live, SubagentsTotal: c.total},
		})
		if err != nil {
			rt.Fatal(err)
		}
		ctx, stop := context.WithTimeout(context.WithoutCancel(t.Context()), 20*time.Second)
		ended := make(chan error, 1) // one result
		go func() { ended <- eng.Run(ctx) }()
		defer func() { stop(); <-ended }()
		s, err := eng.Sessions().Create(ctx, perdure.Agent{})
		if err == nil {
			_, err = eng.Send(ctx, s.ID, perdure.Text("node 0;"))
		}
		if err != nil {
			rt.Fatal(err)
		}
		dice := rand.New(rand.NewPCG(rapid.Uint64().Draw(rt, "dice"), 0))
		enough := errors.New("at rest")
		_ = eng.Follow(ctx, s.ID, 0, func(f engine.Frame) error { // cancels some, as they come
			if f.Event == nil {
				return nil
			}
			switch fact := f.Event.Fact.(type) {
			case perdure.TaskCreated:
				if dice.IntN(4) == 0 {
					if _, err := eng.Tasks().Cancel(ctx, fact.Task.ID, "user", "enough"); err != nil {
						rt.Errorf("cancel: %v", err)
					}
				}
			case perdure.SessionIdled:
				return enough
			}
			return nil
		})
		if err := eng.Sessions().WaitIdle(ctx, s.ID); err != nil {
			rt.Fatal(err)
		}
		if fault := c.fault.Load(); fault != nil {
			rt.Errorf("limits of %d, %d, %d: %s", c.depth, c.live, c.total, fault)
		}
		err = st.View(ctx, func(r store.Reader) error {
			count, err := r.Spawns().Count(s.ID)
			if err != nil || count.Live != 0 {
				rt.Errorf("in the end: %+v, %v", count, err)
			}
			return err
		})
		if err != nil {
			rt.Error(err)
		}
	})
}

package local_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/engine/local"
	"github.com/perdure/perdure/internal/enginerig"
	"github.com/perdure/perdure/internal/sessionfile"
	"github.com/perdure/perdure/model/scripted"
	"github.com/perdure/perdure/store"
	"github.com/perdure/perdure/store/memory"
	"github.com/perdure/perdure/tool"
	"github.com/perdure/perdure/tool/background"
)

// manyStates spawns a run that reaches each state.
const manyStates = `
rules:
  - when: {last_role: user}
    calls:
      - {name: spawn_background, args: {tool: good, args: {}}}
      - {name: spawn_background, args: {tool: bad, args: {}}}
      - {name: spawn_background, args: {tool: victim, args: {}}}
      - {name: spawn_background, args: {tool: runs, args: {}}}
      - {name: spawn_background, args: {tool: asks, args: {}}}
      - {name: spawn_background, args: {tool: blind, args: {batch: "{{user}}"}}}
      - {name: spawn_background, args: {tool: late, args: {}}}
steps: [{text: it goes on, repeat: true}]
`

// plain is a background tool with a configurable result.
type plain struct {
	name string
	do   func(context.Context, tool.Env) tool.Result
}

func (p plain) Spec() tool.Spec {
	return tool.Spec{Name: p.name, Description: "x", Class: perdure.AtMostOnce, Deadline: 100_000 * time.Hour}
}

func (p plain) Run(ctx context.Context, _ tool.Call, env tool.Env) tool.Result { return p.do(ctx, env) }

func (p plain) RunBackground(ctx context.Context, _ tool.Call, env tool.Env, _ tool.Sink) tool.Result {
	return p.do(ctx, env)
}

// archive is an engine whose clock the test advances, by months, in a bubble.
type archive struct {
	*testing.T
	eng *local.Engine
	id  perdure.SessionID
	end func()
}

// openArchive runs an engine over cfg.Store whose worker beats once an hour.
func openArchive(t *testing.T, script string, cfg local.Config, tools ...tool.Tool) *archive {
	t.Helper()
	m, err := scripted.Parse("law", []byte(script))
	if err != nil {
		t.Fatal(err)
	}
	cfg.Model, cfg.Tools = m, tool.NewRegistry(append(tools, background.Tools(background.Config{})...)...)
	cfg.Workers.Beat, cfg.Workers.Lease, cfg.Timing.Drain, cfg.Limits.SlotsPerSession = time.Hour, 4*time.Hour, -1, 50
	eng, err := local.Open(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.WithoutCancel(t.Context()))
	var group sync.WaitGroup
	group.Go(func() {
		if err := eng.Run(ctx); err != nil {
			t.Errorf("Run: %v", err)
		}
	})
	a := &archive{T: t, eng: eng, end: sync.OnceFunc(func() { stop(); group.Wait() })}
	t.Cleanup(a.end)
	return a
}

func (a *archive) begin() {
	a.Helper()
	s, err := a.eng.Sessions().Create(a.Context(), perdure.Agent{})
	if err != nil {
		a.Fatal(err)
	}
	a.id = s.ID
}

func (a *archive) say(text string) {
	a.Helper()
	if _, err := a.eng.Send(a.Context(), a.id, perdure.Text(text)); err != nil {
		a.Fatal(err)
	}
	synctest.Wait()
}

// pass advances the time.
func (a *archive) pass(d time.Duration) {
	<-time.After(d)
	synctest.Wait()
}

// tasks returns the rows of the session, after comparing them with the fold of its journal (PR2).
func (a *archive) tasks() []perdure.Task {
	a.Helper()
	tasks, err := a.eng.Tasks().List(a.Context(), a.id)
	if err != nil {
		a.Fatal(err)
	}
	folded := perdure.NewSession(a.id)
	for _, e := range a.events() {
		if err := folded.Apply(e); err != nil {
			a.Fatal(err)
		}
	}
	if len(folded.Tasks) != len(tasks) {
		a.Errorf("the journal has %d tasks, the store %d", len(folded.Tasks), len(tasks))
	}
	for _, task := range tasks {
		if got := folded.Tasks[task.ID]; got.State != task.State || got.Delivered != task.Delivered {
			a.Errorf("%s of %s is %s, %s in the journal, and %s, %s in the store", task.ID, task.Tool, got.State, got.Delivered, task.State, task.Delivered)
		}
	}
	return tasks
}

func (a *archive) events() []perdure.Event {
	a.Helper()
	events, err := a.eng.Events(a.Context(), a.id, 0, 0)
	if err != nil {
		a.Fatal(err)
	}
	return events
}

// kept are the tools of the tasks that were spawned before a moment, or after it.
func (a *archive) kept(second time.Time) (former, latter []string) {
	a.Helper()
	for _, task := range a.tasks() {
		if task.CreatedAt.Before(second) {
			former = append(former, task.Tool)
		} else {
			latter = append(latter, task.Tool)
		}
	}
	slices.Sort(former)
	slices.Sort(latter)
	return former, latter
}

// want compares what is kept of both batches.
func (a *archive) want(when string, second time.Time, former, latter []string) {
	a.Helper()
	gotFormer, gotLatter := a.kept(second)
	if diff := cmp.Diff(gotFormer, former); diff != "" {
		a.Errorf("%s, of the first batch (-got +want):\n%s", when, diff)
	}
	if diff := cmp.Diff(gotLatter, latter); diff != "" {
		a.Errorf("%s, of the second batch (-got +want):\n%s", when, diff)
	}
}

// ofStates are the tools of manyStates, of which late ends when it is released.
func ofStates(release <-chan struct{}) []tool.Tool {
	hangs := func(ctx context.Context, _ tool.Env) tool.Result {
		<-ctx.Done()
		return tool.Result{Kind: tool.KindToolError, Text: "ended", ErrorKind: perdure.ErrorCanceled}
	}
	return []tool.Tool{
		plain{"good", func(context.Context, tool.Env) tool.Result { return tool.Success("done") }},
		plain{"bad", func(context.Context, tool.Env) tool.Result { return tool.Error("no") }},
		plain{"victim", hangs}, plain{"runs", hangs},
		plain{"asks", func(ctx context.Context, env tool.Env) tool.Result {
			_, err := env.Dialog.Ask(ctx, tool.Question{Prompt: "which?"})
			return tool.Internal(err)
		}},
		plain{"blind", func(context.Context, tool.Env) tool.Result {
			return tool.Result{Kind: tool.KindInternal, Err: errors.New("cut"), ErrorKind: perdure.ErrorUnknown}
		}},
		plain{"late", func(context.Context, tool.Env) tool.Result { <-release; return tool.Success("at last") }},
	}
}

// batch lets a run reach each state: one is canceled, and the result of one is for the host to
// drain.
func (a *archive) batch(release chan<- struct{}) {
	a.Helper()
	a.say(time.Now().String()) // another text for each batch: the same call is not made again while it is unknown
	for _, task := range a.tasks() {
		switch {
		case !task.State.Live():
		case task.Tool == "victim":
			if _, err := a.eng.Tasks().Cancel(a.Context(), task.ID, "user", ""); err != nil {
				a.Fatal(err)
			}
		case task.Tool == "late":
			if _, err := a.eng.Tasks().SetDelivery(a.Context(), task.ID, perdure.Manual, ""); err != nil {
				a.Fatal(err)
			}
			release <- struct{}{}
		}
	}
	a.pass(time.Minute)
}

// wantStates checks that the states under test have been reached.
func wantStates(a *archive) {
	a.Helper()
	states := map[perdure.TaskState]int{}
	for _, task := range a.tasks() {
		states[task.State]++
	}
	want := map[perdure.TaskState]int{
		perdure.TaskSucceeded: 4, perdure.TaskFailed: 2, perdure.TaskCanceled: 2, perdure.TaskRunning: 2, perdure.TaskAwaitingInput: 2, perdure.TaskUnknown: 2,
	}
	if diff := cmp.Diff(states, want); diff != "" {
		a.Fatalf("states (-got +want):\n%s", diff)
	}
}

// sweeper is a tool that stores something for its calls.
type sweeper struct {
	plain
	clean func(tool.Call) error
}

func (s sweeper) Clean(_ context.Context, call tool.Call) error { return s.clean(call) }

// brittle is the runtime's files of a session, and reports each removal.
type brittle struct {
	tool.Files
	remove func(path string) error
}

func (b brittle) Remove(ctx context.Context, path string, recursive bool) (bool, error) {
	if err := b.remove(path); err != nil {
		return false, err
	}
	return b.Files.Remove(ctx, path, recursive)
}

// TestPrunedWithArtifacts removes a run: its row first, then its files and what its tool stores.
// What a crash between them, or a tool that cannot clean up, leaves behind is removed at the next
// start and the next pass (TK16).
func TestPrunedWithArtifacts(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		st := memory.New(memory.Config{})
		var mu sync.Mutex
		locked := func(do func()) { mu.Lock(); defer mu.Unlock(); do() }
		var steps []string // guarded by mu, as are the next two
		var ofTask perdure.Task
		rows := func() string { // what is left of the rows
			return fmt.Sprint("task ", err0(st, func(r store.Reader) error { _, err := r.Tasks().Get("", ofTask.ID); return err }))
		}
		busy := true
		keeps := sweeper{plain{"bg_note", func(context.Context, tool.Env) tool.Result { return tool.Success("done") }}, func(c tool.Call) error {
			mu.Lock()
			defer mu.Unlock()
			steps = append(steps, fmt.Sprintf("clean %t %d, %s", c.Task == ofTask.ID && c.ID == perdure.CallID(ofTask.Run) && c.Session == ofTask.Session, c.Execution, rows()))
			if busy {
				return errors.New("still in use")
			}
			return nil
		}}
		life := func(remove func(string) error) *archive {
			var commits atomic.Int64
			mortal := enginerig.NewKillableStore(st, &commits, death{})
			files := func(id perdure.SessionID) (tool.Files, tool.Files) {
				return sessionfile.New(mortal, id, false), brittle{sessionfile.New(mortal, id, true), func(path string) error {
					mu.Lock()
					defer mu.Unlock()
					steps = append(steps, fmt.Sprintf("remove %t, %s", path == ofTask.ArtifactDir(), rows()))
					if remove == nil {
						return nil
					}
					mortal.Kill()
					return remove(path)
				}}
			}
			return openArchive(t, spawnOne, local.Config{Store: mortal, Ports: local.Ports{Files: files}}, keeps)
		}
		a := life(func(string) error { return errors.New("the process is dead") })
		a.begin()
		a.say("go")
		a.pass(time.Minute)
		locked(func() { ofTask = a.tasks()[0] })
		dir := func() error {
			return err0(st, func(r store.Reader) error {
				_, err := r.Files().List(ofTask.Session, ofTask.ArtifactDir(), false)
				return err
			})
		}
		if err := dir(); err != nil || ofTask.State != perdure.TaskSucceeded {
			t.Fatalf("%s, %v", ofTask.State, err)
		}
		a.pass(31 * 24 * time.Hour)
		if steps == nil || dir() != nil {
			t.Fatalf("after the crash: %v, %v", steps, dir())
		}
		a.end()
		locked(func() { steps = nil })

		b := life(nil)
		b.id = a.id
		synctest.Wait()
		want := []string{"remove true, task not found", "clean true 1, task not found"}
		if diff := cmp.Diff(steps, want); diff != "" || !errors.Is(dir(), perdure.NotFound) {
			t.Errorf("at the next start (-got +want):\n%s%v", diff, dir())
		}
		locked(func() { busy = false })
		b.pass(90 * time.Minute)
		if diff := cmp.Diff(steps, slices.Concat(want, want)); diff != "" {
			t.Errorf("with the next pass (-got +want):\n%s", diff)
		}
		b.pass(24 * time.Hour)
		if len(steps) != 4 {
			t.Errorf("what is gone was removed again: %v", steps)
		}
		if tasks := b.tasks(); len(tasks) != 0 {
			t.Errorf("%d tasks are left", len(tasks))
		}
	})
}

// err0 is the error of a read of a store, as a kind.
func err0(st store.Store, look func(store.Reader) error) error {
	err := st.View(context.Background(), look)
	if errors.Is(err, perdure.NotFound) {
		return perdure.NotFound
	}
	return err
}

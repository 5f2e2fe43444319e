package effect

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/internal/effect/core"
	"github.com/perdure/perdure/internal/effect/environment"
	"github.com/perdure/perdure/internal/effect/taskrecord"
	"github.com/perdure/perdure/store"
	"github.com/perdure/perdure/store/faulty"
	"github.com/perdure/perdure/tool"
)

// TestStartingTasks misses no cancel between the commit of a start and its work (LN15), and keeps
// nothing afterwards.
func TestStartingTasks(t *testing.T) {
	t.Parallel()
	var s startingTasks
	s.cancel("nobody")
	s.add("calm")
	s.add("canceled")
	s.cancel("canceled")

	if s.drop("nobody") || s.drop("calm") || !s.drop("canceled") || s.drop("canceled") {
		t.Error("a cancel was missed, reported twice, or reported for another task")
	}
	s.add("canceled")
	if s.drop("canceled") || len(s.canceled) != 0 {
		t.Errorf("a cancel of an earlier start is kept, or tasks are: %v", s.canceled)
	}
}

// TestOwnerIsWhatTheFoldSays reads the first event of journals of every release: a run must see the
// agent that the session's own calls see.
func TestOwnerIsWhatTheFoldSays(t *testing.T) {
	t.Parallel()
	journals, err := filepath.Glob(filepath.Join("..", "..", "testdata", "journals", "*.jsonl"))
	if err != nil || len(journals) == 0 {
		t.Fatalf("%d journals, %v", len(journals), err)
	}
	for _, path := range journals {
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		var events []perdure.Event
		for line := range strings.Lines(string(text)) {
			var event perdure.Event
			if err := perdure.DecodeJSON([]byte(line), &event); err != nil {
				t.Fatal(err)
			}
			events = append(events, event)
		}
		fold := perdure.NewSession(events[0].Session)
		for _, event := range events {
			if err := fold.Apply(event); err != nil {
				t.Fatal(err)
			}
		}

		got, err := core.ReadOwner(onlyEvents{events: events}, fold.ID)

		want := core.OwnerOf(fold)
		if err != nil || got.Session != want.Session || !got.Created.Equal(want.Created) ||
			got.Agent.Name != want.Agent.Name ||
			got.Agent.Instructions != want.Agent.Instructions || len(got.Agent.Tools) != len(want.Agent.Tools) {
			t.Errorf("%s: got %+v and %v, want %+v", filepath.Base(path), got, err, want)
		}
	}
}

// onlyEvents reads a journal; it has nothing else.
type onlyEvents struct {
	store.Reader
	events []perdure.Event
}

// onlyEventsJournal overrides a part of one noun.
type onlyEventsJournal struct {
	store.JournalView
	onlyEvents
}

func (o onlyEvents) Journal() store.JournalView { return onlyEventsJournal{nil, o} }

// Events returns the first ones.
func (o onlyEventsJournal) Events(_ perdure.SessionID, _ int64, limit int) ([]perdure.Event, error) {
	return o.events[:limit], nil
}

// TestTakeOverWhoseAnswerWasLost continues with a task whose take-over is stored, although its
// answer was lost (LG5).
func TestTakeOverWhoseAnswerWasLost(t *testing.T) {
	t.Parallel()
	entered := make(chan tool.Env, 1)
	again := tool.NewBackground(tool.Spec{Name: "again", Description: "A fixture.", Class: perdure.Idempotent},
		func(_ context.Context, _ struct{}, env tool.Env) (string, error) {
			entered <- env
			return "ok", nil
		})
	e, id := bed(t, nil, again)
	task := stored(t, e, id, "again")
	claim := perdure.Call{Key: task.LedgerKey(), Task: task.ID, Attempt: 1, Tool: "again", Args: []byte(`{}`),
		Class: perdure.Idempotent, Token: "old"}
	err := e.core.Store.InTx(t.Context(), func(tx store.Tx) error {
		if _, err := tx.Tasks().AppendLog(task.ID, 1, "stdout", []byte("before")); err != nil {
			return err
		}
		_, _, err := tx.Calls().Claim(claim, e.core.WorkerAlive(tx.Reader()))
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	e.core.Store = faulty.New(e.core.Store, faulty.Nth("InTx", 1, faulty.Fault{Act: faulty.DoAndTimeout}))
	e.core.Work = e.core.Store

	n, err := e.TakeOverTasks(t.Context())

	if n != 1 || err != nil {
		t.Fatalf("took over %d, %v", n, err)
	}
	if env := <-entered; env.LogBytes != int64(len("before")+len("attempt 2\n")) { // BG13
		t.Errorf("the log has %d bytes", env.LogBytes)
	}
	e.core.Runner.WaitIdle(t.Context())
	if len(e.starting.canceled) != 0 {
		t.Errorf("left behind: %v", e.starting.canceled)
	}
}

// TestOwnerOfNobody tells a missing session from a missing store.
func TestOwnerOfNobody(t *testing.T) {
	t.Parallel()
	e, _ := bed(t, nil)
	err := e.core.Store.View(t.Context(), func(r store.Reader) error {
		_, err := core.ReadOwner(r, core.NewID[perdure.SessionID]())
		return err
	})
	if !errors.Is(err, perdure.NotFound) {
		t.Errorf("got %v", err)
	}
}

// eager is a store that runs a function once after a commit, before the commit returns.
type eager struct {
	store.Store
	then func()
}

// InTx commits, and then runs the function.
func (s *eager) InTx(ctx context.Context, fn func(store.Tx) error) error {
	err := s.Store.InTx(ctx, fn)
	if then := s.then; then != nil && err == nil {
		s.then = nil
		then()
	}
	return err
}

// TestCancelBeforeTheStart cancels between the commit of a spawn and its work, where no heartbeat
// will repeat the cancel (LN15).
func TestCancelBeforeTheStart(t *testing.T) {
	t.Parallel()
	causes := make(chan error, 1)
	hold := tool.NewBackground(tool.Spec{Name: "hold", Description: "A fixture.", Class: perdure.Idempotent},
		func(ctx context.Context, _ struct{}, _ tool.Env) (string, error) {
			<-ctx.Done()
			causes <- context.Cause(ctx)
			return "", context.Cause(ctx)
		})
	e, id := bed(t, nil, hold)
	st := &eager{Store: e.core.Store}
	e.core.Store, e.core.Work = st, st
	st.then = func() {
		var tasks []perdure.Task
		err := st.View(t.Context(), func(r store.Reader) (err error) {
			tasks, err = r.Tasks().List(store.TaskFilter{Session: id})
			return err
		})
		if err != nil || len(tasks) != 1 {
			t.Fatalf("%d tasks, %v", len(tasks), err)
		}
		if _, err := e.CancelTask(t.Context(), tasks[0].ID, taskrecord.CancelIntent{By: "user"}); err != nil {
			t.Error(err)
		}
	}
	port := &taskPort{e: e, Caller: &environment.Caller{Owner: &core.Owner{Session: id}, Call: "call_1"}}

	_, err := port.Spawn(t.Context(), tool.SpawnRequest{Tool: "hold", Args: []byte(`{}`)})

	if err != nil {
		t.Fatal(err)
	}
	if cause := <-causes; !errors.Is(cause, perdure.CauseCanceled) {
		t.Errorf("it ended with %v", cause)
	}
	e.core.Runner.WaitIdle(t.Context())
}

// slow is a store whose views, once it is slow, end only with their context.
type slow struct {
	store.Store
	now   atomic.Bool
	asked chan struct{} // capacity 1
}

func (s *slow) View(ctx context.Context, fn func(store.Reader) error) error {
	if !s.now.Load() {
		return s.Store.View(ctx, fn)
	}
	s.asked <- struct{}{}
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-time.After(time.Hour):
		return errors.New("nobody ended it")
	}
}

// TestWaitIsFreedWhileItLooks ends waits that are reading the store after an event. The read ends
// with the wait (BG21), and the wait returns what it saw before.
func TestWaitIsFreedWhileItLooks(t *testing.T) {
	t.Parallel()
	for name, wait := range map[string]func(context.Context, *Effects, perdure.Task) ([]perdure.Task, error){
		"wait": func(ctx context.Context, e *Effects, task perdure.Task) ([]perdure.Task, error) {
			port := &taskPort{e: e, Caller: &environment.Caller{Owner: &core.Owner{Session: task.Session}, Call: "call_1"}}
			return port.Wait(ctx, tool.WaitRequest{IDs: []string{string(task.ID)}, Timeout: 2 * time.Hour})
		},
		"subagent": func(ctx context.Context, e *Effects, task perdure.Task) ([]perdure.Task, error) {
			by := &environment.Caller{Owner: &core.Owner{Session: task.Session}, Call: "call_1"}
			port := &agentPort{e: e, Caller: by, tasks: &taskPort{e: e, Caller: by}}
			seen, _, err := port.await(ctx, task.ID)
			return []perdure.Task{seen}, err
		},
		"answer": func(ctx context.Context, e *Effects, task perdure.Task) ([]perdure.Task, error) {
			_, err := e.awaitAnswer(ctx, task, question{id: "q", after: 1})
			return []perdure.Task{task}, err
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				e, id := bed(t, nil)
				task := stored(t, e, id, "x")
				st := &slow{Store: e.core.Store, asked: make(chan struct{}, 1)}
				e.core.Store = st
				ctx, cancel := context.WithCancelCause(t.Context())
				ended, begun := make(chan error, 1), time.Now()
				go func() {
					seen, err := wait(ctx, e, task)
					if len(seen) != 1 || seen[0].ID != task.ID {
						t.Errorf("it saw %v", seen)
					}
					ended <- err
				}()
				synctest.Wait()
				st.now.Store(true)
				err := st.InTx(t.Context(), func(tx store.Tx) error {
					events := []perdure.Event{taskrecord.Event(task, perdure.TaskUpdated{Task: task})}
					core.Stamp(events, tx.Now())
					return tx.Journal().Append(id, events)
				})
				if err != nil {
					t.Fatal(err)
				}
				<-st.asked
				cancel(perdure.CauseInterrupt)
				if err := <-ended; !errors.Is(err, perdure.CauseInterrupt) || time.Since(begun) > time.Minute {
					t.Errorf("it ended with %v, %s after its start", err, time.Since(begun))
				}
				e.core.Runner.Shutdown(context.Background())
			})
		})
	}
}

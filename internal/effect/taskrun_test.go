package effect

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/internal/effect/core"
	"github.com/perdure/perdure/internal/effect/effecttest"
	"github.com/perdure/perdure/internal/effect/environment"
	"github.com/perdure/perdure/internal/effect/taskrecord"
	"github.com/perdure/perdure/store"
	"github.com/perdure/perdure/tool"
)

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
		if _, err := e.tasks.Cancel(t.Context(), tasks[0].ID, taskrecord.CancelIntent{By: "user"}); err != nil {
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
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				e, id := bed(t, nil)
				task := effecttest.Running(t, e.core.Store, id, "x")
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

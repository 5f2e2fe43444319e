package taskport

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/internal/effect/effecttest"
	"github.com/perdure/perdure/internal/effect/taskrecord"
	"github.com/perdure/perdure/internal/effect/taskrun"
	"github.com/perdure/perdure/store"
	"github.com/perdure/perdure/tool"
)

// bed is the tasks of a bed, and the port of a call of its session.
func bed(t *testing.T, b *effecttest.Bed) (*taskrun.Tasks, *Port) {
	t.Helper()
	parts := taskrun.Parts{Core: b.Core, Toolset: b.Toolset, Secrets: b.Secrets, Environment: b.Environment,
		Records: b.Records}
	tasks := taskrun.New(parts, nil)
	return tasks, New(parts, b.Admission, tasks).For(effecttest.Claimed(t, b, "call_1"))
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
	b := effecttest.New(t, nil, hold)
	runs, port := bed(t, b)
	st := &eager{Store: b.Core.Store}
	b.Core.Store, b.Core.Work = st, st
	st.then = func() {
		var tasks []perdure.Task
		err := st.View(t.Context(), func(r store.Reader) (err error) {
			tasks, err = r.Tasks().List(store.TaskFilter{Session: b.Session})
			return err
		})
		if err != nil || len(tasks) != 1 {
			t.Fatalf("%d tasks, %v", len(tasks), err)
		}
		if _, err := runs.Cancel(t.Context(), tasks[0].ID, taskrecord.CancelIntent{By: "user"}); err != nil {
			t.Error(err)
		}
	}

	_, err := port.Spawn(t.Context(), tool.SpawnRequest{Tool: "hold", Args: []byte(`{}`)})

	if err != nil {
		t.Fatal(err)
	}
	if cause := <-causes; !errors.Is(cause, perdure.CauseCanceled) {
		t.Errorf("it ended with %v", cause)
	}
	b.Core.Runner.WaitIdle(t.Context())
}

// TestWaitIsFreedWhileItLooks: a wait for tasks ends while it reads the store (BG21).
func TestWaitIsFreedWhileItLooks(t *testing.T) {
	t.Parallel()
	effecttest.WaitEnds(t, func(b *effecttest.Bed, task perdure.Task) func(context.Context) ([]perdure.Task, error) {
		_, port := bed(t, b)
		return func(ctx context.Context) ([]perdure.Task, error) {
			return port.Wait(ctx, tool.WaitRequest{IDs: []string{string(task.ID)}, Timeout: 2 * time.Hour})
		}
	})
}

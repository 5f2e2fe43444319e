package taskrun

import (
	"context"
	"testing"
	"time"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/internal/effect/effecttest"
	"github.com/perdure/perdure/store"
	"github.com/perdure/perdure/store/faulty"
	"github.com/perdure/perdure/tool"
)

// TestStartingTasks misses no cancel between the commit of a start and its work (LN15), and keeps
// nothing afterwards.
func TestStartingTasks(t *testing.T) {
	t.Parallel()
	var s StartingTasks
	s.cancel(perdure.Task{ID: "nobody"})
	s.Add("calm")
	s.Add("canceled")
	s.cancel(perdure.Task{ID: "canceled"})
	s.Add("forced")
	s.cancel(perdure.Task{ID: "forced", ForceRequestedAt: time.Unix(1, 0)})

	if s.Drop("nobody") || s.Drop("calm") || !s.Drop("canceled") || s.Drop("canceled") {
		t.Error("a cancel was missed, reported twice, or reported for another task")
	}
	if got := s.take("forced"); got != stopAtOnce { // RC21
		t.Errorf("a request for force is taken as %d", got)
	}
	s.Add("canceled")
	if s.Drop("canceled") || len(s.canceled) != 0 {
		t.Errorf("a cancel of an earlier start is kept, or tasks are: %v", s.canceled)
	}
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
	task := effecttest.Running(t, e.core.Store, id, "again")
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

	n, err := e.TakeOver(t.Context(), "")

	if n != 1 || err != nil {
		t.Fatalf("took over %d, %v", n, err)
	}
	if env := <-entered; env.LogBytes != int64(len("before")+len("attempt 2\n")) { // BG13
		t.Errorf("the log has %d bytes", env.LogBytes)
	}
	e.core.Runner.WaitIdle(t.Context())
	if len(e.Starting.canceled) != 0 {
		t.Errorf("left behind: %v", e.Starting.canceled)
	}
}

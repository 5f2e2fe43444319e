package taskrun

import (
	"context"
	"testing"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/internal/effect/core"
	"github.com/perdure/perdure/internal/effect/effecttest"
	"github.com/perdure/perdure/store"
	"github.com/perdure/perdure/tool"
)

// TestExternalAgentIsNotBegunAgain: if its worker is dead and its remote task unknown, an external
// agent is not started a second time, whatever its effect class (RC17).
func TestExternalAgentIsNotBegunAgain(t *testing.T) {
	t.Parallel()
	for class, want := range map[perdure.EffectClass]struct {
		state perdure.TaskState
		kind  perdure.ErrorKind
	}{
		perdure.Pure:       {perdure.TaskFailed, perdure.ErrorOrphaned},
		perdure.Idempotent: {perdure.TaskFailed, perdure.ErrorOrphaned},
		perdure.AtMostOnce: {perdure.TaskUnknown, ""},
	} {
		t.Run(string(class), func(t *testing.T) {
			t.Parallel()
			runs := make(chan struct{}, 1)
			spec := tool.Spec{Name: "elsewhere", Description: "A fixture.", Class: class, ExternalAgent: true}
			e, id := bed(t, nil, tool.NewBackground(spec, func(context.Context, struct{}, tool.Env) (string, error) {
				runs <- struct{}{}
				return "ok", nil
			}))
			task := effecttest.Running(t, e.core.Store, id, "elsewhere")
			err := e.core.Store.InTx(t.Context(), func(tx store.Tx) error {
				left := perdure.Call{Key: task.LedgerKey(), Task: task.ID, Attempt: 1, Tool: task.Tool,
					Args: []byte("{}"), Class: class, Token: core.NewToken(), Worker: "worker_dead"}
				_, _, err := tx.Calls().Claim(left, nil)
				return err
			})
			if err != nil {
				t.Fatal(err)
			}
			task.Kind, task.Class = perdure.KindExternalAgent, class

			if err := e.takeOverTask(t.Context(), task, core.Grant{}); err != nil {
				t.Fatal(err)
			}
			e.core.Group.Wait()

			now, err := e.records.Stored(t.Context(), task)
			var kind perdure.ErrorKind
			if now.Error != nil {
				kind = now.Error.Kind
			}
			if err != nil || now.State != want.state || kind != want.kind || len(runs) != 0 {
				t.Errorf("got %s, %s after %d more runs, %v; want %s, %s", now.State, kind, len(runs), err, want.state,
					want.kind)
			}
		})
	}
}

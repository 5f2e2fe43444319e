package local_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/engine/local"
	"github.com/perdure/perdure/store"
	"github.com/perdure/perdure/store/memory"
	"github.com/perdure/perdure/tool"
)

// stepwise is a store whose transactions each wait until they may begin.
type stepwise struct {
	store.Store
	may chan struct{} // closed: all of them may
}

func (s stepwise) InTx(ctx context.Context, fn func(store.Tx) error) error {
	select {
	case <-s.may:
		return s.Store.InTx(ctx, fn)
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// TestRecoveryOfACrash looks at the list of recoveries between the commits of a start: what was
// taken over from a crashed process is never listed as that of an orderly stop.
func TestRecoveryOfACrash(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		const session = perdure.SessionID("session_1")
		st := stepwise{memory.New(memory.Config{}), make(chan struct{})}
		err := st.Store.InTx(t.Context(), func(tx store.Tx) error {
			if err := tx.Sessions().Create(store.Session{ID: session, Status: perdure.SessionIdle}); err != nil {
				return err
			}
			created := perdure.Event{Session: session, Fact: perdure.SessionCreated{}, At: tx.Now()}
			if err := tx.Journal().Append(session, []perdure.Event{created}); err != nil {
				return err
			}
			if err := tx.Workers().Put(store.Worker{ID: "worker_dead", LeaseUntil: tx.Now()}); err != nil {
				return err
			}
			return addOrphan(tx, session, 0)
		})
		if err != nil {
			t.Fatal(err)
		}
		eng, err := local.Open(t.Context(), local.Config{Store: st, Model: obedient{}, Tools: tool.NewRegistry(never()), Timing: local.Timing{Drain: -1}})
		if err != nil {
			t.Fatal(err)
		}
		ctx, stop := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- eng.Run(ctx) }()

		listed := false
		for range 100 {
			synctest.Wait()
			all, err := eng.Tasks().Recoveries(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			for _, r := range all {
				if listed = true; !r.Crashed {
					t.Fatalf("the recovery is listed as %+v", r)
				}
			}
			select {
			case st.may <- struct{}{}:
			case <-time.After(time.Second): // nothing waits now
			}
		}

		if !listed {
			t.Error("nothing was listed")
		}
		close(st.may)
		stop()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
}

package local_test

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/engine"
	"github.com/perdure/perdure/engine/local"
	"github.com/perdure/perdure/model/scripted"
	"github.com/perdure/perdure/store"
	"github.com/perdure/perdure/store/memory"
	"github.com/perdure/perdure/tool"
)

// bulkDeath is a store that its engine can no longer reach once a bulk has canceled enough tasks.
type bulkDeath struct {
	store.Store
	enough int // canceled tasks; negative: it does not die
	dead   atomic.Bool
}

func (d *bulkDeath) InTx(ctx context.Context, fn func(store.Tx) error) error {
	if d.dead.Load() {
		return perdure.Unavailable
	}
	return d.Store.InTx(ctx, func(tx store.Tx) error {
		if d.dead.Load() {
			return perdure.Unavailable
		}
		if err := fn(tx); err != nil || d.enough < 0 {
			return err
		}
		running, err := tx.Bulks().Running()
		if err != nil || len(running) == 0 {
			return err
		}
		tasks, err := tx.Tasks().List(store.TaskFilter{})
		canceled := 0
		for _, task := range tasks {
			if task.CancelRequested() {
				canceled++
			}
		}
		if canceled >= d.enough {
			d.dead.Store(true) // after this commit
		}
		return err
	})
}

// TestH15BulkResumes kills the process of a bulk right after the commit that acknowledges it, and
// after some of its tasks. The next process cancels the others, and only those that the bulk
// matched (H15).
func TestH15BulkResumes(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		enough int
		shared bool
	}{
		"at_once": {0, false}, "under_way": {7, false}, "at_once_by_another_server": {0, true}, "under_way_by_another_server": {7, true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) { resumesBulk(t, c.enough, c.shared) })
		})
	}
}

func resumesBulk(t *testing.T, enough int, shared bool) {
	t.Helper()
	const all = 20
	st := memory.New(memory.Config{})
	first := &bulkDeath{Store: st, enough: enough}
	eng, stop := waitingEngine(t, first, shared)
	session, err := eng.Sessions().Create(t.Context(), perdure.Agent{})
	if err != nil {
		t.Fatal(err)
	}
	start := func(eng *local.Engine) {
		if _, err := eng.HostCalls().Start(t.Context(), engine.HostCallRequest{Session: session.ID, Tool: "wait"}); err != nil {
			t.Error(err)
		}
	}
	for range all {
		start(eng)
	}
	order := engine.BulkCancel{ID: bulkID, Filter: engine.TaskFilter{Tool: "wait"}, By: "user", Why: "enough"}
	if _, err := eng.Tasks().CancelWhere(t.Context(), order); err != nil {
		t.Fatal(err)
	}
	synctest.Wait()
	stop()
	if !first.dead.Load() {
		t.Fatal("the first process was not killed")
	}

	next, stop := waitingEngine(t, &bulkDeath{Store: st, enough: -1}, shared)
	defer stop()
	start(next) // after the bulk: it does not match
	bulk, err := next.Tasks().Bulk(t.Context(), bulkID)
	for tick := time.Tick(time.Second); bulk.State == engine.BulkRunning && err == nil; {
		<-tick
		bulk, err = next.Tasks().Bulk(t.Context(), bulkID)
	}

	if err != nil || bulk.Matched != all || bulk.Done != all || bulk.Failed != 0 || bulk.EndedAt.IsZero() {
		t.Errorf("got %+v, %v", bulk, err)
	}
	tasks, err := next.Tasks().List(t.Context(), session.ID)
	canceled := 0
	for _, task := range tasks {
		if task.CancelRequested() && task.CancelBy == "user" && task.CancelWhy == "enough" {
			canceled++
		}
	}
	if err != nil || len(tasks) != all+1 || canceled != all {
		t.Errorf("%d of %d tasks were canceled, %v", canceled, len(tasks), err)
	}
}

// waitingEngine runs an engine whose tool runs until it is canceled.
func waitingEngine(t *testing.T, st store.Store, shared bool) (*local.Engine, func()) {
	t.Helper()
	m, err := scripted.Parse("bulk", []byte("steps: [{text: ok, repeat: true}]"))
	if err != nil {
		t.Fatal(err)
	}
	wait := tool.NewBackground(tool.Spec{Name: "wait", Description: "Waits.", Class: perdure.Idempotent}, func(ctx context.Context, _ struct{}, _ tool.Env) (answer, error) {
		<-ctx.Done()
		return answer{}, context.Cause(ctx)
	})
	eng, err := local.Open(context.WithoutCancel(t.Context()), local.Config{Store: st, Model: m, Tools: tool.NewRegistry(wait),
		Limits: local.Limits{SlotsPerSession: 4, QueueLength: 1 << 10}, Timing: local.Timing{Drain: -1}, Workers: local.Workers{Shared: shared}})
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.WithoutCancel(t.Context()))
	ended := make(chan error, 1)
	go func() { ended <- eng.Run(ctx) }()
	synctest.Wait()
	return eng, func() { stop(); <-ended }
}

// TestH15BulksOfOrgs: an org sees its own bulks only, and its ids are its own.
func TestH15BulksOfOrgs(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		eng, stop := waitingEngine(t, memory.New(memory.Config{}), false)
		defer stop()
		one, other := engine.WithOwner(t.Context(), engine.Owner{Org: "one"}), engine.WithOwner(t.Context(), engine.Owner{Org: "other"})
		order := engine.BulkCancel{ID: bulkID, Filter: engine.TaskFilter{Tool: "wait"}, DryRun: true, By: "user"}
		if _, err := eng.Tasks().CancelWhere(one, order); err != nil {
			t.Fatal(err)
		}

		_, unseen := eng.Tasks().Bulk(other, bulkID)
		order.Filter.Tool = "note"
		_, err := eng.Tasks().CancelWhere(other, order)
		_, again := eng.Tasks().CancelWhere(one, order)

		if !errors.Is(unseen, perdure.NotFound) || err != nil || !errors.Is(again, perdure.Conflict) {
			t.Errorf("of another org: %v; its own: %v; the first org again: %v", unseen, err, again)
		}
	})
}

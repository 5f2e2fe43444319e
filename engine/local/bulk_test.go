package local_test

import (
	"context"
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
)

const bulkID = perdure.BulkID("bulk_019aa0000000700080000000000000aa")

// progress records the state of a bulk operation at every write.
type progress struct {
	eng *local.Engine // nil: not open yet

	mu   sync.Mutex
	done []int // guarded by mu: number done, at each write
}

func (p *progress) at(point faulty.Point) faulty.Fault {
	if p.eng == nil || point.Method != "InTx" {
		return faulty.Fault{}
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if b, err := p.eng.Tasks().Bulk(context.Background(), bulkID); err == nil {
		p.done = append(p.done, b.Done)
	}
	return faulty.Fault{}
}

// check wants many records from while the operation ran, and none that decreases.
func (p *progress) check(t *testing.T, all int) {
	t.Helper()
	p.mu.Lock()
	defer p.mu.Unlock()
	between, last := 0, 0
	for _, done := range p.done {
		if done < last {
			t.Errorf("%d were done, and then %d", last, done)
		}
		if last = done; done > 0 && done < all {
			between++
		}
	}
	if between < 100 {
		t.Errorf("it was seen %d times while it was under way", between)
	}
}

// crowded is an engine that does not run yet, with tasks that run until they are canceled.
func crowded(t *testing.T, p *progress, sessions, each int) *local.Engine {
	t.Helper()
	m, err := scripted.Parse("bulk", []byte("steps: [{text: ok, repeat: true}]"))
	if err != nil {
		t.Fatal(err)
	}
	wait := tool.NewBackground(tool.Spec{Name: "wait", Description: "Waits.", Class: perdure.Idempotent}, func(ctx context.Context, _ struct{}, _ tool.Env) (answer, error) {
		<-ctx.Done()
		return answer{}, context.Cause(ctx)
	})
	st := faulty.New(memory.New(memory.Config{}), faulty.Plan{At: p.at})
	t.Cleanup(func() { st.Close() })
	eng, err := local.Open(t.Context(), local.Config{Store: st, Model: m, Tools: tool.NewRegistry(wait), Limits: local.Limits{SlotsPerSession: -1, QueueLength: 1 << 20}, Timing: local.Timing{Drain: -1}})
	if err != nil {
		t.Fatal(err)
	}
	p.eng = eng
	var group sync.WaitGroup
	defer group.Wait()
	for range sessions {
		s, err := eng.Sessions().Create(t.Context(), perdure.Agent{})
		if err != nil {
			t.Fatal(err)
		}
		group.Go(func() {
			for range each {
				if _, err := eng.HostCalls().Start(t.Context(), engine.HostCallRequest{Session: s.ID, Tool: "wait"}); err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	return eng
}

// TestH15Bulk cancels 10,000 tasks, of which 64 run and the others are queued. While the operation
// runs, it reports its progress; when it is done, every task has been canceled. bench/bulk measures
// how long it takes.
func TestH15Bulk(t *testing.T) {
	t.Parallel()
	bulkCancel(t, 10)
}

// bulkCancel cancels a hundred tasks in each of some sessions at once.
func bulkCancel(t *testing.T, sessions int) {
	t.Helper()
	const each = 100
	p := &progress{}
	eng := crowded(t, p, sessions, each)
	ctx, stop := context.WithCancel(context.WithoutCancel(t.Context()))
	ended := make(chan error, 1) // one result
	go func() { ended <- eng.Run(ctx) }()
	defer func() { stop(); <-ended }()

	bulk, err := eng.Tasks().CancelWhere(t.Context(), engine.BulkCancel{ID: bulkID, Filter: engine.TaskFilter{Tool: "wait"}, By: "user"})
	for tick := time.Tick(10 * time.Millisecond); bulk.State == engine.BulkRunning && err == nil; {
		<-tick
		bulk, err = eng.Tasks().Bulk(t.Context(), bulkID)
	}

	if err != nil || bulk.State != engine.BulkDone || bulk.Matched != sessions*each || bulk.Done != sessions*each || bulk.Failed != 0 || bulk.EndedAt.IsZero() {
		t.Fatalf("got %+v, %v", bulk, err)
	}
	p.check(t, bulk.Matched)
	tasks, err := eng.Tasks().List(t.Context(), "")
	asked := 0
	for _, task := range tasks {
		if task.CancelRequested() && task.CancelBy == "user" {
			asked++
		}
	}
	if err != nil || len(tasks) != bulk.Matched || asked != bulk.Matched {
		t.Errorf("of %d tasks %d were asked to end, %v", len(tasks), asked, err)
	}
}

package host

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/engine"
	"github.com/perdure/perdure/internal/effect/core"
	"github.com/perdure/perdure/internal/effect/taskrecord"
)

const (
	bulkWorkers    = 64  // cancels that run at once and share commits
	maxDryRunTasks = 100 // tasks listed by a dry run
	maxBulksPerOrg = 100 // bulks remembered per org
)

// bulks holds the known bulks, oldest first.
type bulks struct {
	mu   sync.Mutex
	list []*bulk // guarded by mu
}

// bulk is one bulk with its progress.
type bulk struct {
	org     string
	request engine.BulkCancel // normalized by meant
	mu      sync.Mutex
	status  engine.Bulk // guarded by mu
}

// normalizeBulk reduces a request to the fields that repeated requests under one id must agree on.
func normalizeBulk(o engine.BulkCancel) engine.BulkCancel {
	if o.OlderThan != 0 {
		o.Filter.Before = time.Time{}
	}
	o.Filter.Before = o.Filter.Before.UTC()
	return engine.BulkCancel{Filter: o.Filter, OlderThan: o.OlderThan, DryRun: o.DryRun}
}

// matches reports whether a request is a repetition of this bulk.
func (b *bulk) matches(o engine.BulkCancel) bool {
	one, other := b.request, normalizeBulk(o)
	return one.Filter == other.Filter && one.OlderThan == other.OlderThan && one.DryRun == other.DryRun
}

func (b *bulk) now() engine.Bulk {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.status
}

// count records the result for one task.
func (b *bulk) count(err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if err == nil {
		b.status.Done++
		return
	}
	b.status.Failed++
	b.status.Error = cmp.Or(b.status.Error, err.Error())
}

// end records that the bulk has ended.
func (b *bulk) end(state engine.BulkState) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.status.State, b.status.EndedAt = state, time.Now().UTC()
}

// find returns a known bulk of the caller's org. Otherwise it adds a new one, unless begin is nil.
func (l *bulks) find(ctx context.Context, id perdure.BulkID, begin func() *bulk) (b *bulk, known bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	owner, one := engine.OwnerFromContext(ctx)
	for _, b := range l.list {
		if b.now().ID == id && (!one || b.org == owner.Org) {
			return b, true
		}
	}
	if begin == nil {
		return nil, false
	}
	b = begin()
	b.org = owner.Org
	oldest, kept := -1, 0
	for i, other := range l.list {
		if other.org != b.org {
			continue
		}
		if kept++; oldest < 0 {
			oldest = i
		}
	}
	if kept >= maxBulksPerOrg {
		l.list = slices.Delete(l.list, oldest, oldest+1)
	}
	l.list = append(l.list, b)
	return b, false
}

func (e hostTasks) CancelWhere(ctx context.Context, o engine.BulkCancel) (engine.Bulk, error) {
	id := cmp.Or(o.ID, core.NewID[perdure.BulkID]())
	if _, err := perdure.ParseID[perdure.BulkID](string(id)); err != nil {
		return engine.Bulk{}, fmt.Errorf("cancel tasks: %w", err)
	}
	all, err := e.Tasks().List(ctx, o.Filter.Session)
	if err != nil {
		return engine.Bulk{}, fmt.Errorf("cancel tasks: %w", err)
	}
	var matched []perdure.TaskID
	for _, t := range all {
		if t.State.Live() && o.Filter.Matches(t) && (o.AllowedSessions == nil || o.AllowedSessions[t.Session]) {
			matched = append(matched, t.ID)
		}
	}
	b, known := e.bulks.find(ctx, id, func() *bulk {
		made := engine.Bulk{
			ID: id, Action: "tasks:cancel", State: engine.BulkRunning, DryRun: o.DryRun, Matched: len(matched),
			BeganAt: time.Now().UTC(),
		}
		if o.DryRun {
			made.State, made.EndedAt, made.Tasks = engine.BulkDone, made.BeganAt, matched[:min(len(matched), maxDryRunTasks)]
		}
		return &bulk{request: normalizeBulk(o), status: made}
	})
	if known && !b.matches(o) {
		return engine.Bulk{}, fmt.Errorf("cancel tasks: bulk %s: %w: this id was used for another request; "+
			"use another id", id, perdure.Conflict)
	}
	if known || o.DryRun {
		return b.now(), nil
	}
	wish := taskrecord.CancelIntent{By: o.By, Why: o.Why}
	if !e.scheduler.Go(func(ctx context.Context) { e.cancelMany(ctx, b, matched, wish) }) {
		// without Run, nothing would wait for the goroutine
		e.cancelMany(ctx, b, matched, wish)
	}
	return b.now(), nil
}

// cancelMany cancels the tasks, many at once, until ctx ends. The youngest come first: otherwise
// queued tasks would start in the slots of the cancelled ones.
func (e hostTasks) cancelMany(ctx context.Context, b *bulk, tasks []perdure.TaskID, wish taskrecord.CancelIntent) {
	next := make(chan perdure.TaskID)
	var group sync.WaitGroup
	for range min(bulkWorkers, len(tasks)) {
		group.Go(func() {
			for id := range next {
				_, err := e.effects.Tasks().Cancel(ctx, id, wish)
				b.count(err)
			}
		})
	}
	state := engine.BulkDone
	for _, id := range slices.Backward(tasks) {
		select {
		case next <- id:
			continue
		case <-ctx.Done():
			state = engine.BulkStopped
		}
		break
	}
	close(next)
	group.Wait()
	b.end(state)
}

func (e hostTasks) Bulk(ctx context.Context, id perdure.BulkID) (engine.Bulk, error) {
	b, known := e.bulks.find(ctx, id, nil)
	if !known {
		return engine.Bulk{}, fmt.Errorf("bulk %s: %w", id, perdure.NotFound)
	}
	return b.now(), nil
}

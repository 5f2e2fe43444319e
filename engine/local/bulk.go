package local

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/engine"
	"github.com/perdure/perdure/internal/effect"
)

const (
	bulkWorkers = 64  // wishes that are written at once: they share commits
	bulkNamed   = 100 // tasks that a dry run names
	bulksKept   = 100 // bulks of each org that are known
)

// bulks is what was done to many, the oldest first.
type bulks struct {
	mu   sync.Mutex
	list []*bulk // guarded by mu
}

// bulk is one of them.
type bulk struct {
	org   string            // whose it is
	asked engine.BulkCancel // what matters of it: see meant
	mu    sync.Mutex
	was   engine.Bulk // guarded by mu
}

// meant is what two who ask under one id must agree in.
func meant(o engine.BulkCancel) engine.BulkCancel {
	if o.Older != 0 {
		o.Filter.Before = time.Time{}
	}
	o.Filter.Before = o.Filter.Before.UTC()
	return engine.BulkCancel{Filter: o.Filter, Older: o.Older, DryRun: o.DryRun}
}

// agrees reports whether somebody else asks for this bulk.
func (b *bulk) agrees(o engine.BulkCancel) bool {
	one, other := b.asked, meant(o)
	return one.Filter == other.Filter && one.Older == other.Older && one.DryRun == other.DryRun
}

func (b *bulk) now() engine.Bulk {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.was
}

// count notes how one of many went.
func (b *bulk) count(err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if err == nil {
		b.was.Done++
		return
	}
	b.was.Failed++
	b.was.Error = cmp.Or(b.was.Error, err.Error())
}

// end notes that no more is done.
func (b *bulk) end(state engine.BulkState) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.was.State, b.was.EndedAt = state, time.Now().UTC()
}

// find returns a bulk, or, when it is not known, notes a new one. Another org's is not known.
func (l *bulks) find(ctx context.Context, id perdure.BulkID, begin func() *bulk) (b *bulk, known bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	owner, one := engine.OwnerOf(ctx)
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
	if kept >= bulksKept {
		l.list = slices.Delete(l.list, oldest, oldest+1)
	}
	l.list = append(l.list, b)
	return b, false
}

// CancelWhere asks for the end of many tasks.
func (e *Engine) CancelWhere(ctx context.Context, o engine.BulkCancel) (engine.Bulk, error) {
	id := cmp.Or(o.ID, effect.NewID[perdure.BulkID]())
	if _, err := perdure.ParseID[perdure.BulkID](string(id)); err != nil {
		return engine.Bulk{}, fmt.Errorf("cancel tasks: %w", err)
	}
	all, err := e.Tasks(ctx, o.Filter.Session)
	if err != nil {
		return engine.Bulk{}, fmt.Errorf("cancel tasks: %w", err)
	}
	var matched []perdure.TaskID
	for _, t := range all {
		if t.State.Live() && o.Filter.Matches(t) && (o.Of == nil || o.Of[t.Session]) {
			matched = append(matched, t.ID)
		}
	}
	b, known := e.bulks.find(ctx, id, func() *bulk {
		made := engine.Bulk{ID: id, Action: "tasks:cancel", State: engine.BulkRunning, DryRun: o.DryRun, Matched: len(matched), BeganAt: time.Now().UTC()}
		if o.DryRun {
			made.State, made.EndedAt, made.Tasks = engine.BulkDone, made.BeganAt, matched[:min(len(matched), bulkNamed)]
		}
		return &bulk{asked: meant(o), was: made}
	})
	if known && !b.agrees(o) {
		return engine.Bulk{}, fmt.Errorf("cancel tasks: bulk %s: %w: under this id it was asked otherwise; use another id", id, perdure.Conflict)
	}
	if known || o.DryRun {
		return b.now(), nil
	}
	wish := effect.CancelWish{By: o.By, Why: o.Why}
	e.mu.Lock()
	works, runCtx := e.running, e.ctx
	if works {
		e.group.Go(func() { e.cancelMany(runCtx, b, matched, wish) })
	}
	e.mu.Unlock()
	if !works { // nobody would wait for it
		e.cancelMany(ctx, b, matched, wish)
	}
	return b.now(), nil
}

// cancelMany asks each, many at once, until ctx ends. The youngest come first: they wait for the places of the others, and
// would start in them.
func (e *Engine) cancelMany(ctx context.Context, b *bulk, tasks []perdure.TaskID, wish effect.CancelWish) {
	next := make(chan perdure.TaskID)
	var group sync.WaitGroup
	for range min(bulkWorkers, len(tasks)) {
		group.Go(func() {
			for id := range next {
				_, err := e.effects.CancelTask(ctx, id, wish)
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

// Bulk returns a bulk as it stands.
func (e *Engine) Bulk(ctx context.Context, id perdure.BulkID) (engine.Bulk, error) {
	b, known := e.bulks.find(ctx, id, nil)
	if !known {
		return engine.Bulk{}, fmt.Errorf("bulk %s: %w", id, perdure.NotFound)
	}
	return b.now(), nil
}

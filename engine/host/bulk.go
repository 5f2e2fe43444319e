package host

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/engine"
	"github.com/perdure/perdure/internal/effect/core"
	"github.com/perdure/perdure/internal/effect/taskrecord"
	"github.com/perdure/perdure/store"
)

const (
	bulkWorkers    = 64          // cancels that run at once and share commits
	maxDryRunTasks = 100         // tasks listed by a dry run
	bulkPause      = time.Second // before the end of a bulk that was not recorded is recorded again
)

// bulkPlan is what a bulk does; it is stored with the bulk until it has ended.
type bulkPlan struct {
	Tasks  []perdure.TaskID        `json:"tasks"`
	Cancel taskrecord.CancelIntent `json:"cancel"`
}

// bulkRequest reduces a request to what repeated requests under one id must agree on.
func bulkRequest(o engine.BulkCancel) ([]byte, error) {
	if o.OlderThan != 0 {
		o.Filter.Before = time.Time{}
	}
	o.Filter.Before = o.Filter.Before.UTC()
	return json.Marshal(struct {
		Filter    engine.TaskFilter `json:"filter"`
		OlderThan time.Duration     `json:"older_than_ns,omitempty"`
		DryRun    bool              `json:"dry_run,omitempty"`
	}{o.Filter, o.OlderThan, o.DryRun})
}

// statusOf is the state of a bulk for callers.
func statusOf(b store.Bulk) (engine.Bulk, error) {
	var status engine.Bulk
	if err := json.Unmarshal(b.Progress, &status); err != nil {
		return status, fmt.Errorf("bulk %s: %w: decode its progress: %w", b.ID, perdure.Storage, err)
	}
	status.BeganAt, status.EndedAt, status.State = b.BeganAt, b.EndedAt, engine.BulkRunning
	if !b.EndedAt.IsZero() {
		status.State = engine.BulkDone
	}
	return status, nil
}

// findBulk reads a bulk of the caller's org. NotFound: there is none.
func findBulk(ctx context.Context, r store.Reader, id perdure.BulkID) (store.Bulk, error) {
	found, err := r.Bulks().List(id)
	if err != nil {
		return store.Bulk{}, err
	}
	owner, one := engine.OwnerFromContext(ctx)
	for _, b := range found {
		if !one || b.Org == owner.Org {
			return b, nil
		}
	}
	return store.Bulk{}, fmt.Errorf("bulk %s: %w", id, perdure.NotFound)
}

// Bulk returns the progress of a bulk, whichever process carries it out.
func (e hostTasks) Bulk(ctx context.Context, id perdure.BulkID) (engine.Bulk, error) {
	if _, err := perdure.ParseID[perdure.BulkID](string(id)); err != nil {
		return engine.Bulk{}, fmt.Errorf("bulk %s: %w", id, perdure.NotFound)
	}
	b, err := store.Read(ctx, e.cfg.Store, func(r store.Reader) (store.Bulk, error) { return findBulk(ctx, r, id) })
	if err != nil {
		return engine.Bulk{}, err
	}
	return statusOf(b)
}

// CancelWhere stores a bulk with the tasks that match now, and starts to cancel them. Another
// request with its id changes nothing.
func (e hostTasks) CancelWhere(ctx context.Context, o engine.BulkCancel) (engine.Bulk, error) {
	made, known, err := e.createBulk(ctx, o)
	if err != nil {
		return engine.Bulk{}, fmt.Errorf("cancel tasks: %w", err)
	}
	switch {
	case !made.EndedAt.IsZero():
	case known && made.Worker == e.worker: // it does not run if only the answer of its commit was lost
		e.resumeBulk(ctx, made)
	case !known && !e.startBulk(made): // without Run, nothing would wait for a goroutine
		e.carryOut(ctx, made)
		return e.Tasks().Bulk(ctx, made.ID)
	}
	return statusOf(made)
}

// createBulk stores a bulk, unless there is one with its id.
func (e hostTasks) createBulk(ctx context.Context, o engine.BulkCancel) (made store.Bulk, known bool, err error) {
	owner, _ := engine.OwnerFromContext(ctx)
	made = store.Bulk{Org: owner.Org, ID: cmp.Or(o.ID, core.NewID[perdure.BulkID]()), Worker: e.worker}
	if _, err := perdure.ParseID[perdure.BulkID](string(made.ID)); err != nil {
		return made, false, err
	}
	if made.Request, err = bulkRequest(o); err != nil {
		return made, false, err
	}
	all, err := e.Tasks().List(ctx, o.Filter.Session)
	if err != nil {
		return made, false, err
	}
	plan := bulkPlan{Cancel: taskrecord.CancelIntent{By: o.By, Why: o.Why}}
	for _, t := range all {
		if t.State.Live() && o.Filter.Matches(t) && (o.AllowedSessions == nil || o.AllowedSessions[t.Session]) {
			plan.Tasks = append(plan.Tasks, t.ID)
		}
	}
	status := engine.Bulk{ID: made.ID, Action: "tasks:cancel", DryRun: o.DryRun, Matched: len(plan.Tasks)}
	if o.DryRun {
		status.Tasks, plan.Tasks = plan.Tasks[:min(len(plan.Tasks), maxDryRunTasks)], nil
	}
	made.Plan, err = json.Marshal(plan)
	if err == nil {
		made.Progress, err = json.Marshal(status)
	}
	if err != nil {
		return made, false, err
	}
	return e.insertBulk(ctx, made, o.DryRun)
}

// insertBulk is the commit of createBulk. Conflict: the id was used for another request.
func (e hostTasks) insertBulk(ctx context.Context, made store.Bulk, ended bool) (stored store.Bulk, known bool, err error) {
	insert := func(tx store.Tx) error {
		found, err := findBulk(ctx, tx.Reader(), made.ID)
		if known = err == nil; known {
			stored = found
			return nil
		}
		if !errors.Is(err, perdure.NotFound) {
			return err
		}
		stored, stored.BeganAt = made, tx.Now()
		if ended {
			stored.EndedAt = stored.BeganAt
		}
		return tx.Bulks().Create(made, ended)
	}
	err = e.cfg.Store.InTx(ctx, insert)
	if errors.Is(err, perdure.Conflict) { // another request has created it meanwhile
		err = e.cfg.Store.InTx(ctx, insert)
	}
	if err == nil && known && string(stored.Request) != string(made.Request) {
		err = fmt.Errorf("bulk %s: %w: this id was used for another request; use another id", made.ID, perdure.Conflict)
	}
	return stored, known, err
}

// ResumeBulks continues the bulks of dead workers, and those of this worker that it does not carry
// out.
func (e *Host) ResumeBulks(ctx context.Context) error {
	var left []store.Bulk
	err := e.view(ctx, func(r store.Reader) error {
		left = nil
		running, err := r.Bulks().Running()
		for _, b := range running {
			if b.Worker == e.worker || !e.workerAlive(r, b.Worker) {
				left = append(left, b)
			}
		}
		return err
	})
	for _, b := range left {
		hostTasks{e}.resumeBulk(ctx, b)
	}
	if err != nil {
		return fmt.Errorf("resume bulks: %w", err)
	}
	return nil
}

// workerAlive reports whether another worker is alive. On a store that is not shared there is none.
func (e *Host) workerAlive(r store.Reader, id perdure.WorkerID) bool {
	if !e.cfg.Workers.Shared {
		return false
	}
	w, err := r.Workers().Get(id)
	return err != nil && !errors.Is(err, perdure.NotFound) || err == nil && w.LeaseUntil.After(r.Now())
}

// resumeBulk takes a bulk, unless this process carries it out, and starts it.
func (e hostTasks) resumeBulk(ctx context.Context, b store.Bulk) {
	if _, runs := e.bulks.Load(bulkOf(b)); runs {
		return
	}
	err := e.cfg.Store.InTx(ctx, func(tx store.Tx) error {
		if err := e.Fence(tx.Reader()); err != nil {
			return err
		}
		if err := tx.Bulks().Take(b, e.worker); err != nil {
			return err
		}
		running, err := tx.Bulks().Running() // with its plan, which a list does not have
		for _, one := range running {
			if bulkOf(one) == bulkOf(b) {
				b = one
			}
		}
		return err
	})
	switch {
	case err == nil:
		e.startBulk(b)
	case !errors.Is(err, perdure.Lost) && !errors.Is(err, perdure.NotFound) && ctx.Err() == nil:
		e.cfg.Log.Warn("bulk not resumed, will retry", "bulk", b.ID, "error", err)
	}
}

// bulkKey identifies a bulk.
type bulkKey struct {
	org string
	id  perdure.BulkID
}

func bulkOf(b store.Bulk) bulkKey { return bulkKey{b.Org, b.ID} }

// startBulk carries out a bulk in a goroutine. false: the engine does not run.
func (e hostTasks) startBulk(b store.Bulk) bool {
	return e.scheduler.Go(func(ctx context.Context) { e.carryOut(ctx, b) })
}

// carryOut carries out a bulk, unless this process does so already.
func (e hostTasks) carryOut(ctx context.Context, b store.Bulk) {
	if _, runs := e.bulks.LoadOrStore(bulkOf(b), true); runs {
		return
	}
	defer e.bulks.Delete(bulkOf(b))
	e.cancelMany(ctx, b)
}

// bulkProgress counts what a bulk has done.
type bulkProgress struct {
	mu     sync.Mutex
	status engine.Bulk   // guarded by mu
	moved  chan struct{} // capacity 1: one signal may cover many tasks
}

// count records the result for one task.
func (p *bulkProgress) count(err error) {
	p.mu.Lock()
	if err == nil {
		p.status.Done++
	} else {
		p.status.Failed++
		p.status.Error = cmp.Or(p.status.Error, err.Error())
	}
	p.mu.Unlock()
	select {
	case p.moved <- struct{}{}:
	default:
	}
}

// save writes the progress into the row of a bulk.
func (p *bulkProgress) save(ctx context.Context, e *Host, b store.Bulk, ended bool) error {
	p.mu.Lock()
	text, err := json.Marshal(p.status)
	p.mu.Unlock()
	if err != nil {
		return err
	}
	b.Progress = text
	return e.cfg.Store.InTx(ctx, func(tx store.Tx) error { return tx.Bulks().Save(b, ended) })
}

// cancelMany cancels the tasks of a bulk, many at once. If ctx ends first, the next process
// continues. The youngest tasks come first: otherwise queued tasks would start in the slots of the
// cancelled ones.
func (e hostTasks) cancelMany(ctx context.Context, b store.Bulk) {
	var plan bulkPlan
	status, err := statusOf(b)
	if err == nil {
		err = json.Unmarshal(b.Plan, &plan)
	}
	p := &bulkProgress{status: status, moved: make(chan struct{}, 1)}
	p.status.Done, p.status.Failed, p.status.Error = 0, 0, ""
	if err == nil && status.Done+status.Failed > 0 { // another process has begun it
		plan.Tasks, err = e.notYetCanceled(ctx, plan.Tasks)
		p.status.Done = p.status.Matched - len(plan.Tasks)
	}
	if err != nil {
		e.cfg.Log.Error("bulk not carried out", "bulk", b.ID, "error", err)
		return
	}
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	var saver, group sync.WaitGroup
	finished := make(chan struct{})
	saver.Go(func() {
		for {
			select {
			case <-finished:
				return
			case <-p.moved:
			}
			if err := p.save(ctx, e.Host, b, false); errors.Is(err, perdure.Lost) || errors.Is(err, perdure.NotFound) {
				stop() // another worker carries it out
				return
			} // after other errors the next save has the whole progress
		}
	})
	next := make(chan perdure.TaskID)
	for range min(bulkWorkers, len(plan.Tasks)) {
		group.Go(func() {
			for id := range next {
				_, err := e.effects.Tasks().Cancel(ctx, id, plan.Cancel)
				p.count(err)
			}
		})
	}
	for _, id := range slices.Backward(plan.Tasks) {
		select {
		case next <- id:
			continue
		case <-ctx.Done():
		}
		break
	}
	close(next)
	group.Wait()
	close(finished)
	saver.Wait()
	for ctx.Err() == nil {
		err := p.save(ctx, e.Host, b, true)
		if err == nil || core.IsFinal(err) || !core.Wait(ctx, bulkPause) {
			return
		}
	}
}

// notYetCanceled returns the tasks that are live and not requested to end.
func (e hostTasks) notYetCanceled(ctx context.Context, ids []perdure.TaskID) (left []perdure.TaskID, err error) {
	all, err := e.Tasks().List(ctx, "")
	if err != nil {
		return nil, err
	}
	live := map[perdure.TaskID]bool{}
	for _, t := range all {
		live[t.ID] = t.State.Live() && !t.CancelRequested()
	}
	for _, id := range ids {
		if live[id] {
			left = append(left, id)
		}
	}
	return left, nil
}

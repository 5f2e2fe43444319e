package local_test

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/store"
)

// office is one store that several workers share. It sees every commit in order, and knows the
// owners: a write to something that another worker has taken over is stale.
type office struct {
	mu    sync.Mutex
	owner map[string]string // guarded by mu; the last worker that took a session, a task or a call, by key
	free  map[string]bool   // guarded by mu; released sessions: their last owner is the last that may have written
	runs  map[string]string // guarded by mu; the key of a task, by its artifact directory
	wrong []string          // guarded by mu

	workers map[string]perdure.WorkerID // guarded by mu; by the name of its desk
	unsure  bool                        // a dead worker may continue, because the test does that
}

func newOffice() *office {
	return &office{owner: map[string]string{}, free: map[string]bool{}, runs: map[string]string{}, workers: map[string]perdure.WorkerID{}}
}

func (o *office) problems() []string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.wrong
}

// desk is the handle of one worker. It can be frozen as SIGSTOP would freeze its process: every
// goroutine that calls the store, or a tool, blocks until it is thawed.
type desk struct {
	store.Store
	office *office
	name   string
	spy    spyConfig
	mute   atomic.Bool // what it publishes is lost

	mu     sync.Mutex
	ice    chan struct{}    // guarded by mu; nil: nothing is frozen. Closed by thaw
	hit    chan struct{}    // closed when it froze
	n      int              // guarded by mu; transactions
	point  int              // guarded by mu; the transaction at which it freezes; 0: none
	after  bool             // it freezes after the commit, before its answer
	worker perdure.WorkerID // guarded by mu
}

// spyConfig names the fences that are removed, to test what the others prevent.
type spyConfig struct {
	unleased bool // the worker's own lease is always valid
	unfenced bool // every epoch passes
}

func (o *office) desk(name string, st store.Store, point int, after bool) *desk {
	return &desk{Store: st, office: o, name: name, hit: make(chan struct{}), point: point, after: after}
}

func (d *desk) freeze() {
	d.mu.Lock()
	defer d.mu.Unlock()
	select {
	case <-d.hit: // a worker freezes once
	default:
		close(d.hit)
		d.ice = make(chan struct{})
	}
}

func (d *desk) thaw() {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.ice != nil {
		close(d.ice)
		d.ice = nil
	}
}

// stand blocks while the desk is frozen.
func (d *desk) stand() {
	for {
		d.mu.Lock()
		ice := d.ice
		d.mu.Unlock()
		if ice == nil {
			return
		}
		<-ice
	}
}

func (d *desk) InTx(ctx context.Context, fn func(store.Tx) error) error {
	d.stand()
	d.mu.Lock()
	d.n++
	now := d.n == d.point
	d.mu.Unlock()
	if now && !d.after {
		d.freeze()
		d.stand()
	}
	err := d.Store.InTx(ctx, func(tx store.Tx) error {
		spy := &seenTx{Tx: tx, d: d}
		if err := fn(spy); err != nil {
			return err
		}
		spy.committed()
		return nil
	})
	if now && d.after {
		d.freeze()
	}
	d.stand()
	return err
}

func (d *desk) View(ctx context.Context, fn func(store.Reader) error) error {
	d.stand()
	err := d.Store.View(ctx, fn)
	d.stand()
	return err
}

func (d *desk) Watch(ctx context.Context, id perdure.SessionID, after int64, fn func(store.Frame) error) error {
	d.stand()
	return d.Store.Watch(ctx, id, after, func(f store.Frame) error {
		d.stand()
		return fn(f)
	})
}

func (d *desk) Publish(f store.Frame) {
	d.stand()
	if !d.mute.Load() {
		d.Store.Publish(f)
	}
}

// seenTx records the writes of a transaction.
type seenTx struct {
	store.Tx
	d      *desk
	takes  []string // keys that it takes over
	writes []writeStored

	released string // a session; empty: none
}

// seenTxWorkers overrides a part of one noun.
type seenTxWorkers struct {
	store.Workers
	*seenTx
}

func (s *seenTx) Workers() store.Workers { return seenTxWorkers{s.Tx.Workers(), s} }

// seenTxSessions overrides a part of one noun.
type seenTxSessions struct {
	store.Sessions
	*seenTx
}

func (s *seenTx) Sessions() store.Sessions { return seenTxSessions{s.Tx.Sessions(), s} }

// seenTxJournal overrides a part of one noun.
type seenTxJournal struct {
	store.Journal
	*seenTx
}

func (s *seenTx) Journal() store.Journal { return seenTxJournal{s.Tx.Journal(), s} }

// seenTxTasks overrides a part of one noun.
type seenTxTasks struct {
	store.Tasks
	*seenTx
}

func (s *seenTx) Tasks() store.Tasks { return seenTxTasks{s.Tx.Tasks(), s} }

// seenTxCalls overrides a part of one noun.
type seenTxCalls struct {
	store.Calls
	*seenTx
}

func (s *seenTx) Calls() store.Calls { return seenTxCalls{s.Tx.Calls(), s} }

// seenTxFiles overrides a part of one noun.
type seenTxFiles struct {
	store.Files
	*seenTx
}

func (s *seenTx) Files() store.Files { return seenTxFiles{s.Tx.Files(), s} }

// seenTxReader reads what the transaction shows.
type seenTxReader struct {
	store.Reader
	tx *seenTx
}

func (s *seenTx) Reader() store.Reader { return seenTxReader{s.Tx.Reader(), s} }

func (r seenTxReader) Workers() store.WorkerReader { return r.tx.Workers() }

func (r seenTxReader) Sessions() store.SessionsView { return r.tx.Sessions() }

func (r seenTxReader) Journal() store.JournalView { return r.tx.Journal() }

func (r seenTxReader) Tasks() store.TaskReader { return r.tx.Tasks() }

func (r seenTxReader) Calls() store.CallReader { return r.tx.Calls() }

func (r seenTxReader) Files() store.FileReader { return r.tx.Files() }

// writeStored is one write, with the ownership that it needs.
type writeStored struct{ key, what string }

func (s *seenTx) note(key, format string, args ...any) {
	s.writes = append(s.writes, writeStored{key, fmt.Sprintf(format, args...)})
}

// committed checks the writes, in commit order: nothing else is committed meanwhile.
func (s *seenTx) committed() {
	o := s.d.office
	o.mu.Lock()
	defer o.mu.Unlock()
	s.d.mu.Lock()
	worker, unleased := s.d.worker, s.d.spy.unleased
	s.d.mu.Unlock()
	row, err := s.Tx.Workers().Get(worker)
	dead := worker != "" && (err != nil || !row.LeaseUntil.After(s.Now()))
	for _, key := range s.takes {
		if dead && !unleased {
			o.wrong = append(o.wrong, fmt.Sprintf("%s takes %s with a lease that has passed", s.d.name, key))
		}
		if owner := o.owner[key]; owner != s.d.name && !o.free[key] && strings.HasPrefix(key, "session_") && o.lives(s.Tx.Reader(), owner) {
			o.wrong = append(o.wrong, fmt.Sprintf("%s takes %s from %s, which lives", s.d.name, key, owner))
		}
		o.owner[key], o.free[key] = s.d.name, false
	}
	for _, w := range s.writes {
		if owner := o.owner[w.key]; owner != "" && owner != s.d.name {
			o.wrong = append(o.wrong, fmt.Sprintf("%s writes %s, which %s has: %s", s.d.name, w.key, owner, w.what))
		}
		if dead && !unleased {
			o.wrong = append(o.wrong, fmt.Sprintf("%s writes %s with a lease that has passed: %s", s.d.name, w.key, w.what))
		}
	}
	if s.released != "" {
		o.free[s.released] = true
	}
}

// lives reports whether the worker that drives a session is alive. The caller holds mu.
func (o *office) lives(r store.Reader, name string) bool {
	row, err := r.Workers().Get(o.workers[name])
	return err == nil && row.LeaseUntil.After(r.Now()) && !o.unsure
}

func (s seenTxWorkers) Put(w store.Worker) error {
	s.d.mu.Lock()
	s.d.worker = w.ID
	s.d.mu.Unlock()
	s.d.office.mu.Lock()
	s.d.office.workers[s.d.name] = w.ID
	s.d.office.mu.Unlock()
	return s.Workers.Put(w)
}

func (s seenTxWorkers) Get(id perdure.WorkerID) (store.Worker, error) {
	w, err := s.Workers.Get(id)
	s.d.mu.Lock()
	defer s.d.mu.Unlock()
	if s.d.spy.unleased && id == s.d.worker {
		w, err = store.Worker{ID: id, LeaseUntil: s.Now().Add(time.Hour)}, nil
	}
	return w, err
}

func (s seenTxSessions) Lock(id perdure.SessionID, epoch int64) (int64, error) {
	s.d.mu.Lock()
	unfenced := s.d.spy.unfenced
	s.d.mu.Unlock()
	if unfenced {
		row, err := s.Sessions.Get(id)
		return row.LastSeq, err
	}
	return s.Sessions.Lock(id, epoch)
}

func (s seenTxSessions) Acquire(id perdure.SessionID, worker perdure.WorkerID) (store.Session, error) {
	s.takes = append(s.takes, string(id))
	return s.Sessions.Acquire(id, worker)
}

// Release records that the session has no owner.
func (s seenTxSessions) Release(id perdure.SessionID, epoch int64) error {
	s.note(string(id), "released")
	s.released = string(id)
	return s.Sessions.Release(id, epoch)
}

func (s seenTxSessions) Update(id perdure.SessionID, title string, status perdure.SessionStatus) error {
	s.note(string(id), "saved")
	return s.Sessions.Update(id, title, status)
}

func (s seenTxSessions) PutSnapshot(id perdure.SessionID, snap store.Snapshot) error {
	s.note(string(id), "snapshot")
	return s.Sessions.PutSnapshot(id, snap)
}

// Append is a write of the session's driver, except for events of a task and intents, which any
// worker may write.
func (s seenTxJournal) Append(id perdure.SessionID, events []perdure.Event) error {
	for _, e := range events {
		if _, file := e.Fact.(perdure.FileWritten); file && e.Task != "" { // a write of the task's owner
			s.note(string(e.Task), "%s", e.Type())
			continue
		}
		switch e.Fact.(type) {
		case perdure.MessageReceived, perdure.InterruptRequested, perdure.TaskCancelRequested, perdure.SessionCreated, perdure.TaskCancelReceipt,
			perdure.ScheduleCreated:
		case perdure.TaskUpdated, perdure.TaskCreated, perdure.TaskReattached: // checked with the row
		default:
			s.note(string(id), "%s", e.Type())
		}
	}
	return s.Journal.Append(id, events)
}

func (s seenTxTasks) Create(t perdure.Task) (perdure.Task, bool, error) {
	stored, created, err := s.Tasks.Create(t)
	if created {
		s.takes = append(s.takes, string(t.ID))
		s.note(string(t.ID), "created")
		s.d.office.mu.Lock()
		s.d.office.runs[t.ArtifactDir()] = string(t.ID)
		s.d.office.mu.Unlock()
	}
	return stored, created, err
}

// Update is a write of the attempt. A start and a take-over take the task; an intent is open to
// every worker, and the delivery of a result is the session driver's.
func (s seenTxTasks) Update(session perdure.SessionID, id perdure.TaskID, u perdure.TaskUpdate) (perdure.TaskChange, error) {
	change, err := s.Tasks.Update(session, id, u)
	if err != nil || change.Answer != perdure.Updated {
		return change, err
	}
	switch {
	case u.Cancel != nil:
	case u.Delivered != "":
		s.note(string(session), "delivery of %s", id)
	case u.Worker != "" || u.IncrementAttempt:
		s.takes = append(s.takes, string(id))
	default:
		s.note(string(id), "update %+v", u)
	}
	return change, err
}

func (s seenTxTasks) AppendLog(id perdure.TaskID, attempt int, stream string, p []byte) (int64, error) {
	if len(p) > 0 && stream != "system" { // the mark of a take-over is in the commit of the take-over
		s.note(string(id), "log")
	}
	return s.Tasks.AppendLog(id, attempt, stream, p)
}

func (s seenTxCalls) Claim(c perdure.Call, live func(perdure.WorkerID) bool) (perdure.ClaimOutcome, perdure.Call, error) {
	s.takes = append(s.takes, c.Key.String())
	return s.Calls.Claim(c, live)
}

func (s seenTxCalls) TakeOver(old, next perdure.Call) error {
	s.takes = append(s.takes, old.Key.String())
	return s.Calls.TakeOver(old, next)
}

func (s seenTxCalls) Bind(key perdure.CallKey, token perdure.Token, task perdure.TaskID, attempt int) error {
	s.note(key.String(), "bound")
	return s.Calls.Bind(key, token, task, attempt)
}

func (s seenTxCalls) Settle(key perdure.CallKey, token perdure.Token, state perdure.CallState, r perdure.ToolResult) error {
	s.note(key.String(), "settled %s", state)
	return s.Calls.Settle(key, token, state, r)
}

func (s seenTxFiles) Put(id perdure.SessionID, f store.File) (bool, error) {
	s.d.office.mu.Lock()
	for dir, task := range s.d.office.runs {
		if strings.HasPrefix(f.Path, dir+"/") {
			defer s.note(task, "file %s", f.Path)
		}
	}
	s.d.office.mu.Unlock()
	return s.Files.Put(id, f)
}

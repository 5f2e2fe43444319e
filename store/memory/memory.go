// Package memory is the store in maps. It is the reference for the laws of storetest, and the fake
// that tests use. Nothing of it survives the process.
//
// It may import the root, agent, webhook and store. The one thing to know: the committed state is
// one immutable value. A transaction derives its own value from it, and a commit replaces the
// committed one. A View is therefore a copy of a pointer, and a failed transaction needs no
// undoing. A value has the same form as in the SQL stores: times in microseconds, records as their
// JSON has them.
package memory

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/store"
)

var errClosed = fmt.Errorf("%w: the store is closed", perdure.Unavailable)

// Config configures a Store. The zero value is ready to use.
type Config struct {
	Now func() time.Time // the store's clock; nil: time.Now
}

// Store is a store.Store without a disk. It survives the engine that uses it: another engine with
// the same Store continues with what was committed. It has no goroutines of its own, so it works in
// a synctest bubble.
type Store struct {
	now func() time.Time
	hub *store.Hub

	mu     sync.Mutex // guards the fields below; not held while an fn runs
	free   *sync.Cond // on mu; signals that no transaction runs, or that the ctx of a waiting caller ended
	busy   bool       // a transaction runs
	closed bool
	state  state // the committed state
}

var _ store.Store = (*Store)(nil)

// state is the content of a store. Its parts are never changed in place.
type state struct {
	sessions   tree[session]
	snapshots  tree[store.Snapshot]
	events     tree[struct{}] // the ids of all events
	calls      tree[row[perdure.Call]]
	tasks      tree[row[perdure.Task]]
	logs       tree[[]store.LogChunk]      // by task
	inboxes    tree[[]perdure.TaskMessage] // by task
	messages   tree[struct{}]              // the ids of all task messages
	deliveries tree[row[store.Delivery]]
	files      tree[store.File]
	workers    tree[store.Worker]
	homes      tree[store.Home] // SeenAt without the leases of workers, and without Present
	grants     tree[grant]
	requests   tree[store.Request] // by scope and key
	bulks      tree[store.Bulk]    // by id and org
	approvals  tree[row[perdure.Approval]]
	spawns     tree[row[store.Spawn]]
	partials   tree[store.Partial]
	resources  tree[row[store.Resource]]
	leases     tree[row[leaseRow]]
	schedules  tree[perdure.Schedule]
	// dueSchedules holds the ids of schedules with a due time, in the order of that time.
	dueSchedules tree[perdure.ScheduleID]
	fires        tree[perdure.Fire] // by schedule and nominal time
	values       tree[store.Value]
	images       tree[store.Image]
	secrets      tree[store.Secret]
	payments     tree[row[store.Payment]] // by hash and attempt
	outbound     tree[map[int64]int]      // by org: calls by bucket
	tokens       tree[store.AccessToken]
	tokenHashes  tree[perdure.TokenID] // by hash
	directory
	budgets
	hooks
	audits
	position int64 // of the row that was added last
}

// New returns an empty store.
func New(cfg Config) *Store {
	s := &Store{now: cfg.Now, hub: store.NewHub()}
	if s.now == nil {
		s.now = time.Now
	}
	s.free = sync.NewCond(&s.mu)
	return s
}

// InTx runs fn in the caller's goroutine, one transaction after another. A panic in fn is raised by
// InTx, and nothing of the transaction is stored. A running fn is not interrupted: its outcome is
// never in doubt.
func (s *Store) InTx(ctx context.Context, fn func(store.Tx) error) error {
	before, err := s.begin(ctx)
	if err != nil {
		return err
	}
	committed := false
	t := &tx{state: before}
	defer func() { s.end(t, committed) }()
	t.now = micro(s.now())
	if err := fn(t); err != nil {
		return err
	}
	committed = true
	return nil
}

// View runs fn on the state that is committed when it is called, concurrently with transactions and
// other views.
func (s *Store) View(ctx context.Context, fn func(store.Reader) error) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	s.mu.Lock()
	state, closed := s.state, s.closed
	s.mu.Unlock()
	if closed {
		return errClosed
	}
	return fn(reader{&tx{state: state, now: micro(s.now())}})
}

// Watch calls fn with every event of a session after seq, in order and without a gap, and with the
// frames in between.
func (s *Store) Watch(ctx context.Context, session perdure.SessionID, after int64, fn func(store.Frame) error) error {
	read := store.ReadJournal(func(fn func(store.Reader) error) error { return s.View(ctx, fn) }, session)
	return s.hub.Watch(ctx, session, after, read, fn)
}

// Publish sends an ephemeral frame to the watchers of its session.
func (s *Store) Publish(frame store.Frame) { s.hub.Publish(frame) }

// Close ends every Watch. A running transaction is still committed. Later calls do nothing.
func (s *Store) Close() error {
	s.mu.Lock()
	s.closed = true
	s.free.Broadcast()
	s.mu.Unlock()
	s.hub.Close()
	return nil
}

// begin waits until no transaction runs and returns the committed state.
func (s *Store) begin(ctx context.Context) (state, error) {
	if err := ctx.Err(); err != nil {
		return state{}, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.busy {
		stop := context.AfterFunc(ctx, func() {
			s.mu.Lock()
			defer s.mu.Unlock()
			s.free.Broadcast()
		})
		defer stop()
	}
	for s.busy && !s.closed && ctx.Err() == nil {
		s.free.Wait()
	}
	switch {
	case s.closed:
		return state{}, errClosed
	case ctx.Err() != nil:
		return state{}, ctx.Err()
	}
	s.busy = true
	return s.state, nil
}

// end commits the state of a transaction if committed is true, and lets the next transaction begin.
// It also runs when fn panicked or ended its goroutine.
func (s *Store) end(t *tx, committed bool) {
	s.mu.Lock()
	if committed {
		s.state = t.state
	}
	s.busy = false
	s.free.Broadcast()
	s.mu.Unlock()
	if !committed {
		return
	}
	for _, id := range t.appended {
		s.hub.Notify(id)
	}
}

// tx is one transaction, or one view that nobody changes: a view is handed out as a reader.
type tx struct {
	state
	now      time.Time           // constant within a transaction
	appended []perdure.SessionID // sessions whose journals grew or were removed
}

var _ store.Tx = (*tx)(nil)

// Now returns the time of the Config's clock, read once.
func (v *tx) Now() time.Time { return v.now }

// nextPosition returns the position of a new row in the order of all rows ever added.
func (t *tx) nextPosition() int64 {
	t.position++
	return t.position
}

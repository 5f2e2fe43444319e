// Package store is the port of durable storage: journals, sessions, the effect ledger, tasks, the
// outbox, files, task logs, workers, approvals, spawn handles, budgets, webhooks, tokens, the audit
// log, bulks and requests by idempotency key. They are committed together or not at all.
//
// It may import the root, agent, budget and webhook. The one thing to know: everything that changes
// goes through [Store.InTx], and nothing is acknowledged before InTx has returned nil. The laws of
// the port are in storetest; memory, sqlite and postgres implement it, and faulty wraps it to
// inject faults.
package store

import (
	"context"
	"errors"
	"fmt"

	"github.com/perdure/perdure"
)

// Full is the error of a transaction for which there was no disk space. It is of kind Storage, but
// nothing was changed and the store still works: free space and try again.
var Full = fmt.Errorf("%w: disk full", perdure.Storage)

// Broken reports an error after which the store can no longer promise durability: of kind Storage,
// but not Full. Stop the process; the next start recovers.
func Broken(err error) bool { return errors.Is(err, perdure.Storage) && !errors.Is(err, Full) }

// urgent is the context key of Urgent.
type urgent struct{}

// Urgent marks transactions that must succeed even on a full disk, such as a cancel. A store that
// keeps a reserve of space gives it to them; other stores ignore the mark.
func Urgent(ctx context.Context) context.Context { return context.WithValue(ctx, urgent{}, true) }

// IsUrgent reports whether a context was marked by Urgent.
func IsUrgent(ctx context.Context) bool { return ctx.Value(urgent{}) != nil }

// Store is durable storage. Safe for concurrent use. The caller that opened it closes it.
type Store interface {
	// InTx runs fn in one transaction. If InTx returns nil, everything that fn wrote is durable. If
	// fn returns an error, nothing of it is stored, and InTx returns that error unchanged.
	//
	// fn may run more than once, and must keep nothing of a run that was not the last. It no longer
	// runs when InTx has returned, so the caller may then read what fn wrote outside the Tx. fn
	// does no I/O besides the Tx, does not nest transactions, and does not see ctx.
	//
	// ctx ends only the caller's wait. The outcome is then in doubt, as after an error of the store
	// itself: read it back before acting on it. Concurrent transactions may share one sync; one
	// that fails does not affect the others.
	//
	// To avoid deadlocks, a transaction that changes a session first locks its row, with
	// Sessions.Lock or Append. Then it writes task, call, approval, outbox and budgets, in that
	// order. Storage: the store can no longer promise durability; stop.
	InTx(ctx context.Context, fn func(Tx) error) error
	// View runs fn on one consistent snapshot. It may run concurrently with writes and never waits
	// for them.
	View(ctx context.Context, fn func(Reader) error) error
	// Watch calls fn with every event of a session after seq, in order and without gaps, and then
	// with each new event once it is committed. In between it calls fn with frames published in the
	// meantime, which may be dropped. It waits for a session that does not exist yet. It returns
	// the error of fn or ctx, and NotFound once the session is removed, even if another session
	// takes its id. A slow fn delays only itself.
	Watch(ctx context.Context, session perdure.SessionID, after int64, fn func(Frame) error) error
	// Publish shows a frame to the watchers of its session, also to those in other processes that
	// share the store. It never blocks, and the frame is never stored. Other processes get frames
	// in order, each at most once, and only at a limited rate; they get Data as a json.RawMessage.
	Publish(frame Frame)
	// Close ends every Watch and releases all resources. Later transactions are Unavailable.
	Close() error
}

// Read returns what fn reads in one view of s.
func Read[T any](ctx context.Context, s Store, fn func(Reader) (T, error)) (found T, err error) {
	err = s.View(ctx, func(r Reader) error {
		found, err = fn(r)
		return err
	})
	return found, err
}

// SchemaReader is implemented by the Reader of a store with a schema.
type SchemaReader interface {
	// Schema returns the current schema version of the store, and the newest one that this program
	// knows. They differ if another program has migrated the store since this one opened it.
	Schema() (stored, known int64, err error)
}

// Frame is what a watcher gets: an event of the journal, or a live update that is never stored.
type Frame struct {
	Session perdure.SessionID
	Event   *perdure.Event // nil for a live update
	Type    string         // of a live update: output.message.delta, tool.output.delta, tool.progress, task.live
	Data    any            // of a live update
	Dropped int            // live updates that this watcher missed before this one
}

// Fenced is a store whose transactions check a fence first, in the same commit. If the fence
// returns an error, the transaction fails with it.
type Fenced struct {
	Store
	Fence func(Reader) error
}

// InTx runs fn if the fence allows it.
func (f Fenced) InTx(ctx context.Context, fn func(Tx) error) error {
	return f.Store.InTx(ctx, func(tx Tx) error {
		if err := f.Fence(tx.Reader()); err != nil {
			return err
		}
		return fn(tx)
	})
}

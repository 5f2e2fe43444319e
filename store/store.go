// Package store is the port of memory that survives: journal, sessions, effect ledger, tasks, outbox,
// files, task logs, workers, approvals, spawn handles, budgets, webhooks, tokens, the audit log and requests by idempotency key, committed together or not at all.
//
// It may import the root, agent, budget and webhook. The one thing to know: everything that changes goes through
// [Store.InTx], and nothing is acknowledged before InTx has returned nil. The laws stand in storetest.
package store

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/perdure/perdure"
)

// Full is the error of a transaction for which there was no space left. It is of kind Storage, but nothing
// was changed and the store works on: free space, and try again (ER8).
var Full = fmt.Errorf("%w: disk full", perdure.Storage)

// Broken reports an error after which the store cannot promise durability any more: of kind Storage, and not
// only for want of space. Stop; the next start recovers.
func Broken(err error) bool { return errors.Is(err, perdure.Storage) && !errors.Is(err, Full) }

// urgent is the key under which a context says so.
type urgent struct{}

// Urgent marks the transactions of a context as ones that must find room where others do not: a cancel, on a disk that is
// full. A store that keeps a reserve gives it to them; to others it is nothing.
func Urgent(ctx context.Context) context.Context { return context.WithValue(ctx, urgent{}, true) }

// IsUrgent reports whether a context was marked by Urgent.
func IsUrgent(ctx context.Context) bool { return ctx.Value(urgent{}) != nil }

// Store remembers. It is safe for concurrent use. Whoever opened it closes it.
type Store interface {
	// InTx runs fn in one transaction: all that it wrote is durable when InTx returns nil, and none of it
	// when fn returned an error, which InTx then returns as it is.
	//
	// fn may run more than once and must not keep anything of a run that was not the last. It does not run any more when
	// InTx has returned, so what it wrote outside the Tx is the caller's to read. It does no I/O
	// besides the Tx, never nests, and does not see ctx: ctx ends only the caller's waiting, and then the
	// outcome is in doubt, as it is after an error of the store itself: read it back before acting on it.
	// Concurrent transactions may share one sync; one that fails does not fail its neighbours.
	// A write that changes a session first locks its row with LockSession or Append, then touches task,
	// call, approval, outbox and budgets, in that order. Storage: the store cannot promise durability any more; stop.
	InTx(ctx context.Context, fn func(Tx) error) error
	// View runs fn on one consistent snapshot. It may run beside writes and never waits for them.
	View(ctx context.Context, fn func(Reader) error) error
	// Watch calls fn with every event of a session after seq, in order and without a gap, then with each
	// new one as it is committed, and in between with the ephemeral frames published meanwhile, which may
	// be dropped. It returns with fn's error or ctx's, and with NotFound once the session is removed, whoever takes its id
	// again. One that is not there yet is waited for. A slow fn delays nobody but itself.
	Watch(ctx context.Context, session perdure.SessionID, after int64, fn func(Frame) error) error
	// Publish shows an ephemeral frame to the watchers of its session. It never blocks and is never stored.
	Publish(frame Frame)
	// Close ends every Watch and releases what the store holds. Transactions after it are Unavailable.
	Close() error
}

// Reader is what a View may ask. Unknown things are NotFound, and so is whatever belongs to another session.
type Reader interface {
	// Now is the store's clock, by which leases are measured (LG3). UTC, microseconds. It stands still for
	// the length of a transaction or view.
	Now() time.Time
	JournalReader
	SessionReader
	CallReader
	TaskReader
	FileReader
	WorkerReader
	RequestReader
	ApprovalReader
	PartialReader
	SpawnReader
	ResourceReader
	ScheduleReader
	ValueReader
	ImageReader
	SecretReader
	DirectoryReader
	PaymentReader
	RateReader
	BudgetReader
	WebhookReader
	TokenReader
	AuditReader
	DumpReader
}

// SchemaReader is what the Reader of a store with a schema can, too. A store without one is as its program is.
type SchemaReader interface {
	// Schema returns the number of the schema that the store has now, and the newest that this program knows. They differ when
	// another program has migrated the store since this one opened it.
	Schema() (stored, known int64, err error)
}

// Tx is what a transaction may ask and do. What it wrote it reads back.
type Tx interface {
	Reader
	JournalWriter
	SessionWriter
	SessionRemover
	LabelWriter
	CallWriter
	TaskWriter
	FileWriter
	WorkerWriter
	RequestWriter
	ApprovalWriter
	PartialWriter
	SpawnWriter
	ResourceWriter
	LeaseWriter
	ScheduleWriter
	ValueWriter
	ImageWriter
	SecretWriter
	DirectoryWriter
	PaymentWriter
	RateWriter
	BudgetWriter
	WebhookWriter
	TokenWriter
	AuditWriter
	DumpWriter
}

// Frame is what a watcher sees: an event of the journal, or something for display that was never stored.
type Frame struct {
	Session perdure.SessionID
	Event   *perdure.Event // nil for an ephemeral frame
	Type    string         // of an ephemeral frame: output.message.delta, tool.output.delta, tool.progress, task.live
	Data    any            // of an ephemeral frame
	Dropped int            // ephemeral frames that this watcher missed before this one
}

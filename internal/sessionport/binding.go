package sessionport

import (
	"cmp"
	"context"
	"fmt"

	"github.com/google/uuid"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/store"
	"github.com/perdure/perdure/tool"
)

// binding ties a port to its session and to the call that uses the port (EN3).
type binding struct {
	store   store.Store
	session perdure.SessionID
	call    tool.Call
	by      string // the actor of a write from outside; empty: the runtime writes, for a call
}

// write runs fn in one transaction that holds the lock on the session's row. Lost: the call belongs
// to an attempt of a task that a newer attempt has replaced. NotFound: there is no such session.
// After any other error the transaction may or may not have been committed.
func (b binding) write(ctx context.Context, fn func(store.Tx, store.Session) error) error {
	return b.store.InTx(ctx, func(tx store.Tx) error {
		row, err := b.current(tx)
		if err != nil {
			return err
		}
		return fn(tx, row)
	})
}

// current locks the session's row. It returns Lost and NotFound as write does.
func (b binding) current(tx store.Tx) (store.Session, error) {
	row, err := tx.Sessions().Get(b.session)
	if err != nil || b.call.Task == "" {
		return row, err
	}
	task, err := tx.Tasks().Get(b.session, b.call.Task)
	if err == nil && task.Attempt != b.call.Attempt {
		err = fmt.Errorf("task %s, attempt %d: %w: attempt %d has replaced it",
			b.call.Task, b.call.Attempt, perdure.Lost, task.Attempt)
	}
	return row, err
}

// appendFact appends a fact to the session's journal.
func (b binding) appendFact(tx store.Tx, fact perdure.Fact) error {
	return tx.Journal().Append(b.session, []perdure.Event{{
		ID: newID[perdure.EventID](), At: tx.Now(), Actor: cmp.Or(b.by, "runtime"), Turn: b.call.Turn,
		Call: b.call.ID, Task: b.call.Task, Attempt: b.call.Attempt, Fact: fact,
	}})
}

// newID returns a time-ordered identifier.
func newID[T perdure.ID]() T { return perdure.FormatID[T](uuid.Must(uuid.NewV7())) }

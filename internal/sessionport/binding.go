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

// binding ties a port to its session, and to the call that uses it (EN3).
type binding struct {
	store   store.Store
	session perdure.SessionID
	call    tool.Call
	by      string // who writes from outside; empty: the runtime, for a call
}

// write runs fn in one transaction that has locked the session's row. Lost: the call is of an attempt of a task that
// another one has overtaken. NotFound: no such session. After another error it may have been written or not.
func (b binding) write(ctx context.Context, fn func(store.Tx, store.Session) error) error {
	return b.store.InTx(ctx, func(tx store.Tx) error {
		row, err := b.current(tx)
		if err != nil {
			return err
		}
		return fn(tx, row)
	})
}

// current locks the session's row. Lost and NotFound as of write.
func (b binding) current(tx store.Tx) (store.Session, error) {
	row, err := tx.Session(b.session)
	if err != nil || b.call.Task == "" {
		return row, err
	}
	task, err := tx.Task(b.session, b.call.Task)
	if err == nil && task.Attempt != b.call.Attempt {
		err = fmt.Errorf("task %s, attempt %d: %w: attempt %d has it", b.call.Task, b.call.Attempt, perdure.Lost, task.Attempt)
	}
	return row, err
}

// tell appends a fact to the session's journal.
func (b binding) tell(tx store.Tx, fact perdure.Fact) error {
	return tx.Append(b.session, []perdure.Event{{
		ID: newID[perdure.EventID](), At: tx.Now(), Actor: cmp.Or(b.by, "runtime"), Turn: b.call.Turn, Call: b.call.ID, Task: b.call.Task, Attempt: b.call.Attempt, Fact: fact,
	}})
}

// newID mints a time-ordered identifier (N3).
func newID[T perdure.ID]() T { return perdure.FormatID[T](uuid.Must(uuid.NewV7())) }

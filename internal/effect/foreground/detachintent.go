package foreground

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/internal/effect/core"
	"github.com/perdure/perdure/store"
)

// refusalPause is how long the driver waits until it tries again to detach a call whose state it
// could not record or read.
const refusalPause = time.Second

// Detach lets a running foreground call continue as a task. It commits an intent, which the driver
// of the session carries out in whichever process it runs, and waits for the answer in the journal
// (LN20). While an intent is pending, another Detach waits for the same answer.
//
// NotFound: no such call runs in the foreground, or it ended before it was detached. Conflict: it
// stays in the foreground; the error says why. If ctx ends first, the intent stays.
func (cs *Calls) Detach(ctx context.Context, key perdure.CallKey, by string) (perdure.Task, error) {
	var seq int64
	err := cs.core.Store.InTx(context.WithoutCancel(ctx), func(tx store.Tx) (err error) {
		seq, err = cs.intendDetach(tx, key, by)
		return err
	})
	if !core.RefusedWrite(err) {
		cs.core.Wake(key.Session) // also if the answer of the commit was lost
	}
	var task perdure.TaskID
	if err == nil {
		task, err = cs.awaitDetach(ctx, key, seq)
	}
	if err != nil {
		return perdure.Task{}, fmt.Errorf("detach call %s: %w", key, err)
	}
	return cs.records.Stored(ctx, perdure.Task{Session: key.Session, ID: task})
}

// intendDetach is the commit of the intent. It returns the seq after which the answer comes. What
// the session and the tool say about the call is refused here; whether a slot is free is known to
// the process that runs it.
func (cs *Calls) intendDetach(tx store.Tx, key perdure.CallKey, by string) (seq int64, err error) {
	s, err := cs.core.Fold(tx.Reader(), key.Session)
	if err != nil {
		return 0, err
	}
	row, err := tx.Calls().Get(key)
	switch {
	case errors.Is(err, perdure.NotFound), err == nil && (s.Turn == nil || !s.Turn.IsRunning(key.Call)):
		return 0, notInForeground()
	case err != nil:
		return 0, err
	case !cs.core.Running() && !cs.core.WorkerAlive(tx.Reader())(row.Worker):
		return 0, notInForeground() // the process that ran it is dead, and nothing here takes it over
	case cs.waits(row.Tool):
		return 0, fmt.Errorf("%w: calls of %s always stay in the foreground", perdure.Conflict, row.Tool)
	case s.Agent.DryRun:
		return 0, fmt.Errorf("%w: it stays in the foreground: a dry run has no tasks", perdure.Conflict)
	case s.Turn.Interrupt != nil:
		return 0, fmt.Errorf("%w: it stays in the foreground: it is being stopped", perdure.Conflict)
	case s.Turn.DetachRequested(key.Call):
		return s.Seq, nil
	}
	events := []perdure.Event{{Session: key.Session, Actor: by, Turn: s.Turn.ID, Call: key.Call,
		Fact: perdure.ToolDetachRequested{CallID: key.Call}}}
	core.Stamp(events, tx.Now())
	return s.Seq, tx.Journal().Append(key.Session, events)
}

func notInForeground() error {
	return fmt.Errorf("%w: it does not run in the foreground", perdure.NotFound)
}

// errAnswered ends the watch for the answer to an intent.
var errAnswered = errors.New("answered")

// awaitDetach waits for the answer to an intent to detach a call.
func (cs *Calls) awaitDetach(ctx context.Context, key perdure.CallKey, seq int64) (task perdure.TaskID, refused error) {
	err := cs.core.Store.Watch(ctx, key.Session, seq, func(f store.Frame) error {
		if f.Event == nil || f.Event.Call != key.Call {
			return nil
		}
		switch fact := f.Event.Fact.(type) {
		case perdure.ToolDetached:
			task = fact.TaskID
		case perdure.ToolDetachRefused:
			refused = fmt.Errorf("%w: it stays in the foreground: %s", perdure.Conflict, fact.Reason)
		case perdure.ToolCompleted, perdure.ToolCallRequested:
			refused = notInForeground()
		default:
			return nil
		}
		return errAnswered
	})
	switch {
	case errors.Is(err, errAnswered):
		return task, refused
	case ctx.Err() != nil:
		return "", fmt.Errorf("the request is stored, and the call still runs in the foreground: %w", context.Cause(ctx))
	}
	return "", err
}

// CarryOutDetach carries out the intent to detach a call of this process: the call becomes a task,
// or the journal says why it does not. A call that does not run here any more needs nothing: its
// end is the answer.
func (cs *Calls) CarryOutDetach(ctx context.Context, key perdure.CallKey) {
	for {
		running, ok := cs.running.Load(key)
		if !ok {
			return
		}
		c := running.(*callRun)
		if c.requestDetach(perdure.DetachedByHost) || ctx.Err() != nil {
			return
		}
		refused, err := cs.refuseDetach(ctx, key, c.detachFailure())
		if refused || err != nil && !core.RefusedWrite(err) {
			cs.core.Wake(key.Session)
		}
		switch {
		case refused, core.IsFinal(err):
			return
		case err != nil:
			cs.core.Log.Warn("refusal to detach not recorded", "call", key, "error", err)
		}
		// without an error the journal has the answer already: the call ends, or it is a task, and
		// only the answer of that commit was lost
		if !core.Wait(ctx, refusalPause) {
			return
		}
	}
}

// refuseDetach records that a call stays in the foreground, unless it has ended or has become a
// task. Lost: another process drives the session; it carries out the intent.
func (cs *Calls) refuseDetach(ctx context.Context, key perdure.CallKey, why string) (refused bool, err error) {
	err = cs.core.Work.InTx(ctx, func(tx store.Tx) error {
		refused = false
		row, err := tx.Sessions().Get(key.Session)
		if err != nil {
			return err
		}
		if row.Worker != cs.core.Worker {
			return fmt.Errorf("session %s: %w", key.Session, perdure.Lost)
		}
		if _, err := tx.Sessions().Lock(key.Session, row.Epoch); err != nil {
			return err
		}
		s, err := cs.core.Fold(tx.Reader(), key.Session)
		if err != nil || s.Turn == nil || !s.Turn.DetachRequested(key.Call) {
			return err
		}
		events := []perdure.Event{{Session: key.Session, Actor: "runtime", Turn: s.Turn.ID, Call: key.Call,
			Fact: perdure.ToolDetachRefused{CallID: key.Call, Reason: why}}}
		core.Stamp(events, tx.Now())
		refused = true
		return tx.Journal().Append(key.Session, events)
	})
	return refused && err == nil, err
}

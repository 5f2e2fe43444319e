package host

import (
	"cmp"
	"context"
	"fmt"
	"reflect"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/engine"
	"github.com/perdure/perdure/internal/effect/core"
	"github.com/perdure/perdure/internal/telemetry"
	"github.com/perdure/perdure/store"
)

// Send adds a message to a session. It returns after the commit.
func (e *Host) Send(ctx context.Context, id perdure.SessionID, message perdure.Message) (engine.Sent, error) {
	sent, err := e.send(ctx, id, message)
	if !nothingCommitted(err) {
		e.scheduler.Wake(id) // also after an in-doubt commit
	}
	if err != nil {
		return engine.Sent{}, fmt.Errorf("send to %s: %w", id, err)
	}
	return sent, nil
}

// send is Send without waking the driver.
func (e *Host) send(ctx context.Context, id perdure.SessionID, message perdure.Message) (engine.Sent, error) {
	if err := message.CheckInput(); err != nil {
		return engine.Sent{}, err
	}
	in := input{session: id, message: message, key: string(message.ID)}
	if in.key == "" {
		in.message.ID = core.NewMessageID()
	}
	done, err := e.findReceived(ctx, &in)
	if err == nil && done.seq == 0 {
		done, err = e.receive(ctx, in)
	}
	if done.again {
		e.telemetry.Duplicate("message")
	}
	if err != nil {
		return engine.Sent{}, err
	}
	return engine.Sent{ID: in.message.ID, Seq: done.seq, Hold: e.holdNow(ctx, id, done.status)}, nil
}

// input is a message that a caller sends.
type input struct {
	session perdure.SessionID
	message perdure.Message
	key     string // the id that the caller chose; empty: none, so the message cannot be a repetition
	checked int64  // the journal has no message with this key up to this seq
}

// received is what the journal says about an input.
type received struct {
	seq    int64 // of the event that recorded it; 0: there is none
	again  bool  // an earlier request recorded it
	status perdure.SessionStatus
}

// findReceived looks for an earlier message with the key of an input (N5). It runs outside of the
// transaction, because folding a session may read many events, while the transaction locks the
// session. The fold knows the seq of each key, so that the message itself is one read.
func (e *Host) findReceived(ctx context.Context, in *input) (done received, err error) {
	if in.key == "" {
		return done, nil
	}
	err = e.view(ctx, func(r store.Reader) error {
		done = received{}
		s, err := e.effects.Fold(r, in.session)
		if err != nil {
			return err
		}
		in.checked = s.Seq
		seq, known := s.MessageKeys.Get(in.key)
		if !known {
			return nil
		}
		events, err := r.Journal().Events(in.session, seq-1, 1)
		if err == nil {
			done, err = in.among(events)
			done.status = s.Status
		}
		return err
	})
	return done, err
}

// receive records a message. Under the lock of the session it reads only the events that came since
// the message was looked for.
func (e *Host) receive(ctx context.Context, in input) (done received, err error) {
	err = e.cfg.Store.InTx(ctx, func(tx store.Tx) (err error) {
		done = received{}
		if in.key != "" {
			since, err := tx.Reader().Journal().Events(in.session, in.checked, 0)
			if err == nil {
				done, err = in.among(since)
			}
			if err != nil || done.again {
				return err
			}
		}
		message, mode := in.message, cmp.Or(in.message.Mode, perdure.ModeSteer)
		if mode == perdure.ModeReject {
			if err := e.checkNoTurn(tx.Reader(), in.session); err != nil {
				return err
			}
		}
		message.At = tx.Now()
		done.seq, err = e.appendEvent(tx, in.session, perdure.Event{
			Actor: "user", Trace: telemetry.TraceParent(ctx),
			Fact: perdure.MessageReceived{Message: message, Mode: mode, Source: "user", Key: in.key},
		})
		if err == nil {
			done.status, err = hostSessions{e}.endHaltIfAllowed(tx, in.session)
		}
		return err
	})
	return done, err
}

// among looks for an input in events. Conflict: they have its key with other content.
func (in input) among(events []perdure.Event) (received, error) {
	for _, event := range events {
		f, ok := event.Fact.(perdure.MessageReceived)
		if !ok || f.Key != in.key {
			continue
		}
		done := received{seq: event.Seq, again: true}
		if !reflect.DeepEqual(f.Message.Parts, in.message.Parts) {
			return done, fmt.Errorf("%w: message %s was already sent with different content",
				perdure.Conflict, in.message.ID)
		}
		return done, nil
	}
	return received{}, nil
}

// holdNow returns why a stored message waits for a person. The message is durable, so a failed read
// does not fail Send: the hold is then unknown.
func (e *Host) holdNow(ctx context.Context, id perdure.SessionID, status perdure.SessionStatus) (hold *engine.Hold) {
	if !mayBeHeld(status) {
		return nil
	}
	err := e.view(ctx, func(r store.Reader) error {
		s, err := e.effects.Fold(r, id)
		if err == nil {
			hold = engine.HoldOf(s)
		}
		return err
	})
	if err != nil {
		return nil
	}
	return hold
}

// mayBeHeld reports whether a session with this status can have a hold, which only its fold shows.
func mayBeHeld(s perdure.SessionStatus) bool {
	return s != perdure.SessionIdle && s != perdure.SessionStarted
}

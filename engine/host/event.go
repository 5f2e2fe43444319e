package host

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/engine"
	"github.com/perdure/perdure/internal/effect/generation"
	"github.com/perdure/perdure/store"
)

// Events returns events of a session after seq.
func (e *Host) Events(
	ctx context.Context, id perdure.SessionID, after int64, limit int,
) ([]perdure.Event, error) {
	if err := engine.CheckLimit(limit); err != nil {
		return nil, fmt.Errorf("events of %s: %w", id, err)
	}
	return store.Read(ctx, e.cfg.Store, func(r store.Reader) ([]perdure.Event, error) {
		if _, err := r.Sessions().Get(id); err != nil {
			return nil, err
		}
		return r.Journal().Events(id, after, limit)
	})
}

// Follow calls fn with every event after seq and then with new ones, and with live updates in
// between. For a streaming model response fn receives the text so far once, and then only what is
// new (ST4).
func (e *Host) Follow(ctx context.Context, id perdure.SessionID, after int64, fn func(engine.Frame) error) error {
	f := &follower{e: e, ctx: ctx, id: id, fn: fn}
	if err := e.view(ctx, f.begin); err != nil {
		return fmt.Errorf("follow %s: %w", id, err)
	}
	if after >= f.startSeq {
		if err := f.sendStored(); err != nil {
			return err
		}
	}
	return e.cfg.Store.Watch(ctx, id, after, f.handleFrame)
}

// follower is one Follow. It tracks how much text of the streaming response its fn has received.
type follower struct {
	e   *Host
	ctx context.Context
	id  perdure.SessionID
	fn  func(engine.Frame) error

	startSeq  int64             // the seq of the last event at the start; the text so far is sent after it
	open      perdure.MessageID // the streaming response; empty: none
	sentBytes int               // bytes of its text that fn has received
	sentText  string            // the text so far as it was sent, while deltas may still repeat parts of it
	dropped   int               // frames missed before the next one
}

// begin looks for a streaming response. A journal that cannot be folded is followed without one. A
// session without a turn has none, so its journal, which may be long, is not folded.
func (f *follower) begin(r store.Reader) error {
	row, err := r.Sessions().Get(f.id)
	if err != nil {
		return err
	}
	f.startSeq = row.LastSeq
	if !mayBeHeld(row.Status) {
		return nil
	}
	if s, err := f.e.effects.Fold(r, f.id); err == nil && s.Turn != nil && s.Turn.OutputOpen {
		f.open = s.Turn.Message
	}
	return nil
}

func (f *follower) handleFrame(got store.Frame) error {
	f.dropped += got.Dropped
	if got.Event != nil {
		return f.event(got.Event)
	}
	if d, ok := deltaOf(got); ok && (d.MessageID == f.open || d.Delta == "") {
		return f.delta(d)
	}
	return f.sendLive(got.Type, got.Data)
}

// deltaOf returns the text in a frame. From another process it arrives as JSON.
func deltaOf(f store.Frame) (d generation.OutputDelta, ok bool) {
	switch data := f.Data.(type) {
	case generation.OutputDelta:
		return data, true
	case json.RawMessage:
		return d, f.Type == generation.DeltaFrame && perdure.DecodeKnownJSON(data, &d) == nil
	}
	return d, false
}

// event passes an event to fn, and tracks the start and the end of responses.
func (f *follower) event(e *perdure.Event) error {
	if err := f.fn(engine.Frame{Event: e, Dropped: f.takeDropped()}); err != nil {
		return err
	}
	if e.Seq < f.startSeq {
		return nil // start has read the open response from the fold
	}
	if e.Seq > f.startSeq {
		switch fact := e.Fact.(type) {
		case perdure.OutputStarted:
			f.open, f.sentBytes, f.sentText = fact.MessageID, 0, ""
		case perdure.OutputReplaced:
			f.sentBytes, f.sentText = 0, ""
		case perdure.OutputCompleted, perdure.TurnCompleted, perdure.TurnFailed, perdure.TurnCanceled,
			perdure.TurnSealed:
			f.open = ""
			return nil
		default:
			return nil
		}
	}
	return f.sendStored() // also for a new response: its first deltas may precede the watch
}

// delta passes on text that continues what fn has received. If some text in between is missing,
// delta sends the stored text instead, as soon as the store has enough of it.
func (f *follower) delta(d generation.OutputDelta) error {
	if d.MessageID == f.open && d.Offset > f.sentBytes {
		if err := f.sendStored(); err != nil {
			return err
		}
	}
	d = f.trimSent(d)
	switch {
	case d.Delta == "":
		return nil
	case d.Offset > f.sentBytes:
		f.dropped++
		return nil
	}
	f.sentBytes = d.Offset + len(d.Delta)
	return f.sendLive(generation.DeltaFrame, d)
}

// trimSent removes from a delta what fn has received with the text so far. A delta with other text,
// of another attempt, stays as it is.
func (f *follower) trimSent(d generation.OutputDelta) generation.OutputDelta {
	if d.Offset >= len(f.sentText) {
		f.sentText = ""
		return d
	}
	told := f.sentText[d.Offset:]
	told = told[:min(len(told), len(d.Delta))]
	if rest, same := strings.CutPrefix(d.Delta, told); same {
		d.Offset, d.Delta = d.Offset+len(told), rest
	}
	return d
}

// sendStored sends the stored text of the streaming response if it is longer than what fn has
// received.
func (f *follower) sendStored() error {
	if f.open == "" {
		return nil
	}
	var kept store.Partial
	err := f.e.view(f.ctx, func(r store.Reader) (err error) {
		kept, err = r.Journal().Partial(f.id, f.open)
		return err
	})
	switch {
	case errors.Is(err, perdure.NotFound):
		return nil // nothing is stored yet
	case err != nil:
		return fmt.Errorf("follow %s: %w", f.id, err)
	case len(kept.Text) <= f.sentBytes:
		return nil
	}
	f.sentBytes, f.sentText = len(kept.Text), kept.Text
	return f.sendLive(generation.DeltaFrame, generation.OutputDelta{MessageID: f.open, Delta: kept.Text})
}

// sendLive passes a live update to fn.
func (f *follower) sendLive(kind string, data any) error {
	frame := engine.Frame{Type: kind, Dropped: f.takeDropped()}
	if data != nil {
		text, err := json.Marshal(data)
		if err != nil {
			return fmt.Errorf("follow %s: encode %s: %w", f.id, kind, err)
		}
		frame.Data = text
	}
	return f.fn(frame)
}

// takeDropped returns the number of missed frames and resets it.
func (f *follower) takeDropped() int {
	n := f.dropped
	f.dropped = 0
	return n
}

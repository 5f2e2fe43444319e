package local

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/engine"
	"github.com/perdure/perdure/internal/effect"
	"github.com/perdure/perdure/store"
)

// Events returns events of a session after seq.
func (e *Engine) Events(ctx context.Context, id perdure.SessionID, after int64, limit int) (events []perdure.Event, err error) {
	return events, e.view(ctx, func(r store.Reader) error {
		if _, err := r.Session(id); err != nil {
			return err
		}
		events, err = r.Events(id, after, limit)
		return err
	})
}

// Follow calls fn with every event after seq, then with new ones, and with ephemeral frames in between. Of an answer that
// streams fn gets the text so far once, and then what is new (ST4).
func (e *Engine) Follow(ctx context.Context, id perdure.SessionID, after int64, fn func(engine.Frame) error) error {
	f := &follower{e: e, ctx: ctx, id: id, fn: fn}
	if err := e.view(ctx, f.begin); err != nil {
		return fmt.Errorf("follow %s: %w", id, err)
	}
	if after >= f.due {
		if err := f.tell(); err != nil {
			return err
		}
	}
	return e.cfg.Store.Watch(ctx, id, after, f.take)
}

// follower is one Follow. It knows how much its fn has of the answer that streams.
type follower struct {
	e   *Engine
	ctx context.Context
	id  perdure.SessionID
	fn  func(engine.Frame) error

	due     int64             // seq of the last event when it began; the text so far is told behind it
	open    perdure.MessageID // the answer that streams; empty: none does
	has     int               // bytes of its text that fn has
	kept    string            // the text so far as it was told, while pieces of it may still come
	dropped int               // frames that fn missed before the next one
}

// begin looks for an answer that streams. A journal that cannot be folded is followed all the same.
func (f *follower) begin(r store.Reader) error {
	row, err := r.Session(f.id)
	if err != nil {
		return err
	}
	f.due = row.LastSeq
	if s, err := f.e.effects.Fold(r, f.id); err == nil && s.Turn != nil && s.Turn.Open {
		f.open = s.Turn.Message
	}
	return nil
}

func (f *follower) take(got store.Frame) error {
	f.dropped += got.Dropped
	if got.Event != nil {
		return f.event(got.Event)
	}
	if d, ok := got.Data.(effect.OutputDelta); ok && (d.MessageID == f.open || d.Delta == "") {
		return f.delta(d)
	}
	return f.show(got.Type, got.Data)
}

// event hands on an event, and notes what it says of an answer.
func (f *follower) event(e *perdure.Event) error {
	if err := f.fn(engine.Frame{Event: e, Dropped: f.missed()}); err != nil {
		return err
	}
	if e.Seq < f.due {
		return nil // the fold knows what is open
	}
	if e.Seq > f.due {
		switch fact := e.Fact.(type) {
		case perdure.OutputStarted:
			f.open, f.has, f.kept = fact.MessageID, 0, ""
		case perdure.OutputReplaced:
			f.has, f.kept = 0, ""
		case perdure.OutputCompleted, perdure.TurnCompleted, perdure.TurnFailed, perdure.TurnCanceled, perdure.TurnSealed:
			f.open = ""
			return nil
		default:
			return nil
		}
	}
	return f.tell() // also of a new answer: pieces that came before the watch come as no frame
}

// delta hands on text that joins what fn has. Where some is missing in between, the text so far is told in its place, as soon as
// the store has enough of it.
func (f *follower) delta(d effect.OutputDelta) error {
	if d.MessageID == f.open && d.Offset > f.has {
		if err := f.tell(); err != nil {
			return err
		}
	}
	d = f.fresh(d)
	switch {
	case d.Delta == "":
		return nil
	case d.Offset > f.has:
		f.dropped++
		return nil
	}
	f.has = d.Offset + len(d.Delta)
	return f.show(effect.DeltaFrame, d)
}

// fresh is a delta without what was told of it with the text so far. An attempt that says something else is as it is.
func (f *follower) fresh(d effect.OutputDelta) effect.OutputDelta {
	if d.Offset >= len(f.kept) {
		f.kept = ""
		return d
	}
	told := f.kept[d.Offset:]
	told = told[:min(len(told), len(d.Delta))]
	if rest, same := strings.CutPrefix(d.Delta, told); same {
		d.Offset, d.Delta = d.Offset+len(told), rest
	}
	return d
}

// tell tells the text so far of the answer that streams, where the store has more of it than fn.
func (f *follower) tell() error {
	if f.open == "" {
		return nil
	}
	var kept store.Partial
	err := f.e.view(f.ctx, func(r store.Reader) (err error) {
		kept, err = r.Partial(f.id, f.open)
		return err
	})
	switch {
	case errors.Is(err, perdure.NotFound):
		return nil // nothing was kept so far
	case err != nil:
		return fmt.Errorf("follow %s: %w", f.id, err)
	case len(kept.Text) <= f.has:
		return nil
	}
	f.has, f.kept = len(kept.Text), kept.Text
	return f.show(effect.DeltaFrame, effect.OutputDelta{MessageID: f.open, Delta: kept.Text})
}

// show hands on an ephemeral frame.
func (f *follower) show(kind string, data any) error {
	frame := engine.Frame{Type: kind, Dropped: f.missed()}
	if data != nil {
		text, err := json.Marshal(data)
		if err != nil {
			return fmt.Errorf("follow %s: encode %s: %w", f.id, kind, err)
		}
		frame.Data = text
	}
	return f.fn(frame)
}

// missed takes the number of frames that were missed.
func (f *follower) missed() int {
	n := f.dropped
	f.dropped = 0
	return n
}

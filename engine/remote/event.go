package remote

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"strconv"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/engine"
	"github.com/perdure/perdure/internal/sse"
	"github.com/perdure/perdure/internal/strictjson"
)

func eventsPath(id perdure.SessionID) string { return "/v1/sessions/" + segment(id) + "/events" }

// Events returns events of a session after seq, page by page.
func (e *Engine) Events(ctx context.Context, id perdure.SessionID, after int64, limit int) ([]perdure.Event, error) {
	if err := engine.CheckLimit(limit); err != nil {
		return nil, fmt.Errorf("events of %s: %w", id, err)
	}
	var all []perdure.Event
	after = max(after, 0)
	for size := pageSize; ; {
		if limit > 0 {
			size = min(size, limit-len(all))
		}
		got, last, err := e.eventsPage(ctx, id, after, size)
		if errors.Is(err, errTooLarge) && size > 1 {
			size /= 2
			continue
		}
		if err != nil {
			return nil, err
		}
		all = append(all, got...)
		if len(got) > 0 {
			after = got[len(got)-1].Seq
		}
		if len(got) == 0 || after >= last || limit > 0 && len(all) >= limit {
			return all, nil
		}
	}
}

// eventsPage returns up to size events after seq, and the last seq of the session.
func (e *Engine) eventsPage(
	ctx context.Context, id perdure.SessionID, after int64, size int,
) ([]perdure.Event, int64, error) {
	var got struct {
		Items []perdure.Event `json:"items"`
		Last  int64           `json:"last_seq"`
	}
	query := url.Values{"after": {strconv.FormatInt(after, 10)}, "limit": {strconv.Itoa(size)}}
	_, err := e.call(ctx, request{what: "events of " + string(id), path: eventsPath(id), query: query}, &got)
	if fault := (*strictjson.Fault)(nil); errors.As(err, &fault) {
		return e.streamedPage(ctx, id, after, size)
	}
	return got.Items, got.Last, err
}

// errFull ends the reading of a page as a stream.
var errFull = errors.New("the page is full")

// streamedPage is eventsPage for a page that the strict JSON decoder refuses. An event contains
// arguments as the model wrote them, possibly with a repeated key. The stream transfers each event
// by itself, and DecodeEvent accepts it as the store does (EV10).
func (e *Engine) streamedPage(
	ctx context.Context, id perdure.SessionID, after int64, size int,
) ([]perdure.Event, int64, error) {
	session, err := e.Sessions().Get(ctx, id)
	if err != nil || session.LastSeq <= after {
		return nil, session.LastSeq, err
	}
	var got []perdure.Event
	err = e.Follow(ctx, id, after, func(f engine.Frame) error {
		if f.Event == nil {
			return nil
		}
		got = append(got, *f.Event)
		if len(got) == size || f.Event.Seq >= session.LastSeq {
			return errFull
		}
		return nil
	})
	if !errors.Is(err, errFull) {
		return nil, 0, err
	}
	return got, session.LastSeq, nil
}

// Follow calls fn with every event after seq, in order and each once, then with new events, and
// with live updates in between. It does not report how many live updates were dropped. Follow
// continues after cut connections and restarts of the server; see Config.Outage.
//
// It returns fn's error, the cause of ctx, the server's error (Invalid: after is beyond the end of
// the journal), or Unavailable.
func (e *Engine) Follow(ctx context.Context, id perdure.SessionID, after int64, fn func(engine.Frame) error) error {
	f := &follower{what: "follow " + string(id), from: max(after, 0), last: max(after, 0), fn: fn}
	return e.stream(ctx, func() request {
		r := request{what: f.what, path: eventsPath(id), query: url.Values{"after": {strconv.FormatInt(f.from, 10)}}}
		if f.last > f.from {
			r.resume = strconv.FormatInt(f.last, 10)
		}
		return r
	}, f.handleFrame)
}

// maxGaps is how often the same gap is treated as a transient fault.
const maxGaps = 3

// follower is a position in a journal.
type follower struct {
	what string
	from int64 // the start
	last int64 // the seq of the last event passed to fn
	gaps int   // consecutive gaps at this position
	fn   func(engine.Frame) error
}

// handleFrame handles one frame.
func (f *follower) handleFrame(got sse.Event) (cut bool, err error) {
	switch {
	case got.Name == "end", got.Name == "slow":
		return true, nil
	case got.Name == "snapshot", got.Name == "":
		return false, nil // not requested
	case got.Name == "reset":
		return false, fmt.Errorf("%s: %w: the events after %d are no longer available; read the session again",
			f.what, perdure.NotFound, f.last)
	case got.HasID:
		return f.handleEvent(got)
	}
	frame := engine.Frame{Type: got.Name}
	if err := perdure.DecodeKnownJSON(got.Data, &frame.Data); err != nil {
		return false, nil // a live update is for display only; the journal is complete
	}
	return false, f.fn(frame)
}

// handleEvent passes an event to fn if it is the next one.
func (f *follower) handleEvent(got sse.Event) (cut bool, err error) {
	event, err := perdure.DecodeEvent(got.Data)
	if err != nil {
		return false, fmt.Errorf("%s: after %d: %w", f.what, f.last, err)
	}
	switch {
	case got.ID != strconv.FormatInt(event.Seq, 10):
		return false, fmt.Errorf("%s: after %d: the server sent event %d with the id %q",
			f.what, f.last, event.Seq, got.ID)
	case event.Seq <= f.last:
		return false, nil
	case event.Seq > f.last+1:
		if f.gaps++; f.gaps >= maxGaps {
			return false, fmt.Errorf("%s: the server skipped the events between %d and %d", f.what, f.last, event.Seq)
		}
		return true, nil
	}
	if err := f.fn(engine.Frame{Event: &event}); err != nil {
		return false, err
	}
	f.last, f.gaps = event.Seq, 0
	return false, nil
}

package remote

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"strconv"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/engine"
)

func eventsPath(id perdure.SessionID) string { return "/v1/sessions/" + segment(id) + "/events" }

// Events returns events of a session after seq, page by page.
func (e *Engine) Events(ctx context.Context, id perdure.SessionID, after int64, limit int) ([]perdure.Event, error) {
	var all []perdure.Event
	after = max(after, 0)
	for size := pageSize; ; {
		if limit > 0 {
			size = min(size, limit-len(all))
		}
		got, last, err := e.eventsPage(ctx, id, after, size)
		if errors.Is(err, errTooBig) && size > 1 {
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

// eventsPage returns up to size events after seq, and the session's last seq.
func (e *Engine) eventsPage(ctx context.Context, id perdure.SessionID, after int64, size int) ([]perdure.Event, int64, error) {
	var got struct {
		Items []perdure.Event `json:"items"`
		Last  int64           `json:"last_seq"`
	}
	query := url.Values{"after": {strconv.FormatInt(after, 10)}, "limit": {strconv.Itoa(size)}}
	_, err := e.call(ctx, request{what: "events of " + string(id), path: eventsPath(id), query: query}, &got)
	if fault := (*perdure.JSONError)(nil); errors.As(err, &fault) {
		return e.streamedPage(ctx, id, after, size)
	}
	return got.Items, got.Last, err
}

// errFull ends a page that is read as a stream.
var errFull = errors.New("the page is full")

// streamedPage is eventsPage for a page that the strict decoder refuses as a whole. An event holds arguments
// as the model wrote them, with a key twice perhaps; each by itself is read as the store reads it (EV10).
func (e *Engine) streamedPage(ctx context.Context, id perdure.SessionID, after int64, size int) ([]perdure.Event, int64, error) {
	session, err := e.Session(ctx, id)
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

// Follow calls fn with every event after seq, in order and each once, then with new ones, and with ephemeral
// frames in between; how many of those were dropped is not told. It goes on over cut connections and restarts of
// the server; see Config.Outage. It ends with fn's error, ctx's cause, the server's refusal (Invalid: after lies
// past the journal's end), or Unavailable.
func (e *Engine) Follow(ctx context.Context, id perdure.SessionID, after int64, fn func(engine.Frame) error) error {
	f := &follower{what: "follow " + string(id), from: max(after, 0), last: max(after, 0), fn: fn}
	return e.stream(ctx, func() request {
		r := request{what: f.what, path: eventsPath(id), query: url.Values{"after": {strconv.FormatInt(f.from, 10)}}}
		if f.last > f.from {
			r.resume = strconv.FormatInt(f.last, 10)
		}
		return r
	}, f.take)
}

// maxGaps is how often the same gap is taken for an accident.
const maxGaps = 3

// follower is a position in a journal.
type follower struct {
	what string
	from int64 // where it began
	last int64 // seq of the last event that fn took
	gaps int   // in a row, at this position
	fn   func(engine.Frame) error
}

// take hands one frame on.
func (f *follower) take(got frame) (cut bool, err error) {
	switch {
	case got.event == "end", got.event == "slow":
		return true, nil
	case got.event == "snapshot", got.event == "":
		return false, nil // nobody asked for one
	case got.event == "reset":
		return false, fmt.Errorf("%s: %w: the events after %d are not kept any more; read the session anew", f.what, perdure.NotFound, f.last)
	case got.hasID:
		return f.takeEvent(got)
	}
	frame := engine.Frame{Type: got.event}
	if err := perdure.DecodeKnownJSON(got.data, &frame.Data); err != nil {
		return false, nil // it is for display only, and the journal has what counts
	}
	return false, f.fn(frame)
}

// takeEvent hands an event on if it is the next one.
func (f *follower) takeEvent(got frame) (cut bool, err error) {
	event, err := perdure.DecodeEvent(got.data)
	if err != nil {
		return false, fmt.Errorf("%s: after %d: %w", f.what, f.last, err)
	}
	switch {
	case got.id != strconv.FormatInt(event.Seq, 10):
		return false, fmt.Errorf("%s: after %d: the server gave event %d the position %q", f.what, f.last, event.Seq, got.id)
	case event.Seq <= f.last:
		return false, nil
	case event.Seq > f.last+1:
		if f.gaps++; f.gaps >= maxGaps {
			return false, fmt.Errorf("%s: the server left out what is between %d and %d", f.what, f.last, event.Seq)
		}
		return true, nil
	}
	if err := f.fn(engine.Frame{Event: &event}); err != nil {
		return false, err
	}
	f.last, f.gaps = event.Seq, 0
	return false, nil
}

package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/engine"
	"github.com/perdure/perdure/internal/redact"
)

// pollEvery is how often a journal or log of another process is read again, because that process
// cannot send notifications.
const pollEvery = 200 * time.Millisecond

// maxServerOutage is how long a follower waits for a server that has gone away.
const maxServerOutage = 5 * time.Minute

// pageEvents is how many events are read at once.
const pageEvents = 1000

type eventCommand struct {
	List eventList `cmd:"" aliases:"ls" help:"List the events of a session, in the order of its journal."`
	Tail eventTail `cmd:"" help:"Follow the events of a session until Ctrl-C."`

	Show   eventShow   `cmd:"" help:"Show an event and what it changed."`
	Replay eventReplay `cmd:"" help:"Show the state of a session after an event, computed from its journal. No effect is repeated."`
}

type eventList struct {
	Session string `arg:"" help:"Session: id, unique id prefix, title, or last."`
	listFlags
	After int64    `help:"Only events after this sequence number." placeholder:"SEQ"`
	Type  []string `help:"Only events of these types; a type that ends with a dot is a prefix." placeholder:"TYPE"`
	Of    string   `help:"Only events that name this id: of a turn, a call, a task, a message." placeholder:"ID"`
}

// events describes how events are listed.
func events() outputList[perdure.Event] {
	return outputList[perdure.Event]{
		noun: "events",
		head: []string{"SEQ", "AT", "TYPE", "WHAT"},
		name: func(e perdure.Event) string { return string(e.ID) },
		row: func(e perdure.Event) []cell {
			return []cell{{text: fmt.Sprint(e.Seq)}, {clockTime(e.At), dim}, {string(e.Type()), bold},
				{text: sentence(e)}}
		},
	}
}

// Run lists events.
func (c *eventList) Run(ctx context.Context, a *app) error {
	return a.read(ctx, func(eng Engine) error {
		s, err := a.session(ctx, eng, c.Session)
		if err != nil {
			return err
		}
		since, err := c.start(a.now().Time)
		if err != nil {
			return err
		}
		var chosen []perdure.Event
		after := c.After
		for {
			page, err := eng.Events(ctx, s.ID, after, pageEvents)
			if err != nil {
				return fmt.Errorf("read events of %s: %w", s.ID, err)
			}
			for _, e := range page {
				after = e.Seq
				if matchesType(e.Type(), c.Type) && namesID(e, c.Of) && !e.At.Before(since) && (c.Limit == 0 || len(chosen) < c.Limit) {
					chosen = append(chosen, e)
				}
			}
			if len(page) < pageEvents || c.Limit > 0 && len(chosen) == c.Limit {
				return events().print(ctx, a, c.outputFlags, chosen)
			}
		}
	})
}

func matchesType(t perdure.EventType, types []string) bool {
	for _, w := range types {
		if string(t) == w || strings.HasSuffix(w, ".") && strings.HasPrefix(string(t), w) {
			return true
		}
	}
	return len(types) == 0
}

// namesID reports whether an event names an id; empty: any.
func namesID(e perdure.Event, id string) bool {
	if id == "" {
		return true
	}
	text, err := perdure.EncodeEvent(e)
	return err == nil && perdure.EventNames(text, id)
}

type eventTail struct {
	Session string `arg:"" help:"Session: id, unique id prefix, title, or last."`
	Output  string `short:"o" help:"Output format: text, or json with one line per event." placeholder:"FORMAT" enum:"text,json,jsonl" default:"text"`
	After   *int64 `help:"Start after this sequence number instead of with the last ten events." placeholder:"SEQ"`
	Live    bool   `help:"Also show what is not stored: streamed text, progress and output, while a server runs."`
}

// Run prints events as they arrive. It polls, so that it does not matter which process answers.
func (c *eventTail) Run(ctx context.Context, a *app) error {
	return a.read(ctx, func(eng Engine) error {
		s, err := a.session(ctx, eng, c.Session)
		if err != nil {
			return err
		}
		after := max(s.LastSeq-10, 0)
		if c.After != nil {
			after = *c.After
		}
		return a.follow(ctx, pollEvery, func() (bool, error) {
			if c.Live && !unattended(ctx, eng) {
				err := eng.Follow(ctx, s.ID, after, func(f engine.Frame) error {
					if f.Event == nil {
						return eventText{a}.frame(f, c.Output)
					}
					after = f.Event.Seq
					return eventText{a}.event(*f.Event, c.Output)
				})
				return false, err
			}
			after, err = c.page(ctx, a, eng, tailPosition{s.ID, after})
			return false, err
		})
	})
}

// follow calls look repeatedly, until look is done or fails. When the server is unavailable for a
// while, for instance during a restart, look is repeated and continues where it was.
func (a *app) follow(ctx context.Context, every time.Duration, look func() (done bool, err error)) error {
	away := time.Time{} // since when nobody answers; zero: the server answers
	for {
		done, err := look()
		switch {
		case err == nil && done:
			return nil
		case err == nil:
			away = time.Time{}
		case !errors.Is(err, perdure.Unavailable) || !away.IsZero() && time.Since(away) > maxServerOutage:
			return err
		case away.IsZero():
			away = time.Now()
			a.message("no server answers; waiting up to %s for one", span(maxServerOutage))
		}
		if err := pause(ctx, every); err != nil {
			return err
		}
	}
}

// tailPosition is how far the events of a session were printed.
type tailPosition struct {
	id    perdure.SessionID
	after int64
}

// page prints all events that exist, and returns the sequence number it got to.
func (c *eventTail) page(ctx context.Context, a *app, eng engine.Journal, t tailPosition) (int64, error) {
	for {
		page, err := eng.Events(ctx, t.id, t.after, pageEvents)
		if err != nil {
			return t.after, fmt.Errorf("read events of %s: %w", t.id, err)
		}
		for _, e := range page {
			if err := (eventText{a}).event(e, c.Output); err != nil {
				return t.after, err
			}
			t.after = e.Seq
		}
		if len(page) < pageEvents {
			return t.after, nil
		}
	}
}

// event prints an event as a line of text or of JSON.
func (a eventText) event(e perdure.Event, form string) error {
	if form != "text" {
		text, err := perdure.EncodeEvent(e)
		if err != nil {
			return fmt.Errorf("write event %d: %w", e.Seq, err)
		}
		return a.jsonText(append(text, '\n'))
	}
	line := fmt.Sprintf("%5d  %s  %s", e.Seq, a.colors.stdout.in(dim, clockTime(e.At)),
		a.colors.stdout.in(bold, a.oneLine(string(e.Type()), cellChars)))
	if what := a.oneLine(sentence(e), 200); what != "" {
		line += "  " + what
	}
	_, err := fmt.Fprintln(a.out, line)
	return err
}

// frame prints a live update as a line of text or of JSON. It has no sequence number.
func (a eventText) frame(f engine.Frame, form string) error {
	if form != "text" {
		text, err := json.Marshal(struct {
			Type string          `json:"type"`
			Data json.RawMessage `json:"data"`
		}{f.Type, f.Data})
		if err != nil {
			return fmt.Errorf("write frame %s: %w", f.Type, err)
		}
		return a.jsonText(append(text, '\n'))
	}
	line := fmt.Sprintf("%5s  %s  %s  %s", "-", a.colors.stdout.in(dim, clockTime(time.Now())),
		a.colors.stdout.in(bold, a.oneLine(f.Type, cellChars)), a.oneLine(redact.Document(f.Data), 200))
	_, err := fmt.Fprintln(a.out, line)
	return err
}

// clockTime returns the time of day, with milliseconds to distinguish events.
func clockTime(t time.Time) string { return t.Local().Format("15:04:05.000") }

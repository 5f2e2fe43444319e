package cli

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/engine"
)

// pollEvery is how often a journal or a log of another process is read again: it tells nobody of its news.
const pollEvery = 200 * time.Millisecond

// outage is how long a follower holds out while the server that it follows is away.
const outage = 5 * time.Minute

// pageEvents is how many events are read at once.
const pageEvents = 1000

type eventCommand struct {
	List eventList `cmd:"" help:"List the events of a session."`
	Tail eventTail `cmd:"" help:"Print the events of a session as they come, until Ctrl-C."`

	Show   eventShow   `cmd:"" help:"Show one event, and what it changed."`
	Replay eventReplay `cmd:"" help:"Show how a session stood after an event, by folding its journal. Nothing is done again."`
}

type eventList struct {
	Session string `arg:"" help:"Its id, or a unique beginning of it, or its title, or last."`
	output
	After int64    `help:"Only those after this sequence number." placeholder:"SEQ"`
	Limit int      `help:"How many; 0: all." default:"0"`
	Type  []string `help:"Only these types; one that ends in a dot is all that begin with it." placeholder:"TYPE"`
}

// events is how events are listed.
func events() listing[perdure.Event] {
	return listing[perdure.Event]{
		noun: "events",
		head: []string{"SEQ", "AT", "TYPE", "WHAT"},
		name: func(e perdure.Event) string { return string(e.ID) },
		row: func(e perdure.Event) []cell {
			return []cell{{text: fmt.Sprint(e.Seq)}, {clockTime(e.At), dim}, {string(e.Type()), bold}, {text: sentence(e)}}
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
		var chosen []perdure.Event
		after := c.After
		for {
			page, err := eng.Events(ctx, s.ID, after, pageEvents)
			if err != nil {
				return fmt.Errorf("read events of %s: %w", s.ID, err)
			}
			for _, e := range page {
				after = e.Seq
				if wanted(e.Type(), c.Type) && (c.Limit <= 0 || len(chosen) < c.Limit) {
					chosen = append(chosen, e)
				}
			}
			if len(page) < pageEvents || c.Limit > 0 && len(chosen) == c.Limit {
				return events().print(ctx, a, c.output, chosen)
			}
		}
	})
}

func wanted(t perdure.EventType, types []string) bool {
	for _, w := range types {
		if string(t) == w || strings.HasSuffix(w, ".") && strings.HasPrefix(string(t), w) {
			return true
		}
	}
	return len(types) == 0
}

type eventTail struct {
	Session string `arg:"" help:"Its id, or a unique beginning of it, or its title, or last."`
	Output  string `short:"o" help:"How to print them: text, or json: a line each." placeholder:"FORM" enum:"text,json,jsonl" default:"text"`
	After   *int64 `help:"Begin after this sequence number, not with the last ten events." placeholder:"SEQ"`
}

// Run prints events as they come. They are read again and again, so that it does not matter who answers.
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
			after, err = c.page(ctx, a, eng, tailed{s.ID, after})
			return false, err
		})
	})
}

// follow looks again and again, until look is done or fails. The server may be away for a while, as it is when it
// restarts: a look that fails so is repeated, and goes on where it stands.
func (a *app) follow(ctx context.Context, every time.Duration, look func() (done bool, err error)) error {
	away := time.Time{} // since when nobody answers; zero: somebody does
	for {
		done, err := look()
		switch {
		case err == nil && done:
			return nil
		case err == nil:
			away = time.Time{}
		case !errors.Is(err, perdure.Unavailable) || !away.IsZero() && time.Since(away) > outage:
			return err
		case away.IsZero():
			away = time.Now()
			a.say("nobody answers; it goes on when somebody does, within %s", span(outage))
		}
		if err := pause(ctx, every); err != nil {
			return err
		}
	}
}

// tailed is how far a session was printed.
type tailed struct {
	id    perdure.SessionID
	after int64
}

// page prints what is there, and returns how far it came.
func (c *eventTail) page(ctx context.Context, a *app, eng engine.Journals, t tailed) (int64, error) {
	for {
		page, err := eng.Events(ctx, t.id, t.after, pageEvents)
		if err != nil {
			return t.after, fmt.Errorf("read events of %s: %w", t.id, err)
		}
		for _, e := range page {
			if err := a.event(e, c.Output); err != nil {
				return t.after, err
			}
			t.after = e.Seq
		}
		if len(page) < pageEvents {
			return t.after, nil
		}
	}
}

// event prints one event as a line of text or of JSON.
func (a *app) event(e perdure.Event, form string) error {
	if form != "text" {
		text, err := perdure.EncodeEvent(e)
		if err != nil {
			return fmt.Errorf("write event %d: %w", e.Seq, err)
		}
		return a.jsonText(append(text, '\n'))
	}
	line := fmt.Sprintf("%5d  %s  %s", e.Seq, a.paint.data.in(dim, clockTime(e.At)), a.paint.data.in(bold, a.line(string(e.Type()), cellChars)))
	if what := a.line(sentence(e), 200); what != "" {
		line += "  " + what
	}
	_, err := fmt.Fprintln(a.out, line)
	return err
}

// clockTime is the time of day, with the milliseconds that tell events apart.
func clockTime(t time.Time) string { return t.Local().Format("15:04:05.000") }

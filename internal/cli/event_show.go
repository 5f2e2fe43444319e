package cli

import (
	"context"
	"fmt"
	"strconv"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/engine"
)

type eventShow struct {
	Session string `arg:"" help:"Its id, or a unique beginning of it, or its title, or last."`
	Event   string `arg:"" help:"Its sequence number, or its id."`
	output
}

// standing is how a session stood at one event of its journal.
type standing struct {
	Seq       int64                 `json:"seq"`
	Status    perdure.SessionStatus `json:"state"`
	Title     string                `json:"title,omitempty"`
	Turn      perdure.TurnID        `json:"turn_id,omitempty"`
	Messages  int                   `json:"messages"` // in the transcript
	Queued    int                   `json:"queued"`
	Live      int                   `json:"live_tasks"`
	Approvals int                   `json:"open_approvals"`
	Ready     int                   `json:"ready"`   // ended tasks that were not delivered
	Unknown   int                   `json:"unknown"` // foreground calls
}

func standingOf(s *perdure.Session) standing {
	at := standing{
		Seq: s.Seq, Status: s.Status, Title: s.Title, Messages: len(s.Transcript), Queued: len(s.Queue), Approvals: len(s.Approvals), Ready: len(s.Ready), Unknown: len(s.Unknown),
	}
	if s.Turn != nil {
		at.Turn = s.Turn.ID
	}
	for _, t := range s.Tasks {
		if t.State.Live() {
			at.Live++
		}
	}
	return at
}

// shownEvent is an event with how its session stood before and after it.
type shownEvent struct {
	Event  perdure.Event `json:"event"`
	Before standing      `json:"before"`
	After  standing      `json:"after"`
}

// Run shows an event.
func (c *eventShow) Run(ctx context.Context, a *app) error {
	return a.inSession(ctx, c.Session, true, func(eng Engine, s engine.Session) error {
		seq, _ := strconv.ParseInt(c.Event, 10, 64) // else it is an id
		var found *shownEvent
		_, err := fold(ctx, eng, s.ID, func(e perdure.Event, before *perdure.Session) bool {
			if e.Seq == seq || string(e.ID) == c.Event {
				found = &shownEvent{Event: e, Before: standingOf(before)}
			}
			return found == nil
		}, func(after *perdure.Session) { found.After = standingOf(after) })
		if err != nil {
			return err
		}
		if found == nil {
			return &fault{err: perdure.NotFound, what: fmt.Sprintf("%s has no event %q", s.ID, c.Event), todo: program + " event list " + a.place() + string(s.ID) + "  shows them"}
		}
		return c.show(ctx, a, shown{string(found.Event.ID), found, func() { a.fields(a.eventFields(*found)...) }})
	})
}

// fold reads a journal and applies it event by event, as long as more says so before each; the event at which it stops is applied,
// and told to last, and nothing after it is read.
func fold(ctx context.Context, eng engine.Journals, id perdure.SessionID, more func(perdure.Event, *perdure.Session) bool, last func(*perdure.Session)) (*perdure.Session, error) {
	at := perdure.NewSession(id)
	for {
		page, err := eng.Events(ctx, id, at.Seq, pageEvents)
		if err != nil {
			return nil, fmt.Errorf("read events of %s: %w", id, err)
		}
		for _, e := range page {
			goesOn := more(e, at)
			if err := at.Apply(e); err != nil {
				return nil, fmt.Errorf("apply event %d of %s: %w", e.Seq, id, err)
			}
			if !goesOn {
				last(at)
				return at, nil
			}
		}
		if len(page) < pageEvents {
			return at, nil
		}
	}
}

func (a *app) eventFields(one shownEvent) []field {
	e := one.Event
	text, err := perdure.EncodeEvent(e)
	if err != nil { // it was read as one
		text = []byte(err.Error())
	}
	all := []field{
		{"event", cell{fmt.Sprintf("%d %s", e.Seq, e.ID), bold}}, {"type", cell{text: string(e.Type())}}, {"at", cell{text: moment(e.At, a.now())}},
		{"actor", cell{text: e.Actor}}, {"what", cell{text: sentence(e)}}, {"stored", cell{text: string(text)}},
	}
	for _, change := range one.Before.to(one.After) {
		all = append(all, field{change.name, cell{text: change.text}})
	}
	return all
}

// to says what differs between two standings, a field each.
func (s standing) to(after standing) (changed []field) {
	for _, of := range []struct {
		name          string
		before, after any
	}{
		{"state", s.Status, after.Status}, {"title", s.Title, after.Title}, {"turn", s.Turn, after.Turn}, {"messages", s.Messages, after.Messages},
		{"queued", s.Queued, after.Queued}, {"live tasks", s.Live, after.Live}, {"open approvals", s.Approvals, after.Approvals},
		{"to deliver", s.Ready, after.Ready}, {"unknown", s.Unknown, after.Unknown},
	} {
		was, is := fmt.Sprint(of.before), fmt.Sprint(of.after)
		if was != is {
			changed = append(changed, field{of.name, cell{text: orNone(was) + " → " + orNone(is)}})
		}
	}
	return changed
}

func orNone(text string) string {
	if text == "" {
		return "none"
	}
	return text
}

type eventReplay struct {
	Session string `arg:"" help:"Its id, or a unique beginning of it, or its title, or last."`
	To      int64  `help:"Stop after this sequence number; 0: at the end." placeholder:"SEQ" default:"0"`
	output
}

// Run folds a journal up to an event. It changes nothing and does nothing again.
func (c *eventReplay) Run(ctx context.Context, a *app) error {
	if c.To < 0 {
		return misuse("--to is negative", "give the sequence number of an event; event list shows them")
	}
	return a.inSession(ctx, c.Session, true, func(eng Engine, s engine.Session) error {
		at, err := fold(ctx, eng, s.ID, func(e perdure.Event, _ *perdure.Session) bool { return c.To == 0 || e.Seq < c.To }, func(*perdure.Session) {})
		if err != nil {
			return err
		}
		if at.Seq < c.To {
			return &fault{err: perdure.NotFound, what: fmt.Sprintf("%s ends with event %d", s.ID, at.Seq), todo: program + " event list " + a.place() + string(s.ID) + "  shows them"}
		}
		return c.show(ctx, a, shown{string(s.ID), at, func() {
			a.fields(append([]field{{"session", cell{string(s.ID), bold}}, {"after event", cell{text: fmt.Sprint(at.Seq)}}}, standing{}.to(standingOf(at))...)...)
		}})
	})
}

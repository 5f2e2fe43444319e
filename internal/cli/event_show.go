package cli

import (
	"context"
	"fmt"
	"strconv"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/engine"
)

type eventShow struct {
	Session string `arg:"" help:"Session: id, unique id prefix, title, or last."`
	Event   string `arg:"" help:"Sequence number or event id."`
	outputFlags
}

// sessionState is the state of a session at one event of its journal.
type sessionState struct {
	Seq       int64                 `json:"seq"`
	Status    perdure.SessionStatus `json:"state"`
	Title     string                `json:"title,omitempty"`
	Turn      perdure.TurnID        `json:"turn_id,omitempty"`
	Messages  int                   `json:"messages"` // in the transcript
	Queued    int                   `json:"queued"`
	Live      int                   `json:"live_tasks"`
	Approvals int                   `json:"open_approvals"`
	Ready     int                   `json:"ready"`   // ended tasks that are not delivered
	Unknown   int                   `json:"unknown"` // foreground calls
}

func sessionStateOf(s *perdure.Session) sessionState {
	at := sessionState{
		Seq: s.Seq, Status: s.Status, Title: s.Title, Messages: len(s.Transcript), Queued: len(s.Queue),
		Approvals: len(s.Approvals), Ready: len(s.Undelivered), Unknown: len(s.UnknownCalls),
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

// shownEvent is an event with the state of its session before and after it.
type shownEvent struct {
	Event  perdure.Event `json:"event"`
	Before sessionState  `json:"before"`
	After  sessionState  `json:"after"`
}

// Run shows an event.
func (c *eventShow) Run(ctx context.Context, a *app) error {
	return a.onSession(ctx, c.Session, true, func(eng Engine, s engine.Session) error {
		seq, _ := strconv.ParseInt(c.Event, 10, 64) // otherwise it is an id
		var found *shownEvent
		_, err := fold(ctx, eng, s.ID, func(e perdure.Event, before *perdure.Session) bool {
			if e.Seq == seq || string(e.ID) == c.Event {
				found = &shownEvent{Event: e, Before: sessionStateOf(before)}
			}
			return found == nil
		}, func(after *perdure.Session) { found.After = sessionStateOf(after) })
		if err != nil {
			return err
		}
		if found == nil {
			return &userError{err: perdure.NotFound, message: fmt.Sprintf("%s has no event %q", s.ID, c.Event),
				hint: program + " event list " + a.storeFlags() + string(s.ID) + "  shows them"}
		}
		return c.show(ctx, a, outputObject{string(found.Event.ID), found, func() { a.fields(eventText{a}.eventFields(*found)...) }})
	})
}

// fold reads a journal and applies its events while more returns true before each of them. It
// applies the event at which more returns false, calls last with the result, and reads no further.
func fold(ctx context.Context, eng engine.Journal, id perdure.SessionID,
	more func(perdure.Event, *perdure.Session) bool, last func(*perdure.Session)) (*perdure.Session, error) {
	at := perdure.NewSession(id)
	for {
		page, err := eng.Events(ctx, id, at.Seq, pageEvents)
		if err != nil {
			return nil, fmt.Errorf("read events of %s: %w", id, err)
		}
		for _, e := range page {
			continues := more(e, at)
			if err := at.Apply(e); err != nil {
				return nil, fmt.Errorf("apply event %d of %s: %w", e.Seq, id, err)
			}
			if !continues {
				last(at)
				return at, nil
			}
		}
		if len(page) < pageEvents {
			return at, nil
		}
	}
}

func (a eventText) eventFields(one shownEvent) []field {
	e := one.Event
	text, err := perdure.EncodeEvent(e)
	if err != nil { // it was decoded before, so this cannot happen
		text = []byte(err.Error())
	}
	all := []field{
		{"event", cell{fmt.Sprintf("%d %s", e.Seq, e.ID), bold}}, {"type", cell{text: string(e.Type())}},
		{"at", cell{text: moment(e.At, a.now())}},
		{"actor", cell{text: e.Actor}}, {"what", cell{text: sentence(e)}}, {"stored", cell{text: string(text)}},
	}
	for _, change := range one.Before.to(one.After) {
		all = append(all, field{change.name, cell{text: change.text}})
	}
	return all
}

// to lists what differs between two states, one field each.
func (s sessionState) to(after sessionState) (changed []field) {
	for _, of := range []struct {
		name          string
		before, after any
	}{
		{"state", s.Status, after.Status}, {"title", s.Title, after.Title}, {"turn", s.Turn, after.Turn},
		{"messages", s.Messages, after.Messages},
		{"queued", s.Queued, after.Queued}, {"live tasks", s.Live, after.Live},
		{"open approvals", s.Approvals, after.Approvals},
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
	Session string `arg:"" help:"Session: id, unique id prefix, title, or last."`
	To      int64  `help:"Stop after this sequence number; 0 for the end." placeholder:"SEQ" default:"0"`
	outputFlags
}

// Run folds a journal up to an event. It changes nothing and repeats no effect.
func (c *eventReplay) Run(ctx context.Context, a *app) error {
	if c.To < 0 {
		return usageError("--to is negative", "give the sequence number of an event; event list shows them")
	}
	return a.onSession(ctx, c.Session, true, func(eng Engine, s engine.Session) error {
		at, err := fold(ctx, eng, s.ID,
			func(e perdure.Event, _ *perdure.Session) bool { return c.To == 0 || e.Seq < c.To },
			func(*perdure.Session) {})
		if err != nil {
			return err
		}
		if at.Seq < c.To {
			return &userError{err: perdure.NotFound, message: fmt.Sprintf("the last event of %s is %d", s.ID, at.Seq),
				hint: program + " event list " + a.storeFlags() + string(s.ID) + "  shows them"}
		}
		return c.show(ctx, a, outputObject{string(s.ID), at, func() {
			a.fields(append([]field{{"session", cell{string(s.ID), bold}},
				{"after event", cell{text: fmt.Sprint(at.Seq)}}}, sessionState{}.to(sessionStateOf(at))...)...)
		}})
	})
}

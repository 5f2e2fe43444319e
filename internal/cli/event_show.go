package cli

import (
	"context"
	"fmt"
	"slices"
	"strconv"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/engine"
)

type eventShow struct {
	Session string `arg:"" help:"Session: id, unique id prefix, title, or last."`
	Event   string `arg:"" help:"Sequence number or event id."`
	outputFlags
}

// shownEvent is an event with the state of its session before and after it.
type shownEvent struct {
	Event   perdure.Event          `json:"event"`
	Before  perdure.SessionOutline `json:"before"`
	After   perdure.SessionOutline `json:"after"`
	Changes []perdure.StateChange  `json:"changes"`
}

// Run shows an event.
func (c *eventShow) Run(ctx context.Context, a *app) error {
	return a.onSession(ctx, c.Session, true, func(eng Engine, s engine.Session) error {
		seq, _ := strconv.ParseInt(c.Event, 10, 64) // otherwise it is an id
		var found *shownEvent
		var was *perdure.Session
		_, err := fold(ctx, eng, s.ID, func(e perdure.Event, before *perdure.Session) bool {
			if e.Seq == seq || string(e.ID) == c.Event {
				found, was = &shownEvent{Event: e, Before: perdure.OutlineOf(before)}, before.Clone()
			}
			return found == nil
		}, func(after *perdure.Session) {
			found.After, found.Changes = perdure.OutlineOf(after), perdure.StateChanges(was, after)
		})
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
	return append(all, stateChangeFields(one.Changes)...)
}

// stateChangeFields shows changes of a state, one field each.
func stateChangeFields(changes []perdure.StateChange) []field {
	var all []field
	for _, c := range changes {
		text := orNone(c.Before) + " → " + orNone(c.After)
		if c.ID != "" {
			text = c.ID + ": " + text
		}
		all = append(all, field{c.What, cell{text: text}})
	}
	return all
}

// countsOf returns the state of a session as changes since its start, without single calls and
// tasks.
func countsOf(s *perdure.Session) []perdure.StateChange {
	return slices.DeleteFunc(perdure.StateChanges(perdure.NewSession(s.ID), s), func(c perdure.StateChange) bool { return c.ID != "" })
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
				{"after event", cell{text: fmt.Sprint(at.Seq)}}}, stateChangeFields(countsOf(at))...)...)
		}})
	})
}

package cli

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/engine"
	"github.com/perdure/perdure/internal/cron"
	"github.com/perdure/perdure/internal/redact"
)

type scheduleList struct {
	output
	Session string `help:"Only those of this session." placeholder:"ID"`
	On      bool   `help:"Only those that fire."`
}

// Run lists schedules.
func (c *scheduleList) Run(ctx context.Context, a *app) error {
	return a.read(ctx, func(eng Engine) error {
		var of perdure.SessionID
		if c.Session != "" {
			s, err := a.session(ctx, eng, c.Session)
			if err != nil {
				return err
			}
			of = s.ID
		}
		all, err := eng.Schedules(ctx, of)
		if err != nil {
			return fmt.Errorf("list schedules: %w", err)
		}
		var chosen []scheduled
		for _, s := range all {
			if s.Enabled || !c.On {
				chosen = append(chosen, asScheduled(s))
			}
		}
		return schedules(a.now()).print(ctx, a, c.output, chosen)
	})
}

// scheduled is a schedule as the API answers it.
type scheduled struct {
	perdure.Schedule
	Type  string `json:"schedule_type"`
	Words string `json:"in_words,omitempty"` // when it fires
}

// asScheduled adds what the API adds.
func asScheduled(s perdure.Schedule) scheduled {
	told := scheduled{Schedule: s, Type: s.Type()}
	if _, err := cron.Parse(s.Cron); s.Cron != "" && err == nil {
		told.Words = when(s) + ", " + s.Zone
	}
	return told
}

// schedules is how schedules are listed.
func schedules(now clock) listing[scheduled] {
	return listing[scheduled]{
		noun: "schedules",
		head: []string{"SCHEDULE", "STATE", "WHEN", "ZONE", "NEXT", "FIRES", "TITLE", "DOES"},
		name: func(s scheduled) string { return string(s.ID) },
		row: func(s scheduled) []cell {
			next := ""
			if !s.NextAt.IsZero() {
				next = now.until(s.NextAt)
			}
			return []cell{
				{string(s.ID), bold}, {stateOf(s.Schedule), scheduleColor(s.Schedule)}, {text: when(s.Schedule)}, {text: s.Zone}, {text: next}, {text: fmt.Sprint(s.Count)},
				{text: s.Title}, {text: does(s.Action)},
			}
		},
	}
}

func scheduleColor(s perdure.Schedule) color {
	switch {
	case s.Enabled:
		return green
	case s.Paused != "":
		return yellow
	}
	return dim
}

// does says in a line what a fire does.
func does(a perdure.ScheduleAction) string {
	if a.Tool == "" {
		return "says: " + a.Message
	}
	return "runs " + a.Tool + " " + redact.Document(a.Args)
}

type scheduleShow struct {
	Schedule string `arg:"" help:"Its id, or a unique beginning of it, or its title."`
	output
}

// Run shows a schedule.
func (c *scheduleShow) Run(ctx context.Context, a *app) error {
	return a.read(ctx, func(eng Engine) error {
		s, err := a.schedule(ctx, eng, c.Schedule)
		if err != nil {
			return err
		}
		return c.output.showSchedule(ctx, a, s)
	})
}

// showSchedule prints a schedule.
func (o output) showSchedule(ctx context.Context, a *app, s perdure.Schedule) error {
	return o.show(ctx, a, shown{string(s.ID), asScheduled(s), func() { a.fields(a.scheduleFields(s)...) }})
}

func (a *app) scheduleFields(s perdure.Schedule) []field {
	now := a.now()
	count := fmt.Sprint(s.Count)
	if s.Failures > 0 {
		count += fmt.Sprintf(", of which the last %d failed", s.Failures)
	}
	missed := string(s.Missed)
	if s.Missed == perdure.MissedAll {
		missed += " of the last " + span(s.Window)
	}
	all := []field{
		{"schedule", cell{string(s.ID), bold}},
		{"title", cell{text: s.Title}},
		{"state", cell{stateOf(s), scheduleColor(s)}},
		{"when", cell{text: when(s)}},
		{"cron", cell{text: s.Cron}},
		{"zone", cell{text: s.Zone}},
		{"next", cell{text: ahead(s.NextAt, now)}},
		{"last", cell{text: moment(s.LastAt, now)}},
		{"fires", cell{text: count}},
		{"does", cell{text: does(s.Action)}},
		{"tells", cell{text: tells(s.Action)}},
		{"missed", cell{text: missed}},
		{"overlap", cell{text: string(s.Overlap)}},
		{"monitor", cell{text: string(s.Monitor)}},
		{"session", cell{text: string(s.Session)}},
		{"owner", cell{text: s.Owner}},
		{"created", cell{text: moment(s.CreatedAt, now)}},
	}
	if s.Jitter > 0 {
		all = append(all, field{"jitter", cell{text: "up to " + span(s.Jitter)}})
	}
	return all
}

func ahead(t time.Time, now clock) string {
	if t.IsZero() {
		return ""
	}
	return t.UTC().Format(time.RFC3339) + "  (in " + span(t.Sub(now.Time)) + ")"
}

// tells says of which ends the session is told.
func tells(a perdure.ScheduleAction) string {
	switch {
	case a.Tool == "":
		return ""
	case !a.Signal:
		return "nothing of how a run ended"
	case a.Deliver == perdure.DeliverChanges:
		return "how a run ended, if not with the same result as the one before"
	}
	return "how each run ended"
}

type scheduleExplain struct {
	Schedule string    `arg:"" help:"Its id, or a unique beginning of it, or its title."`
	At       time.Time `help:"Only say what became of this time of it, RFC 3339." placeholder:"TIME"`
	Count    int       `help:"How many past fires, and how many to come; at most 100." placeholder:"N" default:"5"`
	output
}

// explained is what explain says, for -o json.
type explained struct {
	Schedule perdure.Schedule `json:"schedule"`
	Words    string           `json:"in_words"`
	Next     []coming         `json:"next"`
	Fires    []perdure.Fire   `json:"fires"`
}

// Run says what became of a schedule's times, and what comes (SC16).
func (c *scheduleExplain) Run(ctx context.Context, a *app) error {
	if err := c.suits(explained{}); err != nil {
		return err
	}
	if c.Count < 1 || c.Count > mostComing {
		return misuse(fmt.Sprintf("--count %d", c.Count), "ask for 1 to 100")
	}
	return a.read(ctx, func(eng Engine) error {
		s, err := a.schedule(ctx, eng, c.Schedule)
		if err != nil {
			return err
		}
		zone, err := time.LoadLocation(s.Zone)
		if err != nil {
			return fmt.Errorf("schedule %s: %w", s.ID, err)
		}
		all := explained{Schedule: s, Words: when(s), Next: []coming{}, Fires: []perdure.Fire{}}
		if !c.At.IsZero() {
			return c.one(ctx, a, eng, all, zone)
		}
		next, err := eng.NextFires(ctx, s.ID, c.Count)
		if err != nil {
			return err
		}
		past, err := eng.ScheduleFires(ctx, s.ID, c.Count)
		if err != nil {
			return err
		}
		all.Next, all.Fires = append(all.Next, comings(next, zone)...), append(all.Fires, past...)
		return c.show(ctx, a, shown{string(s.ID), all, func() { a.tellExplained(all, zone) }})
	})
}

// one says what became of one time.
func (c *scheduleExplain) one(ctx context.Context, a *app, eng engine.Schedules, all explained, zone *time.Location) error {
	past, err := eng.ScheduleFires(ctx, all.Schedule.ID, 0)
	if err != nil {
		return err
	}
	for _, f := range past {
		if f.Nominal.Truncate(time.Minute).Equal(c.At.Truncate(time.Minute)) {
			all.Fires = append(all.Fires, f)
		}
	}
	return c.show(ctx, a, shown{string(all.Schedule.ID), all, func() {
		for _, f := range all.Fires {
			a.tellFire(f, zone)
		}
		if len(all.Fires) == 0 {
			fmt.Fprintf(a.out, "  %s   %s\n", c.At.In(zone).Format(wall), unrecorded(all.Schedule, past, c.At, zone))
		}
	}})
}

// unrecorded says why a moment has no row of its own.
func unrecorded(s perdure.Schedule, past []perdure.Fire, at time.Time, zone *time.Location) string {
	spec, _, err := readCron(orText(s.Cron, "@yearly"), s.Zone, at)
	isTime := s.Cron == "" && s.At.Equal(at)
	if err == nil && s.Cron != "" {
		next, ok := spec.Next(at.Truncate(time.Minute).Add(-time.Second), zone)
		isTime = ok && next.Equal(at.Truncate(time.Minute))
	}
	switch {
	case !isTime:
		return "is no time of it: it fires " + when(s)
	case at.Before(s.CreatedAt):
		return "passed before the schedule was made"
	case at.After(time.Now()):
		return "is still to come"
	}
	for i := len(past) - 1; i >= 0; i-- { // the first one after it stands for it
		if f := past[i]; f.Nominal.After(at) && f.Counted > 0 {
			return fmt.Sprintf("was missed: the fire for %s stands for it (%s)", f.Nominal.In(zone).Format(wall), f.Reason)
		}
	}
	return "passed while the schedule was paused"
}

func orText(text, fallback string) string {
	if text == "" {
		return fallback
	}
	return text
}

func (a *app) tellExplained(all explained, zone *time.Location) {
	s := all.Schedule
	fmt.Fprintf(a.out, "%s  %s fires %s, %s, and %s\n", s.ID, a.line(s.Title, cellChars), all.Words, s.Zone, a.line(does(s.Action), 2*cellChars))
	fmt.Fprintf(a.out, "state: %s\n", a.line(stateOf(s), 200))
	fmt.Fprintf(a.out, "what was missed: %s; while the one before is at work: %s\n", policies[string(s.Missed)], policies[string(s.Overlap)+" overlap"])
	if len(all.Fires) > 0 {
		fmt.Fprintln(a.out, "what became of its times, the latest first:")
		for _, f := range all.Fires {
			a.tellFire(f, zone)
		}
	}
	if len(all.Next) > 0 {
		fmt.Fprintln(a.out, "what comes:")
		a.tellComing(all.Next, zone)
	}
}

// policies says what the policies mean.
var policies = map[string]string{
	"one": "one fire for all of it", "skip": "it is left out", "all": "each is made up for",
	"skip overlap": "a time is left out", "allow overlap": "both run", "queue overlap": "one waits", "replace overlap": "that one is canceled",
}

// tellFire prints what became of a time, and why.
func (a *app) tellFire(f perdure.Fire, zone *time.Location) {
	text := strings.ReplaceAll(string(f.Outcome), "_", " ")
	if f.Counted > 0 {
		text += fmt.Sprintf(", for %d earlier times too", f.Counted)
	}
	if f.Task != "" {
		text += ": " + string(f.Task)
	}
	if f.Reason != "" {
		text += " (" + a.line(f.Reason, 200) + ")"
	}
	fmt.Fprintf(a.out, "  %s   %s\n", f.Nominal.In(zone).Format(wall), text)
}

// schedule finds a schedule by what was typed.
func (a *app) schedule(ctx context.Context, eng engine.Schedules, typed string) (perdure.Schedule, error) {
	if id, err := perdure.ParseID[perdure.ScheduleID](typed); err == nil {
		if s, err := eng.Schedule(ctx, id); !errors.Is(err, perdure.NotFound) {
			return s, err
		}
	}
	all, err := eng.Schedules(ctx, "")
	if err != nil {
		return perdure.Schedule{}, fmt.Errorf("list schedules: %w", err)
	}
	var candidates []candidate
	for _, s := range all {
		candidates = append(candidates, candidate{id: string(s.ID), named: s.Title, about: when(s) + " " + s.Title})
	}
	id, err := a.kind("schedule").choose(typed, candidates)
	if err != nil {
		return perdure.Schedule{}, err
	}
	return eng.Schedule(ctx, perdure.ScheduleID(id))
}

package cli

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/engine"
	"github.com/perdure/perdure/internal/cron"
	"github.com/perdure/perdure/internal/redact"
)

type scheduleList struct {
	listFlags
	Session string `help:"Only schedules of this session." placeholder:"ID"`
	On      bool   `help:"Only active schedules."`
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
		all, err := eng.Schedules().List(ctx, of)
		if err != nil {
			return fmt.Errorf("list schedules: %w", err)
		}
		var chosen []scheduled
		for _, s := range all {
			if s.Enabled || !c.On {
				chosen = append(chosen, asScheduled(s))
			}
		}
		chosen, err = newestWithin(c.listFlags, a.now().Time, chosen, func(s scheduled) time.Time { return s.CreatedAt })
		if err != nil {
			return err
		}
		return schedules(a.now()).print(ctx, a, c.outputFlags, chosen)
	})
}

// scheduled is a schedule in the format of the API.
type scheduled struct {
	perdure.Schedule
	Type  string `json:"schedule_type"`
	Words string `json:"in_words,omitempty"` // when it fires
}

// asScheduled adds the derived fields of the API.
func asScheduled(s perdure.Schedule) scheduled {
	told := scheduled{Schedule: s, Type: s.Type()}
	if _, err := cron.Parse(s.Cron); s.Cron != "" && err == nil {
		told.Words = when(s) + ", " + s.Zone
	}
	return told
}

// schedules describes how schedules are listed.
func schedules(now clock) outputList[scheduled] {
	return outputList[scheduled]{
		noun: "schedules",
		head: []string{"SCHEDULE", "STATE", "WHEN", "ZONE", "NEXT", "FIRES", "TITLE", "DOES"},
		name: func(s scheduled) string { return string(s.ID) },
		row: func(s scheduled) []cell {
			next := ""
			if !s.NextAt.IsZero() {
				next = now.until(s.NextAt)
			}
			return []cell{
				{string(s.ID), bold}, {stateOf(s.Schedule), scheduleColor(s.Schedule)}, {text: when(s.Schedule)},
				{text: s.Zone}, {text: next}, {text: fmt.Sprint(s.Count)},
				{text: s.Title}, {text: describeAction(s.Action)},
			}
		},
		wide: func(s scheduled) []field {
			return []field{{"SESSION", cell{text: string(s.Session)}}, {"MISSED", cell{text: string(s.Missed)}},
				{"OVERLAP", cell{text: string(s.Overlap)}}, {"CREATED", cell{text: ago(s.CreatedAt, now)}}}
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

// describeAction describes what a fire does.
func describeAction(a perdure.ScheduleAction) string {
	if a.Tool == "" {
		return "sends: " + a.Message
	}
	return "runs " + a.Tool + " " + redact.Document(a.Args)
}

type scheduleShow struct {
	Schedule string `arg:"" help:"Id, unique id prefix, or title."`
	outputFlags
}

// Run shows a schedule.
func (c *scheduleShow) Run(ctx context.Context, a *app) error {
	return a.read(ctx, func(eng Engine) error {
		s, err := a.schedule(ctx, eng, c.Schedule)
		if err != nil {
			return err
		}
		return c.outputFlags.showSchedule(ctx, a, s)
	})
}

// showSchedule prints a schedule.
func (o outputFlags) showSchedule(ctx context.Context, a *app, s perdure.Schedule) error {
	return o.show(ctx, a, outputObject{string(s.ID), asScheduled(s), func() { a.fields(scheduleText{a}.scheduleFields(s)...) }})
}

func (a scheduleText) scheduleFields(s perdure.Schedule) []field {
	now := a.now()
	count := fmt.Sprint(s.Count)
	if s.Failures > 0 {
		count += fmt.Sprintf(", the last %d failed", s.Failures)
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
		{"next", cell{text: untilText(s.NextAt, now)}},
		{"last", cell{text: moment(s.LastAt, now)}},
		{"fires", cell{text: count}},
		{"does", cell{text: describeAction(s.Action)}},
		{"reports", cell{text: reportedResults(s.Action)}},
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

func untilText(t time.Time, now clock) string {
	if t.IsZero() {
		return ""
	}
	return t.UTC().Format(time.RFC3339) + "  (in " + span(t.Sub(now.Time)) + ")"
}

// reportedResults describes which results the session receives.
func reportedResults(a perdure.ScheduleAction) string {
	switch {
	case a.Tool == "":
		return ""
	case !a.Signal:
		return "no results"
	case a.Deliver == perdure.DeliverChanges:
		return "results that differ from the previous one"
	}
	return "every result"
}

type scheduleExplain struct {
	Schedule string    `arg:"" help:"Id, unique id prefix, or title."`
	At       time.Time `help:"Explain only this time, RFC 3339." placeholder:"TIME"`
	Count    int       `help:"Number of past and of next fires, at most 100 each." placeholder:"N" default:"5"`
	outputFlags
}

// explained is the output of explain, for -o json.
type explained struct {
	Schedule perdure.Schedule `json:"schedule"`
	Words    string           `json:"in_words"`
	Next     []nextFire       `json:"next"`
	Fires    []perdure.Fire   `json:"fires"`
}

// Run explains the past and next fires of a schedule (SC16).
func (c *scheduleExplain) Run(ctx context.Context, a *app) error {
	if err := c.checkFields(explained{}); err != nil {
		return err
	}
	if c.Count < 1 || c.Count > maxFires {
		return usageError(fmt.Sprintf("--count %d", c.Count), "give a number from 1 to 100")
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
		all := explained{Schedule: s, Words: when(s), Next: []nextFire{}, Fires: []perdure.Fire{}}
		if !c.At.IsZero() {
			return c.one(ctx, a, eng.Schedules(), all, zone)
		}
		next, err := eng.Schedules().NextFires(ctx, s.ID, c.Count)
		if err != nil {
			return err
		}
		past, err := eng.Schedules().Fires(ctx, s.ID, c.Count)
		if err != nil {
			return err
		}
		all.Next, all.Fires = append(all.Next, nextFiresOf(next, zone)...), append(all.Fires, past...)
		return c.show(ctx, a, outputObject{string(s.ID), all, func() { scheduleText{a}.printExplanation(all, zone) }})
	})
}

// one explains one time.
func (c *scheduleExplain) one(ctx context.Context, a *app, eng engine.Schedules, all explained,
	zone *time.Location) error {
	past, err := eng.Fires(ctx, all.Schedule.ID, 0)
	if err != nil {
		return err
	}
	for _, f := range past {
		if f.Nominal.Truncate(time.Minute).Equal(c.At.Truncate(time.Minute)) {
			all.Fires = append(all.Fires, f)
		}
	}
	return c.show(ctx, a, outputObject{string(all.Schedule.ID), all, func() {
		for _, f := range all.Fires {
			scheduleText{a}.printFire(f, zone)
		}
		if len(all.Fires) == 0 {
			fmt.Fprintf(a.out, "  %s   %s\n", c.At.In(zone).Format(localTimeFormat), missingFireReason(all.Schedule, past, c.At, zone))
		}
	}})
}

// missingFireReason explains why there is no fire for a time.
func missingFireReason(s perdure.Schedule, past []perdure.Fire, at time.Time, zone *time.Location) string {
	spec, _, err := readCron(orText(s.Cron, "@yearly"), s.Zone, at)
	isTime := s.Cron == "" && s.At.Equal(at)
	if err == nil && s.Cron != "" {
		next, ok := spec.Next(at.Truncate(time.Minute).Add(-time.Second), zone)
		isTime = ok && next.Equal(at.Truncate(time.Minute))
	}
	switch {
	case !isTime:
		return "is not one of its times: it fires " + when(s)
	case at.Before(s.CreatedAt):
		return "was before the schedule was created"
	case at.After(time.Now()):
		return "is in the future"
	}
	for i := len(past) - 1; i >= 0; i-- { // the first fire after it covers it
		if f := past[i]; f.Nominal.After(at) && f.Merged > 0 {
			return fmt.Sprintf("was missed: the fire for %s covers it (%s)", f.Nominal.In(zone).Format(localTimeFormat), f.Reason)
		}
	}
	return "was while the schedule was paused"
}

func orText(text, fallback string) string {
	if text == "" {
		return fallback
	}
	return text
}

func (a scheduleText) printExplanation(all explained, zone *time.Location) {
	s := all.Schedule
	fmt.Fprintf(a.out, "%s  %s fires %s, %s, and %s\n", s.ID, a.oneLine(s.Title, cellChars), all.Words, s.Zone,
		a.oneLine(describeAction(s.Action), 2*cellChars))
	fmt.Fprintf(a.out, "state: %s\n", a.oneLine(stateOf(s), 200))
	fmt.Fprintf(a.out, "missed fires: %s; while the previous fire is running: %s\n", policies[string(s.Missed)],
		policies[string(s.Overlap)+" overlap"])
	if len(all.Fires) > 0 {
		fmt.Fprintln(a.out, "past fires, latest first:")
		for _, f := range all.Fires {
			a.printFire(f, zone)
		}
	}
	if len(all.Next) > 0 {
		fmt.Fprintln(a.out, "next fires:")
		a.printNextFires(all.Next, zone)
	}
}

// policies describes the policies.
var policies = map[string]string{
	"one": "one fire for all of them", "skip": "skipped", "all": "each is made up",
	"skip overlap": "a new fire is skipped", "allow overlap": "both run", "queue overlap": "one fire waits",
	"replace overlap": "the previous one is canceled",
}

// printFire prints the outcome of a fire, and the reason.
func (a scheduleText) printFire(f perdure.Fire, zone *time.Location) {
	text := strings.ReplaceAll(string(f.Outcome), "_", " ")
	if f.Merged > 0 {
		text += fmt.Sprintf(", also for %d earlier times", f.Merged)
	}
	if f.Task != "" {
		text += ": " + string(f.Task)
	}
	if f.Reason != "" {
		text += " (" + a.oneLine(f.Reason, 200) + ")"
	}
	fmt.Fprintf(a.out, "  %s   %s\n", f.Nominal.In(zone).Format(localTimeFormat), text)
}

// schedule finds a schedule by what the user typed.
func (a *app) schedule(ctx context.Context, eng Engine, typed string) (perdure.Schedule, error) {
	if s, ok, err := byFullID(ctx, typed, eng.Schedules().Get); ok || err != nil {
		return s, err
	}
	all, err := eng.Schedules().List(ctx, "")
	if err != nil {
		return perdure.Schedule{}, fmt.Errorf("list schedules: %w", err)
	}
	s, err := pick(a.kind("schedule"), typed, all, func(s perdure.Schedule) candidate {
		return candidate{id: string(s.ID), name: s.Title, description: when(s) + " " + s.Title}
	})
	if err != nil {
		return s, err
	}
	return eng.Schedules().Get(ctx, s.ID)
}

package enginetest

import (
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/engine"
)

func scheduleLaws() []law {
	return []law{
		{"ScheduleFiresOnce", scheduleFires},
		{"ScheduleSpeaks", scheduleSpeaks},
		{"ScheduleSurvivesKill", scheduleSurvives},
		{"ScheduleRefused", scheduleRefused},
		{"ScheduleOfOneIDIsOne", scheduleSame},
		{"ScheduleCap", scheduleCap},
		{"SchedulePauseResume", schedulePauses},
		{"ScheduleTriggerBackfill", scheduleByHand},
		{"SchedulePreview", schedulePreviews},
		{"ScheduleDeleted", scheduleDeleted},
		{"SpawnBackgroundCreatesScheduledMonitor", spawnMonitor},
		{"MonitorReplayedIsOne", monitorReplayed},
		{"ScheduleToolsCreateListCancel", scheduleTools},
	}
}

// hourly is a schedule of the session that runs bg_note.
func (s *scene) hourly() perdure.Schedule {
	return perdure.Schedule{
		Session: s.id, Owner: "user", Title: "Hourly", Cron: "0 * * * *", Zone: "Europe/Berlin",
		Action: perdure.ScheduleAction{Tool: "bg_note", Args: json.RawMessage(`{"text":"a"}`), Signal: true},
	}
}

// create creates a schedule.
func (s *scene) create(want perdure.Schedule) perdure.Schedule {
	s.t.Helper()
	made, err := s.eng.Schedules().Create(s.ctx, want)
	if err != nil {
		s.t.Fatalf("CreateSchedule: %v", err)
	}
	return made
}

// once is a schedule that fires at once.
func (s *scene) once() perdure.Schedule {
	one := s.hourly()
	one.Cron, one.At = "", time.Now()
	return one
}

// fires returns the recorded fires of a schedule, latest first.
func (s *scene) fires(id perdure.ScheduleID) []perdure.Fire {
	s.t.Helper()
	fires, err := s.eng.Schedules().Fires(s.ctx, id, 0)
	if err != nil {
		s.t.Fatalf("ScheduleFires: %v", err)
	}
	return fires
}

// fired waits for the nth fire of the session.
func (s *scene) fired(n int) perdure.Fire {
	s.t.Helper()
	return nth[perdure.ScheduleFired](s, n, nil).Fire
}

func scheduleFires(t *testing.T, open Harness) { // SC15, SC25
	s := begin(t, open, Setup{Script: spawning("bg_note", "{}")})
	made := s.create(s.once())
	fire := s.fired(1)
	s.rest()

	task := s.onlyTask()
	if fire.Task != task.ID || task.State != perdure.TaskSucceeded || task.Origin != perdure.OriginSchedule ||
		len(s.Effects("bg_note")) != 1 {
		t.Errorf("got %+v of %+v, %d effects", task, fire, len(s.Effects("bg_note")))
	}
	after, err := s.eng.Schedules().Get(s.ctx, made.ID)
	if err != nil || after.Enabled || after.Count != 1 || len(s.fires(made.ID)) != 1 {
		t.Errorf("got %+v, %v, fires %+v", after, err, s.fires(made.ID))
	}
	if next, err := s.eng.Schedules().NextFires(s.ctx, made.ID, 3); err != nil || len(next) != 0 {
		t.Errorf("next: %+v, %v", next, err)
	}
	if !strings.HasPrefix(s.final(), "home: ") { // SC27
		t.Errorf("the run was delivered as %q", s.final())
	}
	s.costs(made.ID, 1)
}

// costs checks that asked model calls are attributed to a schedule, and all other ones to none.
func (s *scene) costs(id perdure.ScheduleID, asked int64) {
	s.t.Helper()
	report, err := s.eng.Budgets().Costs(s.ctx, engine.CostQuery{Group: "schedule"})
	calls := map[string]int64{}
	for _, line := range report.Items {
		calls[line.Key] += line.ModelCalls
	}
	if rest := report.Total.ModelCalls - asked; err != nil || calls[string(id)] != asked || calls["(none)"] != rest {
		s.t.Errorf("got %v of %d questions, %v; want %d of %s; journal:\n%s",
			calls, report.Total.ModelCalls, err, asked, id, s.journalText())
	}
}

func scheduleSpeaks(t *testing.T, open Harness) { // SC14: a message is an input
	s := begin(t, open, Setup{Script: "steps: [{text: looked, repeat: true}]"})
	one := s.once()
	one.Action = perdure.ScheduleAction{Message: "look around"}
	made := s.create(one)
	fire := s.fired(1)
	s.rest()
	s.costs(made.ID, 1)
	s.say("and you?")
	s.rest()
	s.costs(made.ID, 1)

	if got := nth[perdure.MessageReceived](s, 1, nil); fire.Message != got.Message.ID ||
		got.Message.Text() != "look around" || got.Source != "schedule" || s.final() != "looked" {
		t.Errorf("got %+v of %+v, answered %q", got, fire, s.final())
	}
}

// scheduleSurvives pins SC15: a crash around the fire leaves exactly one fire.
func scheduleSurvives(t *testing.T, open Harness) {
	s := begin(t, open, Setup{Script: spawning("bg_hold", "{}")})
	one := s.once()
	one.Action.Tool = "bg_hold"
	made := s.create(one)
	s.crash()
	s.Entered(t, "bg_hold", 1)
	s.crash()
	s.Release("bg_hold")
	s.rest()

	if task := s.onlyTask(); task.State != perdure.TaskSucceeded || len(s.fires(made.ID)) != 1 ||
		len(facts[perdure.ScheduleFired](s)) != 1 {
		t.Errorf("got %+v, fires %+v", task, s.fires(made.ID))
	}
}

func scheduleRefused(t *testing.T, open Harness) { // SC9 to SC11
	s := begin(t, open, Setup{Script: spawning("bg_note", "{}")})
	for words, spoil := range map[string]func(*perdure.Schedule){
		"does not fire in the next":     func(o *perdure.Schedule) { o.Cron = "0 0 31 2 *" },
		"at least 5m0s must lie":        func(o *perdure.Schedule) { o.Cron = "* * * * *" },
		"minute, hour":                  func(o *perdure.Schedule) { o.Cron = "0 * *" },
		"unknown time zone":             func(o *perdure.Schedule) { o.Zone = "Mars/Olympus" },
		"exactly one of":                func(o *perdure.Schedule) { o.Cron = "" },
		"not include both":              func(o *perdure.Schedule) { o.At = time.Now().Add(time.Hour) },
		"is in the past":                func(o *perdure.Schedule) { o.Cron, o.At = "", time.Now().Add(-2*time.Minute) },
		"Unknown tool: nothing":         func(o *perdure.Schedule) { o.Action.Tool = "nothing" },
		"does not support background":   func(o *perdure.Schedule) { o.Action.Tool = "note" },
		"a message or a tool":           func(o *perdure.Schedule) { o.Action = perdure.ScheduleAction{} },
		"missed is \"perhaps\"":         func(o *perdure.Schedule) { o.Missed = "perhaps" },
		"overlap is \"perhaps\"":        func(o *perdure.Schedule) { o.Overlap = "perhaps" },
		"half of its shortest":          func(o *perdure.Schedule) { o.Jitter = 31 * time.Minute },
		"Invalid arguments for bg_note": func(o *perdure.Schedule) { o.Action.Args = json.RawMessage(`{"no":1}`) },
	} {
		order := s.hourly()
		spoil(&order)
		if _, err := s.eng.Schedules().Create(s.ctx, order); !errors.Is(err, perdure.Invalid) ||
			!strings.Contains(err.Error(), words) {
			t.Errorf("got %v, want Invalid and %q", err, words)
		}
	}
	lost := s.hourly()
	lost.Session = "session_0123456789abcdef0123456789abcdef"
	_, err := s.eng.Schedules().Create(s.ctx, lost)
	_, unknown := s.eng.Schedules().Get(s.ctx, "sched_0123456789abcdef0123456789abcdef")
	_, act := s.eng.Schedules().Trigger(s.ctx, "sched_0123456789abcdef0123456789abcdef", "user")
	all, listed := s.eng.Schedules().List(s.ctx, "")
	if !errors.Is(err, perdure.NotFound) || !errors.Is(unknown, perdure.NotFound) ||
		!errors.Is(act, perdure.NotFound) || listed != nil || len(all) != 0 {
		t.Errorf("got %v, %v, %v; %d schedules", err, unknown, act, len(all))
	}
}

func scheduleSame(t *testing.T, open Harness) { // N3
	s := begin(t, open, Setup{Script: spawning("bg_note", "{}")})
	order := s.hourly()
	order.ID = "sched_0123456789ab7def8123456789abcdef"
	first, again := s.create(order), s.create(order)
	order.Title = "Another"
	_, err := s.eng.Schedules().Create(s.ctx, order)
	all, listed := s.eng.Schedules().List(s.ctx, s.id)
	if first.ID != order.ID || again.ID != first.ID || !errors.Is(err, perdure.Conflict) || listed != nil ||
		len(all) != 1 {
		t.Errorf("got %s and %s, %v; %d schedules", first.ID, again.ID, err, len(all))
	}
}

func scheduleCap(t *testing.T, open Harness) { // SC19
	s := begin(t, open, Setup{Script: spawning("bg_note", "{}")})
	var last perdure.Schedule
	for range 5 {
		last = s.create(s.hourly())
	}
	const words = "Maximum 5 active schedules per session. Cancel an existing schedule first."
	if _, err := s.eng.Schedules().Create(s.ctx, s.hourly()); !errors.Is(err, perdure.Limit) ||
		!strings.Contains(err.Error(), words) {
		t.Errorf("got %v, want %q", err, words)
	}
	if _, err := s.eng.Schedules().Pause(s.ctx, last.ID, "user", ""); err != nil { // only enabled ones count
		t.Fatal(err)
	}
	s.create(s.hourly())
	if _, err := s.eng.Schedules().Resume(s.ctx, last.ID, "user"); !errors.Is(err, perdure.Limit) {
		t.Errorf("resumed over the limit: %v", err)
	}
}

func schedulePauses(t *testing.T, open Harness) { // SC22
	s := begin(t, open, Setup{Script: spawning("bg_note", "{}")})
	made := s.create(s.hourly())
	paused, err := s.eng.Schedules().Pause(s.ctx, made.ID, "user", "holidays")
	if err != nil || paused.Enabled || !paused.NextAt.IsZero() || paused.Paused != "paused by user: holidays" {
		t.Errorf("paused: %+v, %v", paused, err)
	}
	next, err := s.eng.Schedules().NextFires(s.ctx, made.ID, 2)
	if err != nil || len(next) != 2 || next[1].At.Sub(next[0].At) != time.Hour {
		t.Errorf("next: %+v, %v", next, err)
	}
	resumed, err := s.eng.Schedules().Resume(s.ctx, made.ID, "user")
	if err != nil || !resumed.Enabled || resumed.Paused != "" || !resumed.NextAt.Equal(next[0].At) {
		t.Errorf("resumed: %+v, %v; next %v", resumed, err, next)
	}
}

// schedulePreviews pins SC9 to SC11 for a schedule that does not exist: the fires it would have, or
// why its creation would be refused.
func schedulePreviews(t *testing.T, open Harness) {
	s := begin(t, open, Setup{Script: spawning("bg_note", "{}")})
	next, err := s.eng.Schedules().Preview(s.ctx, s.hourly(), 2)
	if err != nil || len(next) != 2 || next[1].At.Sub(next[0].At) != time.Hour {
		t.Errorf("got %+v, %v", next, err)
	}
	changed := perdure.Schedule{Cron: "30 2 25-31 3 *", Zone: "Europe/Berlin"} // one of these days has a gap
	next, err = s.eng.Schedules().Preview(s.ctx, changed, 8)
	if err != nil || !slices.ContainsFunc(next, func(f engine.NextFire) bool { return strings.Contains(f.Note, "does not exist") }) {
		t.Errorf("got %+v, %v; want a fire at the end of a gap", next, err)
	}
	at := time.Now().Add(time.Hour).UTC().Truncate(time.Second)
	if next, err = s.eng.Schedules().Preview(s.ctx, perdure.Schedule{At: at}, 5); err != nil || len(next) != 1 || !next[0].At.Equal(at) {
		t.Errorf("got %+v, %v; want one fire at %s", next, err, at)
	}
	for words, wrong := range map[string]perdure.Schedule{
		"does not fire":     {Cron: "0 0 31 2 *"},
		"must lie between":  {Cron: "* * * * *"},
		"unknown time zone": {Cron: "@daily", Zone: "Atlantis"},
		"is in the past":    {At: at.Add(-24 * time.Hour)},
		"exactly one":       {},
		"five fields":       {Cron: "soon"},
		"its jitter must":   {Cron: "@hourly", Jitter: time.Hour},
	} {
		if next, err := s.eng.Schedules().Preview(s.ctx, wrong, 5); !errors.Is(err, perdure.Invalid) || !strings.Contains(err.Error(), words) {
			t.Errorf("%+v: got %+v, %v; want a refusal with %q", wrong, next, err, words)
		}
	}
	if all, err := s.eng.Schedules().List(s.ctx, ""); err != nil || len(all) != 0 {
		t.Errorf("a preview made %+v, %v", all, err)
	}
}

// scheduleByHand pins SC22: a trigger does not change the next fire, and a backfill fires what did
// not fire.
func scheduleByHand(t *testing.T, open Harness) {
	s := begin(t, open, Setup{Script: spawning("bg_note", "{}")})
	made := s.create(s.hourly())
	fire, err := s.eng.Schedules().Trigger(s.ctx, made.ID, "user")
	after, shown := s.eng.Schedules().Get(s.ctx, made.ID)
	if err != nil || shown != nil || fire.Outcome != perdure.Fired || fire.Task == "" || !fire.ByHand("user") ||
		!after.NextAt.Equal(made.NextAt) {
		t.Errorf("triggered %+v, %v; then %+v, %v", fire, err, after, shown)
	}
	to := made.NextAt.Add(-time.Hour)
	stretch := engine.TimeRange{From: to.Add(-2 * time.Hour), To: to, DryRun: true, By: "user"}
	dry, err := s.eng.Schedules().Backfill(s.ctx, made.ID, stretch)
	if err != nil || len(dry) != 3 || len(s.fires(made.ID)) != 1 {
		t.Errorf("a dry run made %d, %v; %d fires", len(dry), err, len(s.fires(made.ID)))
	}
	stretch.DryRun = false
	filled, err := s.eng.Schedules().Backfill(s.ctx, made.ID, stretch)
	again, twice := s.eng.Schedules().Backfill(s.ctx, made.ID, stretch)
	if err != nil || twice != nil || len(filled) != 3 || len(again) != 0 || len(s.fires(made.ID)) != 4 {
		t.Errorf("backfilled %d, %v, then %d, %v; %d fires", len(filled), err, len(again), twice, len(s.fires(made.ID)))
	}
	stretch.To = time.Now().Add(time.Hour)
	if _, err := s.eng.Schedules().Backfill(s.ctx, made.ID, stretch); !errors.Is(err, perdure.Invalid) {
		t.Errorf("a future time range: %v", err)
	}
	s.rest()
	if len(s.Effects("bg_note")) != 4 {
		t.Errorf("%d runs, want 4", len(s.Effects("bg_note")))
	}
}

func scheduleDeleted(t *testing.T, open Harness) {
	s := begin(t, open, Setup{Script: spawning("bg_note", "{}")})
	made := s.create(s.hourly())
	err := s.eng.Schedules().Delete(s.ctx, made.ID, "user")
	_, gone := s.eng.Schedules().Get(s.ctx, made.ID)
	_, fires := s.eng.Schedules().Fires(s.ctx, made.ID, 0)
	twice := s.eng.Schedules().Delete(s.ctx, made.ID, "user")
	if err != nil || !errors.Is(gone, perdure.NotFound) || !errors.Is(fires, perdure.NotFound) ||
		!errors.Is(twice, perdure.NotFound) {
		t.Errorf("got %v, then %v, %v, %v", err, gone, fires, twice)
	}
}

// watching is an agent that requests a monitor.
const watching = `
rules:
  - when: {last_role: notification}
    text: "home: {{note}}"
  - when: {not_called: spawn_background}
    calls: [{name: spawn_background, args: {tool: bg_note, title: Watch, args: {text: a}, schedule: {cron_expression: "*/10 * * * *", timezone: America/Chicago}}}]
steps: [{text: x}, {text: it watches, repeat: true}]
`

// spawnMonitor pins BG1, BG6, BG7, BG9, SC23 and SC28.
func spawnMonitor(t *testing.T, open Harness) {
	s := begin(t, open, Setup{Script: watching})
	s.say("go")
	s.turnEnds(1)
	var reply map[string]any
	if err := perdure.DecodeJSON(s.onlyResult("spawn_background").Result.Result, &reply); err != nil {
		t.Fatalf("%v; journal:\n%s", err, s.journalText())
	}
	all, err := s.eng.Schedules().List(s.ctx, s.id)
	if err != nil || len(all) != 1 {
		t.Fatalf("%d schedules, %v; journal:\n%s", len(all), err, s.journalText())
	}
	made, monitor := all[0], s.onlyTask()
	if reply["created"] != true || reply["status"] != "scheduled" || reply["schedule_id"] != string(made.ID) ||
		reply["task_id"] != string(monitor.ID) || reply["cron_expression"] != "*/10 * * * *" ||
		reply["timezone"] != "America/Chicago" || reply["scheduled_at"] != nil {
		t.Errorf("got %v", reply)
	}
	if monitor.Kind != perdure.KindMonitor || monitor.State != perdure.TaskRunning ||
		monitor.Spec.Schedule != made.ID || made.Monitor != monitor.ID {
		t.Errorf("got monitor %+v of %+v", monitor, made)
	}
	fire, err := s.eng.Schedules().Trigger(s.ctx, made.ID, "user")
	if err != nil {
		t.Fatal(err)
	}
	run, err := s.eng.Tasks().Wait(s.ctx, fire.Task)
	if err != nil || run.Parent != monitor.ID || run.Origin != perdure.OriginSchedule ||
		len(s.Effects("bg_note")) != 1 {
		t.Errorf("got run %+v, %v", run, err)
	}
	if _, err := s.eng.Tasks().Cancel(s.ctx, monitor.ID, "user", "enough"); err != nil {
		t.Fatal(err)
	}
	if after, err := s.eng.Schedules().Get(s.ctx, made.ID); err != nil || after.Enabled {
		t.Errorf("after the monitor's cancel: %+v, %v", after, err)
	}
	s.rest()
}

// monitorReplayed pins BG4: the call that requests a monitor runs again and finds its own schedule.
func monitorReplayed(t *testing.T, open Harness) {
	s := begin(t, open, Setup{Script: `
rules:
  - when: {not_called: spawn_background}
    calls: [{name: spawn_background, args: {tool: bg_note, args: {}, schedule: {cron_expression: "@hourly"}}}, {name: hold, args: {text: a}}]
steps: [{text: x}, {text: it watches, repeat: true}]
`})
	s.say("go")
	s.Entered(t, "hold", 1)
	nth[perdure.ScheduleCreated](s, 1, nil)
	s.crash()
	s.Release("hold")
	s.turnEnds(1)
	all, err := s.eng.Schedules().List(s.ctx, s.id)
	if err != nil || len(all) != 1 || len(facts[perdure.ScheduleCreated](s)) != 1 || all[0].Monitor != s.onlyTask().ID {
		t.Errorf("%d schedules, %v; journal:\n%s", len(all), err, s.journalText())
	}
}

// scheduleTools pins that a session with the capability creates, lists and cancels schedules.
func scheduleTools(t *testing.T, open Harness) {
	s := begin(t, open, Setup{Script: `
rules:
  - when: {not_called: create_schedule}
    calls: [{name: create_schedule, args: {title: Report, cron_expression: "30 7 * * 1-5", timezone: Europe/Berlin, message: "Write the report."}}]
  - when: {not_called: list_schedules}
    calls: [{name: list_schedules, args: {}}]
  - when: {not_called: cancel_schedule}
    calls: [{name: cancel_schedule, args: {schedule_id: '{{(index (result "list_schedules").schedules 0).schedule_id}}', reason: enough}}]
steps: [{text: done, repeat: true}]
`})
	s.say("go")
	s.rest()
	all, err := s.eng.Schedules().List(s.ctx, s.id)
	if err != nil || len(all) != 1 || all[0].Enabled || all[0].Action.Message != "Write the report." ||
		all[0].Zone != "Europe/Berlin" {
		t.Fatalf("got %+v, %v; journal:\n%s", all, err, s.journalText())
	}
	if canceled := facts[perdure.ScheduleCanceled](s); len(canceled) != 1 || canceled[0].By != "agent" ||
		canceled[0].Why != "enough" || s.final() != "done" {
		t.Errorf("got %+v; journal:\n%s", canceled, s.journalText())
	}
}

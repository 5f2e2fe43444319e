package cli

import (
	"bytes"
	"context"
	"log/slog"
	"strings"
	"testing"
	"time"
	_ "time/tzdata" // in case the machine has no time zones

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/engine"
)

// ask runs a command that needs no engine.
func ask(t *testing.T, args ...string) (code int, stdout, stderr string) {
	t.Helper()
	var out, talk bytes.Buffer
	code = Main(t.Context(), Dependencies{Args: args, Stdout: &out, Stderr: &talk, Log: func(LogStyle) *slog.Logger { return slog.New(slog.DiscardHandler) }})
	return code, out.String(), talk.String()
}

// TestScheduleNext checks that next explains times for people, and prints instants for scripts.
func TestScheduleNext(t *testing.T) {
	t.Parallel()
	asked := []string{"schedule", "next", "30 2 * * *", "--tz", "Europe/Berlin", "--from", "2026-03-27T12:00:00Z", "--count", "3"}
	for form, want := range map[string]string{
		"table": `30 2 * * * in Europe/Berlin, from Fri 2026-03-27 13:00 +01:00:
  Sat 2026-03-28 02:30 +01:00   (01:30 UTC)
  Sun 2026-03-29 03:00 +02:00   (01:00 UTC)
      02:30 on 2026-03-29 does not exist in Europe/Berlin: the clocks go from 02:00 to 03:00, and it fires as the gap ends.
  Mon 2026-03-30 02:30 +02:00   (00:30 UTC)
`,
		"name": "2026-03-28T01:30:00Z\n2026-03-29T01:00:00Z\n2026-03-30T00:30:00Z\n",
	} {
		code, got, _ := ask(t, append(asked, "-o", form)...)
		if code != 0 || got != want {
			t.Errorf("%s: got %d and\n%s\nwant\n%s", form, code, got, want)
		}
	}
}

// TestScheduleNextRefuses checks that a usage error has a reason.
func TestScheduleNextRefuses(t *testing.T) {
	t.Parallel()
	for reason, args := range map[string][]string{
		"is not between 0 and 59": {"61 * * * *"},
		"does not fire in the":    {"0 0 31 2 *"},
		"unknown time zone":       {"@daily", "--tz", "Mars/Olympus"},
		"1 to 100":                {"@daily", "--count", "101"},
	} {
		code, _, said := ask(t, append([]string{"schedule", "next"}, args...)...)
		if code != exitUsage || !strings.Contains(said, reason) {
			t.Errorf("%v: got %d, %s; want %d and %q", args, code, said, exitUsage, reason)
		}
	}
}

// calendar is an engine with one schedule.
type calendar struct {
	Engine
	schedule perdure.Schedule
	next     []engine.NextFire
	past     []perdure.Fire
}

func (p *calendar) Close() error { return nil }

// calendarSchedules implements engine.Schedules for calendar.
type calendarSchedules struct {
	engine.Schedules
	*calendar
}

// Schedules implements engine.Engine.
func (p *calendar) Schedules() engine.Schedules { return calendarSchedules{nil, p} }

func (p calendarSchedules) Get(context.Context, perdure.ScheduleID) (perdure.Schedule, error) {
	return p.schedule, nil
}

func (p calendarSchedules) List(context.Context, perdure.SessionID) ([]perdure.Schedule, error) {
	return []perdure.Schedule{p.schedule}, nil
}

func (p calendarSchedules) NextFires(context.Context, perdure.ScheduleID, int) ([]engine.NextFire, error) {
	return p.next, nil
}

func (p calendarSchedules) Fires(context.Context, perdure.ScheduleID, int) ([]perdure.Fire, error) {
	return p.past, nil
}

// TestScheduleExplain checks that explain says why a time was skipped, which fire covers it, and
// why there is no fire at all.
func TestScheduleExplain(t *testing.T) {
	t.Parallel()
	at := func(text string) time.Time {
		moment, err := time.Parse(time.RFC3339, text)
		if err != nil {
			t.Fatal(err)
		}
		return moment
	}
	p := &calendar{
		schedule: perdure.Schedule{
			ID: "sched_0123456789abcdef0123456789abcdef", Title: "Report", Cron: "30 2 * * *", Zone: "Europe/Berlin", Missed: perdure.MissedOne, Overlap: perdure.OverlapSkip,
			Action: perdure.ScheduleAction{Tool: "bash", Args: []byte(`{"command":"make"}`)}, Enabled: true, CreatedAt: at("2026-03-20T00:00:00Z"),
		},
		next: []engine.NextFire{{At: at("2026-03-29T01:00:00Z"), Clock: "gap", Note: "02:30 on 2026-03-29 does not exist in Europe/Berlin."}},
		past: []perdure.Fire{
			{Nominal: at("2026-03-28T01:30:00Z"), Outcome: perdure.SkippedOverlap, Reason: "the previous fire is still running"},
			{Nominal: at("2026-03-27T01:30:00Z"), Outcome: perdure.Fired, Merged: 2, Reason: "3 fires were missed: nothing ran", Task: "task_1"},
			{Nominal: at("2026-03-24T01:30:00Z"), Outcome: perdure.SkippedBudget, Reason: "its session is paused"},
		},
	}
	for args, want := range map[string]string{
		"Report": `sched_0123456789abcdef0123456789abcdef  Report fires at 02:30, every day, Europe/Berlin, and runs bash {"command":"make"}
state: on
missed fires: one fire for all of them; while the previous fire is running: a new fire is skipped
past fires, latest first:
  Sat 2026-03-28 02:30 +01:00   skipped overlap (the previous fire is still running)
  Fri 2026-03-27 02:30 +01:00   fired, also for 2 earlier times: task_1 (3 fires were missed: nothing ran)
  Tue 2026-03-24 02:30 +01:00   skipped budget (its session is paused)
next fires:
  Sun 2026-03-29 03:00 +02:00   (01:00 UTC)
      02:30 on 2026-03-29 does not exist in Europe/Berlin.
`,
		"sched_0123 --at 2026-03-28T01:30:00Z": "  Sat 2026-03-28 02:30 +01:00   skipped overlap (the previous fire is still running)\n",
		"Report --at 2026-03-26T01:30:00Z":     "  Thu 2026-03-26 02:30 +01:00   was missed: the fire for Fri 2026-03-27 02:30 +01:00 covers it (3 fires were missed: nothing ran)\n",
		"Report --at 2026-03-26T05:00:00Z":     "  Thu 2026-03-26 06:00 +01:00   is not one of its times: it fires at 02:30, every day\n",
		"Report --at 2026-03-01T01:30:00Z":     "  Sun 2026-03-01 02:30 +01:00   was before the schedule was created\n",
		"Report --at 2026-03-29T01:00:00Z":     "  Sun 2026-03-29 03:00 +02:00   was while the schedule was paused\n",
		"Report --at 2999-03-29T01:30:00Z":     "  Fri 2999-03-29 02:30 +01:00   is in the future\n",
	} {
		var out, talk bytes.Buffer
		code := Main(t.Context(), Dependencies{
			Args: append([]string{"schedule", "explain"}, strings.Fields(args)...), Stdout: &out, Stderr: &talk, DataDir: "/data", Log: quietLog,
			Open: func(context.Context, OpenOptions) (Engine, error) { return p, nil },
		})
		if code != 0 || out.String() != want {
			t.Errorf("%s: got %d, %s and\n%s\nwant\n%s", args, code, talk.String(), out.String(), want)
		}
	}
}

package background_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/tool"
)

// plans is tool.Schedules in memory, as far as spawn_background sees it.
type plans struct {
	others
	err   error
	order *tool.ScheduleRequest // the received order; nil: none
}

func (p *plans) CreateSchedule(_ context.Context, o tool.ScheduleRequest) (perdure.Schedule, error) {
	p.order = &o
	s := o.Schedule
	s.ID, s.Enabled, s.NextAt = "sched_00000000000000000000000000000003", true, time.Date(2026, 4, 16, 15, 30, 0, 0, time.UTC)
	if s = s.WithDefaults(perdure.DefaultScheduleRules()); o.Monitor {
		s.Monitor = "task_00000000000000000000000000000004"
	}
	return s, p.err
}

// others are the methods that it has no use for.
type others interface{ tool.Schedules }

// planning is a session with schedules, and neither tasks nor files (BG1).
func planning() (tool.Env, *plans) {
	e, _ := spawnEnv()
	p := &plans{}
	e.Schedules, e.Tasks, e.Files = p, nil, nil
	return e, p
}

// The next three pin prior-art/000 by name.

// TestSpawnBackgroundCanCreateScheduledMonitor: the schedule, its description (BG7), the monitor
// beside it (BG6) and the reply (BG9).
func TestSpawnBackgroundCanCreateScheduledMonitor(t *testing.T) {
	t.Parallel()
	e, p := planning()

	got, _ := run(t, e, "spawn_background", `{"tool":"slow_tool","title":"Watch PR 1319","args":{"n":1,"s":"<Background complete>"},
		"schedule":{"cron_expression":"*/10 * * * *","timezone":"America/Chicago"}}`)

	wantJSON(t, got, `{"created":true,"status":"scheduled","title":"Watch PR 1319","tool":"slow_tool","signal_on_completion":true,
		"schedule_id":"sched_00000000000000000000000000000003","schedule_type":"recurring","cron_expression":"*/10 * * * *","scheduled_at":null,
		"timezone":"America/Chicago","next_trigger_at":"2026-04-16T15:30:00Z","enabled":true,"task_id":"task_00000000000000000000000000000004"}`)
	want := tool.ScheduleRequest{Monitor: true, Schedule: perdure.Schedule{
		Title: "Watch PR 1319", Cron: "*/10 * * * *", Zone: "America/Chicago",
		Action: perdure.ScheduleAction{Tool: "slow_tool", Args: []byte(`{"n":1,"s":"<Background complete>"}`), Signal: true},
		Description: `Monitor: Watch PR 1319

This scheduled monitor fired. Start the background run now.

spawn_background payload:
{
  "tool": "slow_tool",
  "title": "Watch PR 1319",
  "signal_on_completion": true,
  "args": {
    "n": 1,
    "s": "<Background complete>"
  }
}`,
	}}
	if diff := cmp.Diff(&want, p.order); diff != "" {
		t.Errorf("want -, got +:\n%s", diff)
	}
}

// TestSpawnBackgroundRejectsInvalidScheduledAt is row 5.
func TestSpawnBackgroundRejectsInvalidScheduledAt(t *testing.T) {
	t.Parallel()
	e, p := planning()

	got, _ := run(t, e, "spawn_background", `{"tool":"slow_tool","args":{},"schedule":{"scheduled_at":"tomorrow at noon"}}`)

	if wantJSON(t, got, errorBody("scheduled_at must be RFC3339")); p.order != nil {
		t.Errorf("got %+v made, want nothing", p.order)
	}
}

// TestSpawnBackgroundRejectsAmbiguousScheduleShape is row 7.
func TestSpawnBackgroundRejectsAmbiguousScheduleShape(t *testing.T) {
	t.Parallel()
	e, p := planning()

	got, _ := run(t, e, "spawn_background", `{"tool":"slow_tool","args":{},"schedule":{"cron_expression":"*/10 * * * *","scheduled_at":"2026-04-16T15:30:00Z"}}`)

	if wantJSON(t, got, errorBody("schedule must not include both cron_expression and scheduled_at; provide exactly one")); p.order != nil {
		t.Errorf("got %+v made, want nothing", p.order)
	}
}

// TestSpawnScheduleOnce: a single moment, in UTC whatever its zone, without a notification of the
// end.
func TestSpawnScheduleOnce(t *testing.T) {
	t.Parallel()
	e, p := planning()

	got, _ := run(t, e, "spawn_background", `{"tool":"nameless","args":{"n":1},"signal_on_completion":false,"schedule":{"scheduled_at":"2026-04-16T17:30:00+02:00","timezone":" "}}`)

	for _, want := range []string{`"schedule_type":"oneshot"`, `"cron_expression":null`, `"scheduled_at":"2026-04-16T15:30:00Z"`, `"timezone":"UTC"`, `"title":"Background nameless"`} {
		if !strings.Contains(got, want) {
			t.Errorf("got %s, want %s in it", got, want)
		}
	}
	if p.order == nil || p.order.Schedule.Action.Signal || p.order.Schedule.Cron != "" {
		t.Errorf("got %+v", p.order)
	}
}

// TestSpawnScheduleErrors are rows 13 to 16 and 21.
func TestSpawnScheduleErrors(t *testing.T) {
	t.Parallel()
	const full = "Maximum 5 active schedules per session. Cancel an existing schedule first."
	for _, c := range []struct {
		name string
		err  error
		want string
	}{
		{"row 16", fmt.Errorf("create schedule: %w", fmt.Errorf("in tx: %w", limit{full})), full},
		{"bad cron", fmt.Errorf("create schedule: %w", fmt.Errorf("%w: five fields", perdure.Invalid)), "five fields"},
		{"row 14", fmt.Errorf("judge: %w", &tool.Denied{Result: tool.Error("Permission denied: not at night")}), "Permission denied: not at night"},
		{"row 21", errors.Join(perdure.Storage), perdure.GenericToolError},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			e, p := planning()
			p.err = c.err

			got, _ := run(t, e, "spawn_background", `{"tool":"slow_tool","args":{"n":1},"schedule":{"cron_expression":"@hourly"}}`)

			wantJSON(t, got, errorBody(c.want))
		})
	}
}

// TestSpawnScheduleDryRun plans nothing (AP13).
func TestSpawnScheduleDryRun(t *testing.T) {
	t.Parallel()
	e, p := planning()
	e.DryRun = true

	got, _ := run(t, e, "spawn_background", `{"tool":"slow_tool","args":{"n":1},"schedule":{"cron_expression":"@hourly"}}`)

	wantJSON(t, got, `{"message":"[dry-run] Would schedule 'slow_tool' in the background.","tool":"slow_tool","title":"Slow Tool"}`)
	if p.order != nil {
		t.Errorf("got %+v made, want nothing", p.order)
	}
}

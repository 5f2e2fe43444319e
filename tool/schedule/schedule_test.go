package schedule_test

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/tool"
	"github.com/perdure/perdure/tool/schedule"
	"github.com/perdure/perdure/tool/tooltest"
)

var update = flag.Bool("update", false, "rewrite the golden file")

// TestGoldenTexts compares all that a model reads of these tools with testdata.
func TestGoldenTexts(t *testing.T) {
	t.Parallel()
	tooltest.Golden(t, "definitions.txtar", tooltest.Definitions(t, schedule.Tools()...), *update)
}

// plans is the port in memory.
type plans struct {
	all   []perdure.Schedule
	err   error
	order *tool.ScheduleRequest // the received order; nil: none
	why   string
}

func (p *plans) CreateSchedule(_ context.Context, o tool.ScheduleRequest) (perdure.Schedule, error) {
	p.order = &o
	s := o.Schedule.WithDefaults(perdure.DefaultScheduleRules())
	s.ID, s.Enabled, s.NextAt = "sched_1", true, time.Date(2026, 4, 16, 15, 30, 0, 0, time.UTC)
	return s, p.err
}

func (p *plans) Schedules(context.Context) ([]perdure.Schedule, error) { return p.all, p.err }

func (p *plans) CancelSchedule(_ context.Context, id perdure.ScheduleID, why string) (perdure.Schedule, error) {
	p.why = why
	for _, s := range p.all {
		if s.ID == id {
			return s.Disarm("canceled"), p.err
		}
	}
	return perdure.Schedule{}, fmt.Errorf("schedule %s: %w", id, perdure.NotFound)
}

// run calls a tool of the set, and returns what the model reads.
func run(t *testing.T, env tool.Env, name, args string) string {
	t.Helper()
	set := tool.NewRegistry(schedule.Tools()...)
	if err := set.Err(); err != nil {
		t.Fatal(err)
	}
	env.Call.Session, env.Now = "session_1", func() time.Time { return time.Date(2026, 4, 16, 12, 0, 0, 0, time.UTC) }
	if faults := set.Validate(name, json.RawMessage(args)); faults != nil {
		return "error: " + faults.Text
	}
	result, err := set.Execute(t.Context(), tool.Call{Session: "session_1", ID: "call_1", Tool: name, Args: []byte(args)}, env)
	if err != nil {
		t.Fatal(err)
	}
	record, err := result.Record("call_1")
	if err != nil {
		t.Fatal(err)
	}
	if record.Error != "" {
		return "error: " + record.Error
	}
	return string(record.Result)
}

func TestCreate(t *testing.T) {
	t.Parallel()
	p := &plans{}
	got := run(t, tool.Env{Schedules: p}, "create_schedule", `{"title":" Report ","cron_expression":"30 7 * * 1-5","timezone":"Europe/Berlin","message":"Write it.","missed":"skip"}`)
	const want = `{"created":true,"title":"Report","message":"Write it.","schedule_id":"sched_1","schedule_type":"recurring","cron_expression":"30 7 * * 1-5","scheduled_at":null,"timezone":"Europe/Berlin","next_trigger_at":"2026-04-16T15:30:00Z","enabled":true,"task_id":null}`
	if got != want || p.order == nil || p.order.Monitor || p.order.Schedule.Missed != perdure.MissedSkip {
		t.Errorf("got %s\nwant %s\nof %+v", got, want, p.order)
	}
	run(t, tool.Env{Schedules: p}, "create_schedule", `{"title":"Look","scheduled_at":"2026-04-16T17:30:00+02:00","tool":"bash","deliver":"changes"}`)
	if a := p.order.Schedule.Action; a.Tool != "bash" || string(a.Args) != "{}" || !a.Signal || a.Deliver != perdure.DeliverChanges || p.order.Schedule.At.UTC().Hour() != 15 {
		t.Errorf("got %+v", p.order)
	}
}

func TestRefusals(t *testing.T) {
	t.Parallel()
	for args, want := range map[string]string{
		`{"title":"a","cron_expression":"@daily","tool":"b","args":"c"}`:           "error: args must be an object",
		`{"title":"a","scheduled_at":"tomorrow","message":"b"}`:                    "error: scheduled_at must be RFC3339",
		`{"title":"a","cron_expression":"@daily","message":"b","args":{"c":1}}`:    "error: args and signal_on_completion require a tool: name one, or omit them",
		`{"cron_expression":"@daily","message":"b"}`:                               "error: Invalid arguments for create_schedule: /title: ",
		`{"title":"a","cron_expression":"@daily","message":"b","overlap":"never"}`: "error: Invalid arguments for create_schedule: /overlap",
	} {
		p := &plans{}
		if got := run(t, tool.Env{Schedules: p}, "create_schedule", args); !strings.HasPrefix(got, want) || p.order != nil {
			t.Errorf("got %s of %+v, want %s", got, p.order, want)
		}
	}
	p := &plans{err: fmt.Errorf("create schedule: %w", fmt.Errorf("%w schedule: it does not fire in the next ten years", perdure.Invalid))}
	if got := run(t, tool.Env{Schedules: p}, "create_schedule", `{"title":"a","cron_expression":"0 0 31 2 *","message":"b"}`); got != "error: invalid schedule: it does not fire in the next ten years" {
		t.Errorf("got %s", got)
	}
	for _, name := range []string{"create_schedule", "list_schedules", "cancel_schedule"} { // EN2
		args := map[string]string{"create_schedule": `{"title":"a"}`, "list_schedules": `{}`, "cancel_schedule": `{"schedule_id":"b"}`}[name]
		want := "error: Schedule store not available in this context. " + name + " requires session schedules."
		if got := run(t, tool.Env{}, name, args); got != want {
			t.Errorf("got %s, want %s", got, want)
		}
	}
}

func TestListAndCancel(t *testing.T) {
	t.Parallel()
	p := &plans{all: []perdure.Schedule{{ID: "sched_1", Title: "Look", Cron: "@daily", Zone: "UTC", Enabled: true, Action: perdure.ScheduleAction{Tool: "bash"}, Monitor: "task_1"}}}
	const shown = `"title":"Look","tool":"bash","schedule_id":"sched_1","schedule_type":"recurring","cron_expression":"@daily","scheduled_at":null,"timezone":"UTC","next_trigger_at":null,`
	if got, want := run(t, tool.Env{Schedules: p}, "list_schedules", `{}`), `{"now":"2026-04-16T12:00:00Z","schedules":[{`+shown+`"enabled":true,"task_id":"task_1"}]}`; got != want {
		t.Errorf("got %s\nwant %s", got, want)
	}
	if got, want := run(t, tool.Env{Schedules: p}, "cancel_schedule", `{"schedule_id":"sched_1","reason":"enough"}`), `{"canceled":true,`+shown+`"enabled":false,"task_id":"task_1","paused_why":"canceled"}`; got != want || p.why != "enough" {
		t.Errorf("got %s\nwant %s", got, want)
	}
	// SC22
	if got := run(t, tool.Env{Schedules: p}, "cancel_schedule", `{"schedule_id":"sched_2"}`); got != "error: Schedule not found: sched_2" {
		t.Errorf("got %s", got)
	}
}

// TestDryRun plans nothing and cancels nothing (AP13).
func TestDryRun(t *testing.T) {
	t.Parallel()
	p := &plans{}
	made := run(t, tool.Env{Schedules: p, DryRun: true}, "create_schedule", `{"title":"a","cron_expression":"@daily","message":"b"}`)
	ended := run(t, tool.Env{Schedules: p, DryRun: true}, "cancel_schedule", `{"schedule_id":"sched_1"}`)
	if p.order != nil || p.why != "" || !strings.Contains(made, "[dry-run] Would create the schedule 'a'.") || !strings.Contains(ended, "[dry-run] Would cancel the schedule 'sched_1'.") {
		t.Errorf("got %s and %s, made %+v", made, ended, p.order)
	}
}

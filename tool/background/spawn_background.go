package background

import (
	"cmp"
	"context"
	_ "embed" // the text that the model reads
	"encoding/json"
	"errors"
	"strings"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/tool"
)

const spawnName = "spawn_background"

//go:embed spawn_background.md
var spawnText string

// spawn starts another tool in the background. It validates its own arguments in the order and with
// the texts of 8.1, so that a model reads one plain sentence.
type spawn struct {
	spec  tool.Spec
	words *tool.Registry // contains only this tool; words the faults without a row in 8.1 (TL22)
}

var _ tool.SelfValidating = (*spawn)(nil)

// spawnArgs are the arguments of 8.1.
type spawnArgs struct {
	Tool     string         `json:"tool" jsonschema:"Name of the tool to run in the background"`
	Args     map[string]any `json:"args" jsonschema:"Arguments for that tool"`
	Title    *string        `json:"title" jsonschema:"Short label of the run, for people. Default: the tool's display name"`
	Schedule *spawnSchedule `json:"schedule" jsonschema:"When to run. If given, a scheduled monitor is created and nothing starts now. Give exactly one of cron_expression and scheduled_at"`
	Signal   bool           `json:"signal_on_completion" default:"true" jsonschema:"Whether the session is notified when the run has ended"`
}

// spawnSchedule is the schedule of a monitor.
type spawnSchedule struct {
	Cron *string `json:"cron_expression" jsonschema:"Five-field cron expression for recurring runs, such as */10 * * * *"`
	At   *string `json:"scheduled_at" jsonschema:"RFC 3339 time of a single run, such as 2026-04-16T15:30:00Z"`
	Zone *string `json:"timezone" jsonschema:"IANA time zone of the cron expression. Default: UTC"`
}

// spawned is the result for a run that was started or queued (BG8).
type spawned struct {
	Type          string            `json:"type"` // background, as for every call that leaves the foreground (LN6)
	Run           perdure.RunID     `json:"run_id"`
	Resource      perdure.RunID     `json:"resource_id"`
	Task          perdure.TaskID    `json:"task_id"`
	Background    perdure.TaskID    `json:"background_id"`
	Title         string            `json:"title"`
	Tool          string            `json:"tool"`
	Status        perdure.TaskState `json:"status"`
	QueuePosition int               `json:"queue_position,omitempty"`
	Signal        bool              `json:"signal_on_completion"`
	ArtifactDir   string            `json:"artifact_dir"`
	LogPath       string            `json:"log_path"`
	ResultPath    string            `json:"result_path"`
}

func newSpawn() *spawn {
	no, yes := false, true
	s := &spawn{spec: tool.Spec{
		Name:          spawnName,
		DisplayName:   "Spawn Background",
		Narration:     tool.Narration{Started: "Starting {tool} in the background", Completed: "Started {tool} in the background", Failed: "Could not start {tool} in the background"},
		Description:   strings.TrimSpace(spawnText),
		Parameters:    schemaOf[spawnArgs](),
		Class:         perdure.Idempotent, // the same call is the same run (BG4, TK1)
		SessionOnly:   true,
		Trusted:       true,
		SoftBudget:    tool.Never,
		NeedsEnv:      true,
		HandlesDryRun: true,
		// a run can do whatever its target can, and a second call is a second run
		Hints: tool.Hints{ReadOnly: &no, Idempotent: &no, OpenWorld: &yes, CapabilityID: capability},
	}}
	s.words = tool.NewRegistry(s)
	return s
}

func (s *spawn) Spec() tool.Spec { return s.spec }

func (s *spawn) ValidatesItself() bool { return true }

// Run implements tool.Tool: it checks the rows of 8.1 in order.
func (s *spawn) Run(ctx context.Context, call tool.Call, env tool.Env) tool.Result {
	if call.Session == "" && env.Call.Session == "" {
		return tool.Failf("%s requires context. This tool must be executed with session context.", spawnName) // row 1
	}
	args, refusal := s.arguments(call)
	if refusal == nil {
		refusal = target(&args, env)
	}
	if refusal == nil {
		refusal = ports(args, env)
	}
	if refusal != nil {
		return *refusal
	}
	if env.DryRun && args.scheduled {
		return tool.Success(map[string]string{
			"message": "[dry-run] Would schedule '" + args.name + "' in the background.", "tool": args.name, "title": args.title,
		})
	}
	if args.scheduled {
		return schedule(ctx, args, env)
	}
	if env.DryRun { // AP13
		return tool.Success(map[string]string{
			"message": "[dry-run] Would run '" + args.name + "' in the background.", "tool": args.name, "title": args.title,
		})
	}
	var denied *tool.Denied
	done, err := env.Tasks.Spawn(ctx, tool.SpawnRequest{Tool: args.name, Args: args.raw, Title: args.title, NotifyEnd: args.signal})
	switch {
	case errors.Is(err, perdure.Limit):
		return tool.Error(describeWords(err, perdure.Limit)) // rows 19, 20
	case errors.As(err, &denied):
		return denied.Result // rows 13, 14
	case err != nil:
		return failed(ctx, err) // row 21
	}
	// A repeated call: the position may have changed.
	if done.Task.State == perdure.TaskQueued && done.Position == 0 && !done.HasSlot {
		tasks, err := env.Tasks.List(ctx)
		if err != nil {
			return failed(ctx, err)
		}
		done.Position = position(tasks, done.Task.ID)
	}
	return tool.Success(args.reply(done))
}

// order is a checked request.
type order struct {
	name      string
	raw       json.RawMessage // the target's arguments
	title     string
	signal    bool
	scheduled bool
	when      perdure.Schedule // with scheduled: Cron or At, and Zone
}

// arguments checks rows 2 to 7, then all faults without a row.
func (s *spawn) arguments(call tool.Call) (order, *tool.Result) {
	call.Tool = spawnName
	faults := s.words.Validate(spawnName, call.Args)
	fields, err := tool.Decode[map[string]any](call)
	if err != nil || fields == nil { // not JSON, or not an object: no row covers it
		return order{}, faults
	}
	o := order{signal: true}
	if name, ok := fields["tool"].(string); ok {
		o.name = strings.TrimSpace(name)
	}
	if o.name == "" {
		return o, refuse("Missing required parameter: tool") // row 2
	}
	if _, ok := fields["args"].(map[string]any); !ok {
		return o, refuse("Missing required parameter: args (object expected)") // row 3
	}
	schedule, given := fields["schedule"]
	if given {
		if text := scheduleFault(schedule); text != "" {
			return o, refuse(text) // rows 4 to 7
		}
	}
	if faults != nil {
		return o, faults
	}
	parts, err := tool.Decode[map[string]json.RawMessage](call)
	if err != nil {
		internal := tool.Internal(err)
		return o, &internal
	}
	if o.raw, o.scheduled = parts["args"], given; given {
		o.when = parseSchedule(schedule)
	}
	if title, ok := fields["title"].(string); ok {
		o.title = strings.TrimSpace(title)
	}
	if signal, ok := fields["signal_on_completion"].(bool); ok {
		o.signal = signal
	}
	return o, nil
}

// target checks rows 8 to 14, about the tool to run, and takes the default title from it (BG3).
func target(o *order, env tool.Env) *tool.Result {
	if env.Registry == nil {
		return refuse("Tool registry not available in this context. spawn_background requires worker-side tool execution.")
	}
	found, ok := env.Registry.Get(o.name)
	if !ok || !env.CanSee(o.name) {
		return refuse("Unknown tool: " + o.name)
	}
	if o.name == spawnName {
		return refuse("spawn_background cannot target itself recursively")
	}
	spec := found.Spec()
	_, runs := found.(tool.Background)
	declares := spec.Hints.SupportsBackground != nil && *spec.Hints.SupportsBackground
	if !runs && !declares || spec.Policy == tool.PolicyClientSide {
		return refuse("Tool does not support background execution: " + o.name)
	}
	if !runs {
		return refuse("Tool declared background support but has no background executor: " + o.name)
	}
	if faults := env.Registry.Validate(o.name, o.raw); faults != nil {
		return faults
	}
	for _, title := range []string{strings.TrimSpace(spec.DisplayName), "Background " + o.name} {
		o.title = cmp.Or(o.title, title)
	}
	return nil
}

// ports checks rows 15 to 18. A schedule needs neither tasks nor files (BG1).
func ports(o order, env tool.Env) *tool.Result {
	switch {
	case o.scheduled && env.Schedules != nil:
		return nil
	case o.scheduled:
		return refuse("Schedule store not available in this context. Scheduled monitors require session schedules.")
	case env.Tasks == nil:
		return refuse("Session task registry not available in this context. Background runs require task tracking.")
	case env.Files == nil:
		return refuse("Session file store not available in this context. spawn_background requires artifact persistence.")
	}
	return nil
}

// reply returns the result for a started run (BG8).
func (o order) reply(done tool.SpawnResult) spawned {
	t := done.Task
	s := spawned{
		Type: "background", Run: t.Run, Resource: t.Run, Task: t.ID, Background: t.ID,
		Title: o.title, Tool: o.name, Status: perdure.TaskRunning, Signal: o.signal,
		ArtifactDir: t.ArtifactDir(), LogPath: t.ArtifactDir() + "/output.log", ResultPath: t.ArtifactDir() + "/result.json",
	}
	switch t.State {
	case perdure.TaskQueued:
		if !done.HasSlot {
			s.Status, s.QueuePosition = t.State, done.Position
		}
	case perdure.TaskAwaitingInput: // approval by a person is needed first (AP2)
		s.Status = t.State
	}
	return s
}

func refuse(text string) *tool.Result {
	r := tool.Error(text)
	return &r
}

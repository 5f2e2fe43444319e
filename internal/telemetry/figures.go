package telemetry

import (
	"context"
	"errors"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"
	"go.opentelemetry.io/otel/semconv/v1.41.0/genaiconv"

	"github.com/perdure/perdure"
)

// Figure is what one metric says. Its labels have few values each; ids are never among them.
type Figure struct {
	Name   string // as OpenTelemetry has it
	Shown  string // as /metrics has it
	Kind   string // counter, gauge or histogram
	Unit   string
	Labels string // with commas between them
	Help   string
}

// The figures of ours; gen_ai and http figures are those of semantic conventions.
var (
	turnFigure      = Figure{"perdure.turn.duration", "perdure_turn_duration_seconds", "histogram", "s", "outcome", "Turns that ended, and how long they took. outcome: completed, failed, canceled, sealed."}
	callFigure      = Figure{"perdure.tool.calls", "perdure_tool_calls_total", "counter", "{call}", "tool, outcome", "Tool calls that have a result, a placeholder among them. tool: its name, or other for one that there is not; outcome: success, error, timeout, canceled, interrupted, unknown, and detached for a call that goes on as a task."}
	callTimeFigure  = Figure{"perdure.tool.call.duration", "perdure_tool_call_duration_seconds", "histogram", "s", "tool", "From the claim of a foreground call to its settlement."}
	madeFigure      = Figure{"perdure.tasks.created", "perdure_tasks_created_total", "counter", "{task}", "kind", "Tasks that were created. kind: background_tool, monitor, subagent, external_agent."}
	endedFigure     = Figure{"perdure.tasks.ended", "perdure_tasks_ended_total", "counter", "{task}", "state", "Tasks that ended. state: succeeded, failed, canceled, unknown."}
	liveFigure      = Figure{"perdure.tasks.live", "perdure_tasks_live", "gauge", "{task}", "state", "Tasks of the whole store that have something to do. state: queued, running, awaiting_input."}
	queueFigure     = Figure{"perdure.task.queue.duration", "perdure_task_queue_duration_seconds", "histogram", "s", "", "How long a task stood in the queue before it began."}
	approvalFigure  = Figure{"perdure.approvals.waiting", "perdure_approvals_waiting", "gauge", "{approval}", "", "Approvals that nobody decided yet."}
	commitFigure    = Figure{"perdure.store.commit.duration", "perdure_store_commit_duration_seconds", "histogram", "s", "outcome", "Transactions of the engine, with the wait for the disk. outcome: committed, refused (nothing was written, as meant), failed."}
	resumeFigure    = Figure{"perdure.resume.duration", "perdure_resume_duration_seconds", "histogram", "s", "", "Crash to resume: from the last sign of life of the process that died with a session in work to the commit that takes it up. The time in which nothing ran is in it."}
	cancelFigure    = Figure{"perdure.cancel.duration", "perdure_cancel_duration_seconds", "histogram", "s", "", "Cancel to dead: from the commit of the wish to cancel a task to the commit of its end."}
	wakeFigure      = Figure{"perdure.wake.duration", "perdure_wake_duration_seconds", "histogram", "s", "", "Result to woken: from the end of a task to the commit that shows it to its session's model."}
	duplicateFigure = Figure{"perdure.duplicates.refused", "perdure_duplicates_refused_total", "counter", "{duplicate}", "kind", "What came twice and had its effect once. kind: call (a claim of what was claimed), message, request (a replayed answer)."}
	parkedFigure    = Figure{"perdure.parked.run.memory", "perdure_parked_run_memory_bytes", "gauge", "By", "", "Memory in use beyond that of the start, by background run that is in work here: what a parked run costs at most. Absent while none is."}
	tokensFigure    = Figure{"gen_ai.client.token.usage", "gen_ai_client_token_usage", "histogram", "{token}", "gen_ai_operation_name, gen_ai_provider_name, gen_ai_request_model, gen_ai_token_type", "Tokens of model calls, as providers count them."}
	askFigure       = Figure{"gen_ai.client.operation.duration", "gen_ai_client_operation_duration_seconds", "histogram", "s", "gen_ai_operation_name, gen_ai_provider_name, gen_ai_request_model, error_type", "Model calls, from the request to the last of the answer."}
	requestFigure   = Figure{"http.server.request.duration", "http_server_request_duration_seconds", "histogram", "s", "http_request_method, url_scheme, http_route, http_response_status_code", "HTTP requests by route and status; a stream counts when it ends."}
	streamFigure    = Figure{"perdure.http.streams.open", "perdure_http_streams_open", "gauge", "{stream}", "", "Streams of events and logs that are open."}
)

// Figures returns all that is told, in the order of the reference.
func Figures() []Figure {
	return []Figure{
		resumeFigure, cancelFigure, wakeFigure, duplicateFigure, parkedFigure,
		turnFigure, callFigure, callTimeFigure, madeFigure, endedFigure, liveFigure, queueFigure, approvalFigure, tokensFigure, askFigure,
		commitFigure, requestFigure, streamFigure,
	}
}

// figures are the instruments of an engine.
type figures struct {
	turns, callTime, queue, commits, resume, cancel, wake metric.Float64Histogram
	calls, made, ended, duplicates                        metric.Int64Counter
	asked                                                 genaiconv.ClientOperationDuration
	tokens                                                genaiconv.ClientTokenUsage
}

func newFigures(m metric.Meter) (f figures, err error) {
	var errs []error
	histogram := func(to *metric.Float64Histogram, what Figure, buckets []float64) {
		made, err := m.Float64Histogram(what.Name, metric.WithUnit(what.Unit), metric.WithDescription(what.Help), metric.WithExplicitBucketBoundaries(buckets...))
		*to, errs = made, append(errs, err)
	}
	counter := func(to *metric.Int64Counter, what Figure) {
		made, err := m.Int64Counter(what.Name, metric.WithUnit(what.Unit), metric.WithDescription(what.Help))
		*to, errs = made, append(errs, err)
	}
	histogram(&f.turns, turnFigure, long())
	histogram(&f.callTime, callTimeFigure, long())
	histogram(&f.queue, queueFigure, long())
	histogram(&f.commits, commitFigure, short())
	histogram(&f.resume, resumeFigure, long())
	histogram(&f.cancel, cancelFigure, short())
	histogram(&f.wake, wakeFigure, short())
	counter(&f.calls, callFigure)
	counter(&f.made, madeFigure)
	counter(&f.ended, endedFigure)
	counter(&f.duplicates, duplicateFigure)
	f.asked, err = genaiconv.NewClientOperationDuration(m, metric.WithExplicitBucketBoundaries(long()...))
	errs = append(errs, err)
	f.tokens, err = genaiconv.NewClientTokenUsage(m, metric.WithExplicitBucketBoundaries(1, 4, 16, 64, 256, 1024, 4096, 16384, 65536, 262144, 1048576))
	return f, errors.Join(append(errs, err)...)
}

// short are the bounds of what takes milliseconds, in seconds.
func short() []float64 {
	return []float64{0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30}
}

// long are the bounds of what may take hours, in seconds.
func long() []float64 {
	return []float64{0.005, 0.025, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 300, 1800, 7200}
}

// Duplicate counts what came twice and was refused.
func (t *Telemetry) Duplicate(kind string) {
	if t != nil {
		t.figures.duplicates.Add(context.Background(), 1, metric.WithAttributes(attribute.String("kind", kind)))
	}
}

// Levels are what stands now. A number below 0 is not known.
type Levels struct {
	Tasks     map[perdure.TaskState]int
	Approvals int
	Parked    int // runs of the background that are in work here
}

// Watch lets somebody who asks for the figures see what stands, until the function that it returns is called.
func (t *Telemetry) Watch(look func(context.Context) (Levels, error)) (end func(), err error) {
	if t == nil || t.cfg.Metrics == nil {
		return func() {}, nil
	}
	var errs []error
	gauge := func(what Figure) metric.Int64ObservableGauge {
		made, err := t.meter.Int64ObservableGauge(what.Name, metric.WithUnit(what.Unit), metric.WithDescription(what.Help))
		errs = append(errs, err)
		return made
	}
	live, approvals, parked := gauge(liveFigure), gauge(approvalFigure), gauge(parkedFigure)
	if err := errors.Join(errs...); err != nil {
		return nil, err
	}
	atStart := inUse()
	registered, err := t.meter.RegisterCallback(func(ctx context.Context, o metric.Observer) error {
		now, err := look(ctx)
		if err != nil {
			return err
		}
		for state, n := range now.Tasks {
			o.ObserveInt64(live, int64(n), metric.WithAttributes(attribute.String("state", string(state))))
		}
		o.ObserveInt64(approvals, int64(now.Approvals))
		if now.Parked > 0 {
			o.ObserveInt64(parked, max(inUse()-atStart, 0)/int64(now.Parked))
		}
		return nil
	}, live, approvals, parked)
	if err != nil {
		return nil, err
	}
	return func() { _ = registered.Unregister() }, nil // it always works
}

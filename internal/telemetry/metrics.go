package telemetry

import (
	"cmp"
	"context"
	"errors"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"
	"go.opentelemetry.io/otel/semconv/v1.41.0/genaiconv"

	"github.com/perdure/perdure"
)

// Metric describes one metric. Each of its labels has few values; ids are never labels.
type Metric struct {
	Name           string // the name in OpenTelemetry
	PrometheusName string // the name in /metrics
	Kind           string // counter, gauge or histogram
	Unit           string
	Labels         string // separated by commas
	Help           string
}

// The metrics of Perdure. The gen_ai and http metrics follow the semantic conventions.
var (
	turnMetric      = Metric{"perdure.turn.duration", "perdure_turn_duration_seconds", "histogram", "s", "outcome", "Duration of ended turns. outcome: completed, failed, canceled, sealed."}
	callMetric      = Metric{"perdure.tool.calls", "perdure_tool_calls_total", "counter", "{call}", "tool, outcome", "Tool calls that have a result, placeholders included. tool: its name, or other for an unknown tool; outcome: success, error, timeout, canceled, interrupted, unknown, and detached for a call that continues as a task."}
	callTimeMetric  = Metric{"perdure.tool.call.duration", "perdure_tool_call_duration_seconds", "histogram", "s", "tool", "From the claim of a foreground call to its settlement."}
	createdMetric   = Metric{"perdure.tasks.created", "perdure_tasks_created_total", "counter", "{task}", "kind", "Tasks created. kind: background_tool, monitor, subagent, external_agent."}
	endedMetric     = Metric{"perdure.tasks.ended", "perdure_tasks_ended_total", "counter", "{task}", "state", "Tasks ended. state: succeeded, failed, canceled, unknown."}
	liveMetric      = Metric{"perdure.tasks.live", "perdure_tasks_live", "gauge", "{task}", "state", "Tasks in the store that have not ended. state: queued, running, awaiting_input."}
	queueMetric     = Metric{"perdure.task.queue.duration", "perdure_task_queue_duration_seconds", "histogram", "s", "", "Time a task waited in the queue before it started."}
	approvalMetric  = Metric{"perdure.approvals.waiting", "perdure_approvals_waiting", "gauge", "{approval}", "", "Approvals without a decision."}
	commitMetric    = Metric{"perdure.store.commit.duration", "perdure_store_commit_duration_seconds", "histogram", "s", "outcome", "Duration of the engine's transactions, including the wait for the disk. outcome: committed, refused (rolled back on purpose), failed."}
	resumeMetric    = Metric{"perdure.resume.duration", "perdure_resume_duration_seconds", "histogram", "s", "", "Crash to resume: from the last heartbeat of the process that died with a session in progress to the commit that resumes the session. It includes the time in which nothing ran."}
	cancelMetric    = Metric{"perdure.cancel.duration", "perdure_cancel_duration_seconds", "histogram", "s", "", "Cancel to end: from the commit of the request to cancel a task to the commit of its end."}
	deliveryMetric  = Metric{"perdure.wake.duration", "perdure_wake_duration_seconds", "histogram", "s", "", "Result to delivery: from the end of a task to the commit that shows its result to its session's model."}
	duplicateMetric = Metric{"perdure.duplicates.refused", "perdure_duplicates_refused_total", "counter", "{duplicate}", "kind", "Duplicates that had no second effect. kind: call (already claimed), message, request (the stored response was sent again)."}
	parkedMetric    = Metric{"perdure.parked.run.memory", "perdure_parked_run_memory_bytes", "gauge", "By", "", "Memory in use beyond that at the start of the process, per background run in this process: an upper bound of what a parked run costs. Absent while there is none."}
	outboundMetric  = Metric{"perdure.outbound.calls", "perdure_outbound_calls_total", "counter", "{call}", "org, outcome, decided_by", "Outbound tool calls that the rate limit decided. org: the name, or other beyond 200; outcome: allowed, refused; decided_by: store, process (the store did not answer, so this process counted alone), host (the embedding program's own limiter)."}
	tokensMetric    = Metric{"gen_ai.client.token.usage", "gen_ai_client_token_usage", "histogram", "{token}", "gen_ai_operation_name, gen_ai_provider_name, gen_ai_request_model, gen_ai_token_type", "Tokens of model calls, as counted by the provider."}
	modelCallMetric = Metric{"gen_ai.client.operation.duration", "gen_ai_client_operation_duration_seconds", "histogram", "s", "gen_ai_operation_name, gen_ai_provider_name, gen_ai_request_model, error_type", "Duration of model calls, from the request to the end of the response."}
	requestMetric   = Metric{"http.server.request.duration", "http_server_request_duration_seconds", "histogram", "s", "http_request_method, url_scheme, http_route, http_response_status_code", "Duration of HTTP requests. A stream counts when it ends."}
	streamMetric    = Metric{"perdure.http.streams.open", "perdure_http_streams_open", "gauge", "{stream}", "", "Open streams of events and logs."}
)

// Metrics returns all metrics, in the order of the reference page.
func Metrics() []Metric {
	return []Metric{
		resumeMetric, cancelMetric, deliveryMetric, duplicateMetric, parkedMetric,
		turnMetric, callMetric, callTimeMetric, createdMetric, endedMetric, liveMetric, queueMetric, approvalMetric, outboundMetric, tokensMetric, modelCallMetric,
		commitMetric, requestMetric, streamMetric,
	}
}

// instruments are the instruments of an engine.
type instruments struct {
	turns, callTime, queue, commits, resume, cancel, wake metric.Float64Histogram
	calls, created, ended, duplicates, outbound           metric.Int64Counter
	modelCalls                                            genaiconv.ClientOperationDuration
	tokens                                                genaiconv.ClientTokenUsage
}

func newInstruments(m metric.Meter) (f instruments, err error) {
	var errs []error
	histogram := func(to *metric.Float64Histogram, what Metric, buckets []float64) {
		made, err := m.Float64Histogram(what.Name, metric.WithUnit(what.Unit), metric.WithDescription(what.Help), metric.WithExplicitBucketBoundaries(buckets...))
		*to, errs = made, append(errs, err)
	}
	counter := func(to *metric.Int64Counter, what Metric) {
		made, err := m.Int64Counter(what.Name, metric.WithUnit(what.Unit), metric.WithDescription(what.Help))
		*to, errs = made, append(errs, err)
	}
	histogram(&f.turns, turnMetric, longBuckets())
	histogram(&f.callTime, callTimeMetric, longBuckets())
	histogram(&f.queue, queueMetric, longBuckets())
	histogram(&f.commits, commitMetric, shortBuckets())
	histogram(&f.resume, resumeMetric, longBuckets())
	histogram(&f.cancel, cancelMetric, shortBuckets())
	histogram(&f.wake, deliveryMetric, shortBuckets())
	counter(&f.calls, callMetric)
	counter(&f.created, createdMetric)
	counter(&f.ended, endedMetric)
	counter(&f.duplicates, duplicateMetric)
	counter(&f.outbound, outboundMetric)
	f.modelCalls, err = genaiconv.NewClientOperationDuration(m, metric.WithExplicitBucketBoundaries(longBuckets()...))
	errs = append(errs, err)
	f.tokens, err = genaiconv.NewClientTokenUsage(m, metric.WithExplicitBucketBoundaries(1, 4, 16, 64, 256, 1024, 4096, 16384, 65536, 262144, 1048576))
	return f, errors.Join(append(errs, err)...)
}

// shortBuckets returns the bucket bounds for durations of milliseconds, in seconds.
func shortBuckets() []float64 {
	return []float64{0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30}
}

// longBuckets returns the bucket bounds for durations of up to hours, in seconds.
func longBuckets() []float64 {
	return []float64{0.005, 0.025, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 300, 1800, 7200}
}

// Duplicate counts a duplicate that was refused.
func (t *Telemetry) Duplicate(kind string) {
	if t != nil {
		t.instruments.duplicates.Add(context.Background(), 1, metric.WithAttributes(attribute.String("kind", kind)))
	}
}

// Outbound counts a decision of the rate limit of outbound calls. by is store, process or host.
func (t *Telemetry) Outbound(org string, allowed bool, by string) {
	if t == nil {
		return
	}
	outcome := "refused"
	if allowed {
		outcome = "allowed"
	}
	t.instruments.outbound.Add(context.Background(), 1, metric.WithAttributes(attribute.String("org", t.orgs.label(cmp.Or(org, "default"))),
		attribute.String("outcome", outcome), attribute.String("decided_by", by)))
}

// Gauges are the current values of the gauges. A negative number is unknown.
type Gauges struct {
	Tasks     map[perdure.TaskState]int
	Approvals int
	Parked    int // background runs in this process
}

// Watch calls look whenever the metrics are collected, until end is called.
func (t *Telemetry) Watch(look func(context.Context) (Gauges, error)) (end func(), err error) {
	if t == nil || t.cfg.Metrics == nil {
		return func() {}, nil
	}
	var errs []error
	gauge := func(what Metric) metric.Int64ObservableGauge {
		made, err := t.meter.Int64ObservableGauge(what.Name, metric.WithUnit(what.Unit), metric.WithDescription(what.Help))
		errs = append(errs, err)
		return made
	}
	live, approvals, parked := gauge(liveMetric), gauge(approvalMetric), gauge(parkedMetric)
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
	return func() { _ = registered.Unregister() }, nil // never fails
}

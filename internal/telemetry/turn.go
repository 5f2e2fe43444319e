package telemetry

import (
	"context"
	"strconv"
	"strings"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/metric"
	semconv "go.opentelemetry.io/otel/semconv/v1.41.0"
	"go.opentelemetry.io/otel/trace"

	"github.com/perdure/perdure"
)

// Attributes that the semantic conventions do not define.
const (
	turnKey       = attribute.Key("perdure.turn.id")
	causeKey      = attribute.Key("perdure.turn.cause")
	outcomeKey    = attribute.Key("perdure.outcome")
	iterationKey  = attribute.Key("perdure.iteration")
	attemptKey    = attribute.Key("perdure.attempt")
	executionKey  = attribute.Key("perdure.execution")
	laneKey       = attribute.Key("perdure.lane")
	classKey      = attribute.Key("perdure.effect_class")
	taskKey       = attribute.Key("perdure.task.id")
	taskKindKey   = attribute.Key("perdure.task.kind")
	taskOriginKey = attribute.Key("perdure.task.origin")
	eventsKey     = attribute.Key("perdure.events")
)

// openTurn is the span of a turn in progress in this process.
type openTurn struct {
	turn perdure.TurnID
	span trace.Span
}

// traceRoot is the root of a trace: a turn, or a task that no turn started.
type traceRoot struct {
	kind   string // turn or task
	id     string
	name   string // of its span
	parent string // the caller's traceparent; empty: rooted is the root of its trace
	begun  time.Time
}

// startRoot starts the span of a root. Its ids are the same in every process. A span that is never
// recordExecution is not exported.
func (t *Telemetry) startRoot(r traceRoot, attributes ...attribute.KeyValue) trace.Span {
	p := plannedIDs{span: spanID(r.kind, r.id)}
	p.trace, _ = traceID(r.id)
	ctx := context.WithValue(context.Background(), plannedIDsKey{}, p)
	if parent := parseParent(r.parent); parent.IsValid() {
		ctx = trace.ContextWithRemoteSpanContext(ctx, parent)
	}
	_, span := t.tracer.Start(ctx, r.name, trace.WithTimestamp(r.begun), trace.WithAttributes(attributes...))
	return span
}

// rootContext returns the span context of a root, whether the span was started here or elsewhere,
// or has ended.
func (t *Telemetry) rootContext(r traceRoot) trace.SpanContext {
	id, _ := traceID(r.id)
	if parent := parseParent(r.parent); parent.IsValid() {
		id = parent.TraceID()
	}
	var flags trace.TraceFlags
	// Asks the sampler; the span is never ended, so it is not exported.
	if t.startRoot(r).SpanContext().IsSampled() {
		flags = trace.FlagsSampled
	}
	return trace.NewSpanContext(trace.SpanContextConfig{TraceID: id, SpanID: spanID(r.kind, r.id), TraceFlags: flags})
}

func rootOfTurn(s *perdure.Session, turn *perdure.Turn) traceRoot {
	name := string(semconv.GenAIOperationNameInvokeAgent.Value.AsString())
	if s.Agent.Name != "" {
		name += " " + s.Agent.Name
	}
	return traceRoot{kind: "turn", id: string(turn.ID), name: name, parent: turn.Trace, begun: turn.StartedAt}
}

func turnAttributes(s *perdure.Session, turn *perdure.Turn) []attribute.KeyValue {
	provider, name := modelOf(turn.Model)
	all := []attribute.KeyValue{
		semconv.GenAIOperationNameInvokeAgent, semconv.GenAIConversationID(string(s.ID)), turnKey.String(string(turn.ID)), causeKey.String(string(turn.Cause)),
		provider, semconv.GenAIRequestModel(name),
	}
	if s.Agent.Name != "" {
		all = append(all, semconv.GenAIAgentName(s.Agent.Name))
	}
	if s.Agent.ID != "" {
		all = append(all, semconv.GenAIAgentID(string(s.Agent.ID)))
	}
	return all
}

// modelOf splits the name of a model into its provider and the provider's name for it.
func modelOf(model string) (attribute.KeyValue, string) {
	i := strings.IndexAny(model, ":/")
	if i < 0 {
		return semconv.GenAIProviderNameKey.String("perdure"), model
	}
	provider, name := model[:i], model[i+1:]
	name, _, _ = strings.Cut(name, "@http") // the server's address is not recorded
	if provider == "scripted" {
		name = name[strings.LastIndexAny(name, `/\`)+1:] // nor is the path of the script
	}
	return semconv.GenAIProviderNameKey.String(provider), name
}

// InTurn returns a context whose spans are children of the session's turn. Without a turn it
// returns ctx.
func (t *Telemetry) InTurn(ctx context.Context, s *perdure.Session) context.Context {
	if t == nil || !t.spans || s.Turn == nil {
		return ctx
	}
	t.mu.Lock()
	open, ok := t.turns[s.ID]
	t.mu.Unlock()
	if ok && open.turn == s.Turn.ID {
		return trace.ContextWithSpan(ctx, open.span)
	}
	return trace.ContextWithSpanContext(ctx, t.rootContext(rootOfTurn(s, s.Turn)))
}

// Committed records a commit of a session's driver: the fold before and after it, its events, and
// whether the driver released the session.
func (t *Telemetry) Committed(before, after *perdure.Session, events []perdure.Event, rested bool) {
	if t == nil {
		return
	}
	turn := before.Turn
	if turn != nil {
		copied := *turn
		turn = &copied
	}
	for _, e := range events {
		switch f := e.Fact.(type) {
		case perdure.TurnStarted:
			turn = &perdure.Turn{ID: f.TurnID, Cause: f.Cause, Model: f.Model, StartedAt: e.At, Trace: before.Traces[f.MessageID]}
		case perdure.ReasonStarted:
			turn.Iteration = f.Iteration
		case perdure.ActStarted:
			turn.ActAt = e.At
		case perdure.ActCompleted:
			t.recordAct(after, turn, e.At, f)
		case perdure.TaskDelivered:
			for _, id := range f.TaskIDs {
				if task, ok := after.Tasks[id]; ok && !task.FinishedAt.IsZero() {
					t.instruments.wake.Record(context.Background(), seconds(e.At.Sub(task.FinishedAt)))
				}
			}
		case perdure.TurnCompleted, perdure.TurnFailed, perdure.TurnCanceled, perdure.TurnSealed:
			t.endTurn(after, turn, e)
		}
	}
	if !t.spans {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if after.Turn == nil || rested { // a process that resumes the turn starts the same span again
		delete(t.turns, after.ID)
		return
	}
	if t.turns[after.ID].turn != after.Turn.ID {
		t.turns[after.ID] = openTurn{after.Turn.ID, t.startRoot(rootOfTurn(after, after.Turn), turnAttributes(after, after.Turn)...)}
	}
}

// Leave forgets the turn of a session that this process no longer drives. The next driver records
// it.
func (t *Telemetry) Leave(id perdure.SessionID) {
	if t == nil {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	delete(t.turns, id)
}

// recordAct records an act step that has ended.
func (t *Telemetry) recordAct(s *perdure.Session, turn *perdure.Turn, end time.Time, f perdure.ActCompleted) {
	if !t.spans || turn == nil {
		return
	}
	parent := t.rootContext(rootOfTurn(s, turn))
	ctx := trace.ContextWithSpanContext(context.Background(), parent)
	ctx = context.WithValue(ctx, plannedIDsKey{}, plannedIDs{trace: parent.TraceID(), span: actID(turn.ID, turn.Iteration)})
	_, span := t.tracer.Start(ctx, "act", trace.WithTimestamp(turn.ActAt), trace.WithAttributes(
		semconv.GenAIConversationID(string(s.ID)), turnKey.String(string(turn.ID)), iterationKey.Int(turn.Iteration),
		attribute.Int("perdure.calls.succeeded", f.SuccessCount), attribute.Int("perdure.calls.failed", f.ErrorCount)))
	span.End(trace.WithTimestamp(end))
}

func actID(turn perdure.TurnID, iteration int) trace.SpanID {
	return spanID("act", string(turn), strconv.Itoa(iteration))
}

// endTurn records a turn that has ended.
func (t *Telemetry) endTurn(s *perdure.Session, turn *perdure.Turn, e perdure.Event) {
	if turn == nil {
		return
	}
	outcome, fault := "completed", ""
	var usage perdure.Usage
	switch f := e.Fact.(type) {
	case perdure.TurnCompleted:
		usage = f.Usage
	case perdure.TurnFailed:
		outcome, fault, usage = "failed", f.Code, f.Usage
	case perdure.TurnCanceled:
		outcome, usage = "canceled", f.Usage
	case perdure.TurnSealed:
		outcome, fault, usage = "sealed", f.Reason, f.Usage
	}
	ctx := context.Background()
	t.instruments.turns.Record(ctx, seconds(e.At.Sub(turn.StartedAt)), metric.WithAttributes(attribute.String("outcome", outcome)))
	if !t.spans {
		return
	}
	t.mu.Lock()
	open, ok := t.turns[s.ID]
	delete(t.turns, s.ID)
	t.mu.Unlock()
	if !ok || open.turn != turn.ID {
		open.span = t.startRoot(rootOfTurn(s, turn), turnAttributes(s, turn)...)
	}
	open.span.SetAttributes(outcomeKey.String(outcome), iterationKey.Int(turn.Iteration),
		semconv.GenAIUsageInputTokens(int(usage.InputTokens)), semconv.GenAIUsageOutputTokens(int(usage.OutputTokens)))
	if fault != "" {
		open.span.SetStatus(codes.Error, outcome)
		open.span.SetAttributes(semconv.ErrorTypeKey.String(fault))
	}
	open.span.End(trace.WithTimestamp(e.At))
}

// seconds converts a duration for a metric. It is never negative, although the wall clock may have
// been set back between two moments.
func seconds(d time.Duration) float64 { return max(d, 0).Seconds() }

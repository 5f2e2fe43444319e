package telemetry

import (
	"context"
	"encoding/json"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	semconv "go.opentelemetry.io/otel/semconv/v1.41.0"
	"go.opentelemetry.io/otel/trace"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/dispatch"
	"github.com/perdure/perdure/tool"
)

// Execution is one execution of a tool.
type Execution struct {
	Call      perdure.Call  // its row in the ledger
	Turn      *perdure.Turn // that waits for it; nil: it belongs to a task
	Owner     *perdure.Session
	Task      perdure.Task // that it is an attempt of; the zero Task: of none
	Arguments json.RawMessage
}

// Work returns w with a span from its start to its end.
func (t *Telemetry) Work(w dispatch.Work, e Execution) dispatch.Work {
	if t == nil || !t.spans {
		return w
	}
	ctx := trace.ContextWithSpanContext(context.Background(), t.parentOf(e))
	_, span := t.tracer.Start(ctx, string(semconv.GenAIOperationNameExecuteTool.Value.AsString())+" "+e.Call.Tool, trace.WithAttributes(e.attributes()...))
	if t.cfg.Show != nil {
		span.SetAttributes(semconv.GenAIToolCallArgumentsKey.String(t.cfg.Show(string(e.Arguments))))
	}
	run, end := w.Run, w.End
	w.Run = func(ctx context.Context) tool.Result { return run(trace.ContextWithSpan(ctx, span)) }
	w.End = func(ended dispatch.End) {
		t.recordExecution(span, ended)
		end(ended)
	}
	return w
}

// parentOf returns the parent of an execution: the act step, or the task.
func (t *Telemetry) parentOf(e Execution) trace.SpanContext {
	if e.Task.ID != "" {
		return t.taskRoot(e.Task).WithSpanID(spanID("task", string(e.Task.ID)))
	}
	if e.Turn == nil || e.Owner == nil {
		return trace.SpanContext{}
	}
	return t.rootContext(rootOfTurn(e.Owner, e.Turn)).WithSpanID(actID(e.Turn.ID, e.Turn.Iteration))
}

// taskRoot returns the root of a task's trace: its turn, or the task itself.
func (t *Telemetry) taskRoot(task perdure.Task) trace.SpanContext {
	return t.rootContext(rootOfTask(task))
}

func rootOfTask(task perdure.Task) traceRoot {
	if task.Turn == "" {
		return traceRoot{kind: "task", id: string(task.ID), name: "task " + task.Tool, parent: task.Trace, begun: task.CreatedAt}
	}
	return traceRoot{kind: "turn", id: string(task.Turn), name: string(semconv.GenAIOperationNameInvokeAgent.Value.AsString()), parent: task.Trace, begun: task.CreatedAt}
}

// InTask returns a context whose spans are children of a task.
func (t *Telemetry) InTask(ctx context.Context, task perdure.Task) context.Context {
	if t == nil || !t.spans || task.ID == "" {
		return ctx
	}
	return trace.ContextWithSpanContext(ctx, t.taskRoot(task).WithSpanID(spanID("task", string(task.ID))))
}

func (e Execution) attributes() []attribute.KeyValue {
	lane := perdure.Foreground
	all := []attribute.KeyValue{
		semconv.GenAIOperationNameExecuteTool, semconv.GenAIToolName(e.Call.Tool), semconv.GenAIToolType("function"),
		semconv.GenAIToolCallID(string(e.Call.Key.Call)), semconv.GenAIConversationID(string(e.Call.Key.Session)),
		classKey.String(string(e.Call.Class)), executionKey.Int(e.Call.Executions),
	}
	if e.Task.ID != "" {
		lane = perdure.Background
		all = append(all, taskKey.String(string(e.Task.ID)), attemptKey.Int(e.Task.Attempt))
	}
	return append(all, laneKey.String(string(lane)))
}

// recordExecution records how an execution ended.
func (t *Telemetry) recordExecution(span trace.Span, end dispatch.End) {
	outcome := outcomeLabel(end.Result)
	span.SetAttributes(outcomeKey.String(outcome), laneKey.String(string(end.Lane)))
	switch {
	case end.DidNotStop || end.Cause != "" && !end.Result.IsSuccess():
		span.SetStatus(codes.Error, string(end.Cause))
		span.SetAttributes(semconv.ErrorTypeKey.String(string(end.Cause)))
	case !end.Result.IsSuccess():
		span.SetStatus(codes.Error, "")
		span.SetAttributes(semconv.ErrorTypeKey.String(orElse(string(end.Result.ErrorKind), "tool_error")))
	}
	span.End()
}

// recordTask records a task that has ended.
func (t *Telemetry) recordTask(task perdure.Task) {
	if !t.spans {
		return
	}
	root := rootOfTask(task)
	ctx := context.Background()
	if task.Turn != "" {
		ctx = trace.ContextWithSpanContext(ctx, t.rootContext(root))
	} else if parent := parseParent(task.Trace); parent.IsValid() {
		ctx = trace.ContextWithRemoteSpanContext(ctx, parent)
	}
	p := plannedIDs{span: spanID("task", string(task.ID))}
	p.trace, _ = traceID(root.id)
	_, span := t.tracer.Start(context.WithValue(ctx, plannedIDsKey{}, p), "task "+task.Tool, trace.WithTimestamp(task.CreatedAt), trace.WithAttributes(
		semconv.GenAIToolName(task.Tool), semconv.GenAIToolCallID(string(task.Call)), semconv.GenAIConversationID(string(task.Session)),
		taskKey.String(string(task.ID)), taskKindKey.String(string(task.Kind)), taskOriginKey.String(string(task.Origin)),
		classKey.String(string(task.Class)), attemptKey.Int(task.Attempt), executionKey.Int(task.Executions), outcomeKey.String(string(task.State))))
	if task.State == perdure.TaskFailed || task.State == perdure.TaskUnknown {
		kind := string(task.State)
		if task.Error != nil {
			kind = orElse(string(task.Error.Kind), kind)
		}
		span.SetStatus(codes.Error, string(task.State))
		span.SetAttributes(semconv.ErrorTypeKey.String(kind))
	}
	span.End(trace.WithTimestamp(task.FinishedAt))
}

func orElse(text, fallback string) string {
	if text == "" {
		return fallback
	}
	return text
}

// outcomeLabel returns the outcome of an execution as a label.
func outcomeLabel(r tool.Result) string {
	switch {
	case r.IsSuccess():
		return string(perdure.StatusSuccess)
	case r.ErrorKind != "":
		return string(perdure.ToolResult{ErrorKind: r.ErrorKind, Error: r.Text}.Status())
	}
	return string(perdure.StatusError)
}

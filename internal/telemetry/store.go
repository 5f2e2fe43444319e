package telemetry

import (
	"context"
	"errors"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/metric"
	"go.opentelemetry.io/otel/trace"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/store"
)

// told is a store whose commits are told of. All that an engine records goes through it, so what is told of tasks and calls is what
// the journal says.
type told struct {
	store.Store
	t *Telemetry
}

// Store returns the store, told of.
func (t *Telemetry) Store(s store.Store) store.Store {
	if t == nil || s == nil {
		return s
	}
	return told{s, t}
}

// noted is a transaction that keeps what it recorded.
type noted struct {
	store.Tx
	events []perdure.Event
	twice  int // claims of what was claimed
}

// Append implements store.JournalWriter.
func (n *noted) Append(session perdure.SessionID, events []perdure.Event) error {
	err := n.Tx.Append(session, events)
	if err == nil {
		n.events = append(n.events, events...)
	}
	return err
}

// Claim implements store.CallWriter.
func (n *noted) Claim(call perdure.Call, live func(perdure.WorkerID) bool) (perdure.ClaimOutcome, perdure.Call, error) {
	outcome, row, err := n.Tx.Claim(call, live)
	if err == nil && outcome != perdure.Claimed && outcome != perdure.ClaimAbandoned {
		n.twice++
	}
	return outcome, row, err
}

// InTx implements store.Store.
func (s told) InTx(ctx context.Context, fn func(store.Tx) error) error {
	span := trace.Span(nil)
	if s.t.spans && trace.SpanContextFromContext(ctx).IsValid() { // else it is housekeeping, and no part of any trace
		ctx, span = s.t.tracer.Start(ctx, "commit", trace.WithSpanKind(trace.SpanKindClient))
	}
	begun := time.Now()
	var last noted
	var refused error
	err := s.Store.InTx(ctx, func(tx store.Tx) error {
		last = noted{Tx: tx}
		refused = fn(&last)
		return refused
	})
	last.Tx = nil
	outcome := "committed"
	switch {
	case err != nil && refused != nil && errors.Is(err, refused):
		outcome = "refused"
	case err != nil:
		outcome = "failed"
	}
	s.t.figures.commits.Record(ctx, time.Since(begun).Seconds(), metric.WithAttributes(attribute.String("outcome", outcome)))
	if span != nil {
		span.SetAttributes(eventsKey.Int(len(last.events)), outcomeKey.String(outcome))
		if outcome == "failed" {
			span.SetStatus(codes.Error, outcome)
		}
		span.End()
	}
	if err == nil {
		s.t.recorded(last)
	}
	return err
}

// recorded counts what a transaction recorded.
func (t *Telemetry) recorded(n noted) {
	ctx := context.Background()
	for range n.twice {
		t.Duplicate("call")
	}
	for _, e := range n.events {
		switch f := e.Fact.(type) {
		case perdure.ToolCompleted:
			tool := attribute.String("tool", t.toolWord(f.Name))
			t.figures.calls.Add(ctx, 1, metric.WithAttributes(tool, attribute.String("outcome", string(f.Status))))
			if !f.Replayed {
				t.figures.callTime.Record(ctx, float64(f.DurationMS)/1000, metric.WithAttributes(tool))
			}
		case perdure.TaskCreated:
			t.figures.made.Add(ctx, 1, metric.WithAttributes(attribute.String("kind", string(f.Task.Kind))))
			if f.Task.Origin == perdure.OriginDetached || f.Task.Origin == perdure.OriginRouted {
				t.figures.calls.Add(ctx, 1, metric.WithAttributes(attribute.String("tool", t.toolWord(f.Task.Tool)), attribute.String("outcome", "detached")))
			}
		case perdure.TaskUpdated:
			t.taskUpdated(ctx, e, f.Task)
		}
	}
}

// taskUpdated counts the begin and the end of a task: the update that carries its moment.
func (t *Telemetry) taskUpdated(ctx context.Context, e perdure.Event, task perdure.Task) {
	switch {
	case task.State == perdure.TaskRunning && task.Attempt == 1 && task.StartedAt.Equal(task.UpdatedAt):
		t.figures.queue.Record(ctx, seconds(task.StartedAt.Sub(task.CreatedAt)))
	case task.State.Terminal() && task.FinishedAt.Equal(e.At) && task.ResolvedAt.IsZero():
		t.figures.ended.Add(ctx, 1, metric.WithAttributes(attribute.String("state", string(task.State))))
		if task.State == perdure.TaskCanceled && !task.CancelRequestedAt.IsZero() {
			t.figures.cancel.Record(ctx, seconds(task.FinishedAt.Sub(task.CancelRequestedAt)))
		}
		t.task(task)
	}
}

// Resumed is told that a session was taken up which a process left in work that showed its last sign of life at a moment.
func (t *Telemetry) Resumed(died time.Time) {
	if t != nil {
		t.figures.resume.Record(context.Background(), seconds(time.Since(died)))
	}
}

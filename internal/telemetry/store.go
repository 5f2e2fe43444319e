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

// observedStore records the commits of a store. Everything that an engine writes goes through it,
// so the metrics of tasks and calls agree with the journal.
type observedStore struct {
	store.Store
	t *Telemetry
}

// Store wraps a store so that its commits are recorded.
func (t *Telemetry) Store(s store.Store) store.Store {
	if t == nil || s == nil {
		return s
	}
	return observedStore{s, t}
}

// observedTx is a transaction that remembers the events it appended.
type observedTx struct {
	store.Tx
	events     []perdure.Event
	duplicates int // claims of calls that were claimed already
}

// observedTxJournal remembers the events that a transaction appends.
type observedTxJournal struct {
	store.Journal
	*observedTx
}

func (n *observedTx) Journal() store.Journal { return observedTxJournal{n.Tx.Journal(), n} }

// observedTxCalls counts the claims of calls that were claimed already.
type observedTxCalls struct {
	store.Calls
	*observedTx
}

func (n *observedTx) Calls() store.Calls { return observedTxCalls{n.Tx.Calls(), n} }

func (n observedTxJournal) Append(session perdure.SessionID, events []perdure.Event) error {
	err := n.Journal.Append(session, events)
	if err == nil {
		n.events = append(n.events, events...)
	}
	return err
}

func (n observedTxCalls) Claim(call perdure.Call, live func(perdure.WorkerID) bool) (perdure.ClaimOutcome, perdure.Call, error) {
	outcome, row, err := n.Calls.Claim(call, live)
	if err == nil && outcome != perdure.Claimed && outcome != perdure.ClaimAbandoned {
		n.duplicates++
	}
	return outcome, row, err
}

func (s observedStore) InTx(ctx context.Context, fn func(store.Tx) error) error {
	span := trace.Span(nil)
	// A commit without a span is housekeeping, and part of no trace.
	if s.t.spans && trace.SpanContextFromContext(ctx).IsValid() {
		ctx, span = s.t.tracer.Start(ctx, "commit", trace.WithSpanKind(trace.SpanKindClient))
	}
	begun := time.Now()
	var last observedTx
	var refused error
	err := s.Store.InTx(ctx, func(tx store.Tx) error {
		last = observedTx{Tx: tx}
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
	s.t.instruments.commits.Record(ctx, time.Since(begun).Seconds(), metric.WithAttributes(attribute.String("outcome", outcome)))
	if span != nil {
		span.SetAttributes(eventsKey.Int(len(last.events)), outcomeKey.String(outcome))
		if outcome == "failed" {
			span.SetStatus(codes.Error, outcome)
		}
		span.End()
	}
	if err == nil {
		s.t.countEvents(last)
	}
	return err
}

// countEvents counts the events of a committed transaction.
func (t *Telemetry) countEvents(n observedTx) {
	ctx := context.Background()
	for range n.duplicates {
		t.Duplicate("call")
	}
	for _, e := range n.events {
		switch f := e.Fact.(type) {
		case perdure.ToolCompleted:
			tool := attribute.String("tool", t.toolLabel(f.Name))
			t.instruments.calls.Add(ctx, 1, metric.WithAttributes(tool, attribute.String("outcome", string(f.Status))))
			if !f.Replayed {
				t.instruments.callTime.Record(ctx, float64(f.DurationMS)/1000, metric.WithAttributes(tool))
			}
		case perdure.TaskCreated:
			t.instruments.created.Add(ctx, 1, metric.WithAttributes(attribute.String("kind", string(f.Task.Kind))))
			if f.Task.Origin == perdure.OriginDetached || f.Task.Origin == perdure.OriginRouted {
				t.instruments.calls.Add(ctx, 1, metric.WithAttributes(attribute.String("tool", t.toolLabel(f.Task.Tool)), attribute.String("outcome", "detached")))
			}
		case perdure.TaskUpdated:
			t.taskUpdated(ctx, e, f.Task)
		}
	}
}

// taskUpdated counts the start and the end of a task. A task is updated more often than that; the
// update that carries the moment is the one to count.
func (t *Telemetry) taskUpdated(ctx context.Context, e perdure.Event, task perdure.Task) {
	switch {
	case task.State == perdure.TaskRunning && task.Attempt == 1 && task.StartedAt.Equal(task.UpdatedAt):
		t.instruments.queue.Record(ctx, seconds(task.StartedAt.Sub(task.CreatedAt)))
	case task.State.Terminal() && task.FinishedAt.Equal(e.At) && task.ResolvedAt.IsZero():
		t.instruments.ended.Add(ctx, 1, metric.WithAttributes(attribute.String("state", string(task.State))))
		if task.State == perdure.TaskCanceled && !task.CancelRequestedAt.IsZero() {
			t.instruments.cancel.Record(ctx, seconds(task.FinishedAt.Sub(task.CancelRequestedAt)))
		}
		t.recordTask(task)
	}
}

// Resumed records that a session was resumed that a dead process had left in progress; died is that
// process's last heartbeat.
func (t *Telemetry) Resumed(died time.Time) {
	if t != nil {
		t.instruments.resume.Record(context.Background(), seconds(time.Since(died)))
	}
}

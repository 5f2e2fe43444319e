package host

import (
	"context"
	"fmt"
	"time"

	"go.opentelemetry.io/otel/metric"
	"go.opentelemetry.io/otel/trace"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/internal/telemetry"
	"github.com/perdure/perdure/store"
)

// Telemetry configures the OpenTelemetry export of an engine. The zero value exports nothing and
// costs nothing.
//
// docs/reference/metrics.md lists the metrics, docs/how-to/observe.md the spans.
type Telemetry struct {
	Traces  trace.TracerProvider // nil: no spans
	Metrics metric.MeterProvider // nil: no metrics
	// Show masks the secrets in prompts, responses, arguments and results, and lets spans contain
	// them. nil: spans contain none of them.
	Show func(string) string
}

// SpanIDs is the id generator for the SDK behind [Telemetry.Traces] (sdktrace.WithIDGenerator).
// With it the span of a turn has the same ids in every process that works on the turn.
type SpanIDs = telemetry.IDGenerator

// newTelemetry creates the telemetry, and wraps the store and the models with it.
func newTelemetry(cfg *Config) (*telemetry.Telemetry, error) {
	t, err := telemetry.New(telemetry.Config{
		Traces: cfg.Telemetry.Traces, Metrics: cfg.Telemetry.Metrics, Show: cfg.Telemetry.Show, Tool: cfg.Tools.Has,
	})
	if err != nil {
		return nil, err
	}
	cfg.Store, cfg.Model, cfg.Utility.Model = t.Store(cfg.Store), t.Model(cfg.Model), t.Model(cfg.Utility.Model)
	return t, nil
}

// maxCounted limits the rows that one reading of the gauges counts.
const maxCounted = 1000

// ExportGauges exports the gauges until the returned function is called.
func (e *Host) ExportGauges() (end func()) {
	end, err := e.telemetry.Watch(e.gauges)
	if err != nil {
		e.cfg.Log.Error("gauges not exported", "error", err)
		return func() {}
	}
	return end
}

func (e *Host) gauges(ctx context.Context) (telemetry.Gauges, error) {
	now := telemetry.Gauges{}
	err := e.view(ctx, func(r store.Reader) error {
		now.Tasks = map[perdure.TaskState]int{}
		for _, state := range []perdure.TaskState{perdure.TaskQueued, perdure.TaskRunning, perdure.TaskAwaitingInput} {
			counts, err := r.Tasks().Count(state, "")
			if err != nil {
				return fmt.Errorf("count tasks: %w", err)
			}
			now.Tasks[state] = 0
			for _, c := range counts {
				now.Tasks[state] += c.N
			}
		}
		open, err := r.Approvals().List(store.ApprovalFilter{State: perdure.ApprovalOpen, Limit: maxCounted})
		now.Approvals = len(open)
		return err
	})
	_, now.Parked = e.lanes.SlotsInUse("")
	return now, err
}

// orphan is a session of a dead worker.
type orphan struct {
	worker   perdure.WorkerID
	lastSign time.Time // the last heartbeat, or a later write to the session
}

// NoteDead remembers, for the list of recoveries, the dead workers that have left their rows. It
// returns the last sign of life of each dead one; zero: it is alive.
func (e *Host) NoteDead(now time.Time, workers []store.Worker) map[perdure.WorkerID]time.Time {
	seen := map[perdure.WorkerID]time.Time{}
	for _, w := range workers {
		if w.ID == e.worker || e.cfg.Workers.Shared && w.LeaseUntil.After(now) {
			seen[w.ID] = time.Time{}
			continue
		}
		seen[w.ID] = w.LeaseUntil.Add(-e.cfg.Workers.Lease)
		e.recoveries.found(w.ID, seen[w.ID])
	}
	return seen
}

// NoteOrphans remembers the sessions of dead workers with their last sign of life, for the list of
// recoveries, and so that the time until each is resumed can be measured.
func (e *Host) NoteOrphans(now time.Time, workers []store.Worker, sessions []store.Session) {
	seen := e.NoteDead(now, workers)
	for _, s := range sessions {
		last, known := seen[s.Worker]
		if s.Worker == "" || s.Worker == e.worker || known && last.IsZero() {
			continue
		}
		if s.UpdatedAt.After(last) {
			last = s.UpdatedAt
		}
		e.lastSigns.Store(s.ID, orphan{s.Worker, last})
	}
}

// reportResumed reports that a session of a dead worker was resumed.
func (e *Host) reportResumed(id perdure.SessionID) {
	found, ok := e.lastSigns.LoadAndDelete(id)
	if !ok {
		return
	}
	left := found.(orphan)
	e.recoveries.resumed(id, left)
	if e.telemetry != nil {
		e.telemetry.Resumed(left.lastSign)
	}
}

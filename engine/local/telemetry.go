package local

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

// Telemetry is who is told what an engine does, by the API of OpenTelemetry. The zero value is nobody, and costs nothing.
//
// docs/reference/metrics.md has the figures, docs/how-to/observe.md the spans.
type Telemetry struct {
	Traces  trace.TracerProvider // nil: there are no spans
	Metrics metric.MeterProvider // nil: there are no figures
	// Show lets spans hold prompts, answers, arguments and results, and takes the secrets out of them. nil: they hold none.
	Show func(string) string
}

// SpanIDs is the id generator that an SDK needs whose provider is [Telemetry.Traces] (sdktrace.WithIDGenerator): with it the span of a
// turn has the same ids in every process that works on it.
type SpanIDs = telemetry.IDs

// tellsOf makes who tells, and puts it where what is told happens.
func tellsOf(cfg *Config) (*telemetry.Telemetry, error) {
	t, err := telemetry.New(telemetry.Config{
		Traces: cfg.Telemetry.Traces, Metrics: cfg.Telemetry.Metrics, Show: cfg.Telemetry.Show, Tool: cfg.Tools.Has,
	})
	if err != nil {
		return nil, err
	}
	cfg.Store, cfg.Model, cfg.Utility.Model = t.Store(cfg.Store), t.Model(cfg.Model), t.Model(cfg.Utility.Model)
	return t, nil
}

// mostCounted bounds what a look at the levels reads.
const mostCounted = 1000

// showLevels lets whoever asks for the figures see what stands, until the function that it returns is called.
func (e *Engine) showLevels() (end func()) {
	end, err := e.tells.Watch(e.levels)
	if err != nil {
		e.cfg.Log.Error("what stands is not shown", "error", err)
		return func() {}
	}
	return end
}

func (e *Engine) levels(ctx context.Context) (telemetry.Levels, error) {
	now := telemetry.Levels{}
	err := e.view(ctx, func(r store.Reader) error {
		now.Tasks = map[perdure.TaskState]int{}
		for _, state := range []perdure.TaskState{perdure.TaskQueued, perdure.TaskRunning, perdure.TaskAwaitingInput} {
			counts, err := r.CountTasks(state, "")
			if err != nil {
				return fmt.Errorf("count tasks: %w", err)
			}
			now.Tasks[state] = 0
			for _, c := range counts {
				now.Tasks[state] += c.N
			}
		}
		open, err := r.Approvals(store.ApprovalFilter{State: perdure.ApprovalOpen, Limit: mostCounted})
		now.Approvals = len(open)
		return err
	})
	_, now.Parked = e.lanes.Places("")
	return now, err
}

// noteLeft remembers which sessions dead workers had in work, and when those showed their last sign of life: the last beat, or what
// was written to the session since.
func (e *Engine) noteLeft(r store.Reader, sessions []store.Session) error {
	if e.tells == nil {
		return nil
	}
	workers, err := r.Workers()
	if err != nil {
		return err
	}
	seen := map[perdure.WorkerID]time.Time{}
	for _, w := range workers {
		if w.ID == e.worker.ID || e.cfg.Shared && w.LeaseUntil.After(r.Now()) {
			seen[w.ID] = time.Time{}
			continue
		}
		seen[w.ID] = w.LeaseUntil.Add(-e.cfg.Lease)
	}
	for _, s := range sessions {
		last, known := seen[s.Worker]
		if s.Worker == "" || s.Worker == e.worker.ID || known && last.IsZero() {
			continue
		}
		if s.UpdatedAt.After(last) {
			last = s.UpdatedAt
		}
		e.left.Store(s.ID, last)
	}
	return nil
}

// resumed tells of a session that was taken up from a dead worker.
func (e *Engine) resumed(id perdure.SessionID) {
	if e.tells == nil {
		return
	}
	if died, ok := e.left.LoadAndDelete(id); ok {
		e.tells.Resumed(died.(time.Time))
	}
}

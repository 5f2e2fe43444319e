// Package telemetry records through OpenTelemetry what the engine does: spans of turns, model
// calls, tool calls, tasks and commits, and metrics.
//
// It may import the root, model, store and dispatch, and of OpenTelemetry only the API, never an
// SDK or an exporter.
//
// The one thing to know: a nil [Telemetry] records nothing, and all its methods may be called, so
// that callers need no check. The ids of spans are derived from ids in the journal: a process that
// resumes a turn after a crash continues the same trace.
package telemetry

import (
	"fmt"
	"sync"

	"go.opentelemetry.io/otel/metric"
	metricnoop "go.opentelemetry.io/otel/metric/noop"
	"go.opentelemetry.io/otel/trace"
	tracenoop "go.opentelemetry.io/otel/trace/noop"

	"github.com/perdure/perdure"
)

// Scope is the instrumentation scope of all spans and metrics.
const Scope = "github.com/perdure/perdure"

// Config says where spans and metrics go. The zero value records nothing.
type Config struct {
	Traces  trace.TracerProvider // nil: no spans. Its SDK must use IDs as its id generator
	Metrics metric.MeterProvider // nil: no metrics
	// Show returns a text as spans may show it; it must remove secrets. nil: spans show no prompts,
	// answers, arguments or results.
	Show func(string) string
	// Tool reports whether a tool of this name exists: names come from models, which may write
	// anything. nil: all do.
	Tool func(string) bool
}

// Telemetry records what an engine does. A nil Telemetry records nothing. It is safe for concurrent
// use.
type Telemetry struct {
	cfg         Config
	spans       bool // Config.Traces is set
	tracer      trace.Tracer
	meter       metric.Meter
	instruments instruments
	tools       labelSet
	models      labelSet
	orgs        labelSet

	mu    sync.Mutex
	turns map[perdure.SessionID]openTurn // guarded by mu; of the sessions that this process drives
}

// New returns a Telemetry; nil if cfg has neither Traces nor Metrics.
func New(cfg Config) (*Telemetry, error) {
	if cfg.Traces == nil && cfg.Metrics == nil {
		return nil, nil
	}
	t := &Telemetry{cfg: cfg, spans: cfg.Traces != nil, turns: map[perdure.SessionID]openTurn{}}
	if cfg.Traces == nil {
		cfg.Traces = tracenoop.NewTracerProvider()
	}
	if cfg.Metrics == nil {
		cfg.Metrics = metricnoop.NewMeterProvider()
	}
	t.tracer, t.meter = cfg.Traces.Tracer(Scope), cfg.Metrics.Meter(Scope)
	t.tools.limit, t.models.limit, t.orgs.limit = 200, 50, 200
	var err error
	if t.instruments, err = newInstruments(t.meter); err != nil {
		return nil, fmt.Errorf("create metrics: %w", err)
	}
	return t, nil
}

// toolLabel returns the name of a tool as a label.
func (t *Telemetry) toolLabel(name string) string {
	if t.cfg.Tool != nil && !t.cfg.Tool(name) {
		return otherLabel
	}
	return t.tools.label(name)
}

// otherLabel is the label of every value beyond the limit.
const otherLabel = "other"

// labelSet bounds how many values a label may have: when the limit is reached, new values become
// otherLabel. It is safe for concurrent use.
type labelSet struct {
	limit int

	mu   sync.Mutex
	seen map[string]bool // guarded by mu
}

// label returns word, or otherLabel if it is new and the limit is reached.
func (w *labelSet) label(word string) string {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.seen[word] {
		return word
	}
	if len(w.seen) >= w.limit {
		return otherLabel
	}
	if w.seen == nil {
		w.seen = map[string]bool{}
	}
	w.seen[word] = true
	return word
}

// Package telemetry tells by OpenTelemetry what the wheel does: spans of turns, model calls, tools, tasks and commits, and figures.
//
// It may import the root, model, store and dispatch, and of OpenTelemetry the API only, never an SDK or an exporter. The one thing
// to know: a nil [Telemetry] is one that tells nobody, and all its methods may be called, so that no step asks whether anybody
// listens. Ids of spans are derived from ids of the journal: who takes a turn up after a crash goes on in its trace.
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

// Scope is the instrumentation scope of all that is told.
const Scope = "github.com/perdure/perdure"

// Config says who is told. The zero value is nobody.
type Config struct {
	Traces  trace.TracerProvider // nil: there are no spans. Its SDK is to use IDs as its generator
	Metrics metric.MeterProvider // nil: there are no figures
	// Show makes what is said in spans presentable: secrets are to be taken out of it. nil: spans show no prompts, answers,
	// arguments or results.
	Show func(string) string
	// Tool reports whether there is a tool of this name: others come from models, who may write anything. nil: all are.
	Tool func(string) bool
}

// Telemetry tells what an engine does. nil tells nobody. It is safe for concurrent use.
type Telemetry struct {
	cfg     Config
	spans   bool // somebody listens to spans
	tracer  trace.Tracer
	meter   metric.Meter
	figures figures
	tools   words
	models  words

	mu    sync.Mutex
	turns map[perdure.SessionID]openTurn // guarded by mu; of the sessions that are driven here
}

// New returns who tells; nil where nobody listens.
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
	t.tools.most, t.models.most = 200, 50
	var err error
	if t.figures, err = newFigures(t.meter); err != nil {
		return nil, fmt.Errorf("make the figures: %w", err)
	}
	return t, nil
}

// toolWord is the name of a tool as figures have it.
func (t *Telemetry) toolWord(name string) string {
	if t.cfg.Tool != nil && !t.cfg.Tool(name) {
		return otherWord
	}
	return t.tools.known(name)
}

// otherWord stands for all that is one too many.
const otherWord = "other"

// words bounds how many values a label may have: whoever comes when there are enough is another one. It is safe for
// concurrent use.
type words struct {
	most int

	mu   sync.Mutex
	seen map[string]bool // guarded by mu
}

// known is the word, or what stands for those that are too many.
func (w *words) known(word string) string {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.seen[word] {
		return word
	}
	if len(w.seen) >= w.most {
		return otherWord
	}
	if w.seen == nil {
		w.seen = map[string]bool{}
	}
	w.seen[word] = true
	return word
}

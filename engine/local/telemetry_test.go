package local_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/propagation"
	sdkmetric "go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/engine"
	"github.com/perdure/perdure/engine/enginetest"
	"github.com/perdure/perdure/engine/local"
	"github.com/perdure/perdure/store"
	"github.com/perdure/perdure/store/memory"
)

// canary is in all content of these tests, and must be in no span.
const canary = "canary-4711"

// observed is a world whose engines emit telemetry.
type observed struct {
	*world
	spans  *tracetest.InMemoryExporter
	reader *sdkmetric.ManualReader
	id     perdure.SessionID
	ctx    context.Context
}

func observe(t *testing.T, script string) *observed {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	t.Cleanup(cancel)
	st := memory.New(memory.Config{})
	o := &observed{spans: tracetest.NewInMemoryExporter(), reader: sdkmetric.NewManualReader(), ctx: ctx}
	o.world = newWorld(t, enginetest.Setup{Script: script}, func(*testing.T) store.Store { return st }, func(store.Store) {})
	o.tells = local.Telemetry{
		Traces:  sdktrace.NewTracerProvider(sdktrace.WithSyncer(o.spans), sdktrace.WithIDGenerator(local.SpanIDs{})),
		Metrics: sdkmetric.NewMeterProvider(sdkmetric.WithReader(o.reader)),
	}
	return o
}

// say sends a message to the session, which is created if there is none, in the trace of a caller;
// empty: in none.
func (o *observed) say(t *testing.T, eng engine.Engine, text, traceparent string) {
	t.Helper()
	ctx := propagation.TraceContext{}.Extract(o.ctx, propagation.MapCarrier{"traceparent": traceparent})
	if o.id == "" {
		made, err := eng.Sessions().Create(o.ctx, perdure.Agent{Name: "clerk", Instructions: canary})
		if err != nil {
			t.Fatal(err)
		}
		o.id = made.ID
	}
	if _, err := eng.Send(ctx, o.id, perdure.Text(text)); err != nil {
		t.Fatal(err)
	}
}

// turns are the turns of the session, in their order.
func (o *observed) turns(t *testing.T, eng engine.Engine) (ids []perdure.TurnID) {
	t.Helper()
	events, err := eng.Events(o.ctx, o.id, 0, 0)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range events {
		if f, ok := e.Fact.(perdure.TurnStarted); ok {
			ids = append(ids, f.TurnID)
		}
	}
	return ids
}

// tree draws the spans of a trace but for commits: each under its parent, with the attributes that
// matter.
func (o *observed) tree(trace string) string {
	all := o.spans.GetSpans()
	shown := []attribute.Key{"gen_ai.operation.name", "gen_ai.tool.name", "perdure.lane", "perdure.outcome", "perdure.task.kind", "error.type"}
	lines := map[string][]string{} // by parent
	known := map[string]bool{}
	ids := map[string]string{}
	for _, s := range all {
		if s.SpanContext.TraceID().String() != trace || s.Name == "commit" {
			continue
		}
		line := s.Name
		for _, key := range shown {
			for _, a := range s.Attributes {
				if a.Key == key {
					line += fmt.Sprintf(" %s=%v", key[strings.LastIndex(string(key), ".")+1:], a.Value.String())
				}
			}
		}
		id := s.SpanContext.SpanID().String()
		line += "\x00" + id
		known[id], ids[line] = true, id
		lines[s.Parent.SpanID().String()] = append(lines[s.Parent.SpanID().String()], line)
	}
	var out strings.Builder
	var draw func(parent, indent string)
	draw = func(parent, indent string) {
		slices.Sort(lines[parent])
		for _, line := range lines[parent] {
			text, _, _ := strings.Cut(line, "\x00")
			out.WriteString(indent + text + "\n")
			draw(ids[line], indent+"  ")
		}
	}
	for parent := range lines {
		if !known[parent] {
			draw(parent, "")
		}
	}
	return out.String()
}

// traceOf is the trace of a turn (EV5).
func traceOf(id perdure.TurnID) string { return strings.TrimPrefix(string(id), "turn_") }

// spawnAndNote calls a tool, and starts a background run whose result is delivered.
const spawnAndNote = `
rules:
  - when: {not_called: spawn_background}
    calls: [{name: note, args: {text: ` + canary + `}}, {name: spawn_background, args: {tool: bg_hold, args: {text: ` + canary + `}}}]
  - when: {notifications: 1}
    text: home ` + canary + `
  - when: {called: spawn_background}
    text: waiting ` + canary + `
`

// TestTelemetrySpans draws the spans of a turn with a background task, and of the turn that the end
// of the task starts.
func TestTelemetrySpans(t *testing.T) {
	t.Parallel()
	o := observe(t, spawnAndNote)
	eng := o.Start(t)
	o.say(t, eng, "go "+canary, "")
	done := errors.New("the second turn has ended")
	idled := 0
	err := eng.Follow(o.ctx, o.id, 0, func(f engine.Frame) error {
		if f.Event != nil {
			if _, ok := f.Event.Fact.(perdure.SessionIdled); ok {
				idled++
				o.Release("bg_hold")
			}
		}
		if idled == 2 {
			return done
		}
		return nil
	})
	if !errors.Is(err, done) {
		t.Fatal(err)
	}
	o.Stop(t)

	turns := o.turns(t, eng)
	if len(turns) != 2 {
		t.Fatalf("got %d turns, want 2", len(turns))
	}
	want := `
invoke_agent clerk name=invoke_agent outcome=completed
  act
    execute_tool note name=execute_tool name=note lane=foreground outcome=success
    execute_tool spawn_background name=execute_tool name=spawn_background lane=foreground outcome=success
  chat name=chat
  chat name=chat
  task bg_hold name=bg_hold outcome=succeeded kind=background_tool
    execute_tool bg_hold name=execute_tool name=bg_hold lane=background outcome=success
`
	if diff := cmp.Diff(want, "\n"+o.tree(traceOf(turns[0]))); diff != "" {
		t.Errorf("the first turn differs (-want +got):\n%s", diff)
	}
	want = `
invoke_agent clerk name=invoke_agent outcome=completed
  chat name=chat
`
	if diff := cmp.Diff(want, "\n"+o.tree(traceOf(turns[1]))); diff != "" {
		t.Errorf("the second turn differs (-want +got):\n%s", diff)
	}
	for _, s := range o.spans.GetSpans() {
		if strings.Contains(fmt.Sprintf("%+v", s), canary) {
			t.Errorf("a span shows what was said: %+v", s)
		}
		if !s.Parent.IsValid() && !strings.HasPrefix(s.Name, "invoke_agent") {
			t.Errorf("%s begins a trace of its own", s.Name)
		}
	}
	o.checkFigures(t)
}

// checkFigures checks the metrics of that turn.
func (o *observed) checkFigures(t *testing.T) {
	t.Helper()
	var all metricdata.ResourceMetrics
	if err := o.reader.Collect(o.ctx, &all); err != nil {
		t.Fatal(err)
	}
	got := map[string]int{}
	for _, scope := range all.ScopeMetrics {
		for _, m := range scope.Metrics {
			switch points := m.Data.(type) {
			case metricdata.Sum[int64]:
				for _, p := range points.DataPoints {
					tool, _ := p.Attributes.Value("tool")
					got[strings.TrimSpace(m.Name+" "+tool.AsString())] += int(p.Value)
				}
			case metricdata.Histogram[float64]:
				for _, p := range points.DataPoints {
					got[m.Name] += int(p.Count)
				}
			}
		}
	}
	for name, want := range map[string]int{
		"perdure.turn.duration": 2, "perdure.tool.calls note": 1, "perdure.tool.calls spawn_background": 1, "perdure.tasks.created": 1,
		"perdure.tasks.ended": 1, "perdure.wake.duration": 1, "gen_ai.client.operation.duration": 3,
	} {
		if got[name] != want {
			t.Errorf("%s: got %d, want %d", name, got[name], want)
		}
	}
	if got["perdure.store.commit.duration"] < 5 {
		t.Errorf("got %d commits, want 5 and more", got["perdure.store.commit.duration"])
	}
}

// TestTelemetryResumed kills the engine in the middle of a call: the turn is resumed in the trace
// of the message's sender, under the one span of the turn.
func TestTelemetryResumed(t *testing.T) {
	t.Parallel()
	const caller, callerSpan = "0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331"
	o := observe(t, `
rules:
  - when: {not_called: hold_note}
    calls: [{name: hold_note, args: {}}]
  - when: {called: hold_note}
    text: done
`)
	eng := o.Start(t)
	o.say(t, eng, "go", "00-"+caller+"-"+callerSpan+"-01")
	o.Entered(t, "hold_note", 1)
	o.Kill(t)
	eng = o.Start(t)
	o.Entered(t, "hold_note", 2)
	o.Release("hold_note")
	if err := eng.Sessions().WaitIdle(o.ctx, o.id); err != nil {
		t.Fatal(err)
	}
	o.Stop(t)

	var roots, executions, asked int
	turn := ""
	for _, s := range o.spans.GetSpans() {
		if s.SpanContext.TraceID().String() != caller {
			t.Errorf("%s is in another trace", s.Name)
		}
		switch {
		case s.Name == "invoke_agent clerk":
			roots++
			turn = s.SpanContext.SpanID().String()
			if s.Parent.SpanID().String() != callerSpan {
				t.Errorf("the turn hangs on %s, and not on its caller", s.Parent.SpanID())
			}
		case strings.HasPrefix(s.Name, "execute_tool"):
			executions++
		}
	}
	for _, s := range o.spans.GetSpans() {
		if s.Name == "chat" && s.Parent.SpanID().String() == turn {
			asked++
		}
	}
	if roots != 1 || asked != 2 || executions < 1 {
		t.Errorf("got %d spans of the turn, %d model calls below it and %d executions; want 1, 2 and one or two", roots, asked, executions)
	}
	var all metricdata.ResourceMetrics
	if err := o.reader.Collect(o.ctx, &all); err != nil {
		t.Fatal(err)
	}
	if text := fmt.Sprintf("%+v", all); !strings.Contains(text, "perdure.resume.duration") {
		t.Error("the time from the crash to the resume is not reported")
	}
}

// TestTelemetryUnsampled: nothing of the turn is traced if the caller's trace of the message is not
// sampled.
func TestTelemetryUnsampled(t *testing.T) {
	t.Parallel()
	o := observe(t, "steps: [{text: done}]")
	eng := o.Start(t)
	o.say(t, eng, "go", "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-00")
	if err := eng.Sessions().WaitIdle(o.ctx, o.id); err != nil {
		t.Fatal(err)
	}
	o.Stop(t)

	if spans := o.spans.GetSpans(); len(spans) > 0 {
		t.Errorf("got %d spans: %s", len(spans), spans[0].Name)
	}
}

package telemetry_test

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	sdkmetric "go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/internal/telemetry"
	"github.com/perdure/perdure/store"
	"github.com/perdure/perdure/store/memory"
)

// TestReference compares the table of docs/reference/metrics.md with what there is.
func TestReference(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("../../docs/reference/metrics.md")
	if err != nil {
		t.Fatal(err)
	}
	var got, want []string
	for _, line := range strings.Split(string(text), "\n") {
		if strings.HasPrefix(line, "| `") {
			got = append(got, line)
		}
	}
	for _, f := range telemetry.Metrics() {
		want = append(want, fmt.Sprintf("| `%s` | %s | %s | %s |", f.PrometheusName, f.Kind, f.Labels, f.Help))
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("docs/reference/metrics.md differs from internal/telemetry (-want +got):\n%s", diff)
	}
}

// TestNobody calls all methods of a nil Telemetry.
func TestNobody(t *testing.T) {
	t.Parallel()
	none, err := telemetry.New(telemetry.Config{})
	if err != nil || none != nil {
		t.Fatalf("got %v, %v, want nil", none, err)
	}
	st := memory.New(memory.Config{})
	if none.Store(st) != store.Store(st) || none.Model(nil) != nil {
		t.Error("a store is wrapped without telemetry")
	}
	s := perdure.NewSession("session_1")
	none.Committed(s, s, nil, true)
	none.Leave(s.ID)
	none.Duplicate("call")
	if ctx := none.InTurn(t.Context(), s); ctx != t.Context() {
		t.Error("a context is changed without telemetry")
	}
}

// TestCardinality lets a model invent 1,000 tools: they are one value of a label.
func TestCardinality(t *testing.T) {
	t.Parallel()
	reader := sdkmetric.NewManualReader()
	told, err := telemetry.New(telemetry.Config{
		Metrics: sdkmetric.NewMeterProvider(sdkmetric.WithReader(reader)),
		Tool:    func(name string) bool { return name == "echo" || strings.HasPrefix(name, "own_") },
	})
	if err != nil {
		t.Fatal(err)
	}
	st := told.Store(memory.New(memory.Config{}))
	id := perdure.SessionID("session_1")
	err = st.InTx(t.Context(), func(tx store.Tx) error {
		err := tx.Sessions().Create(store.Session{ID: id, Root: id})
		for n := range 1_000 {
			for _, name := range []string{"echo", fmt.Sprint("invented_", n), fmt.Sprint("own_", n)} {
				if err == nil {
					fact := perdure.ToolCompleted{CallID: "call_1", Name: name, Status: perdure.StatusSuccess}
					err = tx.Journal().Append(id, []perdure.Event{{ID: perdure.EventID(fmt.Sprint("event_", n, name)), Fact: fact}})
				}
			}
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}

	var all metricdata.ResourceMetrics
	if err := reader.Collect(t.Context(), &all); err != nil {
		t.Fatal(err)
	}
	sum, series := int64(0), 0
	for _, m := range all.ScopeMetrics[0].Metrics {
		if points, ok := m.Data.(metricdata.Sum[int64]); ok && m.Name == "perdure.tool.calls" {
			series = len(points.DataPoints)
			for _, p := range points.DataPoints {
				sum += p.Value
			}
		}
	}
	if series > 202 || sum != 3_000 {
		t.Errorf("got %d series with %d calls, want at most 202 with 3000", series, sum)
	}
}

// TestRefused records a transaction that deliberately wrote nothing as refused, and counts none of
// its events.
func TestRefused(t *testing.T) {
	t.Parallel()
	spans := tracetest.NewInMemoryExporter()
	provider := sdktrace.NewTracerProvider(sdktrace.WithSyncer(spans))
	told, err := telemetry.New(telemetry.Config{Traces: provider})
	if err != nil {
		t.Fatal(err)
	}
	st := told.Store(memory.New(memory.Config{}))
	ctx, span := provider.Tracer("test").Start(t.Context(), "caller")
	_ = st.InTx(ctx, func(store.Tx) error { return perdure.Conflict })
	span.End()
	_ = st.InTx(t.Context(), func(store.Tx) error { return nil }) // a commit without a trace

	got := spans.GetSpans()
	if len(got) != 2 || got[0].Name != "commit" || !strings.Contains(fmt.Sprint(got[0].Attributes), "refused") || got[0].Parent.SpanID() != span.SpanContext().SpanID() {
		t.Errorf("got %d spans: %v", len(got), got)
	}
}

// TestLogs adds to a line what it belongs to, once.
func TestLogs(t *testing.T) {
	t.Parallel()
	ctx, span := sdktrace.NewTracerProvider().Tracer("test").Start(context.Background(), "x")
	defer span.End()
	var out bytes.Buffer
	log := slog.New(telemetry.NewLogHandler(slog.NewJSONHandler(&out, nil))).With("a", 1)
	log.InfoContext(ctx, "in a span")
	log.Info("in none")
	lines := strings.Split(strings.TrimSpace(out.String()), "\n")
	if !regexp.MustCompile(`"trace_id":"[0-9a-f]{32}","span_id":"[0-9a-f]{16}"`).MatchString(lines[0]) || strings.Contains(lines[1], "trace_id") {
		t.Errorf("got %s", out.String())
	}
}

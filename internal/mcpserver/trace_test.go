package mcpserver_test

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"

	"github.com/perdure/perdure/engine/local"
	"github.com/perdure/perdure/internal/mcpserver"
	"github.com/perdure/perdure/internal/telemetry"
)

// The traceparents of these tests: of the metadata of a call, and of the header of its request.
const (
	nearTrace = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
	farTrace  = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"
)

// TestTraceIn calls over every wire with the SDK's own client: the traceparent in the metadata is
// the parent of the call's task; an invalid traceparent starts a new trace.
func TestTraceIn(t *testing.T) {
	t.Parallel()
	spans := tracetest.NewInMemoryExporter()
	r := traced(t, spans)
	for _, version := range []string{"2026-07-28", "2025-11-25"} {
		for way, open := range map[string]func(*testing.T) mcp.Transport{"stdio": r.overStdio, "http": r.overHTTP} {
			t.Run(version+" "+way, func(t *testing.T) {
				ctx, cancel := context.WithTimeout(t.Context(), patience)
				defer cancel()
				client := mcp.NewClient(&mcp.Implementation{Name: "test", Version: "1"}, nil)
				session, err := client.Connect(ctx, open(t), &mcp.ClientSessionOptions{ProtocolVersion: version})
				if err != nil {
					t.Fatal(err)
				}
				defer session.Close()
				for i, c := range []struct {
					said any
					want string // the parent; empty: none
				}{
					{nearTrace, "0af7651916cd43dd8448eb211c80319c b7ad6b7169203331"},
					{nil, ""},
					{"00-00000000000000000000000000000000-b7ad6b7169203331-01", ""},
					{nearTrace + "-and-more", ""},
					{map[string]any{"traceparent": nearTrace}, ""},
				} {
					spans.Reset()
					params := &mcp.CallToolParams{Name: "note", Arguments: object{"text": fmt.Sprint(t.Name(), i)}, Meta: mcp.Meta{}}
					if c.said != nil {
						params.Meta["traceparent"] = c.said
					}
					if got, err := session.CallTool(ctx, params); err != nil || got.IsError {
						t.Fatalf("%v: %+v, %v", c.said, got, err)
					}
					if got := parentOf(t, spans, "task note"); got != c.want {
						t.Errorf("%v: the task hangs on %q, want %q", c.said, got, c.want)
					}
				}
			})
		}
	}
}

// TestTraceNearest: of the trace in a call's metadata and the one in its request's header the
// former counts. A stranger's is read nowhere, and neither is the header under which our front
// hands it on.
func TestTraceNearest(t *testing.T) {
	t.Parallel()
	spans := tracetest.NewInMemoryExporter()
	r := traced(t, spans)
	for i, c := range []struct {
		header, meta string
		want         string
	}{
		{"", "", ""},
		{farTrace, "", "4bf92f3577b34da6a3ce929d0e0e4736 request"},
		{farTrace, nearTrace, "0af7651916cd43dd8448eb211c80319c b7ad6b7169203331"},
		{"", nearTrace, "0af7651916cd43dd8448eb211c80319c b7ad6b7169203331"},
		{farTrace, "none", "4bf92f3577b34da6a3ce929d0e0e4736 request"},
	} {
		spans.Reset()
		r.call(questionPart{header: map[string]string{"traceparent": c.header, "Perdure-Trace": farTrace}}, "note", object{"text": fmt.Sprint(i)}, object{"traceparent": c.meta})
		got := parentOf(t, spans, "task note")
		ended(t, spans, "POST /mcp")
		for _, s := range spans.GetSpans() {
			if s.Name == "POST /mcp" && got == fmt.Sprint(s.SpanContext.TraceID(), " ", s.SpanContext.SpanID()) {
				got = s.SpanContext.TraceID().String() + " request"
			}
		}
		if got != c.want {
			t.Errorf("header %q, metadata %q: the task hangs on %q, want %q", c.header, c.meta, got, c.want)
		}
	}

	spans.Reset()
	if got := r.ask(questionPart{as: "stranger"}, "tools/call", object{"name": "note", "arguments": text, "_meta": object{"traceparent": nearTrace}}); got.status != http.StatusUnauthorized {
		t.Fatalf("a stranger got %d", got.status)
	}
	if got := spans.GetSpans(); len(got) > 0 {
		t.Errorf("a stranger made %d spans: %s", len(got), got[0].Name)
	}
}

// traced returns a rig that records the spans of its engine and requests.
func traced(t *testing.T, spans *tracetest.InMemoryExporter) *rig {
	t.Helper()
	provider := sdktrace.NewTracerProvider(sdktrace.WithSyncer(spans), sdktrace.WithIDGenerator(local.SpanIDs{}))
	r := newTelling(t, local.Telemetry{Traces: provider}, mcpserver.Config{Local: &mcpserver.Principal{ID: "local"}})
	told, err := telemetry.NewServer(provider, nil)
	if err != nil {
		t.Fatal(err)
	}
	server := r.web.Config.Handler
	r.web.Config.Handler = http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		ctx, q := told.Begin(req, "")
		if req.Header.Get("Authorization") != "Bearer stranger" { // as the API does, which asks before this server
			ctx = q.Authenticated(ctx, req)
		}
		server.ServeHTTP(w, req.WithContext(ctx))
		q.End(req, "/mcp", http.StatusOK)
	})
	return r
}

// overStdio is the way to the server over a pair of streams.
func (r *rig) overStdio(t *testing.T) mcp.Transport {
	theirIn, ourOut := io.Pipe()
	ourIn, theirOut := io.Pipe()
	served := make(chan error, 1) // of one client
	ctx, end := context.WithCancel(context.Background())
	go func() { served <- r.server.ServeStdio(ctx, ourIn, ourOut) }()
	t.Cleanup(func() {
		end()
		if err := <-served; err != nil {
			t.Error(err)
		}
	})
	return &mcp.IOTransport{Reader: theirIn, Writer: theirOut}
}

// overHTTP is the way to the server over HTTP.
func (r *rig) overHTTP(*testing.T) mcp.Transport {
	return &mcp.StreamableClientTransport{Endpoint: r.web.URL + "/mcp", HTTPClient: &http.Client{Transport: bearing{r.web.Client().Transport}}}
}

// bearing gives requests a token.
type bearing struct{ next http.RoundTripper }

// RoundTrip implements http.RoundTripper.
func (b bearing) RoundTrip(req *http.Request) (*http.Response, error) {
	sent := req.Clone(req.Context())
	sent.Header.Set("Authorization", "Bearer somebody")
	return b.next.RoundTrip(sent)
}

// ended waits for the end of the one span of a name.
func ended(t *testing.T, spans *tracetest.InMemoryExporter, name string) (span tracetest.SpanStub) {
	t.Helper()
	for late := time.Now().Add(patience); ; <-time.After(time.Millisecond) {
		found := 0
		for _, s := range spans.GetSpans() {
			if s.Name == name {
				span = s
				found++
			}
		}
		if found == 1 {
			return span
		}
		if found > 1 || time.Now().After(late) {
			t.Fatalf("%d spans are named %s, want one", found, name)
		}
	}
}

// parentOf is the trace and the parent of the one span of a name; empty: it has no parent.
func parentOf(t *testing.T, spans *tracetest.InMemoryExporter, name string) string {
	t.Helper()
	s := ended(t, spans, name)
	if !s.Parent.IsValid() {
		return ""
	}
	return s.SpanContext.TraceID().String() + " " + s.Parent.SpanID().String()
}

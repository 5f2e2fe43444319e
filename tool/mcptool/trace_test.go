package mcptool_test

import (
	"context"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/engine"
	"github.com/perdure/perdure/engine/local"
	"github.com/perdure/perdure/internal/telemetry"
	"github.com/perdure/perdure/store/memory"
	"github.com/perdure/perdure/tool"
	"github.com/perdure/perdure/tool/mcptool"
)

// callerTrace is the traceparent of our caller.
const callerTrace = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"

// theirs is a server of the SDK with one tool, mark, which reports each traceparent that it is
// called with and waits to be released.
type theirs struct {
	*httptest.Server
	marked  chan string // empty: it was called with none; has room for all the calls of a test
	release chan struct{}
	letGo   func() // closes release
}

func newTheirs(t *testing.T) *theirs {
	t.Helper()
	s := &theirs{marked: make(chan string, 10), release: make(chan struct{})}
	s.letGo = sync.OnceFunc(func() { close(s.release) })
	server := mcp.NewServer(&mcp.Implementation{Name: "theirs", Version: "1"}, nil)
	server.AddTool(&mcp.Tool{Name: "mark", InputSchema: map[string]any{"type": "object"}}, func(ctx context.Context, r *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		said, _ := r.Params.Meta["traceparent"].(string)
		s.marked <- said
		select {
		case <-s.release:
		case <-ctx.Done():
		}
		return &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: "marked"}}}, nil
	})
	s.Server = httptest.NewServer(mcp.NewStreamableHTTPHandler(func(*http.Request) *mcp.Server { return server }, nil))
	t.Cleanup(func() {
		s.letGo()
		s.CloseClientConnections()
		s.Close()
		for session := range server.Sessions() { // of a client that was closed during a call, which ends nothing here
			_ = session.Close()
		}
	})
	return s
}

// next is what mark is called with next.
func (s *theirs) next(t *testing.T) string {
	t.Helper()
	select {
	case said := <-s.marked:
		return said
	case <-time.After(patience):
		t.Fatal("no call arrived")
		return ""
	}
}

// newMarking is an engine with the tools of that server.
func newMarking(t *testing.T, s *theirs, script string, tells local.Telemetry) *side {
	t.Helper()
	var clients []*mcptool.Client // one per process; a call continues until the server releases it
	side := &side{t: t, store: memory.New(memory.Config{}), script: script, tells: tells}
	side.tools = func() *tool.Registry {
		cfg := mcptool.Config{URL: s.URL, HTTP: s.Client(), Classes: map[string]perdure.EffectClass{"mark": perdure.Idempotent}}
		client, err := mcptool.Open(context.Background(), cfg)
		if err != nil {
			t.Fatal(err)
		}
		clients = append(clients, client)
		remotes, err := mcptool.Tools(context.Background(), client)
		if err != nil {
			t.Fatal(err)
		}
		set := tool.NewRegistry()
		for _, r := range remotes {
			set.Register(r)
		}
		return set
	}
	side.start()
	t.Cleanup(func() {
		side.end()
		s.letGo()
		for _, c := range clients {
			_ = c.Close(false) // it is lost
		}
		_ = side.store.Close() // in memory
	})
	return side
}

// TestTraceOut: a server receives the span of the call's execution, in the trace of our caller;
// without a tracer it receives our caller's traceparent, and nothing if there was none. After a
// crash it receives the same trace.
func TestTraceOut(t *testing.T) {
	t.Parallel()
	const inTurn = `rules:
  - when: {not_called: mark}
    calls: [{name: mark, args: {}}]
  - when: {called: mark}
    text: done`
	for _, c := range []struct {
		name         string
		told, turn   bool // spans are recorded; a model calls
		caller       string
		trace, under string // what the server gets: the trace, and the span; empty: the one of the execution
	}{
		{"told", true, false, callerTrace, callerTrace[3:35], ""},
		{"told_in_a_turn", true, true, callerTrace, callerTrace[3:35], ""},
		{"handed_on", false, false, callerTrace, callerTrace[3:35], callerTrace[36:52]},
		{"handed_on_in_a_turn", false, true, callerTrace, callerTrace[3:35], callerTrace[36:52]},
		{"none", false, false, "", "", ""},
		{"none_in_a_turn", false, true, "", "", ""},
		{"told_alone", true, false, "", "its own", ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			s, spans, tells := newTheirs(t), tracetest.NewInMemoryExporter(), local.Telemetry{}
			if c.told {
				tells.Traces = sdktrace.NewTracerProvider(sdktrace.WithSyncer(spans), sdktrace.WithIDGenerator(local.SpanIDs{}))
			}
			n := newMarking(t, s, inTurn, tells)
			ctx := telemetry.WithParent(t.Context(), c.caller)
			made, err := n.eng.Sessions().Create(t.Context(), perdure.Agent{Name: "marker"})
			if err != nil {
				t.Fatal(err)
			}
			if c.turn {
				_, err = n.eng.Send(ctx, made.ID, perdure.Text("go"))
			} else {
				_, err = n.eng.HostCalls().Start(ctx, engine.HostCallRequest{Session: made.ID, Tool: "mark"})
			}
			if err != nil {
				t.Fatal(err)
			}

			said := []string{s.next(t)}
			n.restart()
			said = append(said, s.next(t))
			s.letGo()
			if err := n.eng.Sessions().WaitIdle(t.Context(), made.ID); err != nil {
				t.Fatal(err)
			}
			n.waitCalls(made.ID)
			n.end()

			if c.trace == "its own" {
				task, err := n.eng.Tasks().List(context.Background(), made.ID)
				if err != nil || len(task) != 1 {
					t.Fatalf("%d tasks: %v", len(task), err)
				}
				c.trace = strings.TrimPrefix(string(task[0].ID), "task_")
			}
			checkSaid(t, said, [2]string{c.trace, c.under}, spans)
		})
	}
}

// waitCalls waits for the end of the one call of a session.
func (s *side) waitCalls(id perdure.SessionID) {
	s.t.Helper()
	for late := time.Now().Add(patience); ; <-time.After(5 * time.Millisecond) {
		calls, err := s.eng.Calls().List(context.Background(), id)
		if err != nil || len(calls) != 1 || time.Now().After(late) {
			s.t.Fatalf("%+v: %v", calls, err)
		}
		if calls[0].State == perdure.CallSettled {
			return
		}
	}
}

// checkSaid compares the traceparents that a server received with the expected trace and span. The
// span of an execution that died with its process was not exported.
func checkSaid(t *testing.T, said []string, want [2]string, spans *tracetest.InMemoryExporter) {
	t.Helper()
	trace, under := want[0], want[1]
	executions := map[string]bool{}
	for _, s := range spans.GetSpans() {
		if s.Name == "execute_tool mark" {
			executions[s.SpanContext.SpanID().String()] = true
		}
	}
	for i, text := range said {
		if trace == "" {
			if text != "" {
				t.Errorf("call %d was sent with %q", i, text)
			}
			continue
		}
		parts := strings.Split(text, "-")
		if len(parts) != 4 || parts[1] != trace {
			t.Errorf("call %d was sent with %q, want the trace %s", i, text, trace)
			continue
		}
		if under != "" && parts[2] != under || under == "" && i == 1 && !executions[parts[2]] {
			t.Errorf("call %d was sent with %q: its span is not %s, nor one of %v", i, text, under, executions)
		}
	}
}

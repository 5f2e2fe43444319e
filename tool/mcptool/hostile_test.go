package mcptool_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/engine"
	"github.com/perdure/perdure/tool"
	"github.com/perdure/perdure/tool/mcptool"
)

// TestHostilePolls: a server that does not answer a poll, answers for another task, or sends too
// much is asked again, and its answer is ignored.
func TestHostilePolls(t *testing.T) {
	t.Parallel()
	for name, lie := range map[string]func(w http.ResponseWriter, r *http.Request, true []byte){
		"silent": func(_ http.ResponseWriter, r *http.Request, _ []byte) { <-r.Context().Done() },
		"renames": func(w http.ResponseWriter, _ *http.Request, true []byte) {
			_, _ = w.Write(bytes.Replace(true, []byte(`"taskId":"`), []byte(`"taskId":"x`), 1))
		},
		"endless": func(w http.ResponseWriter, _ *http.Request, true []byte) {
			_, _ = w.Write(append(true, bytes.Repeat([]byte(" "), 17<<20)...))
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newFar(t)
			var polls atomic.Int64
			f.answers = func(w http.ResponseWriter, r *http.Request, method string, answer http.Handler) {
				if method != "tasks/get" || polls.Add(1) > 1 {
					answer.ServeHTTP(w, r)
					return
				}
				var asked struct {
					ID     json.RawMessage
					Params struct{ TaskID string }
				}
				if err := json.NewDecoder(r.Body).Decode(&asked); err != nil {
					t.Error(err)
				}
				w.Header().Set("Content-Type", "application/json")
				lie(w, r, fmt.Appendf(nil, `{"jsonrpc":"2.0","id":%s,"result":{"resultType":"complete","taskId":%q,"status":"completed","result":{"content":[{"type":"text","text":"a lie"}]}}}`, asked.ID, asked.Params.TaskID))
			}
			n := newAsker(t, f, perdure.AtMostOnce, silent)
			n.patience = 500 * time.Millisecond
			key := n.begin("far__hold_note", `{"text":"a"}`)
			n.until(key, func(now engine.HostCall) bool { return polls.Load() > 1 || now.Result != nil })
			f.Release("hold_note")
			if done := n.until(key, over); done.Result.IsError() || !strings.Contains(string(done.Result.Result), "held") {
				t.Errorf("got %s %s", done.Result.Result, done.Result.Error)
			}
		})
	}
}

// plainServer is one over HTTP, of one tool.
func plainServer(t *testing.T, def *mcp.Tool, does mcp.ToolHandler) (*mcp.Server, string) {
	t.Helper()
	server := mcp.NewServer(&mcp.Implementation{Name: "plain", Version: "1"}, nil)
	server.AddTool(def, does)
	web := httptest.NewServer(mcp.NewStreamableHTTPHandler(func(*http.Request) *mcp.Server { return server }, &mcp.StreamableHTTPOptions{Stateless: true}))
	t.Cleanup(web.Close)
	return server, web.URL
}

// TestStructuredErrors: an error is an error for an agent, whatever else accompanies its text, and
// an outcome that is unknown to the server is unknown here.
func TestStructuredErrors(t *testing.T) {
	t.Parallel()
	var says atomic.Value
	_, url := plainServer(t, defined("fails", `{"type":"object"}`), func(context.Context, *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		return &mcp.CallToolResult{IsError: true, Content: []mcp.Content{&mcp.TextContent{Text: "no"}}, StructuredContent: map[string]any{"outcome": says.Load()}}, nil
	})
	s, err := mcptool.NewServer(mcptool.ServerConfig{
		Name: "plain", Definitions: []*mcp.Tool{defined("fails", `{"type":"object"}`)},
		Open: func(ctx context.Context, _ perdure.SessionID) (*mcptool.Client, error) {
			return mcptool.Open(ctx, mcptool.Config{URL: url, HTTP: &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}})
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	for outcome, want := range map[string]perdure.ErrorKind{"bad": "", "unknown": perdure.ErrorUnknown} {
		says.Store(outcome)
		call := tool.Call{Session: "s", Tool: "plain__fails", Args: json.RawMessage(`{}`), Key: outcome, Execution: 1}
		if r := s.Tools()[0].Run(t.Context(), call, tool.Env{Call: call}); r.IsSuccess() || r.Text != "no" || r.ErrorKind != want {
			t.Errorf("%s: got %+v", outcome, r)
		}
	}
}

// TestHeadersOfChangedTools: a server that wants another header than it said is asked again, and
// the call is made once.
func TestHeadersOfChangedTools(t *testing.T) {
	t.Parallel()
	var calls atomic.Int64
	does := func(context.Context, *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		calls.Add(1)
		return &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: "here"}}}, nil
	}
	in := func(header string) *mcp.Tool {
		return defined("where", `{"type":"object","properties":{"region":{"type":"string","x-mcp-header":"`+header+`"}}}`)
	}
	server, url := plainServer(t, in("Region"), does)
	var changed atomic.Int64
	c, err := mcptool.Open(t.Context(), mcptool.Config{URL: url, HTTP: &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}, OnToolsChanged: func() { changed.Add(1) }})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close(false)
	all, err := mcptool.Tools(t.Context(), c)
	if err != nil {
		t.Fatal(err)
	}
	server.AddTool(in("Zone"), does)
	call := tool.Call{Tool: "where", Args: json.RawMessage(`{"region":"north"}`), Key: "k", Execution: 1}
	if r := all[0].Run(t.Context(), call, tool.Env{Call: call}); !r.IsSuccess() || calls.Load() != 1 || changed.Load() != 1 {
		t.Errorf("got %+v after %d calls, notified %d times", r, calls.Load(), changed.Load())
	}
}

// TestOneCancelIsNobodyElses: canceling a call while it connects does not fail others that wait for
// the same connection.
func TestOneCancelIsNobodyElses(t *testing.T) {
	t.Parallel()
	f := newFar(t)
	var opened atomic.Int64
	began := make(chan struct{})
	s, err := mcptool.NewServer(mcptool.ServerConfig{
		Name: "far", Shared: true, Definitions: []*mcp.Tool{defined("charge", `{"type":"object"}`)},
		Open: func(ctx context.Context, _ perdure.SessionID) (*mcptool.Client, error) {
			if opened.Add(1) == 1 {
				close(began)
				<-ctx.Done()
				return nil, ctx.Err()
			}
			return mcptool.Open(ctx, mcptool.Config{URL: f.web.URL + "/mcp", HTTP: f.web.Client()})
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	run := func(ctx context.Context, session perdure.SessionID) tool.Result {
		call := tool.Call{Session: session, Tool: "far__charge", Args: json.RawMessage(`{"text":"a"}`), Key: string(session), Execution: 1}
		return s.Tools()[0].Run(ctx, call, tool.Env{Call: call})
	}
	first, cancel := context.WithCancel(t.Context())
	ended := make(chan tool.Result, 2) // of two runs
	go func() { ended <- run(first, "a") }()
	<-began
	other := make(chan tool.Result, 1) // of one run
	go func() { other <- run(t.Context(), "b") }()
	time.AfterFunc(50*time.Millisecond, cancel) // it waits by then, or comes later: both are fine
	if r := <-ended; r.IsSuccess() {
		t.Error("a canceled call was made")
	}
	if r := <-other; !r.IsSuccess() {
		t.Errorf("got %+v", r)
	}
}

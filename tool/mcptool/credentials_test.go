package mcptool_test

import (
	"context"
	"encoding/json"
	"net/http"
	"sync/atomic"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/tool"
	"github.com/perdure/perdure/tool/mcptool"
)

// TestCredentialsOfLongTasks: credentials that expire while a remote task runs are fetched again,
// so that the task is followed to its end.
func TestCredentialsOfLongTasks(t *testing.T) {
	t.Parallel()
	f := newFar(t)
	var expired, fetched atomic.Int64
	f.answers = func(w http.ResponseWriter, r *http.Request, method string, answer http.Handler) {
		if method == "tasks/get" && fetched.Load() == 1 {
			expired.Add(1)
			http.Error(w, "expired", http.StatusUnauthorized)
			return
		}
		answer.ServeHTTP(w, r)
	}
	server, err := mcptool.NewServer(mcptool.ServerConfig{
		Name: "far", Definitions: []*mcp.Tool{{Name: "hold_note", InputSchema: json.RawMessage(`{"type":"object"}`)}},
		BeforeCall: func(context.Context, tool.Env) error {
			if fetched.Add(1) == 2 {
				f.Release("hold_note")
			}
			return nil
		},
		Open: func(ctx context.Context, _ perdure.SessionID) (*mcptool.Client, error) {
			return mcptool.Open(ctx, mcptool.Config{URL: f.web.URL + "/mcp", HTTP: f.web.Client()})
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = server.Close() })
	call := tool.Call{Session: "session_1", ID: "call_1", Tool: "far__hold_note", Args: json.RawMessage(`{"text":"a"}`), Key: "k", Execution: 1}

	got := server.Tools()[0].Run(t.Context(), call, tool.Env{Call: call})

	if !got.IsSuccess() || expired.Load() == 0 || fetched.Load() < 2 {
		t.Errorf("got %+v; %d polls were refused, and the credentials fetched %d times", got, expired.Load(), fetched.Load())
	}
}

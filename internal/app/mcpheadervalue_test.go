package app

import (
	"context"
	"encoding/json"
	"errors"
	"testing"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/tool"
)

// oneConnection is the connections of a user who can be disconnected.
type oneConnection struct {
	tool.Connections
	token string // empty: it is not connected
}

func (c *oneConnection) Metadata(context.Context, string) (json.RawMessage, error) {
	if c.token == "" {
		return nil, perdure.NotFound
	}
	return json.RawMessage(`{"hosts":["tickets.example.com"]}`), nil
}

func (c *oneConnection) Token(context.Context, string) (string, error) { return c.token, nil }

// maskAll is a masker.
type maskAll struct{ tool.SecretMasker }

// TestHeaderSecretsAreForgotten: the values of a session are those of its last call. If they cannot
// be opened any more, none are left for requests about earlier calls.
func TestHeaderSecretsAreForgotten(t *testing.T) {
	t.Parallel()
	h := &headerSecrets{of: mcpServer{URL: "https://tickets.example.com/mcp", Headers: map[string]string{"Authorization": "Bearer connection:tickets"}}}
	user := &oneConnection{token: "first"}
	call := tool.Call{Session: "session_1", ID: "call_1"}
	env := tool.Env{Call: call, Ports: tool.Ports{Connections: user, SecretMasker: maskAll{}}}

	for _, token := range []string{"first", "second"} {
		user.token = token
		if err := h.open(t.Context(), env); err != nil {
			t.Fatal(err)
		}
		if got := h.valuesOf(call.Session); len(got) != 1 || got[0].Value != token {
			t.Errorf("got %d values, want the %s", len(got), token)
		}
	}
	user.token = ""
	missing := (*tool.NotConnected)(nil)
	if err := h.open(t.Context(), env); !errors.As(err, &missing) {
		t.Errorf("got %v", err)
	}
	if got := h.valuesOf(call.Session); len(got) != 0 {
		t.Errorf("%d values are left", len(got))
	}
}

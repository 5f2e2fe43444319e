package api

import (
	"context"
	"net/http"

	"github.com/perdure/perdure"
)

// mcpPath is where MCP clients come, if Config.MCP answers them.
const mcpPath = "/mcp"

// mcpCall is what of an MCP request says how long it takes and what it does.
type mcpCall struct {
	Method string `json:"method"`
}

// answerMCP lets a request of an MCP client through what every request goes through: who asks, the limits of its body, a place
// of its kind, and the end of the server. What it says is the affair of the protocol. A stream ends when the server is to end;
// a call that is waited for has the time that its work has.
func (a *API) answerMCP(out *answer, r *http.Request) error {
	requestOf(r.Context()).route = mcpPath
	if a.drains() {
		return draining()
	}
	g, lasting := a.gates.open, r.Method == http.MethodGet
	if r.Method == http.MethodPost {
		if err := a.readBody(out, r, mcpPath); err != nil {
			return err
		}
		g, lasting = a.gates.ofMCP(requestOf(r.Context()).body)
	}
	if err := a.pace(r.Context(), out, g); err != nil {
		return err
	}
	if err := a.admit(r.Context(), g); err != nil {
		return err
	}
	defer g.leave()
	if lasting {
		ctx, end := context.WithCancel(r.Context())
		defer end()
		returned := make(chan struct{})
		defer close(returned)
		go func() { // until the request or the server ends
			select {
			case <-a.draining:
				end()
			case <-returned:
			}
		}()
		r = r.WithContext(ctx)
	}
	a.cfg.MCP.ServeHTTP(out, r)
	return nil
}

// ofMCP is the gate of a message, and whether it is a stream that ends with the server. A call waits for its outcome, so it
// takes a place of those that last; what cannot be read is refused by the protocol.
func (g *gates) ofMCP(body []byte) (of *gate, lasting bool) {
	var m mcpCall
	_ = perdure.DecodeKnownJSON(body, &m) // what is none has no method
	switch m.Method {
	case "tools/call", "tasks/result":
		return g.open, false
	case "subscriptions/listen":
		return g.open, true
	case "tasks/cancel", "notifications/cancelled":
		return g.urgent, false
	case "tasks/update", "initialize":
		return g.writes, false
	}
	return g.reads, false
}

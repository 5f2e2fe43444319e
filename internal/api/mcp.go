package api

import (
	"context"
	"net/http"

	"github.com/perdure/perdure"
)

// mcpPath is the endpoint of MCP clients, served by Config.MCP.
const mcpPath = "/mcp"

// mcpCall is the part of an MCP request that determines its admission queue.
type mcpCall struct {
	Method string `json:"method"`
}

// answerMCP passes a request of an MCP client on after the checks that every request gets:
// authentication, body limits, admission, and shutdown of the server. The content is checked by the
// MCP server. A stream ends when the server drains; a tool call may run as long as its work takes.
func (a *API) answerMCP(out *responseWriter, r *http.Request) error {
	requestOf(r.Context()).route = mcpPath
	if a.isDraining() {
		return draining()
	}
	g, lasting := a.queues.open, r.Method == http.MethodGet
	if r.Method == http.MethodPost {
		if err := a.readBody(out, r, route{}); err != nil {
			return err
		}
		g, lasting = a.queues.queueOfMCP(requestOf(r.Context()).body)
	}
	if err := a.countRate(r.Context(), out, g); err != nil {
		return err
	}
	if err := a.admit(r.Context(), g); err != nil {
		return err
	}
	defer g.release()
	if lasting {
		ctx, end := context.WithCancel(r.Context())
		defer end()
		returned := make(chan struct{})
		defer close(returned)
		go func() { // ends with the request or the server
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

// queueOfMCP returns the admission queue of an MCP message, and whether the request is a stream
// that must end with the server. A call waits for its outcome, so it uses a slot of the
// long-running requests. A malformed message is refused by the MCP server.
func (g *admissionQueues) queueOfMCP(body []byte) (of *admissionQueue, lasting bool) {
	var m mcpCall
	_ = perdure.DecodeKnownJSON(body, &m) // malformed: no method
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

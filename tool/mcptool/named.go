package mcptool

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/tool"
)

// named is a transport on which requests have ids of our own: a tool call that of the call, all others one that no earlier
// connection had.
type named struct {
	c     *Client
	inner mcp.Transport
}

// Connect implements mcp.Transport.
func (n *named) Connect(ctx context.Context) (mcp.Connection, error) {
	conn, err := n.inner.Connect(ctx)
	return &namedConn{Connection: conn, c: n.c, prefix: rand.Text()[:12] + "-", ours: map[string]jsonrpc.ID{}, theirs: map[any]string{}}, err
}

type namedConn struct {
	mcp.Connection
	c      *Client
	prefix string

	mu     sync.Mutex
	ours   map[string]jsonrpc.ID // guarded by mu; the SDK's id, by that on the wire
	theirs map[any]string        // guarded by mu; the id on the wire, by the SDK's
}

// Write implements mcp.Connection.
func (n *namedConn) Write(ctx context.Context, m jsonrpc.Message) error {
	r, ok := m.(*jsonrpc.Request)
	if !ok {
		return n.Connection.Write(ctx, m)
	}
	sent := *r
	if r.IsCall() {
		name := callOf(r)
		if name == "" {
			name = n.prefix + fmt.Sprint(r.ID.Raw())
		}
		id, err := jsonrpc.MakeID(name)
		if err != nil {
			return err
		}
		n.mu.Lock()
		n.ours[name], n.theirs[r.ID.Raw()] = r.ID, name
		n.mu.Unlock()
		sent.ID = id
	} else if r.Method == "notifications/cancelled" {
		sent.Params = n.canceled(r.Params)
	}
	return n.Connection.Write(ctx, &sent)
}

// canceled names the request that is cancelled as the wire does.
func (n *namedConn) canceled(params json.RawMessage) json.RawMessage {
	var fields map[string]any
	if perdure.DecodeJSON(params, &fields) != nil {
		return params
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	for raw, name := range n.theirs {
		if fmt.Sprint(raw) == strings.TrimSuffix(fmt.Sprint(fields["requestId"]), ".0") {
			fields["requestId"] = name
			return mustJSON(fields)
		}
	}
	return params
}

// Read implements mcp.Connection. An answer to nobody is skipped.
func (n *namedConn) Read(ctx context.Context) (jsonrpc.Message, error) {
	for {
		m, err := n.Connection.Read(ctx)
		r, ok := m.(*jsonrpc.Response)
		if err != nil {
			return m, notRefused(err)
		}
		if !ok {
			return m, nil
		}
		name, _ := r.ID.Raw().(string)
		n.mu.Lock()
		id, known := n.ours[name]
		delete(n.ours, name)
		delete(n.theirs, id.Raw())
		n.mu.Unlock()
		if known {
			n.c.came(name, r.Result)
			answered := *r
			answered.ID, answered.Error = id, asUnread(r.Error)
			answered.Result, _ = plainResult(r.Result)
			return &answered, nil
		}
	}
}

// notRefused is an error of reading as one that nobody takes for the server's word on a call: the SDK words what it cannot read as a
// server would.
func notRefused(err error) error {
	var fault *jsonrpc.Error
	if errors.As(err, &fault) {
		return fmt.Errorf("read what the MCP server says: %s", fault.Message)
	}
	return err
}

// callOf is the name of a tool call; empty: it is none of ours.
func callOf(r *jsonrpc.Request) string {
	if r.Method != "tools/call" {
		return ""
	}
	var with struct {
		Meta map[string]json.RawMessage `json:"_meta"`
	}
	var name string
	if perdure.DecodeKnownJSON(r.Params, &with) != nil || perdure.DecodeJSON(with.Meta[metaCall], &name) != nil {
		return ""
	}
	return name
}

// wireID is a call's id on the wire: the same for every sending of one execution.
func wireID(call tool.Call) string { return call.Key + "/" + strconv.Itoa(max(call.Execution, 1)) }

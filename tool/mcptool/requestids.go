package mcptool

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/tool"
)

// requestIDs is a transport that replaces the ids of requests: a tool call gets the id of its call,
// and any other request an id that no earlier connection used.
type requestIDs struct {
	c     *Client
	made  *connection // the connection that it serves
	inner mcp.Transport
}

func (n *requestIDs) Connect(ctx context.Context) (mcp.Connection, error) {
	conn, err := n.inner.Connect(ctx)
	return &requestIDConn{Connection: conn, c: n.c, made: n.made, prefix: rand.Text()[:12] + "-", ours: map[string]jsonrpc.ID{}, theirs: map[any]string{}}, err
}

type requestIDConn struct {
	mcp.Connection
	c      *Client
	made   *connection
	prefix string

	mu        sync.Mutex
	ours      map[string]jsonrpc.ID // guarded by mu; the SDK's id, by id on the wire
	theirs    map[any]string        // guarded by mu; the id on the wire, by the SDK's id
	probe     string                // guarded by mu; id on the wire of the first methodDiscover
	silent    jsonrpc.ID            // guarded by mu; the SDK's id of an unanswered methodDiscover; not valid: none
	interrupt context.CancelFunc    // guarded by mu; ends the Read that is running
}

// listSuffix marks the ids of requests that list tools.
const listSuffix = "-list"

func (n *requestIDConn) Write(ctx context.Context, m jsonrpc.Message) error {
	r, ok := m.(*jsonrpc.Request)
	if !ok {
		return n.Connection.Write(ctx, m)
	}
	sent := *r
	if r.IsCall() {
		name := cmp.Or(callOf(r), n.prefix+fmt.Sprint(r.ID.Raw()))
		if r.Method == methodList {
			name += listSuffix
		}
		id, err := jsonrpc.MakeID(name)
		if err != nil {
			return err
		}
		n.mu.Lock()
		n.ours[name], n.theirs[r.ID.Raw()] = r.ID, name
		if r.Method == methodDiscover {
			n.probe = name
			time.AfterFunc(n.c.probeTime(), func() { n.giveUp(name) })
		}
		n.mu.Unlock()
		sent.ID = id
	} else if r.Method == "notifications/cancelled" {
		sent.Params = n.canceled(r.Params)
	}
	return n.Connection.Write(ctx, &sent)
}

// canceled replaces the id in a cancel notification by that on the wire.
func (n *requestIDConn) canceled(params json.RawMessage) json.RawMessage {
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

// giveUp ends the wait for the answer to methodDiscover, so that the SDK uses the older handshake
// on the same connection.
func (n *requestIDConn) giveUp(name string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	id, waits := n.ours[name]
	if !waits {
		return
	}
	delete(n.ours, name)
	delete(n.theirs, id.Raw())
	n.silent = id
	if n.interrupt != nil {
		n.interrupt()
	}
}

// Read implements mcp.Connection. A response without a waiting request is skipped.
func (n *requestIDConn) Read(ctx context.Context) (jsonrpc.Message, error) {
	for {
		m, err := n.read(ctx)
		r, ok := m.(*jsonrpc.Response)
		if err != nil {
			return m, notRefused(err)
		}
		if !ok {
			if note, ok := m.(*jsonrpc.Request); ok && note.Method == "notifications/progress" {
				n.c.receivedEvent(note.Params)
			}
			return m, nil
		}
		name, _ := r.ID.Raw().(string)
		n.mu.Lock()
		id, known := n.ours[name]
		delete(n.ours, name)
		delete(n.theirs, id.Raw())
		if !known && name == n.probe && r.Error == nil {
			n.made.lateAnswer.Store(true)
		}
		n.mu.Unlock()
		if r.Extra == gaveUp {
			return r, nil
		}
		if known {
			answered := *r
			answered.ID = id
			answered.Result, _ = plainResult(r.Result)
			if n.c.received(name, r.Result) && r.Error == nil {
				answered.Result = decodable(answered.Result)
			}
			if strings.HasSuffix(name, listSuffix) {
				answered.Result = n.c.readableList(answered.Result)
			}
			return &answered, nil
		}
	}
}

// gaveUp marks a response that stands for one that did not come.
const gaveUp = "no answer"

// read reads the next message, or returns an error as the answer to a methodDiscover that the
// server does not answer in time.
func (n *requestIDConn) read(ctx context.Context) (jsonrpc.Message, error) {
	for {
		reading, interrupt := context.WithCancel(ctx)
		n.mu.Lock()
		silent := n.silent
		n.silent, n.interrupt = jsonrpc.ID{}, interrupt
		n.mu.Unlock()
		if silent.IsValid() {
			interrupt()
			return &jsonrpc.Response{ID: silent, Extra: gaveUp, Error: &jsonrpc.Error{Code: jsonrpc.CodeMethodNotFound, Message: "the server does not answer " + methodDiscover}}, nil
		}
		m, err := n.Connection.Read(reading)
		interrupted := reading.Err() != nil && ctx.Err() == nil
		interrupt()
		if err == nil || !interrupted {
			return m, err
		}
	}
}

// notRefused converts an error of reading, so that it is not mistaken for the server's answer to a
// call: the SDK reports unreadable input as a JSON-RPC error.
func notRefused(err error) error {
	var fault *jsonrpc.Error
	if errors.As(err, &fault) {
		return fmt.Errorf("read from the MCP server: %s", fault.Message)
	}
	return err
}

// callOf returns the id of a tool call; empty: the request is not one of our calls.
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

// wireID returns a call's id on the wire. It is the same each time one execution is sent.
func wireID(call tool.Call) string { return call.Key + "/" + strconv.Itoa(max(call.Execution, 1)) }

package mcptool

import (
	"bytes"
	"encoding/json"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"

	"github.com/perdure/perdure"
)

// maxHeld is the maximum size in bytes of the messages held while no client is connected. The
// latest message is held whatever its size.
const maxHeld = 1 << 20

// heldMessages are the messages that a server sent while no client was connected, in order, except
// the answers of calls. It is not safe for concurrent use.
type heldMessages struct {
	lines   []heldLine
	bytes   int
	dropped int // number of messages dropped since the last client, oldest first, to stay within maxHeld
}

// heldLine is one message.
type heldLine struct {
	text []byte
	asks jsonrpc.ID // id of a request, which must be refused if it is dropped; not valid: a notification
}

// add holds a message, and returns the ids of requests that were dropped to make space.
func (h *heldMessages) add(text []byte, asks jsonrpc.ID) (unanswered []jsonrpc.ID) {
	h.lines = append(h.lines, heldLine{text, asks})
	h.bytes += len(text)
	for h.bytes > maxHeld && len(h.lines) > 1 {
		if oldest := h.first(); oldest.asks.IsValid() {
			unanswered = append(unanswered, oldest.asks)
		}
		h.dropped++
	}
	return unanswered
}

// first removes and returns the oldest message.
func (h *heldMessages) first() heldLine {
	oldest := h.lines[0]
	h.lines[0] = heldLine{} // release its text
	h.lines, h.bytes = h.lines[1:], h.bytes-len(oldest.text)
	return oldest
}

// forward passes a message of the server on to the client, or holds it until a client connects. The
// answer of a call is stored with the call instead. Any other answer belongs to a client that has
// left, and is dropped.
func (r *broker) forward(text []byte, m line) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if m.method == "" && r.initializing.IsValid() && m.id == r.initializing {
		r.initialized(text, m.result)
		return
	}
	sent := r.send(text)
	known := r.calls[m.id]
	switch {
	case m.method != "" && m.id.IsValid():
		r.question(text, m, sent)
	case m.method == "notifications/cancelled":
		if id, ok := canceledID(m.params); ok {
			delete(r.serverRequests, id)
		}
		fallthrough
	case m.method != "":
		if !sent {
			r.hold(text, jsonrpc.ID{})
		}
	case known != nil:
		r.finishCall(known, text, sent)
	}
}

// question handles a request of the server. If it was sent to a client, it waits for the answer.
// Otherwise the broker answers a ping itself, refuses the request if there was a client before,
// whose call it concerns, and holds it for the first client if there was none. The caller holds mu.
func (r *broker) question(text []byte, m line, sent bool) {
	switch {
	case sent:
		r.serverRequests[m.id] = true
	case m.method == "ping":
		r.reply(map[string]any{"jsonrpc": "2.0", "id": m.id.Raw(), "result": map[string]any{}})
	case r.greeted:
		r.refuse(m.id)
	default:
		r.hold(text, m.id)
	}
}

// hold stores a message for the next client. The caller holds mu.
func (r *broker) hold(text []byte, asks jsonrpc.ID) {
	first := r.held.dropped == 0
	for _, id := range r.held.add(text, asks) {
		r.refuse(id)
	}
	if first && r.held.dropped > 0 {
		r.cfg.Log.Warn("oldest server messages dropped: no client connected", "max_bytes", maxHeld)
	}
}

// greetClient starts the connection of a client: it sends the start time of the server and the
// messages held in the meantime. Messages that cannot be written wait for the next client. The
// caller holds mu.
func (r *broker) greetClient() {
	if !r.send(mustJSON(greeting{serverStart{r.born, r.held.dropped}})) {
		return
	}
	r.greeted, r.held.dropped = true, 0
	for len(r.held.lines) > 0 && r.send(r.held.lines[0].text) {
		if message := r.held.first(); message.asks.IsValid() {
			r.serverRequests[message.asks] = true
		}
	}
}

// refuseAbandoned refuses the requests that the server sent to a client that has left: the next
// client does not know them. The caller holds mu.
func (r *broker) refuseAbandoned() {
	for id := range r.serverRequests {
		r.refuse(id)
	}
	clear(r.serverRequests)
}

// refuse answers a request of the server that no client will answer. The caller holds mu.
func (r *broker) refuse(id jsonrpc.ID) {
	failed := map[string]any{"code": jsonrpc.CodeInternalError, "message": "the client is not connected"}
	r.reply(map[string]any{"jsonrpc": "2.0", "id": id.Raw(), "error": failed})
}

// reply writes an answer to the server. It does so in a goroutine, because the server may not read
// before its own output is read.
func (r *broker) reply(answer map[string]any) {
	go r.notify(mustJSON(answer)) // until the server reads or exits
}

// initialize answers a client that initializes an already initialized server, and reports whether
// it did. While the first initialize is unanswered, a later client waits for the same answer. The
// caller holds mu.
func (r *broker) initialize(text []byte, m line) bool {
	switch {
	case r.init != nil:
		r.send(mustJSON(map[string]any{"jsonrpc": "2.0", "id": m.id.Raw(), "result": r.init}))
		return true
	case r.initializing.IsValid():
		r.waits = waiting{m.id, bytes.Clone(text)}
		return true
	}
	r.initializing = m.id
	return false
}

// waiting is an initialize request that waits for the answer to an earlier one.
type waiting struct {
	id   jsonrpc.ID // not valid: none is waiting
	text []byte
}

// initialized passes the server's answer to initialize on, and stores it. A nil result is an error:
// then the waiting request, or else the next one, is sent to the server. The caller holds mu.
func (r *broker) initialized(text []byte, result json.RawMessage) {
	waits := r.waits
	r.init, r.waits, r.initializing = result, waiting{}, jsonrpc.ID{}
	switch {
	case !waits.id.IsValid():
		r.send(text)
	case result != nil:
		r.send(mustJSON(map[string]any{"jsonrpc": "2.0", "id": waits.id.Raw(), "result": result}))
	default:
		r.initializing = waits.id
		go r.notify(waits.text) // until the server reads or exits
	}
}

// canceledID returns the id of the request that a notification cancels.
func canceledID(params json.RawMessage) (jsonrpc.ID, bool) {
	var of struct {
		RequestID json.RawMessage `json:"requestId"`
	}
	if perdure.DecodeKnownJSON(params, &of) != nil {
		return jsonrpc.ID{}, false
	}
	return idOf(of.RequestID)
}

package mcptool

import (
	"bytes"
	"encoding/json"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"

	"github.com/perdure/perdure"
)

// maxHeld is how much of what a server says is held while no client is connected, in bytes. The newest message is held whatever its length.
const maxHeld = 1 << 20

// held is what a server said while no client was connected, in order: what is not the answer of a call. It is not safe for concurrent use.
type held struct {
	lines   []heldLine
	bytes   int
	dropped int // how many were dropped since the last client, the oldest first, to keep the bound
}

// heldLine is a message.
type heldLine struct {
	text []byte
	asks jsonrpc.ID // of a request, which is answered when it is dropped; not valid: a notification
}

// add holds a message, and returns the requests that were dropped for it.
func (h *held) add(text []byte, asks jsonrpc.ID) (unanswered []jsonrpc.ID) {
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

// first removes the oldest message.
func (h *held) first() heldLine {
	oldest := h.lines[0]
	h.lines[0] = heldLine{} // so that its text can be freed
	h.lines, h.bytes = h.lines[1:], h.bytes-len(oldest.text)
	return oldest
}

// pass hands a message of the server on, or holds it until a client connects. The answer of a call is stored with the call instead, and
// any other answer is for a client that has left.
func (r *kept) pass(text []byte, m line) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if m.method == "" && r.begun.IsValid() && m.id == r.begun {
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
			delete(r.asked, id)
		}
		fallthrough
	case m.method != "":
		if !sent {
			r.hold(text, jsonrpc.ID{})
		}
	case known != nil:
		r.settle(known, text, sent)
	}
}

// question notes a request of the server that a client was sent. While no client is connected, the keeper answers a ping itself. It holds
// another request for the first client, and refuses it once the client has left whose call it is about. The caller holds mu.
func (r *kept) question(text []byte, m line, sent bool) {
	switch {
	case sent:
		r.asked[m.id] = true
	case m.method == "ping":
		r.reply(map[string]any{"jsonrpc": "2.0", "id": m.id.Raw(), "result": map[string]any{}})
	case r.greeted:
		r.refuse(m.id)
	default:
		r.hold(text, m.id)
	}
}

// hold keeps a message for the next client. The caller holds mu.
func (r *kept) hold(text []byte, asks jsonrpc.ID) {
	first := r.held.dropped == 0
	for _, id := range r.held.add(text, asks) {
		r.refuse(id)
	}
	if first && r.held.dropped > 0 {
		r.cfg.Log.Warn("no client is connected, and the server says more than is held: its oldest messages are dropped", "max_bytes", maxHeld)
	}
}

// greet makes a connection that of the client: it is told which life of the server this is, and what the server said meanwhile. What
// cannot be written waits for the next client. The caller holds mu.
func (r *kept) greet() {
	if !r.send(mustJSON(hello{born{r.born, r.held.dropped}})) {
		return
	}
	r.greeted, r.held.dropped = true, 0
	for len(r.held.lines) > 0 && r.send(r.held.lines[0].text) {
		if said := r.held.first(); said.asks.IsValid() {
			r.asked[said.asks] = true
		}
	}
}

// abandoned refuses what the server asked a client that has left: the next one does not know the question. The caller holds mu.
func (r *kept) abandoned() {
	for id := range r.asked {
		r.refuse(id)
	}
	clear(r.asked)
}

// refuse answers a request of the server that no client answers. The caller holds mu.
func (r *kept) refuse(id jsonrpc.ID) {
	failed := map[string]any{"code": jsonrpc.CodeInternalError, "message": "the client is away"}
	r.reply(map[string]any{"jsonrpc": "2.0", "id": id.Raw(), "error": failed})
}

// reply writes an answer to the server, which may not read before it has said all that it has to say.
func (r *kept) reply(answer map[string]any) {
	go r.tell(mustJSON(answer)) // until the server reads or ends
}

// initialize answers a client that initializes a server which was asked to already, and reports whether it did. A client that comes
// before the server's answer waits for it. The caller holds mu.
func (r *kept) initialize(text []byte, m line) bool {
	switch {
	case r.init != nil:
		r.send(mustJSON(map[string]any{"jsonrpc": "2.0", "id": m.id.Raw(), "result": r.init}))
		return true
	case r.begun.IsValid():
		r.waits = waiting{m.id, bytes.Clone(text)}
		return true
	}
	r.begun = m.id
	return false
}

// waiting is a request to initialize that waits for the answer to an earlier one.
type waiting struct {
	id   jsonrpc.ID // not valid: none waits
	text []byte
}

// initialized hands on what the server answered, and stores it; result is nil: it is an error, after which the request that waits, or the
// next one, is sent to the server. The caller holds mu.
func (r *kept) initialized(text []byte, result json.RawMessage) {
	waits := r.waits
	r.init, r.waits, r.begun = result, waiting{}, jsonrpc.ID{}
	switch {
	case !waits.id.IsValid():
		r.send(text)
	case result != nil:
		r.send(mustJSON(map[string]any{"jsonrpc": "2.0", "id": waits.id.Raw(), "result": result}))
	default:
		r.begun = waits.id
		go r.tell(waits.text) // until the server reads or ends
	}
}

// canceledID is the request that a notification cancels.
func canceledID(params json.RawMessage) (jsonrpc.ID, bool) {
	var of struct {
		RequestID json.RawMessage `json:"requestId"`
	}
	if perdure.DecodeKnownJSON(params, &of) != nil {
		return jsonrpc.ID{}, false
	}
	return idOf(of.RequestID)
}

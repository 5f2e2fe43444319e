package anthropictest

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"unicode/utf8"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/model"
)

const (
	pieceBytes = 12 // size of a piece of text or arguments in one event
	pingEvery  = 16 // events
)

// stream writes the events of one answer. It is used by the goroutine of its request.
type stream struct {
	w         http.ResponseWriter
	control   *http.ResponseController
	number    int // of the request
	name      string
	raw       []byte // the request
	duplicate bool
	breaksAt  int // number of events; -1: it does not break
	half      bool
	record    func(sent int)

	recorded bool
	sent     int
	started  bool
	index    int    // of the next block
	open     string // type of the open block; empty: none
	calls    int
	usage    perdure.Usage
}

// begin sends the start of the answer.
func (o *stream) begin(d model.Delta) {
	o.started = true
	o.count(d)
	if d.Model != "" {
		o.name = d.Model
	}
	o.w.Header().Set("Content-Type", "text/event-stream; charset=utf-8")
	o.w.Header().Set("Cache-Control", "no-cache")
	o.w.Header().Set("Request-Id", o.id("req_"))
	o.w.WriteHeader(http.StatusOK)
	o.flush()
	o.send("message_start", map[string]any{"message": map[string]any{
		"id": o.id("msg_"), "type": "message", "role": "assistant", "model": o.name, "content": []any{},
		"stop_reason": nil, "stop_sequence": nil, "usage": o.counts(),
	}})
	o.ping()
}

// add sends the contents of a delta.
func (o *stream) add(d model.Delta) {
	o.count(d)
	o.pieces("thinking", "thinking_delta", "thinking", d.Thinking)
	if d.Signature != "" {
		o.start("thinking", map[string]any{"thinking": "", "signature": ""})
		o.grow("signature_delta", "signature", d.Signature)
	}
	o.pieces("text", "text_delta", "text", d.Text)
	if d.Call != nil {
		o.call(*d.Call)
	}
	for range d.DiscardedCalls {
		// An incomplete call stays open until something follows it.
		o.stop()
		o.start("tool_use", map[string]any{"id": o.callID(""), "name": "unfinished", "input": struct{}{}})
		o.grow("input_json_delta", "partial_json", `{"half`)
	}
}

func (o *stream) count(d model.Delta) {
	if d.Usage != nil {
		o.usage = *d.Usage
	}
}

func (o *stream) pieces(block, delta, field, text string) {
	if text == "" {
		return
	}
	o.start(block, map[string]any{block: ""})
	for _, piece := range split(text) {
		o.grow(delta, field, piece)
	}
}

func (o *stream) call(c perdure.ToolCall) {
	o.stop()
	o.start("tool_use", map[string]any{"id": o.callID(c.ID), "name": c.Name, "input": struct{}{}})
	o.grow("input_json_delta", "partial_json", "")
	for _, piece := range split(string(c.Arguments)) {
		o.grow("input_json_delta", "partial_json", piece)
	}
	o.stop()
}

// callID returns the id of a call. If the model gave none, it is the same for the same request.
func (o *stream) callID(own perdure.CallID) string {
	o.calls++
	if own != "" {
		return string(own)
	}
	sum := sha256.Sum256(fmt.Appendf(slices.Clip(o.raw), "%d", o.calls))
	return "toolu_" + hex.EncodeToString(sum[:12])
}

// start opens a block, unless one of this type is already open.
func (o *stream) start(block string, fields map[string]any) {
	if o.open == block {
		return
	}
	o.stop()
	fields["type"] = block
	o.send("content_block_start", map[string]any{"index": o.index, "content_block": fields})
	o.open = block
}

func (o *stream) grow(delta, field, piece string) {
	o.send("content_block_delta", map[string]any{"index": o.index, "delta": map[string]any{"type": delta, field: piece}})
	if o.sent%pingEvery == 0 {
		o.ping()
	}
}

// stop closes the open block.
func (o *stream) stop() {
	if o.open == "" {
		return
	}
	o.send("content_block_stop", map[string]any{"index": o.index})
	o.open = ""
	o.index++
}

// finish sends the end of a complete answer.
func (o *stream) finish(f model.Finish) {
	o.stop()
	reason := map[model.Finish]string{
		model.FinishStop: "end_turn", model.FinishCalls: "tool_use", model.FinishLength: "max_tokens", model.FinishRefusal: "refusal",
	}[f]
	o.send("message_delta", map[string]any{"delta": map[string]any{"stop_reason": reason, "stop_sequence": nil}, "usage": o.counts()})
	o.sendLast("message_stop", map[string]any{})
}

// counts returns the usage so far. Tokens from the cache are counted separately.
func (o *stream) counts() map[string]any {
	return map[string]any{
		"input_tokens": o.usage.InputTokens - o.usage.CachedTokens, "cache_read_input_tokens": o.usage.CachedTokens,
		"cache_creation_input_tokens": 0, "output_tokens": o.usage.OutputTokens,
	}
}

func (o *stream) ping() { o.send("ping", map[string]any{}) }

// send sends an event, twice if it has to be repeated.
func (o *stream) send(name string, fields map[string]any) {
	fields["type"] = name
	data, err := json.Marshal(fields)
	if err != nil {
		panic(err) // the values are made in this package
	}
	o.write(fmt.Sprintf("event: %s\ndata: %s\n\n", name, data))
	switch name {
	case "message_start", "content_block_start", "content_block_stop", "message_delta":
		if o.duplicate {
			o.write(fmt.Sprintf("event: %s\ndata: %s\n\n", name, data))
		}
	}
}

// sendLast sends the last event. The answer is recorded before, because the client may look right
// away.
func (o *stream) sendLast(name string, fields map[string]any) {
	if o.sent != o.breaksAt {
		o.recorded = true
		o.record(o.sent + 1)
	}
	o.send(name, fields)
}

// end records the answer, however it ended.
func (o *stream) end() {
	if !o.recorded {
		o.record(o.sent)
	}
}

// write sends the bytes of an event, or breaks the connection. It panics if the client has
// disconnected.
func (o *stream) write(event string) {
	breaks := o.sent == o.breaksAt
	if breaks {
		event = event[:len(event)/2]
		if !o.half {
			event = ""
		}
	}
	_, err := o.w.Write([]byte(event))
	o.flush()
	if breaks || err != nil {
		panic(http.ErrAbortHandler)
	}
	o.sent++
}

// flush sends what was written. The next write reports its error.
func (o *stream) flush() { _ = o.control.Flush() }

// split splits a text into pieces of complete characters.
func split(text string) []string {
	var all []string
	for text != "" {
		end := min(pieceBytes, len(text))
		for end < len(text) && end > 1 && !utf8.RuneStart(text[end]) {
			end--
		}
		all = append(all, text[:end])
		text = text[end:]
	}
	return all
}

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
	pieceBytes = 12 // of a text or of arguments in one event
	pingEvery  = 16 // events
)

// stream writes the events of one answer. It belongs to the goroutine of its request.
type stream struct {
	w         http.ResponseWriter
	control   *http.ResponseController
	number    int // of the request
	name      string
	raw       []byte // the request
	duplicate bool
	breaksAt  int // events; -1: it does not break
	half      bool
	record    func(sent int)

	recorded bool
	sent     int
	begun    bool
	index    int    // of the next block
	open     string // the type of the open block; empty: none is
	calls    int
	usage    perdure.Usage
}

// begin sends the head of the answer.
func (o *stream) begin(d model.Delta) {
	o.begun = true
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

// add sends what a delta holds.
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
	for range d.Broken {
		// A call that is not whole stays open, until something follows it.
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

// callID makes an id where the model has none: the same for the same question.
func (o *stream) callID(own perdure.CallID) string {
	o.calls++
	if own != "" {
		return string(own)
	}
	sum := sha256.Sum256(fmt.Appendf(slices.Clip(o.raw), "%d", o.calls))
	return "toolu_" + hex.EncodeToString(sum[:12])
}

// start opens a block, unless one of that type is open.
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

// finish sends the end of a whole answer.
func (o *stream) finish(f model.Finish) {
	o.stop()
	reason := map[model.Finish]string{
		model.FinishStop: "end_turn", model.FinishCalls: "tool_use", model.FinishLength: "max_tokens", model.FinishRefusal: "refusal",
	}[f]
	o.send("message_delta", map[string]any{"delta": map[string]any{"stop_reason": reason, "stop_sequence": nil}, "usage": o.counts()})
	o.sendLast("message_stop", map[string]any{})
}

// counts returns the usage so far; what was read from the cache is counted apart.
func (o *stream) counts() map[string]any {
	return map[string]any{
		"input_tokens": o.usage.InputTokens - o.usage.CachedTokens, "cache_read_input_tokens": o.usage.CachedTokens,
		"cache_creation_input_tokens": 0, "output_tokens": o.usage.OutputTokens,
	}
}

func (o *stream) ping() { o.send("ping", map[string]any{}) }

// send sends an event, twice where that is asked for.
func (o *stream) send(name string, fields map[string]any) {
	fields["type"] = name
	data, err := json.Marshal(fields)
	if err != nil {
		panic(err) // all of it is made here
	}
	o.write(fmt.Sprintf("event: %s\ndata: %s\n\n", name, data))
	switch name {
	case "message_start", "content_block_start", "content_block_stop", "message_delta":
		if o.duplicate {
			o.write(fmt.Sprintf("event: %s\ndata: %s\n\n", name, data))
		}
	}
}

// sendLast sends the event behind which the client may go. It is recorded before, since the client may look at once.
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

// write sends the bytes of one event, or breaks the connection. It stops where the client is gone.
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

// flush sends what was written. An error of it comes again with the next write.
func (o *stream) flush() { _ = o.control.Flush() }

// split cuts a text into pieces of whole characters.
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

package openai

import (
	"bytes"
	"encoding/json"
	"strconv"
	"strings"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/internal/modelwire"
	"github.com/perdure/perdure/model"
)

// The chunk of the protocol, as far as it is used. It is read member by member, so that a member
// of another type than documented costs that member only.
type (
	chunk struct {
		model   string
		choices []choice
		usage   json.RawMessage
		problem json.RawMessage // the error in it; nil: none
		isOurs  bool            // it has the form of the protocol
	}
	choice struct {
		index     int
		delta     delta
		isMessage bool   // delta is the message so far, not a piece of one
		finish    string // empty: the answer goes on
	}
	delta struct {
		text, refusal, thinking string
		calls                   []piece
		fields                  fields // members that are none of these
	}
)

// piece is the part of a call in a chunk. The first piece of a call has id and name.
type piece struct {
	Index    *int // nil: the server does not number its calls
	ID       string
	Function calledPiece
	fields   fields // members that are none of these; those of the function in one named function
}

type calledPiece struct {
	Name      string
	Arguments arguments
}

// arguments are a piece of JSON text. If a server sends the object itself, its text is used.
type arguments string

// decode reads one JSON value as a chunk. A value that is not an object is an empty chunk.
func decode(text []byte) chunk {
	carried, changed := encodeBroken(text)
	top, ok := readObject(carried, changed)
	if !ok {
		return chunk{}
	}
	c := chunk{model: top.text("model"), usage: top.members["usage"]}
	for _, o := range top.list("choices") {
		d, isMessage := o.object("delta"), false
		if len(d.members) == 0 {
			if whole := o.object("message"); whole.members != nil {
				d, isMessage = whole, true
			}
		}
		index, _ := o.number("index")
		c.choices = append(c.choices, choice{index: index, delta: d.delta(), isMessage: isMessage, finish: o.finish()})
		c.problem = firstProblem(c.problem, o.members["error"])
	}
	c.isOurs = top.members["choices"] != nil
	c.problem = firstProblem(c.problem, top.members["error"])
	if c.problem == nil && top.isProblem(c) {
		c.problem = json.RawMessage(carried)
	}
	return c
}

// isProblem reports whether an object without a member error is an error: MiniMax puts a status
// into every chunk, and others send the bare error.
func (o object) isProblem(c chunk) bool {
	if status, ok := o.object("base_resp").number("status_code"); ok && status != 0 {
		return true
	}
	if c.isOurs || o.object("usage").members != nil {
		return false
	}
	bare, err := json.Marshal(o.members)
	return err == nil && modelwire.ReadProblem(bare).Known
}

// firstProblem returns known, or else the error of a chunk; nil: there is none.
func firstProblem(known, e json.RawMessage) json.RawMessage {
	if known != nil || len(e) == 0 || string(e) == "null" || string(e) == `""` || string(e) == "{}" || string(e) == "false" {
		return known
	}
	return e
}

// object is a JSON object of a server.
type object struct {
	members map[string]json.RawMessage // nil: it is no object
	carried bool                       // broken characters are encoded (encodeBroken)
}

// readObject reads an object. Of two members of one name the last one counts.
func readObject(text []byte, carried bool) (object, bool) {
	o := object{carried: carried}
	ok := len(text) > 0 && text[0] == '{' && json.Unmarshal(text, &o.members) == nil
	return o, ok
}

func (o object) object(name string) object {
	found, _ := readObject(o.members[name], o.carried)
	return found
}

// list returns the objects of a list. An object that stands where the list should be is its only
// element.
func (o object) list(name string) []object {
	text := o.members[name]
	if one, ok := readObject(text, o.carried); ok {
		return []object{one}
	}
	var all []json.RawMessage
	if len(text) == 0 || json.Unmarshal(text, &all) != nil {
		return nil
	}
	var objects []object
	for _, element := range all {
		if found, ok := readObject(element, o.carried); ok {
			objects = append(objects, found)
		}
	}
	return objects
}

// text returns a member as text: a string, or a number as it stands; else "".
func (o object) text(name string) string { return o.textOf(o.members[name]) }

func (o object) textOf(raw json.RawMessage) string {
	switch {
	case len(raw) == 0 || bytes.IndexByte([]byte("{[ntf"), raw[0]) >= 0:
		return ""
	case raw[0] != '"':
		return string(raw)
	}
	var text string
	if json.Unmarshal(raw, &text) != nil {
		return ""
	}
	if o.carried {
		text = decodeBroken(text)
	}
	return text
}

// number returns an integer, which may also be a text.
func (o object) number(name string) (int, bool) {
	n, err := strconv.Atoi(strings.TrimSpace(o.text(name)))
	return n, err == nil
}

// finish returns the finish_reason; empty: there is none yet.
func (o object) finish() string {
	word := o.text("finish_reason")
	if word == "null" || word == "None" {
		return "" // some servers write the missing word as text
	}
	return word
}

// rest returns the members that have another name and a value; nil: there are none.
func (o object) rest(own names) fields {
	var rest fields
	for name, value := range o.members {
		if !own.has(name) && string(value) != "null" {
			rest = withField(rest, name, value)
		}
	}
	return rest
}

func (o object) delta() delta {
	d := delta{refusal: o.text("refusal"), fields: o.rest(ownFields)}
	d.text, d.thinking = o.content("content")
	for _, name := range thinkingFields.list() { // some send two of them alike
		if text, inner := o.content(name); text+inner != "" {
			d.thinking += text + inner
			break
		}
	}
	for _, call := range o.list("tool_calls") {
		d.calls = append(d.calls, call.piece())
	}
	if old := o.object("function_call"); len(d.calls) == 0 && old.members != nil { // before there were tool_calls
		d.calls = append(d.calls, piece{Function: old.called()})
	}
	return d
}

// content reads a text, or a list of parts, as Mistral and others send it. A part of another kind
// than text and thinking is skipped.
func (o object) content(name string) (text, thinking string) {
	if text := o.text(name); text != "" {
		return text, ""
	}
	var texts []json.RawMessage // a list may also hold plain texts
	if raw := o.members[name]; len(raw) > 0 && raw[0] == '[' && json.Unmarshal(raw, &texts) == nil {
		for _, element := range texts {
			text += o.textOf(element)
		}
	}
	for _, part := range o.list(name) {
		own, inner := part.text("text"), ""
		if own == "" {
			own = part.object("text").text("value") + part.text("content")
		}
		for _, kind := range []string{"thinking", "reasoning"} {
			more, deeper := part.content(kind)
			inner += more + deeper
		}
		if kind := part.text("type"); strings.Contains(kind, "thinking") || strings.Contains(kind, "reasoning") {
			own, inner = "", own+inner
		}
		text, thinking = text+own, thinking+inner
	}
	return text, thinking
}

func (o object) piece() piece {
	p := piece{ID: o.text("id"), fields: o.rest(callFields + " " + functionFields)}
	if index, ok := o.number("index"); ok {
		p.Index = &index
	}
	function := o.object("function")
	p.Function = function.called()
	if rest := function.rest(functionFields); len(rest) > 0 {
		if text, err := json.Marshal(rest); err == nil {
			p.fields = withField(p.fields, functionField, text)
		}
	}
	if o.members["function"] == nil { // a call without its envelope
		p.Function = o.called()
	}
	return p
}

func (o object) called() calledPiece {
	raw := o.members["arguments"]
	text := o.textOf(raw)
	if len(raw) > 0 && (raw[0] == '{' || raw[0] == '[') {
		if text = string(raw); o.carried {
			text = decodeBroken(text)
		}
	}
	return calledPiece{Name: o.text("name"), Arguments: arguments(text)}
}

// brokenChunk is the error for a chunk that was cut off on its way.
func brokenChunk() *model.Error {
	return &model.Error{Code: model.Unavailable, Text: "the stream broke inside a chunk"}
}

// raisedUsage returns usage raised to the counts in text; no count shrinks. Values that are not
// integers are ignored, so that unreadable usage does not cost the answer.
func raisedUsage(than perdure.Usage, text json.RawMessage) perdure.Usage {
	u, ok := readObject(bytes.TrimSpace(text), false)
	if !ok {
		return than
	}
	count := func(o object, name string) int64 {
		n, err := strconv.ParseInt(string(o.members[name]), 10, 64)
		if err != nil {
			return 0
		}
		return n
	}
	return perdure.Usage{
		InputTokens:  max(than.InputTokens, count(u, "prompt_tokens")),
		OutputTokens: max(than.OutputTokens, count(u, "completion_tokens")),
		CachedTokens: max(than.CachedTokens, count(u, "prompt_cache_hit_tokens"), // DeepSeek
			count(u.object("prompt_tokens_details"), "cached_tokens")),
	}
}

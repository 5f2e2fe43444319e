package anthropic

import (
	"bytes"
	"cmp"
	"slices"
	"strings"

	sdk "github.com/anthropics/anthropic-sdk-go"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/internal/modelwire"
	"github.com/perdure/perdure/internal/sse"
	"github.com/perdure/perdure/model"
)

// answer turns the values of a stream into deltas. It is used by one goroutine.
type answer struct {
	began func() // called with the first content

	started    bool // message_start has arrived
	hasContent bool // text, thinking or a call has arrived
	hasText    bool // text has arrived
	blocks     map[int64]*block
	opened     int      // blocks so far
	family     string   // of the model, for the state that it wants back
	thinking   []*block // closed thinking blocks, including redacted ones
	text       int      // bytes of text so far
	calls      []*block // in the order in which they started
	latest     *block   // the block that started last
	usage      *perdure.Usage
	stop       sdk.StopReason
	noise      string // the last data that is no JSON
	isOurs     bool   // an event of the protocol has arrived
}

func newAnswer(began func(), family string) *answer {
	return &answer{began: began, family: family, blocks: map[int64]*block{}}
}

// read returns the deltas of one step of a stream. The last delta of an answer has Finish set. An
// error is an *model.Error or a refusal.
func (a *answer) read(v sse.Value) ([]model.Delta, error) {
	text := bytes.TrimSpace(v.Data)
	switch {
	case len(text) == 0:
		return nil, nil
	case string(bytes.Trim(text, `"`)) == sse.DoneMark: // gateways of several protocols send it
		return a.finish()
	case text[0] != '{' && text[0] != '[':
		if a.noise = string(text); v.Name == "error" {
			return nil, refusal{body: a.noise}
		}
		return nil, nil
	}
	values, broken := sse.Split(text)
	var all []model.Delta
	for _, value := range values {
		var e sdk.MessageStreamEventUnion
		if err := e.UnmarshalJSON(value); err != nil {
			return all, brokenError("the stream broke inside an event")
		}
		e.Type = cmp.Or(e.Type, v.Name)
		deltas, err := a.add(e, value)
		if all = append(all, deltas...); err != nil {
			return all, err
		}
	}
	switch {
	case broken != nil && v.Name == "error":
		return all, refusal{body: string(text)}
	case broken != nil:
		return all, brokenError("the stream broke inside an event")
	}
	return all, nil
}

// add returns the deltas of an event. text is the event as it arrived.
func (a *answer) add(e sdk.MessageStreamEventUnion, text []byte) ([]model.Delta, error) {
	a.isOurs = a.isOurs || strings.HasPrefix(e.Type, "message") || strings.HasPrefix(e.Type, "content_block")
	switch e.Type {
	case "message_start":
		return a.start(e.Message), nil
	case "content_block_start":
		return a.open(e.Index, e.ContentBlock)
	case "content_block_delta":
		return a.grow(e.Index, e.Delta)
	case "content_block_stop":
		return a.close(e.Index), nil
	case "message_delta":
		if e.Delta.StopReason != "" {
			a.stop = e.Delta.StopReason
		}
		return a.count(e.Usage.InputTokens, e.Usage.CacheReadInputTokens, e.Usage.CacheCreationInputTokens, e.Usage.OutputTokens), nil
	case "message_stop":
		return a.finish()
	case "message":
		return a.whole(text)
	case "error":
		return nil, refusal{body: string(text)}
	case "":
		if modelwire.ReadProblem(text).Known {
			return nil, refusal{body: string(text)}
		}
	}
	return nil, nil // ping, and events of later versions
}

// whole reads an answer that is not streamed.
func (a *answer) whole(text []byte) ([]model.Delta, error) {
	var m sdk.Message
	if err := m.UnmarshalJSON(text); err != nil {
		return nil, brokenError("the answer is broken")
	}
	all := a.start(m)
	for i, content := range m.Content {
		var start sdk.ContentBlockStartEventContentBlockUnion
		if start.UnmarshalJSON([]byte(content.RawJSON())) != nil {
			continue // a block of a form that nobody knows
		}
		deltas, err := a.open(int64(i), start)
		if err != nil {
			return all, err
		}
		all = append(append(all, deltas...), a.close(int64(i))...)
	}
	a.stop = sdk.StopReason(cmp.Or(string(m.StopReason), string(sdk.StopReasonEndTurn)))
	last, err := a.finish()
	return append(all, last...), err
}

// start starts the answer. A second start is a repetition.
func (a *answer) start(m sdk.Message) []model.Delta {
	if a.started {
		return nil
	}
	a.started = true
	var deltas []model.Delta
	if name := valid(m.Model); name != "" {
		deltas = append(deltas, model.Delta{Model: name})
	}
	u := m.Usage
	return append(deltas, a.count(u.InputTokens, u.CacheReadInputTokens, u.CacheCreationInputTokens, u.OutputTokens)...)
}

// count adds cumulative counts. Our InputTokens cover the whole input, while the API counts tokens
// read from and written to the cache separately. A missing count arrives as 0, so counts never
// shrink.
func (a *answer) count(input, read, written, output int64) []model.Delta {
	var u perdure.Usage
	if a.usage != nil {
		u = *a.usage
	}
	u.InputTokens = max(u.InputTokens, input+read+written)
	u.CachedTokens = max(u.CachedTokens, read)
	u.OutputTokens = max(u.OutputTokens, output)
	if u == (perdure.Usage{}) || a.usage != nil && u == *a.usage {
		return nil
	}
	a.usage = &u
	total := u
	return []model.Delta{{Usage: &total}}
}

// open starts a block. Its start may be repeated. Some servers give all blocks the same index, so
// another block may start when the one before has ended; before that it is an error.
func (a *answer) open(index int64, start sdk.ContentBlockStartEventContentBlockUnion) ([]model.Delta, error) {
	switch b := a.blocks[index]; {
	case b == nil:
	case b.isRepeatedStart(start) && (!b.closed || b.id != ""):
		return nil, nil
	case !b.closed:
		return nil, brokenError("two blocks have the same index")
	}
	if a.opened == maxBlocks {
		return nil, errTooMany
	}
	if start.Type == "" { // some servers leave it out
		start.Type = kindText
		if start.Name != "" {
			start.Type = kindToolUse
		}
	}
	b := newBlock(start, a.opened == 0)
	b.textBefore, b.callsBefore = a.text, len(a.calls)
	a.blocks[index], a.latest = b, b
	a.opened++
	switch b.kind {
	case kindText:
		return a.pieceDelta(b, start.Text), nil
	case kindThinking:
		return a.pieceDelta(b, start.Thinking), nil
	case kindToolUse:
		a.calls = append(a.calls, b)
		a.note()
		return []model.Delta{{}}, nil // a sign of progress
	}
	return nil, nil
}

// grow adds a piece to a block. A piece for a closed block is a repetition; a piece of another
// kind is ignored. Text and thinking for a block that never started starts it; arguments cannot,
// because the name of the tool is not known.
func (a *answer) grow(index int64, d sdk.MessageStreamEventUnionDelta) ([]model.Delta, error) {
	b := a.blocks[index]
	d = typed(d)
	if kind := strings.TrimSuffix(d.Type, "_delta"); b == nil && (kind == kindText || kind == kindThinking) {
		if _, err := a.open(index, sdk.ContentBlockStartEventContentBlockUnion{Type: kind}); err != nil {
			return nil, err
		}
		b = a.blocks[index]
	}
	switch {
	case b == nil && d.Type == "input_json_delta":
		return nil, brokenError("arguments arrived for a call that never started")
	case b == nil || b.closed:
		return nil, nil
	}
	switch d.Type + " " + b.kind {
	case "text_delta " + kindText:
		return a.pieceDelta(b, d.Text), nil
	case "thinking_delta " + kindThinking:
		return a.pieceDelta(b, d.Thinking), nil
	case "signature_delta " + kindThinking:
		b.signature.WriteString(d.Signature)
	case "input_json_delta " + kindToolUse:
		b.addInput(d.PartialJSON, d.JSON.PartialJSON.Raw())
		if d.PartialJSON != "" {
			return []model.Delta{{}}, nil // a sign of progress
		}
	}
	return nil, nil
}

// typed returns a piece with its type, which some servers leave out, and with arguments as text,
// which some servers send as an object.
func typed(d sdk.MessageStreamEventUnionDelta) sdk.MessageStreamEventUnionDelta {
	if raw := d.JSON.PartialJSON.Raw(); d.PartialJSON == "" && strings.HasPrefix(raw, "{") {
		d.PartialJSON = raw
	}
	switch {
	case d.Type != "":
	case d.Text != "":
		d.Type = "text_delta"
	case d.Thinking != "":
		d.Type = "thinking_delta"
	case d.PartialJSON != "":
		d.Type = "input_json_delta"
	}
	return d
}

// pieceDelta returns the delta for a piece of text or thinking.
func (a *answer) pieceDelta(b *block, piece string) []model.Delta {
	if piece != "" {
		a.hasText = a.hasText || b.kind == kindText
		a.note()
	}
	return a.content(b, b.runes.add(piece))
}

// note records that content has arrived.
func (a *answer) note() {
	if !a.hasContent {
		a.hasContent = true
		a.began()
	}
}

// content returns the delta for complete characters of text or thinking.
func (a *answer) content(b *block, text string) []model.Delta {
	switch {
	case text == "":
		return nil
	case b.kind == kindThinking:
		b.thinking.WriteString(text)
		return []model.Delta{{Thinking: text}}
	}
	a.text += len(text)
	return []model.Delta{{Text: text}}
}

// close ends a block. A second end is a repetition, and so is one of a block that never started.
func (a *answer) close(index int64) []model.Delta {
	b := a.blocks[index]
	if b == nil || b.closed {
		return nil
	}
	b.closed = true
	switch b.kind {
	case kindRedacted:
		a.thinking = append(a.thinking, b)
	case kindThinking:
		a.thinking = append(a.thinking, b)
		return a.content(b, b.runes.end())
	case kindText:
		return a.content(b, b.runes.end())
	}
	return nil
}

// ending is how an answer ended, for the decision about its calls.
type ending int

const (
	brokenStream ending = iota // the stream broke
	cutOrRefused               // complete, but cut off at the length limit, or refused
	finished                   // complete
)

// settle returns the complete calls and counts the others.
//
// In an answer that has finished, every closed call is complete, and every other one whose
// arguments are. Arguments that do not parse are then the model's mistake, and the check of the
// arguments reports it to the model. At the length limit, the last block may be closed although it
// was cut off, so it must also be certainly complete. If the stream broke, every call must parse,
// and the last block must be certainly complete.
func (a *answer) settle(how ending) []model.Delta {
	var deltas []model.Delta
	broken := 0
	for _, b := range a.calls {
		call, parses, whole := b.call()
		ok := call != nil && b.closed
		switch followed := b != a.latest; how {
		case finished:
			ok = ok || call != nil && whole
		case cutOrRefused:
			ok = ok && (followed || whole)
		case brokenStream:
			ok = ok && parses && (followed || whole)
		}
		if ok {
			deltas = append(deltas, model.Delta{Call: call})
		} else {
			broken++
		}
	}
	if broken > 0 {
		deltas = append(deltas, model.Delta{DiscardedCalls: broken})
	}
	return deltas
}

// discard counts all calls as discarded.
func (a *answer) discard() []model.Delta {
	if len(a.calls) == 0 {
		return nil
	}
	return []model.Delta{{DiscardedCalls: len(a.calls)}}
}

// broken returns the deltas of an answer that ended with an error: the complete calls, unless the
// answer exceeds a limit, and the number of the others.
func (a *answer) broken(err error) []model.Delta {
	if limitError(err) != nil {
		return a.discard()
	}
	return a.settle(brokenStream)
}

// finish ends the answer. Without a stop reason it is complete if nothing in it is half.
func (a *answer) finish() ([]model.Delta, error) {
	finish, how := model.FinishStop, cutOrRefused
	if a.stop != "" {
		var err *model.Error
		if finish, err = modelwire.Finish(string(a.stop)); err != nil {
			return nil, err
		}
	} else if !a.isWhole() {
		return nil, brokenError("the answer ended without a stop reason")
	}
	if finish == model.FinishStop {
		how = finished
		if len(a.calls) > 0 || a.stop == sdk.StopReasonToolUse {
			finish = model.FinishCalls
		}
	}
	var deltas []model.Delta
	for _, b := range a.blocks { // at most one has text that waits for the rest of a character
		if !b.closed && (b.kind == kindText || b.kind == kindThinking) {
			deltas = append(deltas, a.content(b, b.runes.end())...)
			if b.kind == kindThinking {
				a.thinking = append(a.thinking, b)
			}
		}
	}
	deltas = append(deltas, a.settle(how)...)
	signature, state := a.state()
	if signature != "" {
		deltas = append(deltas, model.Delta{Signature: signature})
	}
	return append(deltas, model.Delta{State: state, Finish: finish}), nil
}

// isWhole reports whether the answer has text or calls, and each call certainly has all of its
// arguments.
func (a *answer) isWhole() bool {
	return (a.hasText || len(a.calls) > 0) && !slices.ContainsFunc(a.calls, func(b *block) bool {
		_, _, whole := b.call()
		return !whole
	})
}

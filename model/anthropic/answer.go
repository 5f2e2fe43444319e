package anthropic

import (
	sdk "github.com/anthropics/anthropic-sdk-go"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/model"
)

// answer makes deltas of the events of one stream. It belongs to one goroutine.
type answer struct {
	begun    bool // message_start has come
	blocks   map[int64]*block
	thinking int      // blocks of thinking that were closed, redacted ones too
	signed   string   // by the one that our message can hold
	calls    []*block // in the order in which they began
	latest   *block   // the last one that began
	usage    *perdure.Usage
	stop     sdk.StopReason
}

func newAnswer() *answer { return &answer{blocks: map[int64]*block{}} }

// add returns what an event adds. The delta of the last event has Finish set. An error is an *model.Error, and the
// events make no answer.
func (a *answer) add(e sdk.MessageStreamEventUnion) ([]model.Delta, error) {
	switch e.Type {
	case "message_start":
		return a.start(e.Message), nil
	case "content_block_start":
		return a.open(e.Index, e.ContentBlock)
	case "content_block_delta":
		return a.grow(e.Index, e.Delta)
	case "content_block_stop":
		return a.close(e.Index)
	case "message_delta":
		if e.Delta.StopReason != "" {
			a.stop = e.Delta.StopReason
		}
		return a.count(e.Usage.InputTokens, e.Usage.CacheReadInputTokens, e.Usage.CacheCreationInputTokens, e.Usage.OutputTokens), nil
	case "message_stop":
		return a.finish()
	case "error":
		// Under an event name of its own the SDK turns it into an error; a name of another kind hides it.
		return nil, refusal{body: e.RawJSON()}
	}
	return nil, nil // ping, and what later versions add
}

// start begins the answer. A second one is a duplicate.
func (a *answer) start(m sdk.Message) []model.Delta {
	if a.begun {
		return nil
	}
	a.begun = true
	var deltas []model.Delta
	if name := valid(m.Model); name != "" {
		deltas = append(deltas, model.Delta{Model: name})
	}
	u := m.Usage
	return append(deltas, a.count(u.InputTokens, u.CacheReadInputTokens, u.CacheCreationInputTokens, u.OutputTokens)...)
}

// count takes counts that are cumulative. Input is all of the input, as Usage has it; the wire counts what was read
// from the cache and what was written to it apart. A count that is left out comes as 0, so none ever shrinks.
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
	said := u
	return []model.Delta{{Usage: &said}}
}

// open begins a block. Its start may come twice; another block under the same index is a broken stream.
func (a *answer) open(index int64, start sdk.ContentBlockStartEventContentBlockUnion) ([]model.Delta, error) {
	if b := a.blocks[index]; b != nil {
		if !b.again(start) {
			return nil, cut("two blocks came under one index")
		}
		return nil, nil
	}
	if len(a.blocks) == maxBlocks {
		return nil, errTooMany
	}
	b := newBlock(start, len(a.blocks) == 0)
	a.blocks[index], a.latest = b, b
	switch b.kind {
	case kindText:
		return said(b, start.Text), nil
	case kindThinking:
		return said(b, start.Thinking), nil
	case kindToolUse:
		a.calls = append(a.calls, b)
		return []model.Delta{{}}, nil // a sign of life
	}
	return nil, nil
}

// grow adds a piece to a block. A piece for a closed block is a duplicate, as is one of another kind than its block.
func (a *answer) grow(index int64, d sdk.MessageStreamEventUnionDelta) ([]model.Delta, error) {
	b := a.blocks[index]
	switch {
	case b == nil:
		return nil, cut("a piece came of a block that never began")
	case b.closed:
		return nil, nil
	}
	switch d.Type + " " + b.kind {
	case "text_delta " + kindText:
		return said(b, d.Text), nil
	case "thinking_delta " + kindThinking:
		return said(b, d.Thinking), nil
	case "signature_delta " + kindThinking:
		b.signature.WriteString(d.Signature)
	case "input_json_delta " + kindToolUse:
		b.addInput(d.PartialJSON, d.JSON.PartialJSON.Raw())
		if d.PartialJSON != "" {
			return []model.Delta{{}}, nil // a sign of life
		}
	}
	return nil, nil
}

// said returns what a piece adds to the text or the thinking.
func said(b *block, piece string) []model.Delta { return spoken(b.kind, b.runes.add(piece)) }

func spoken(kind, text string) []model.Delta {
	switch {
	case text == "":
		return nil
	case kind == kindThinking:
		return []model.Delta{{Thinking: text}}
	}
	return []model.Delta{{Text: text}}
}

// close ends a block. A second end of it is a duplicate.
func (a *answer) close(index int64) ([]model.Delta, error) {
	b := a.blocks[index]
	switch {
	case b == nil:
		return nil, cut("a block ended that never began")
	case b.closed:
		return nil, nil
	}
	b.closed = true
	switch b.kind {
	case kindRedacted:
		a.thinking++
	case kindThinking:
		a.thinking++
		if b.first {
			a.signed = valid(b.signature.String())
		}
		return spoken(b.kind, b.runes.end()), nil
	case kindText:
		return spoken(b.kind, b.runes.end()), nil
	}
	return nil, nil
}

// ending is how an answer ended, as far as its calls go.
type ending int

const (
	torn     ending = iota // the stream broke
	short                  // whole, but at the limit of its length, or refused
	finished               // whole
)

// settle returns the calls that the provider closed, and counts those that it did not (TN7). In an answer that has
// finished each is closed that says so, also where its arguments do not parse: whoever checks them tells the model (TL22).
// At the limit of the length the last block may have been cut and closed all the same, so it has to be whole. In a stream
// that broke each has to parse, and the last one to be whole.
func (a *answer) settle(how ending) []model.Delta {
	var deltas []model.Delta
	broken := 0
	for _, b := range a.calls {
		call, parses, whole := b.call()
		ok := call != nil && b.closed
		switch followed := b != a.latest; how {
		case short:
			ok = ok && (followed || whole)
		case torn:
			ok = ok && parses && (followed || whole)
		}
		if ok {
			deltas = append(deltas, model.Delta{Call: call})
		} else {
			broken++
		}
	}
	if broken > 0 {
		deltas = append(deltas, model.Delta{Broken: broken})
	}
	return deltas
}

// discard counts all calls as ones that are not made.
func (a *answer) discard() []model.Delta {
	if len(a.calls) == 0 {
		return nil
	}
	return []model.Delta{{Broken: len(a.calls)}}
}

// finish ends the answer. Without a reason it is not known whether it is whole.
func (a *answer) finish() ([]model.Delta, error) {
	finish, ok := finishOf(a.stop)
	if !ok {
		return nil, cut("the answer ended without a reason")
	}
	how := short
	if finish == model.FinishStop || finish == model.FinishCalls {
		how = finished
	}
	deltas := a.settle(how)
	if a.signed != "" && a.thinking == 1 {
		deltas = append(deltas, model.Delta{Signature: a.signed})
	}
	return append(deltas, model.Delta{Finish: finish}), nil
}

// finishOf translates why an answer ended; false: the provider has not said. A reason that is not known is a regular end.
func finishOf(stop sdk.StopReason) (model.Finish, bool) {
	switch stop {
	case "":
		return "", false
	case sdk.StopReasonToolUse:
		return model.FinishCalls, true
	case sdk.StopReasonMaxTokens, sdk.StopReasonModelContextWindowExceeded:
		return model.FinishLength, true
	case sdk.StopReasonRefusal:
		return model.FinishRefusal, true
	}
	return model.FinishStop, true
}

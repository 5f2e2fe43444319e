package anthropic

import (
	sdk "github.com/anthropics/anthropic-sdk-go"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/model"
)

// answer turns the events of a stream into deltas. It is used by one goroutine.
type answer struct {
	started   bool // message_start has arrived
	blocks    map[int64]*block
	thinking  int      // closed thinking blocks, including redacted ones
	signature string   // signature of the thinking block at the start
	calls     []*block // in the order in which they started
	latest    *block   // the block that started last
	usage     *perdure.Usage
	stop      sdk.StopReason
}

func newAnswer() *answer { return &answer{blocks: map[int64]*block{}} }

// add returns the deltas of an event. The delta of the last event has Finish set. An error is an
// *model.Error: the events are not a valid answer.
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
		// The SDK only reports an error event if the event name is error, too.
		return nil, refusal{body: e.RawJSON()}
	}
	return nil, nil // ping, and events of later versions
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

// open starts a block. Its start may be repeated; a different block with the same index is an
// error.
func (a *answer) open(index int64, start sdk.ContentBlockStartEventContentBlockUnion) ([]model.Delta, error) {
	if b := a.blocks[index]; b != nil {
		if !b.isRepeatedStart(start) {
			return nil, brokenError("two blocks have the same index")
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
		return pieceDelta(b, start.Text), nil
	case kindThinking:
		return pieceDelta(b, start.Thinking), nil
	case kindToolUse:
		a.calls = append(a.calls, b)
		return []model.Delta{{}}, nil // a sign of progress
	}
	return nil, nil
}

// grow adds a piece to a block. A piece for a closed block is a repetition; a piece of another kind
// is ignored.
func (a *answer) grow(index int64, d sdk.MessageStreamEventUnionDelta) ([]model.Delta, error) {
	b := a.blocks[index]
	switch {
	case b == nil:
		return nil, brokenError("a piece arrived for a block that never started")
	case b.closed:
		return nil, nil
	}
	switch d.Type + " " + b.kind {
	case "text_delta " + kindText:
		return pieceDelta(b, d.Text), nil
	case "thinking_delta " + kindThinking:
		return pieceDelta(b, d.Thinking), nil
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

// pieceDelta returns the delta for a piece of text or thinking.
func pieceDelta(b *block, piece string) []model.Delta {
	return contentDelta(b.kind, b.runes.add(piece))
}

func contentDelta(kind, text string) []model.Delta {
	switch {
	case text == "":
		return nil
	case kind == kindThinking:
		return []model.Delta{{Thinking: text}}
	}
	return []model.Delta{{Text: text}}
}

// close ends a block. A second end is a repetition.
func (a *answer) close(index int64) ([]model.Delta, error) {
	b := a.blocks[index]
	switch {
	case b == nil:
		return nil, brokenError("a block ended that never started")
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
			a.signature = valid(b.signature.String())
		}
		return contentDelta(b.kind, b.runes.end()), nil
	case kindText:
		return contentDelta(b.kind, b.runes.end()), nil
	}
	return nil, nil
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
// In an answer that has finished, every closed call is complete. Arguments that do not parse are
// then the model's mistake, and the check of the arguments reports it to the model. At the length
// limit, the last block may be closed although it was cut off, so it must also be certainly
// complete. If the stream broke, every call must parse, and the last block must be certainly
// complete.
func (a *answer) settle(how ending) []model.Delta {
	var deltas []model.Delta
	broken := 0
	for _, b := range a.calls {
		call, parses, whole := b.call()
		ok := call != nil && b.closed
		switch followed := b != a.latest; how {
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

// finish ends the answer. Without a stop reason it is not known whether the answer is complete.
func (a *answer) finish() ([]model.Delta, error) {
	finish, ok := finishOf(a.stop)
	if !ok {
		return nil, brokenError("the answer ended without a stop reason")
	}
	how := cutOrRefused
	if finish == model.FinishStop || finish == model.FinishCalls {
		how = finished
	}
	deltas := a.settle(how)
	if a.signature != "" && a.thinking == 1 {
		deltas = append(deltas, model.Delta{Signature: a.signature})
	}
	return append(deltas, model.Delta{Finish: finish}), nil
}

// finishOf translates a stop reason; false: there is none. An unknown reason is a regular end.
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

package scripted

import (
	"encoding/json"
	"time"
	"unicode/utf8"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/model"
)

// answer is the reply to one request, with its templates executed.
type answer struct {
	reply          *Reply
	model          string
	text, thinking string
	calls          []perdure.ToolCall
	usage          perdure.Usage
}

// frame is one event on a stream: a wait, then a delta or the end.
type frame struct {
	wait  time.Duration
	delta model.Delta
	err   error // ends the stream
	cut   bool  // the stream ends here without a finish
}

// frames returns the events of the streamed answer.
func (a answer) frames() []frame {
	r := a.reply
	limit := r.CutAfterBytes
	if r.Error != nil {
		if limit = r.Error.AfterBytes; limit == nil {
			return []frame{{wait: r.Delay + r.Stall, err: r.Error.error()}}
		}
	}
	opening := perdure.Usage{InputTokens: a.usage.InputTokens, CachedTokens: a.usage.CachedTokens}
	frames := []frame{{wait: r.Delay, delta: model.Delta{Model: a.model, Usage: &opening}}}
	wait := r.Stall
	for _, d := range a.content(limit) {
		frames = append(frames, frame{wait: wait, delta: d})
		wait = r.Pace
	}
	end := frame{}
	if len(frames) == 1 {
		end.wait = r.Stall
	}
	switch {
	case r.Error != nil:
		end.err = r.Error.error()
	case r.CutAfterBytes != nil:
		end.cut = true
	default:
		usage := a.usage
		end.delta = model.Delta{Usage: &usage, Finish: a.finish()}
	}
	return append(frames, end)
}

func (a answer) finish() model.Finish {
	switch {
	case a.reply.Finish != "":
		return a.reply.Finish
	case a.reply.Refusal:
		return model.FinishRefusal
	case len(a.calls) > 0:
		return model.FinishCalls
	}
	return model.FinishStop
}

// content returns thinking, text and calls as they are sent, up to limit bytes of text and
// arguments; nil: everything. A call beyond the limit is broken. So is a call with invalid JSON if
// the finish is length, because that is the call that was still open.
func (a answer) content(limit *int) []model.Delta {
	var deltas []model.Delta
	for _, piece := range pieces(a.thinking, a.reply.Chunk) {
		deltas = append(deltas, model.Delta{Thinking: piece})
	}
	if a.reply.Signature != "" {
		deltas = append(deltas, model.Delta{Signature: a.reply.Signature})
	}
	unlimited, text := limit == nil, a.text
	left := 0
	if !unlimited {
		text = prefixBytes(a.text, *limit)
		left = *limit - len(a.text)
	}
	for _, piece := range pieces(text, a.reply.Chunk) {
		deltas = append(deltas, model.Delta{Text: piece})
	}
	for _, call := range a.calls {
		switch {
		case !unlimited && left <= 0:
			return deltas
		case !unlimited && left < len(call.Arguments):
			return append(deltas, model.Delta{DiscardedCalls: 1})
		case a.reply.Finish == model.FinishLength && !json.Valid(call.Arguments):
			deltas = append(deltas, model.Delta{DiscardedCalls: 1}) // the call that was still open
		default:
			deltas = append(deltas, model.Delta{Call: &call})
		}
		left -= len(call.Arguments)
	}
	return deltas
}

// estimate counts one token for four bytes of the request and of the answer, and at least one for
// each.
func (a answer) estimate(req model.Request) perdure.Usage {
	in := len(req.System)
	for _, m := range req.Messages {
		in += len(textOf(m)) + len(m.Thinking)
		for _, c := range m.Calls() {
			in += len(c.Name) + len(c.Arguments)
		}
	}
	for _, t := range req.Tools {
		in += len(t.Name) + len(t.Description) + len(t.Parameters)
	}
	out := len(a.text) + len(a.thinking)
	for _, c := range a.calls {
		out += len(c.Name) + len(c.Arguments)
	}
	return perdure.Usage{InputTokens: int64(max(in/4, 1)), OutputTokens: int64(max(out/4, 1))}
}

// error returns the error of the failure.
func (f *Failure) error() *model.Error {
	return &model.Error{Code: f.Code, RetryAfter: f.RetryAfter, Text: f.Text}
}

// pieces splits a text into pieces of at most size bytes, but of at least one character; 0: one
// piece.
func pieces(s string, size int) []string {
	var all []string
	for s != "" {
		piece := s
		if size > 0 && size < len(s) {
			if piece = prefixBytes(s, size); piece == "" {
				_, n := utf8.DecodeRuneInString(s)
				piece = s[:n]
			}
		}
		all = append(all, piece)
		s = s[len(piece):]
	}
	return all
}

// prefixBytes returns the complete characters in the first n bytes of a text.
func prefixBytes(s string, n int) string {
	if n >= len(s) {
		return s
	}
	for n > 0 && !utf8.RuneStart(s[n]) {
		n--
	}
	return s[:n]
}

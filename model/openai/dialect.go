package openai

import (
	"context"
	"errors"
	"iter"
	"net/http"

	"github.com/perdure/perdure/internal/modelwire"
	"github.com/perdure/perdure/model"
)

// The fields of the length limit.
const (
	oldLimit = "max_tokens"
	newLimit = "max_completion_tokens"
	noLimit  = "none" // no length limit is sent
)

// dialect is how a server wants to be asked: as configured, or as its refusals taught.
type dialect struct {
	omitUsage bool   // without stream_options
	whole     bool   // for a whole answer instead of a stream
	limit     string // field of the length limit
	swapped   bool   // limit was learnt
	messages  serverRules
}

// adapted returns the dialect that avoids what a refusal names, and false if it names nothing that
// can be avoided.
func (d dialect) adapted(r modelwire.Refused, sent body) (dialect, bool) {
	switch {
	case sent.StreamOptions != nil && (r.Names("stream_options") || r.Names("include_usage")):
		d.omitUsage = true
	case sent.Stream && namesStream(r):
		d.whole = true
	case sent.MaxTokens+sent.MaxCompletionTokens > 0 && r.Names(d.limit) && r.IsUnknownField():
		switch {
		case d.swapped:
			d.limit = noLimit
		case d.limit == oldLimit:
			d.limit = newLimit
		default:
			d.limit = oldLimit
		}
		d.swapped = true
	default:
		var demand string
		if r.MayNameSetting() {
			d.messages, demand = d.messages.adapted(r.Words, sent.Messages)
		}
		return d, demand != ""
	}
	return d, true
}

// namesStream reports whether a refusal says that the server, the model or the account does not
// stream.
func namesStream(r modelwire.Refused) bool {
	return r.Says(`"param":"stream"`, `"param": "stream"`, "verified to stream", "streaming is not supported", "stream is not supported",
		"does not support stream", "doesn't support stream", "streaming not supported", "stream mode is not supported",
		"unsupported value: 'stream'", "streaming is disabled")
}

// current returns the dialect for the next request.
func (m *Model) current() dialect {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.learnt
}

// learn makes a dialect that the server accepted after a refusal the one for all later requests.
func (m *Model) learn(d dialect) {
	m.mu.Lock()
	isNew := d != m.learnt
	m.learnt = d
	m.mu.Unlock()
	if isNew {
		m.log.Warn("the server refused the form of a request and is asked in another one from now on", "server", m.host,
			"stream_options", !d.omitUsage, "stream", !d.whole, "max_tokens_field", d.limit, "messages", d.messages.String())
	}
}

// attempt is one request: what it says, and what came of it.
type attempt struct {
	dialect dialect
	adapted bool // dialect was adapted to a refusal
	fit     modelwire.Fit
	body    body
	refused *modelwire.Refused // the server refused it without an answer; nil: it did not
	err     error              // why there is no complete answer; nil: there is one
}

// maxAttempts bounds the requests of one Stream. Each refusal takes something away, so that there
// are never more than this.
const maxAttempts = 8

// ask sends a request, and sends it again as long as it is refused because of something that it
// can do without. A refused request was not executed and produced no content. It yields until the
// answer is complete, or the reader leaves.
func (m *Model) ask(ctx context.Context, req model.Request, wait *modelwire.Wait, yield func(model.Delta, error) bool) {
	a := attempt{dialect: m.current(), fit: m.pictures.Fit(req.Messages, nil)}
	for n := 1; ; n++ {
		own := req
		own.Messages = a.fit.Messages
		a.body, a.refused, a.err = m.body(own, a.dialect), nil, nil
		for d := range m.answer(ctx, &a, wait) {
			if d.Finish != "" { // the reader may leave now
				m.answered(a)
			}
			if !yield(d, nil) {
				return
			}
		}
		switch {
		case a.err == nil:
			return
		case a.refused == nil || n == maxAttempts || ctx.Err() != nil || !m.adapt(&a, req):
			yield(model.Delta{}, streamErr(ctx, a.err))
			return
		}
	}
}

// answered records what an attempt with a complete answer shows about the server.
func (m *Model) answered(a attempt) {
	if a.adapted {
		m.learn(a.dialect)
	}
	m.pictures.Answered(a.fit)
}

// adapt takes away from an attempt what its refusal names, and reports whether there was
// something.
func (m *Model) adapt(a *attempt, req model.Request) bool {
	if next, ok := a.dialect.adapted(*a.refused, a.body); ok {
		a.dialect, a.adapted = next, true
		return true
	}
	var known *model.Error
	isBad := errors.As(a.err, &known) && known.Code == model.Misconfigured
	var ok bool
	a.fit, ok = m.pictures.Adapt(req.Messages, a.fit, *a.refused, isBad)
	return ok
}

// answer sends one request and yields its deltas. The last one has Finish set, unless a.err says
// why there is none.
func (m *Model) answer(ctx context.Context, a *attempt, wait *modelwire.Wait) iter.Seq[model.Delta] {
	return func(yield func(model.Delta) bool) {
		requestCtx, cancel := context.WithCancel(ctx)
		defer cancel()
		if !a.body.Stream {
			wait.AllowSilence()
		}
		var res *http.Response
		if res, a.refused, a.err = m.post(requestCtx, a.body); a.err != nil {
			return
		}
		defer res.Body.Close()
		s := stream{mask: m.mask, stop: cancel, began: wait.Began, family: m.family(a.body.Model)}
		for d := range s.read(res) {
			if !yield(d) {
				return
			}
		}
		last, err := s.end()
		a.refused, a.err = s.refused, err
		for _, d := range last {
			if !yield(d) {
				return
			}
		}
	}
}

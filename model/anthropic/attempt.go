package anthropic

import (
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"log/slog"
	"mime"
	"net/http"
	"regexp"
	"strconv"
	"sync"
	"time"

	sdk "github.com/anthropics/anthropic-sdk-go"
	"github.com/anthropics/anthropic-sdk-go/option"

	"github.com/perdure/perdure/internal/modelwire"
	"github.com/perdure/perdure/internal/sse"
	"github.com/perdure/perdure/model"
)

const (
	// endWait is how long the reader waits for message_stop after the stop reason has arrived.
	endWait = 10 * time.Second
	// maxAttempts bounds the requests of one Stream. Each refusal takes something away.
	maxAttempts = 6
)

// pictureLimits returns what the provider documents for one request: 5 MB of base64 and 8,000
// pixels for each picture, 2,000 pixels if there are more than 20 pictures, and 32 MB for all. A
// picture that must be scaled gets the size to which the provider would scale it.
func pictureLimits() modelwire.PictureLimits {
	return modelwire.PictureLimits{
		Base64: 5 << 20, Edge: 8000, Count: 100, Total: 24 << 20, ManyCount: 20, ManyEdge: 2000, ScaledEdge: 1568,
	}
}

// attempt is one request: what it says, and what came of it.
type attempt struct {
	fit     modelwire.Fit
	name    string // of the model
	refused *modelwire.Refused
	err     error // why there is no complete answer; nil: there is one
}

// ask sends a request, and sends it again as long as it is refused because of something that it
// can do without. A refused request was not executed and produced no content. It yields until the
// answer is complete, or the reader leaves.
func (m *Model) ask(ctx context.Context, req model.Request, wait *modelwire.Wait, yield func(model.Delta, error) bool) {
	a := attempt{fit: m.pictures.Fit(req.Messages, nil)}
	for n := 1; ; n++ {
		own := req
		own.Messages = a.fit.Messages
		a.refused, a.err = nil, nil
		for d := range m.answer(ctx, own, &a, wait) {
			if d.Finish != "" { // the reader may leave now
				m.pictures.Answered(a.fit)
			}
			if !yield(d, nil) {
				return
			}
		}
		switch {
		case a.err == nil:
			return
		case a.refused == nil || n == maxAttempts || ctx.Err() != nil || !m.adapt(&a, req):
			yield(model.Delta{}, m.streamError(ctx, a.err))
			return
		}
	}
}

// adapt takes away from an attempt what its refusal names, and reports whether there was
// something.
func (m *Model) adapt(a *attempt, req model.Request) bool {
	if m.learnMaxTokens(a) || m.learnCache(a) {
		return true
	}
	var refused refusal
	isBad := errors.As(a.err, &refused) && m.refusalError(refused).Code == model.Misconfigured
	var ok bool
	a.fit, ok = m.pictures.Adapt(req.Messages, a.fit, *a.refused, isBad)
	return ok
}

// tooManyTokens matches the limit that a refusal names: "max_tokens: 8192 > 4096, which is …".
var tooManyTokens = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`max_tokens: \d+ > (\d+)`) })

// learnMaxTokens remembers the limit of a model that a refusal names, and reports whether it is
// new.
func (m *Model) learnMaxTokens(a *attempt) bool {
	found := tooManyTokens().FindStringSubmatch(a.refused.Words)
	if found == nil || !a.refused.Names("max_tokens") {
		return false
	}
	limit, err := strconv.ParseInt(found[1], 10, 64)
	if err != nil || limit < 1 {
		return false
	}
	m.mu.Lock()
	known := m.maxTokens[a.name]
	isNew := known == 0 || limit < known
	if isNew {
		m.maxTokens[a.name] = limit
	}
	m.mu.Unlock()
	if isNew && m.cfg.Log != nil {
		m.cfg.Log.Warn("the server limits the length of an answer and is asked for no more from now on",
			slog.String("model", a.name), slog.Int64("max_tokens", limit))
	}
	return isNew
}

// learnCache remembers that the server refuses cache_control, as some servers of the protocol do,
// and reports whether that is new.
func (m *Model) learnCache(a *attempt) bool {
	if !a.refused.Names("cache_control") {
		return false
	}
	m.mu.Lock()
	isNew := !m.omitsCache
	m.omitsCache = true
	m.mu.Unlock()
	if isNew && m.cfg.Log != nil {
		m.cfg.Log.Warn("the server refused cache_control and is asked without it from now on")
	}
	return isNew
}

// withoutCache removes what a server refused from the parameters of a request.
func (m *Model) withoutCache(params sdk.MessageNewParams) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if !m.omitsCache {
		return
	}
	for i := range params.System {
		params.System[i].CacheControl = sdk.CacheControlEphemeralParam{}
	}
	for _, tool := range params.Tools {
		tool.OfTool.CacheControl = sdk.CacheControlEphemeralParam{}
	}
}

// maxTokensOf returns the length limit to ask a model for, at most what it accepts.
func (m *Model) maxTokensOf(name string, wanted int) int64 {
	m.mu.Lock()
	defer m.mu.Unlock()
	if limit := m.maxTokens[name]; limit > 0 {
		return min(int64(wanted), limit)
	}
	return int64(wanted)
}

// answer sends one request and yields its deltas. The last one has Finish set, unless a.err says
// why there is none.
func (m *Model) answer(ctx context.Context, req model.Request, a *attempt, wait *modelwire.Wait) iter.Seq[model.Delta] {
	return func(yield func(model.Delta) bool) {
		params, options, err := m.request(req)
		if err != nil {
			a.err = err
			return
		}
		a.name = string(params.Model)
		m.withoutCache(params)
		requestCtx, release := context.WithCancel(ctx) // a reader that leaves also ends the request
		defer release()
		var received response
		stream := m.messages.NewStreaming(requestCtx, params, append(options, option.WithMiddleware(received.keep))...)
		defer stream.Close()
		if err := stream.Err(); err != nil {
			a.err, a.refused = err, refusedBy(err)
			return
		}
		defer received.Body.Close()
		got := newAnswer(wait.Began, m.family(a.name))
		ended, left := m.read(got, received.Response, release, yield)
		if ended == nil || left {
			return
		}
		a.err = ended
		if !got.hasContent {
			a.refused = refusedBy(ended)
		}
		for _, d := range got.broken(ended) {
			if !yield(d) {
				return
			}
		}
	}
}

// read yields the deltas of a response. The error says why they end before the answer did; left
// says that the reader left.
func (m *Model) read(got *answer, res *http.Response, stop func(), yield func(model.Delta) bool) (ended error, left bool) {
	body := newBounded(res.Body)
	kind, _, _ := mime.ParseMediaType(res.Header.Get("Content-Type"))
	values := sse.NewValues(body, kind, maxEventBytes)
	late := time.AfterFunc(endWait, stop) // started by the stop reason
	late.Stop()
	defer late.Stop()
	for waits := false; ; {
		body.begin()
		v, err := values.Next()
		var deltas []model.Delta
		if err == nil {
			deltas, err = got.read(v)
			if len(deltas) == 0 && err == nil && !got.hasContent && got.stop == "" {
				deltas = []model.Delta{{}} // a sign of life
			}
		} else if got.stop != "" && limitError(err) == nil {
			deltas, err = got.finish() // the end of the stream is missing, but not that of the answer
		} else {
			err = m.ended(got, values, res.Header, err)
		}
		for _, d := range deltas {
			if !yield(d) {
				return nil, true
			}
			if d.Finish != "" {
				return nil, false
			}
		}
		if err != nil {
			return err, false
		}
		if got.stop != "" && !waits {
			waits = true
			late.Reset(endWait)
		}
	}
}

// ended returns the error for a body that ended with err before the answer did.
func (m *Model) ended(got *answer, values *sse.Values, header http.Header, err error) error {
	isEnd := err == io.EOF //nolint:errorlint // it is never wrapped
	switch {
	case errors.Is(err, sse.ErrForeign), isEnd && !got.isOurs && got.noise == "" && !values.MayBeStream():
		p := modelwire.ReadProblem(values.Head())
		if p.Known || p.Passing() != "" {
			return refusal{body: string(values.Head())}
		}
		return &model.Error{Code: model.Misconfigured, Text: m.safeText(fmt.Sprintf(
			"the answer is %s and not an event stream (%.100s): check the base URL", header.Get("Content-Type"), p.Message))}
	case errors.Is(err, sse.ErrBroken):
		return brokenError("the stream broke inside an event")
	case isEnd && got.noise != "":
		return brokenError(m.safeText("the stream ended before the answer did: " + got.noise))
	case isEnd:
		return brokenError("the stream ended before the answer did")
	}
	return err
}

// refusedBy returns the refusal in an error; nil: it is none.
func refusedBy(err error) *modelwire.Refused {
	var r refusal
	if !errors.As(err, &r) {
		return nil
	}
	refused := modelwire.NewRefused(r.status, []byte(r.body))
	return &refused
}

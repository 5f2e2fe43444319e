package anthropic

import (
	"context"
	"fmt"
	"iter"
	"net/http"

	sdk "github.com/anthropics/anthropic-sdk-go"
	"github.com/anthropics/anthropic-sdk-go/option"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/internal/redact"
	"github.com/perdure/perdure/model"
)

// Config says which model to call, where, and with which key. The zero value calls the public API
// without a key.
type Config struct {
	Name    string // the model if a request names none; empty: each request must name one
	Key     string // sent as x-api-key; empty: none is sent
	BaseURL string // without /v1/messages; empty: https://api.anthropic.com
	// HTTP is the client; its redirects are not followed, and its Timeout also ends long answers.
	// nil: the guarded client of internal/egress.
	HTTP *http.Client

	// MaxTokens limits an answer if its request has no limit; the API requires one. 0: 8192 plus
	// ThinkingTokens.
	MaxTokens int
	// ThinkingTokens is the budget of extended thinking, at least 1024 and less than MaxTokens; 0:
	// no thinking is requested. Models that only support adaptive thinking refuse a budget. A
	// request with a lower limit is sent without thinking.
	ThinkingTokens int
	// Prefill says that the model can continue the beginning of an answer, which is sent as the
	// last turn. An answer that broke off is then continued instead of lost. Not every model
	// supports it. Such a request is sent without thinking, because the API does not allow both.
	Prefill bool
}

// Model calls the Anthropic Messages API. New makes it, it never changes, and it is safe for
// concurrent use.
type Model struct {
	cfg      Config         // with defaults
	secret   *redact.Secret // masks the key; nil: there is none
	messages sdk.MessageService
}

var (
	_ model.Model    = (*Model)(nil)
	_ model.Prefixer = (*Model)(nil)
)

// ContinuesFrom implements model.Prefixer. It returns Config.Prefill.
func (m *Model) ContinuesFrom(string) bool { return m.cfg.Prefill }

// New makes a model. It makes no connection. An unusable configuration is Invalid.
func New(cfg Config) (*Model, error) {
	cfg, err := cfg.withDefaults()
	if err != nil {
		return nil, err
	}
	secret, err := redact.NewSecret(cfg.Key)
	if err != nil {
		return nil, fmt.Errorf("%w Key: it is too long", perdure.Invalid)
	}
	m := &Model{cfg: cfg, secret: secret}
	options := []option.RequestOption{
		option.WithoutEnvironmentDefaults(), // a service reads no environment by itself; this keeps it so
		option.WithoutOpenTelemetry(),
		option.WithBaseURL(cfg.BaseURL),
		option.WithHTTPClient(withoutRedirects(cfg.HTTP)),
		option.WithMiddleware(m.inspect),
		option.WithMaxRetries(0), // the durable layer retries
	}
	if cfg.Key != "" {
		options = append(options, option.WithAPIKey(cfg.Key))
	}
	m.messages = sdk.NewMessageService(options...)
	return m, nil
}

// Stream implements model.Model with one request. An answer ends with message_stop. A stream that
// ends in another way is an *model.Error of code Unavailable, after the complete calls and a delta
// that counts the others. Calls are yielded at the end; until then each new piece of a call yields
// an empty delta, as a sign of progress. Keep-alives yield nothing.
func (m *Model) Stream(ctx context.Context, req model.Request) iter.Seq2[model.Delta, error] {
	return func(yield func(model.Delta, error) bool) {
		if ctx.Err() != nil {
			yield(model.Delta{}, context.Cause(ctx))
			return
		}
		params, options, err := m.request(req)
		if err != nil {
			yield(model.Delta{}, err)
			return
		}
		// A caller that breaks out of the loop also ends the request.
		requestCtx, release := context.WithCancel(ctx)
		defer release()
		body := newBounded()
		stream := m.messages.NewStreaming(requestCtx, params, append(options, option.WithMiddleware(body.around))...)
		defer stream.Close()

		a := newAnswer()
		for body.begin(); stream.Next() && ctx.Err() == nil; body.begin() {
			deltas, err := a.add(stream.Current())
			for _, d := range deltas {
				if !yield(d, nil) || d.Finish != "" {
					return
				}
			}
			if err != nil {
				m.fail(ctx, yield, a, err)
				return
			}
		}
		m.fail(ctx, yield, a, stream.Err())
	}
}

// fail ends a stream without a regular end: it yields the complete calls, unless the answer exceeds
// a limit, and then the error.
func (m *Model) fail(ctx context.Context, yield func(model.Delta, error) bool, a *answer, err error) {
	end := a.settle(brokenStream)
	if limitError(err) != nil {
		end = a.discard()
	}
	for _, d := range end {
		if !yield(d, nil) {
			return
		}
	}
	yield(model.Delta{}, m.streamError(ctx, err))
}

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

// Config says which model is asked, where, and under which key. The zero value asks the public API without a key.
type Config struct {
	Name    string       // the model, where a request names none; empty: then such a request has no model
	Key     string       // sent as x-api-key; empty: none is sent, for a local server
	BaseURL string       // what /v1/messages is added to; empty: https://api.anthropic.com
	HTTP    *http.Client // nil: the guarded way out. Its redirects are not followed, and its Timeout cuts long answers

	// MaxTokens bounds an answer whose request sets no bound; the API wants one. 0: 8192, and the thinking on top of it.
	MaxTokens int
	// ThinkingTokens is the budget of extended thinking, at least 1024 and less than MaxTokens; 0: no thinking is asked
	// for. Models that only think adaptively refuse a budget. A request with a smaller bound is asked without thinking.
	ThinkingTokens int
	// Prefill says that the model goes on from the beginning of an answer, which is sent as the last turn, so that one
	// that broke off is not lost. Not every model takes that. Such a request is asked without thinking, which the API does
	// not take together. false: none is sent.
	Prefill bool
}

// Model asks the Anthropic Messages API. It is made by New, never changes, and is safe for concurrent use.
type Model struct {
	cfg      Config         // complete
	secret   *redact.Secret // finds the key; nil: there is none
	messages sdk.MessageService
}

var (
	_ model.Model    = (*Model)(nil)
	_ model.Prefixer = (*Model)(nil)
)

// ContinuesFrom implements model.Prefixer, as the configuration says.
func (m *Model) ContinuesFrom(string) bool { return m.cfg.Prefill }

// New makes a model; it connects to nothing yet. Invalid: the configuration is wrong, and the error says where.
func New(cfg Config) (*Model, error) {
	cfg, err := cfg.complete()
	if err != nil {
		return nil, err
	}
	secret, err := redact.NewSecret(cfg.Key)
	if err != nil {
		return nil, fmt.Errorf("%w Key: it is far too long to be one", perdure.Invalid)
	}
	m := &Model{cfg: cfg, secret: secret}
	options := []option.RequestOption{
		option.WithoutEnvironmentDefaults(), // a service reads no environment; this says so for whoever makes it a client
		option.WithoutOpenTelemetry(),
		option.WithBaseURL(cfg.BaseURL),
		option.WithHTTPClient(unredirected(cfg.HTTP)),
		option.WithMiddleware(m.inspect),
		option.WithMaxRetries(0), // the durable layer retries (TN21)
	}
	if cfg.Key != "" {
		options = append(options, option.WithAPIKey(cfg.Key))
	}
	m.messages = sdk.NewMessageService(options...)
	return m, nil
}

// Stream implements model.Model with one request. An answer ends with the provider's message_stop; a stream that ends
// otherwise is an *model.Error of code Unavailable, after the calls that were whole and a delta that counts the others.
// Calls come in the end; while they grow, empty deltas do, as a sign of life. Keep-alives yield nothing.
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
		// Whoever breaks the loop ends the request with it.
		asking, release := context.WithCancel(ctx)
		defer release()
		body := newBounded()
		stream := m.messages.NewStreaming(asking, params, append(options, option.WithMiddleware(body.around))...)
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

// fail ends a stream that has no end of its own: the calls that were whole before, unless the answer was too large for
// anybody to have meant it, then the error.
func (m *Model) fail(ctx context.Context, yield func(model.Delta, error) bool, a *answer, err error) {
	end := a.settle(torn)
	if tooMuch(err) != nil {
		end = a.discard()
	}
	for _, d := range end {
		if !yield(d, nil) {
			return
		}
	}
	yield(model.Delta{}, m.fault(ctx, err))
}

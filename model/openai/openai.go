package openai

import (
	"context"
	"fmt"
	"iter"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/internal/egress"
	"github.com/perdure/perdure/internal/redact"
	"github.com/perdure/perdure/model"
)

const defaultBase = "https://api.openai.com/v1"

// Config says which server is asked, and how.
type Config struct {
	Name      string       // the model where Request.Model is empty; empty: each request has to name one
	Key       string       // sent as a bearer token, and shown in no error; empty: none is sent
	BaseURL   string       // what /chat/completions is added to; empty: https://api.openai.com/v1
	HTTP      *http.Client // nil: the guarded client of internal/egress for BaseURL
	MaxTokens int          // of an answer, where Request.MaxTokens is 0; 0: no limit is sent
	NoUsage   bool         // usage is not asked for, since the server refuses stream_options
}

// Model asks one server. It is made by New, never changes, and is safe for concurrent use.
type Model struct {
	cfg      Config
	endpoint string
	limit    string         // the name of the field that limits an answer
	secret   *redact.Secret // finds the key; nil: there is none
	client   http.Client
}

var _ model.Model = (*Model)(nil)

// New makes a model of a server; it asks nothing yet, and reads no environment. Invalid: the error says which field
// is wrong and why.
func New(cfg Config) (*Model, error) {
	if cfg.BaseURL == "" {
		cfg.BaseURL = defaultBase
	}
	base, err := url.Parse(cfg.BaseURL)
	if err != nil {
		return nil, fmt.Errorf("%w BaseURL: it is no URL; give one such as %s", perdure.Invalid, defaultBase)
	}
	if why := wrongBase(base); why != "" {
		return nil, fmt.Errorf("%w BaseURL: %s; give one such as %s", perdure.Invalid, why, defaultBase)
	}
	if strings.ContainsFunc(cfg.Key, func(r rune) bool { return r <= ' ' || r > '~' }) {
		return nil, fmt.Errorf("%w Key: it has spaces, line ends or other characters that no key has", perdure.Invalid)
	}
	if cfg.MaxTokens < 0 {
		return nil, fmt.Errorf("%w MaxTokens: %d is less than 0", perdure.Invalid, cfg.MaxTokens)
	}
	if cfg.HTTP == nil {
		if cfg.HTTP, err = egress.ForURL(cfg.BaseURL); err != nil {
			return nil, fmt.Errorf("%w BaseURL: %w", perdure.Invalid, err)
		}
	}
	secret, err := redact.NewSecret(cfg.Key)
	if err != nil {
		return nil, fmt.Errorf("%w Key: it is far too long to be one", perdure.Invalid)
	}
	m := &Model{cfg: cfg, secret: secret, endpoint: base.JoinPath("chat", "completions").String(), limit: limitName(base.Hostname()), client: *cfg.HTTP}
	// A redirect would lose the question or carry the key elsewhere.
	m.client.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	return m, nil
}

// wrongBase says what is wrong with a base URL; empty: nothing.
func wrongBase(base *url.URL) string {
	switch {
	case base.Scheme != "http" && base.Scheme != "https":
		return "it does not begin with http:// or https://"
	case base.Hostname() == "":
		return "it names no host"
	case base.User != nil:
		return "it holds a user or password, and a key belongs in Key"
	case base.RawQuery != "" || base.ForceQuery || base.Fragment != "":
		return "it has a query or fragment"
	case strings.HasSuffix(strings.TrimRight(base.Path, "/"), "/chat/completions"):
		return "/chat/completions is added to it, so leave that out"
	}
	return ""
}

// limitName returns what the limit of an answer is called. OpenAI's reasoning models refuse the old name, and many
// other servers do not know the new one.
func limitName(host string) string {
	host = "." + strings.ToLower(host)
	if slices.ContainsFunc([]string{".openai.com", ".azure.com"}, func(end string) bool { return strings.HasSuffix(host, end) }) {
		return "max_completion_tokens"
	}
	return "max_tokens"
}

// Stream implements model.Model: one POST, and no second one. Beside deltas with content it yields an empty one for
// each piece that adds to a call, as a sign of life, since the call itself comes in the end.
func (m *Model) Stream(ctx context.Context, req model.Request) iter.Seq2[model.Delta, error] {
	return func(yield func(model.Delta, error) bool) {
		if ctx.Err() != nil {
			yield(model.Delta{}, context.Cause(ctx))
			return
		}
		asked, cancel := context.WithCancel(ctx)
		defer cancel()
		body, err := m.post(asked, req)
		if err != nil {
			yield(model.Delta{}, endOf(ctx, err))
			return
		}
		defer body.Body.Close()
		s := stream{mask: m.mask, stop: cancel}
		for d := range s.read(body) {
			if !yield(d, nil) {
				return
			}
		}
		last, err := s.end()
		for _, d := range last {
			if !yield(d, nil) {
				return
			}
		}
		if err != nil {
			yield(model.Delta{}, endOf(ctx, err))
		}
	}
}

// endOf returns why a stream ended: ctx's cause when ctx ended, else err.
func endOf(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return err
}

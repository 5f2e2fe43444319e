package openai

import (
	"cmp"
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

// Config says which server to call, and how.
type Config struct {
	Name      string       // the model if Request.Model is empty; empty: each request must name one
	Key       string       // sent as a bearer token, appears in no error; empty: none
	BaseURL   string       // without /chat/completions; empty: https://api.openai.com/v1
	HTTP      *http.Client // nil: the guarded client of internal/egress for BaseURL
	MaxTokens int          // length limit of an answer if Request.MaxTokens is 0; 0: none is sent
	OmitUsage bool         // do not request usage; for servers that refuse stream_options
}

// Model calls one server. New makes it, it never changes, and it is safe for concurrent use.
type Model struct {
	cfg      Config
	endpoint string
	limit    string         // name of the field for the length limit
	secret   *redact.Secret // masks the key; nil: there is none
	client   http.Client
}

var _ model.Model = (*Model)(nil)

// New makes a model for a server. It makes no request and reads no environment. Invalid: the error
// says which field is wrong and why.
func New(cfg Config) (*Model, error) {
	cfg.BaseURL = cmp.Or(cfg.BaseURL, defaultBase)
	base, err := url.Parse(cfg.BaseURL)
	if err != nil {
		return nil, fmt.Errorf("%w BaseURL: it is not a URL; use a URL such as %s", perdure.Invalid, defaultBase)
	}
	if why := baseURLProblem(base); why != "" {
		return nil, fmt.Errorf("%w BaseURL: %s; use a URL such as %s", perdure.Invalid, why, defaultBase)
	}
	if strings.ContainsFunc(cfg.Key, func(r rune) bool { return r <= ' ' || r > '~' }) {
		return nil, fmt.Errorf("%w Key: it contains spaces, line breaks or other characters that keys do not have",
			perdure.Invalid)
	}
	if cfg.MaxTokens < 0 {
		return nil, fmt.Errorf("%w MaxTokens: %d is negative", perdure.Invalid, cfg.MaxTokens)
	}
	if cfg.HTTP == nil {
		if cfg.HTTP, err = egress.ForURL(cfg.BaseURL); err != nil {
			return nil, fmt.Errorf("%w BaseURL: %w", perdure.Invalid, err)
		}
	}
	secret, err := redact.NewSecret(cfg.Key)
	if err != nil {
		return nil, fmt.Errorf("%w Key: it is too long", perdure.Invalid)
	}
	m := &Model{cfg: cfg, secret: secret, endpoint: base.JoinPath("chat", "completions").String(), limit: limitName(base.Hostname()), client: *cfg.HTTP}
	// A redirect would lose the request body, or send the key to another server.
	m.client.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	return m, nil
}

// baseURLProblem returns what is wrong with a base URL, or "".
func baseURLProblem(base *url.URL) string {
	switch {
	case base.Scheme != "http" && base.Scheme != "https":
		return "it does not start with http:// or https://"
	case base.Hostname() == "":
		return "it has no host"
	case base.User != nil:
		return "it contains a user or a password; put a key into Key"
	case base.RawQuery != "" || base.ForceQuery || base.Fragment != "":
		return "it has a query or a fragment"
	case strings.HasSuffix(strings.TrimRight(base.Path, "/"), "/chat/completions"):
		return "/chat/completions is added to it, so remove that"
	}
	return ""
}

// limitName returns the field name of the length limit. OpenAI's reasoning models refuse the old
// name, and many other servers do not know the new one.
func limitName(host string) string {
	host = "." + strings.ToLower(host)
	if slices.ContainsFunc([]string{".openai.com", ".azure.com"}, func(end string) bool { return strings.HasSuffix(host, end) }) {
		return "max_completion_tokens"
	}
	return "max_tokens"
}

// Stream implements model.Model with exactly one POST. A call is yielded at the end of the answer.
// Until then each new piece of a call yields an empty delta, as a sign of progress.
func (m *Model) Stream(ctx context.Context, req model.Request) iter.Seq2[model.Delta, error] {
	return func(yield func(model.Delta, error) bool) {
		if ctx.Err() != nil {
			yield(model.Delta{}, context.Cause(ctx))
			return
		}
		requestCtx, cancel := context.WithCancel(ctx)
		defer cancel()
		body, err := m.post(requestCtx, req)
		if err != nil {
			yield(model.Delta{}, streamErr(ctx, err))
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
			yield(model.Delta{}, streamErr(ctx, err))
		}
	}
}

// streamErr returns why a stream ended: the cause of ctx if ctx ended, else err.
func streamErr(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return err
}

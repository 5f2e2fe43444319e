package openai

import (
	"cmp"
	"context"
	"fmt"
	"iter"
	"log/slog"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/internal/egress"
	"github.com/perdure/perdure/internal/modelhistory"
	"github.com/perdure/perdure/internal/modelwire"
	"github.com/perdure/perdure/internal/providertools"
	"github.com/perdure/perdure/internal/redact"
	"github.com/perdure/perdure/model"
)

const defaultBase = "https://api.openai.com/v1"

// defaultMaxTools is the limit of OpenAI, Azure, Groq and most gateways. A server with a smaller
// one names it in its error.
const defaultMaxTools = 128

// Config says which server to call, and how.
type Config struct {
	Name      string       // the model if Request.Model is empty; empty: each request must name one
	Key       string       // sent as a bearer token, appears in no error; empty: none
	BaseURL   string       // without /chat/completions; empty: https://api.openai.com/v1
	HTTP      *http.Client // nil: the guarded client of internal/egress for BaseURL
	MaxTokens int          // length limit of an answer if Request.MaxTokens is 0; 0: none is sent

	// The fields that not every server accepts. The adapter learns most of them: a request that is
	// refused because of one is sent again without it.

	OmitUsage     bool   // do not request usage with stream_options
	WholeAnswers  bool   // do not stream; the answer arrives as a whole
	MaxTokensName string // field of the length limit: max_tokens, max_completion_tokens or none; empty: by the host

	MaxTools int // how many tools a request may have; 0: 128

	// FirstToken limits the time to the first content of an answer, also while the server is
	// silent. 0: 10 minutes while it shows signs of life, and the stall timeout of the engine while
	// it is silent.
	FirstToken time.Duration
	// Log receives a warning when the adapter learns what a server refuses, and when a picture is
	// left out. nil: nothing is logged.
	Log *slog.Logger
}

// Model calls one server. New makes it, and it is safe for concurrent use.
type Model struct {
	cfg      Config
	endpoint string
	host     string
	secret   *redact.Secret // masks the key; nil: there is none
	client   http.Client
	pictures *modelwire.Pictures
	tools    *providertools.Tools
	log      *slog.Logger

	mu     sync.Mutex
	learnt dialect // guarded by mu
}

// pictureLimits returns what OpenAI documents. Other servers accept less, which their refusals
// teach.
func pictureLimits() modelwire.PictureLimits {
	return modelwire.PictureLimits{Base64: (20 << 20) / 3 * 4, Count: 500, Total: 48 << 20, ScaledEdge: 2048}
}

var (
	_ model.Model       = (*Model)(nil)
	_ model.ToolLimiter = (*Model)(nil)
)

// MaxTools implements model.ToolLimiter.
func (m *Model) MaxTools(perdure.SessionID, string) int { return m.tools.Max() }

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
	if names := []string{"", oldLimit, newLimit, noLimit}; !slices.Contains(names, cfg.MaxTokensName) {
		return nil, fmt.Errorf("%w MaxTokensName: use %s, %s or %s", perdure.Invalid, oldLimit, newLimit, noLimit)
	}
	if cfg.FirstToken < 0 {
		return nil, fmt.Errorf("%w FirstToken: %s is negative", perdure.Invalid, cfg.FirstToken)
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
	m := &Model{cfg: cfg, secret: secret, endpoint: base.JoinPath("chat", "completions").String(), host: base.Hostname(),
		client: *cfg.HTTP, tools: providertools.New(cmp.Or(cfg.MaxTools, defaultMaxTools), cfg.Log), pictures: modelwire.NewPictures(pictureLimits(), cfg.Log), log: cfg.Log,
		learnt: dialect{omitUsage: cfg.OmitUsage, whole: cfg.WholeAnswers, limit: cmp.Or(cfg.MaxTokensName, limitName(base.Hostname()))}}
	if m.log == nil {
		m.log = slog.New(slog.DiscardHandler)
	}
	// A redirect would lose the request body, or send the key to another server.
	m.client.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	return m, nil
}

// family returns the family of the model with a name.
func (m *Model) family(name string) string {
	return modelhistory.Family("chat_completions", m.cfg.BaseURL, name)
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
		return newLimit
	}
	return oldLimit
}

// Stream implements model.Model. It is one request, unless the server refuses it because of
// something that it can do without: then it is sent again without that, which is remembered. A
// call is yielded at the end of the answer. Until then each new piece of a call yields an empty
// delta, as a sign of progress, and so does each sign of life of the server before the first
// content.
func (m *Model) Stream(ctx context.Context, req model.Request) iter.Seq2[model.Delta, error] {
	if ctx.Err() != nil {
		return func(yield func(model.Delta, error) bool) { yield(model.Delta{}, context.Cause(ctx)) }
	}
	return modelwire.FirstContent(ctx, m.cfg.FirstToken, func(ctx context.Context, wait *modelwire.Wait) iter.Seq2[model.Delta, error] {
		return func(yield func(model.Delta, error) bool) { m.ask(ctx, req, wait, m.tools.Learning(yield, req.Tools)) }
	})
}

// streamErr returns why a stream ended: the cause of ctx if ctx ended, else err.
func streamErr(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return err
}

package anthropic

import (
	"context"
	"fmt"
	"iter"
	"log/slog"
	"net/http"
	"sync"
	"time"

	sdk "github.com/anthropics/anthropic-sdk-go"
	"github.com/anthropics/anthropic-sdk-go/option"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/internal/modelhistory"
	"github.com/perdure/perdure/internal/modelwire"
	"github.com/perdure/perdure/internal/providertools"
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

	MaxTools int // how many tools a request may have; 0: no limit is known

	// FirstToken limits the time to the first content of an answer, also while the server is
	// silent. 0: 10 minutes while it shows signs of life, and the stall timeout of the engine while
	// it is silent.
	FirstToken time.Duration
	// Log receives a warning when the adapter learns a limit, and when a picture is left out. nil:
	// nothing is logged.
	Log *slog.Logger
}

// Model calls the Anthropic Messages API. New makes it, and it is safe for concurrent use.
type Model struct {
	cfg      Config         // with defaults
	secret   *redact.Secret // masks the key; nil: there is none
	messages sdk.MessageService
	pictures *modelwire.Pictures
	tools    *providertools.Tools

	mu         sync.Mutex
	maxTokens  map[string]int64 // guarded by mu; limits of models that a refusal named
	omitsCache bool             // guarded by mu; the server refused cache_control
}

var (
	_ model.Model    = (*Model)(nil)
	_ model.Prefixer = (*Model)(nil)

	_ model.ToolLimiter = (*Model)(nil)
)

// MaxTools implements model.ToolLimiter. The API has no limit that matters; a server behind it can
// have one, which its error names.
func (m *Model) MaxTools(perdure.SessionID, string) int { return m.tools.Max() }

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
	m := &Model{cfg: cfg, secret: secret, pictures: modelwire.NewPictures(pictureLimits(), cfg.Log), maxTokens: map[string]int64{},
		tools: providertools.New(cfg.MaxTools, cfg.Log)}
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

// family returns the family of the model with a name.
func (m *Model) family(name string) string {
	return modelhistory.Family("messages", m.cfg.BaseURL, name)
}

// Stream implements model.Model. It is one request, unless the server refuses it because of a
// limit of its length or a picture: then it is sent again within that limit, which is remembered,
// or without the picture. A stream that ends without a stop reason is an *model.Error of code
// Unavailable, after the complete calls and a delta that counts the others. Calls are yielded at
// the end; until then each new piece of a call yields an empty delta, as a sign of progress, and
// so does each sign of life before the first content.
func (m *Model) Stream(ctx context.Context, req model.Request) iter.Seq2[model.Delta, error] {
	if ctx.Err() != nil {
		return func(yield func(model.Delta, error) bool) { yield(model.Delta{}, context.Cause(ctx)) }
	}
	return modelwire.FirstContent(ctx, m.cfg.FirstToken, func(ctx context.Context, wait *modelwire.Wait) iter.Seq2[model.Delta, error] {
		return func(yield func(model.Delta, error) bool) { m.ask(ctx, req, wait, m.tools.Learning(yield, req.Tools)) }
	})
}

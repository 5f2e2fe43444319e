// Package provider is a model that asks several providers. The name of a model begins with the name
// of its provider: PROVIDER/MODEL or PROVIDER:MODEL. The provider, with its URL and its key, is
// looked up for each request, so that a changed key is used at once.
//
// It may import the root, model and the adapters of the protocols. The one thing to know: whichever
// separator comes first in a name decides, so ollama/llama3:8b is llama3:8b of ollama, and
// gate:meta/llama is meta/llama of gate.
package provider

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"log/slog"
	"net/netip"
	"net/url"
	"strings"
	"sync"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/model"
	"github.com/perdure/perdure/model/anthropic"
	"github.com/perdure/perdure/model/openai"
)

// The kinds of providers, which are the protocols that they speak.
const (
	OpenAI    = "openai"    // Chat Completions
	Anthropic = "anthropic" // Messages
)

// Provider is a provider at the moment of a request.
type Provider struct {
	Name    string
	Kind    string // OpenAI or Anthropic
	BaseURL string // empty: the server of the kind's own provider
	Key     string // empty: none is sent
	// Version changes whenever another field changes. The same version of the same provider is the
	// same server with the same key.
	Version string
}

// Source finds providers. It is safe for concurrent use.
type Source interface {
	// Provider returns a provider by name. NotFound: there is none. Unavailable: its key cannot be
	// opened, or the source does not answer; nothing is used in its place.
	Provider(ctx context.Context, name string) (Provider, error)
	// DefaultModel returns the name of the model for a session that names none. NotFound: there is
	// none.
	DefaultModel(ctx context.Context, session perdure.SessionID) (string, error)
}

// Config configures the models. Source is required.
type Config struct {
	Source Source
	// OpenAI and Anthropic change how the models of a provider are asked. nil: nothing is changed.
	OpenAI    func(provider string, cfg openai.Config) openai.Config
	Anthropic func(provider string, cfg anthropic.Config) anthropic.Config
	Log       *slog.Logger // nil: discarded
}

// Models asks the models of all providers of a source. New makes it, and it is safe for concurrent
// use.
type Models struct {
	cfg Config

	mu     sync.Mutex
	opened map[string]opened // guarded by mu; by the name of the model as the session names it
}

// opened is a model that was asked before, with the provider that it belongs to.
type opened struct {
	version string // of the provider
	model   model.Model
}

var (
	_ model.Model       = (*Models)(nil)
	_ model.Prefixer    = (*Models)(nil)
	_ model.ToolLimiter = (*Models)(nil)
)

// maxOpened limits the models that are kept between requests. Any more are made again when needed.
const maxOpened = 256

// unopenedMaxTools is the limit of tools that is assumed for a model that was not asked yet: a
// limit that the servers of both protocols accept.
const unopenedMaxTools = 128

// New returns the models of a source. It asks for nothing.
func New(cfg Config) *Models {
	if cfg.Log == nil {
		cfg.Log = slog.New(slog.DiscardHandler)
	}
	return &Models{cfg: cfg, opened: map[string]opened{}}
}

// Split splits the name of a model at the first separator, which is a slash or a colon. ok is false
// if the name has no separator, or nothing before or after it.
func Split(name string) (provider, model string, ok bool) {
	i := strings.IndexAny(name, "/:")
	if i < 1 || i == len(name)-1 {
		return "", "", false
	}
	return name[:i], name[i+1:], true
}

// Open returns a model by its complete name. Invalid: the name has no provider, or the provider is
// not valid. NotFound: there is no such provider. Unavailable: its key cannot be opened.
func (m *Models) Open(ctx context.Context, name string) (model.Model, error) {
	provider, inner, ok := Split(name)
	if !ok {
		return nil, fmt.Errorf("%w model %.200q: use PROVIDER/MODEL", perdure.Invalid, name)
	}
	found, err := m.cfg.Source.Provider(ctx, provider)
	if err != nil {
		return nil, fmt.Errorf("model %.200q: %w", name, err)
	}
	m.mu.Lock()
	known, ok := m.opened[name]
	m.mu.Unlock()
	if ok && known.version == found.Version {
		return known.model, nil
	}
	made, err := m.adapter(found, inner)
	if err != nil {
		return nil, fmt.Errorf("model %.200q: %w", name, err)
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if len(m.opened) >= maxOpened {
		clear(m.opened)
	}
	m.opened[name] = opened{found.Version, made}
	return made, nil
}

// Check checks a provider. Invalid: its kind or URL is wrong, or its key has characters that keys
// do not have, or would be sent unencrypted.
func (p Provider) Check() error {
	_, err := New(Config{}).adapter(p, "any")
	return err
}

// SendsInClear reports whether traffic to a URL can be read on the network: it is not encrypted,
// and leaves this machine.
func SendsInClear(base string) bool {
	u, err := url.Parse(base)
	if err != nil || u.Scheme != "http" {
		return false
	}
	host := strings.ToLower(strings.TrimSuffix(u.Hostname(), "."))
	if host == "localhost" || strings.HasSuffix(host, ".localhost") {
		return false
	}
	addr, err := netip.ParseAddr(host)
	return err != nil || !addr.Unmap().IsLoopback()
}

// adapter makes a model of a provider.
func (m *Models) adapter(p Provider, name string) (model.Model, error) {
	if p.Key != "" && SendsInClear(p.BaseURL) {
		return nil, fmt.Errorf("%w URL: the key would be sent unencrypted to another machine; use https", perdure.Invalid)
	}
	switch p.Kind {
	case OpenAI:
		cfg := openai.Config{Name: name, Key: p.Key, BaseURL: p.BaseURL, Log: m.cfg.Log}
		if m.cfg.OpenAI != nil {
			cfg = m.cfg.OpenAI(p.Name, cfg)
		}
		return openai.New(cfg)
	case Anthropic:
		cfg := anthropic.Config{Name: name, Key: p.Key, BaseURL: p.BaseURL, Log: m.cfg.Log}
		if m.cfg.Anthropic != nil {
			cfg = m.cfg.Anthropic(p.Name, cfg)
		}
		return anthropic.New(cfg)
	}
	return nil, fmt.Errorf("%w provider %.80q: its kind is %.80q; use %s or %s", perdure.Invalid, p.Name, p.Kind,
		OpenAI, Anthropic)
}

// Stream implements model.Model. A request that names no model goes to the default model of its
// session.
func (m *Models) Stream(ctx context.Context, req model.Request) iter.Seq2[model.Delta, error] {
	asked, err := m.find(ctx, req)
	if err != nil {
		return func(yield func(model.Delta, error) bool) { yield(model.Delta{}, Failure(ctx, err)) }
	}
	req.Model = "" // the adapter knows its name, without the provider
	return asked.Stream(ctx, req)
}

// find returns the model for a request.
func (m *Models) find(ctx context.Context, req model.Request) (model.Model, error) {
	if req.Model == "" {
		name, err := m.cfg.Source.DefaultModel(ctx, req.Session)
		if err != nil {
			return nil, fmt.Errorf("default model: %w", err)
		}
		req.Model = name
	}
	return m.Open(ctx, req.Model)
}

// Failure turns the error of a model that cannot be asked into one of a model. What may succeed
// later without a change of the configuration is retryable.
func Failure(ctx context.Context, err error) error {
	known := (*model.Error)(nil)
	switch {
	case ctx.Err() != nil:
		return context.Cause(ctx)
	case errors.As(err, &known):
		return known
	case errors.Is(err, perdure.NotFound), errors.Is(err, perdure.Invalid):
		return &model.Error{Code: model.ModelUnavailable, Text: err.Error(), Err: err}
	case errors.Is(err, KeyUnavailable):
		return &model.Error{Code: model.Misconfigured, Text: err.Error(), Err: err}
	}
	return &model.Error{Code: model.Unavailable, Text: err.Error(), Err: err}
}

// KeyUnavailable marks the error of a source that cannot open the key of a provider on this
// machine. Another attempt does not help.
var KeyUnavailable = errors.New("the key cannot be opened")

// MaxTools implements model.ToolLimiter. It looks nothing up: a model that was not asked before has
// the limit that the servers of both protocols accept.
func (m *Models) MaxTools(session perdure.SessionID, name string) int {
	if limiter, ok := m.Known(name).(model.ToolLimiter); ok {
		return limiter.MaxTools(session, "")
	}
	return unopenedMaxTools
}

// ContinuesFrom implements model.Prefixer. It looks nothing up: a model that was not asked before
// continues nothing.
func (m *Models) ContinuesFrom(name string) bool {
	p, ok := m.Known(name).(model.Prefixer)
	return ok && p.ContinuesFrom("")
}

// Known returns a model that was opened before; nil: it was not. It looks nothing up.
func (m *Models) Known(name string) model.Model {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.opened[name].model
}

package app

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"iter"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/internal/cli"
	"github.com/perdure/perdure/model"
	"github.com/perdure/perdure/model/anthropic"
	"github.com/perdure/perdure/model/openai"
	"github.com/perdure/perdure/model/provider"
	"github.com/perdure/perdure/model/scripted"
)

// models calls the model that a session was started with, by its name. It is safe for concurrent
// use.
type models struct {
	open         bool // false: no model is called, and every request blocks until it ends
	blocksAlways bool // a model that cannot be called here also blocks: another process may have its key
	options      modelOptions
	log          *slog.Logger
	source       provider.Source  // of stored providers; nil: there are none
	stored       *provider.Models // likewise

	mu     sync.Mutex
	loaded map[string]model.Model       // guarded by mu; by name
	used   map[perdure.SessionID]string // guarded by mu; other models that sessions use
}

var (
	_ model.Model    = (*models)(nil)
	_ model.Prefixer = (*models)(nil)

	_ model.ToolLimiter = (*models)(nil)
)

func newModels(o cli.OpenOptions) *models {
	return &models{
		open: o.AskModels, blocksAlways: !o.Serve, log: o.Log,
		loaded: map[string]model.Model{}, used: map[perdure.SessionID]string{},
	}
}

// useProviders makes the models of stored providers available.
func (m *models) useProviders(source provider.Source) {
	m.source = source
	m.stored = provider.New(provider.Config{
		Source: source, Log: m.log,
		OpenAI:    func(name string, cfg openai.Config) openai.Config { return m.options.openaiConfig(name, cfg) },
		Anthropic: func(name string, cfg anthropic.Config) anthropic.Config { return m.options.anthropicConfig(name, cfg) },
	})
}

// check returns the name of a model in a form that is valid everywhere. Invalid: the name matches
// no model of this build and of no stored provider, its script cannot be read, or its key is
// missing. Unavailable: the key of its provider cannot be opened.
func (m *models) check(ctx context.Context, name string) (string, error) {
	t, err := readTarget(name)
	if err != nil {
		return "", err
	}
	if _, err := m.named(ctx, t.String()); err != nil {
		return "", err
	}
	return t.String(), nil
}

// readScript reads a script. Invalid: it does not exist, or is not a valid script.
func readScript(path string) (*scripted.Model, error) {
	m, err := scripted.Load(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, fmt.Errorf("%w model: there is no script %s; docs/reference/scripted-model.md explains how to write one", perdure.Invalid, path)
	case err != nil && !errors.Is(err, perdure.Invalid):
		return nil, fmt.Errorf("%w model: %w", perdure.Invalid, err)
	}
	return m, err
}

// use makes a session call another model than its own.
func (m *models) use(id perdure.SessionID, name string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.used[id] = name
}

func (m *models) Stream(ctx context.Context, req model.Request) iter.Seq2[model.Delta, error] {
	if req.Session == "" { // a test, which somebody waits for
		return m.ask(ctx, req)
	}
	if !m.open {
		return waitStream(ctx)
	}
	req.Model = m.nameFor(req.Session, req.Model)
	found, err := m.find(ctx, req)
	if err != nil && m.blocksAlways {
		m.log.Warn("session skipped, its model cannot be used here", "session", req.Session, "error", err)
		return waitStream(ctx)
	}
	return streamOf(ctx, found, req, err)
}

// ask asks the model that a request names, whatever model its session uses instead of its own.
func (m *models) ask(ctx context.Context, req model.Request) iter.Seq2[model.Delta, error] {
	found, err := m.find(ctx, req)
	return streamOf(ctx, found, req, err)
}

// streamOf asks a model that was found, or returns the error of one that was not.
func streamOf(ctx context.Context, m model.Model, req model.Request, err error) iter.Seq2[model.Delta, error] {
	if err != nil {
		return func(yield func(model.Delta, error) bool) { yield(model.Delta{}, provider.Failure(ctx, err)) }
	}
	req.Model = "" // the adapter knows its name, without provider and server
	return m.Stream(ctx, req)
}

// utilityModels is the utility model of the sessions. A session that uses another model than its
// own still has the same utility model.
type utilityModels struct{ models *models }

// Stream implements model.Model.
func (u utilityModels) Stream(ctx context.Context, req model.Request) iter.Seq2[model.Delta, error] {
	return u.models.ask(ctx, req)
}

// ContinuesFrom implements model.Prefixer. It does not know which session asks, so that all models
// that replace others must agree. A model that cannot be used returns false.
func (m *models) ContinuesFrom(name string) bool {
	m.mu.Lock()
	names := append(slices.Collect(maps.Values(m.used)), name)
	m.mu.Unlock()
	for _, name := range names {
		if p, ok := m.known(name).(model.Prefixer); !ok || !p.ContinuesFrom("") {
			return false
		}
	}
	return true
}

// MaxTools implements model.ToolLimiter. A model that cannot be used here has no limit.
func (m *models) MaxTools(session perdure.SessionID, name string) int {
	if limiter, ok := m.known(m.nameFor(session, name)).(model.ToolLimiter); ok {
		return limiter.MaxTools(session, "")
	}
	return 0
}

// known returns a model without reading the store, because its callers may be inside a
// transaction. nil: it is not known without the store, or cannot be used here.
func (m *models) known(name string) model.Model {
	t, err := readTarget(name)
	if err == nil && !t.mayBeStored() {
		found, err := m.load(t)
		if err == nil {
			return found
		}
	}
	if err == nil && m.stored != nil {
		return m.stored.Known(t.storedName())
	}
	return nil
}

// heartbeatEvery is how often a blocked request reports that it is alive.
const heartbeatEvery = 30 * time.Second

// waitStream returns a response that blocks until the request ends.
func waitStream(ctx context.Context) iter.Seq2[model.Delta, error] {
	return func(yield func(model.Delta, error) bool) {
		tick := time.NewTicker(heartbeatEvery)
		defer tick.Stop()
		for {
			select {
			case <-tick.C:
				if !yield(model.Delta{}, nil) {
					return
				}
			case <-ctx.Done():
				yield(model.Delta{}, context.Cause(ctx))
				return
			}
		}
	}
}

// nameFor returns the name of the model that a session asks: its own, or the one that replaces it.
func (m *models) nameFor(session perdure.SessionID, name string) string {
	m.mu.Lock()
	defer m.mu.Unlock()
	if other, ok := m.used[session]; ok {
		return other
	}
	return name
}

// find returns the model for a request. A session that names none has the default model.
func (m *models) find(ctx context.Context, req model.Request) (model.Model, error) {
	name := req.Model
	if name == "" && m.source != nil {
		var err error
		name, err = m.source.DefaultModel(ctx, req.Session)
		if errors.Is(err, perdure.NotFound) {
			return nil, errNoModel
		}
		if err != nil {
			return nil, err
		}
	}
	return m.named(ctx, name)
}

// errNoModel is the error of a session for which there is no model.
var errNoModel = fmt.Errorf("%w model: the session names none, and there is no default model; set one with "+
	"perdure model default NAME, or name one in the message", perdure.Invalid)

// named returns a model by its name.
func (m *models) named(ctx context.Context, name string) (model.Model, error) {
	t, err := readTarget(name)
	if err != nil {
		return nil, err
	}
	if !t.mayBeStored() {
		return m.load(t)
	}
	if m.stored != nil {
		found, err := m.stored.Open(ctx, t.storedName())
		if !errors.Is(err, perdure.NotFound) {
			return found, err
		}
	}
	if t.isBuiltIn() {
		return m.load(t) // its error says which key is missing
	}
	return nil, fmt.Errorf("%w model %q: there is no provider %s; perdure provider list shows all, and "+
		"perdure provider set adds one", perdure.Invalid, name, t.provider)
}

// configuredModel returns the name of a model in the configuration in a form that is valid
// everywhere. Its provider may be stored later. Invalid: it can be no name of a model, or its
// script cannot be read.
func configuredModel(what, name string) (string, error) {
	if name == "" {
		return "", nil
	}
	t, err := readTarget(name)
	if err == nil && t.provider == providerScripted {
		_, err = readScript(t.name)
	}
	if err != nil {
		return "", fmt.Errorf("%s: %w", what, err)
	}
	return t.String(), nil
}

// load returns a model of this build, and creates it once.
func (m *models) load(t target) (model.Model, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	name := t.String()
	if found, ok := m.loaded[name]; ok {
		return found, nil
	}
	found, err := t.open(m.options, m.log)
	if err == nil {
		m.loaded[name] = found
	}
	return found, err
}

package main

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
	"github.com/perdure/perdure/model/scripted"
)

// models calls the model that a session was started with, by its name. It is safe for concurrent
// use.
type models struct {
	open         bool // false: no model is called, and every request blocks until it ends
	blocksAlways bool // a model that cannot be called here also blocks: another process may have its key
	options      modelOptions
	log          *slog.Logger

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

// checkModel returns the name of a model in a form that is valid everywhere. Invalid: the name
// matches no model of this build, its script cannot be read, or its key is missing.
func checkModel(name string) (string, error) {
	t, err := readTarget(name)
	if err != nil {
		return "", err
	}
	if _, err := t.open(nil, nil); err != nil {
		return "", err
	}
	return t.String(), nil
}

// load reads a script. Invalid: it does not exist, or is not a valid script.
func load(path string) (*scripted.Model, error) {
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
	if !m.open {
		return waitStream(ctx)
	}
	answers, err := m.find(req)
	if err != nil && m.blocksAlways {
		m.log.Warn("session skipped, its model cannot be used here", "session", req.Session, "error", err)
		return waitStream(ctx)
	}
	if err != nil {
		return func(yield func(model.Delta, error) bool) {
			yield(model.Delta{}, &model.Error{Code: model.ModelUnavailable, Text: err.Error(), Err: err})
		}
	}
	req.Model = "" // the adapter knows its name, without provider and server
	return answers.Stream(ctx, req)
}

// ContinuesFrom implements model.Prefixer. It does not know which session asks, so that all models
// that replace others must agree. A model that cannot be used returns false.
func (m *models) ContinuesFrom(name string) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, name := range append(slices.Collect(maps.Values(m.used)), name) {
		found, err := m.named(name)
		p, ok := found.(model.Prefixer)
		if err != nil || !ok || !p.ContinuesFrom("") {
			return false
		}
	}
	return true
}

// MaxTools implements model.ToolLimiter. A model that cannot be used here has no limit.
func (m *models) MaxTools(session perdure.SessionID, name string) int {
	found, err := m.find(model.Request{Session: session, Model: name})
	if limiter, ok := found.(model.ToolLimiter); ok && err == nil {
		return limiter.MaxTools(session, "")
	}
	return 0
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

// find returns the model for a request.
func (m *models) find(req model.Request) (model.Model, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	name := req.Model
	if other, ok := m.used[req.Session]; ok {
		name = other
	}
	return m.named(name)
}

// named returns a model, and creates it once. It is called with m.mu held.
func (m *models) named(name string) (model.Model, error) {
	if found, ok := m.loaded[name]; ok {
		return found, nil
	}
	t, err := readTarget(name)
	if err != nil {
		return nil, err
	}
	found, err := t.open(m.options, m.log)
	if err == nil {
		m.loaded[name] = found
	}
	return found, err
}

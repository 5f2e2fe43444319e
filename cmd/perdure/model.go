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

// models asks the model that a session was started with, by its name. It is safe for concurrent use.
type models struct {
	ask   bool // false: nobody is asked, and every request waits for its end
	leave bool // a request whose model cannot be asked here, for want of a key say, waits too: it is left for whoever can
	log   *slog.Logger

	mu     sync.Mutex
	loaded map[string]model.Model       // guarded by mu; by name
	used   map[perdure.SessionID]string // guarded by mu; sessions that are to ask another one
}

var (
	_ model.Model    = (*models)(nil)
	_ model.Prefixer = (*models)(nil)
)

func newModels(o cli.Opening) *models {
	return &models{
		ask: o.AskModels, leave: !o.Serve, log: o.Log,
		loaded: map[string]model.Model{}, used: map[perdure.SessionID]string{},
	}
}

// checkModel returns the name that means a model from everywhere. Invalid: it is none of this build, its script
// cannot be read, or its key is missing.
func checkModel(name string) (string, error) {
	t, err := readTarget(name)
	if err != nil {
		return "", err
	}
	if _, err := t.open(); err != nil {
		return "", err
	}
	return t.String(), nil
}

// load reads a script. Invalid: it is not there, or says nothing that a model could answer.
func load(path string) (*scripted.Model, error) {
	m, err := scripted.Load(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, fmt.Errorf("%w model: there is no script %s; docs/reference/scripted-model.md says how to write one", perdure.Invalid, path)
	case err != nil && !errors.Is(err, perdure.Invalid):
		return nil, fmt.Errorf("%w model: %w", perdure.Invalid, err)
	}
	return m, err
}

// use lets a session ask another model than its own.
func (m *models) use(id perdure.SessionID, name string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.used[id] = name
}

// Stream implements model.Model.
func (m *models) Stream(ctx context.Context, req model.Request) iter.Seq2[model.Delta, error] {
	if !m.ask {
		return untilEnd(ctx)
	}
	answers, err := m.find(req)
	if err != nil && m.leave {
		m.log.Warn("a session is left alone: its model cannot be asked here", "session", req.Session, "error", err)
		return untilEnd(ctx)
	}
	if err != nil {
		return func(yield func(model.Delta, error) bool) {
			yield(model.Delta{}, &model.Error{Code: model.NoModel, Text: err.Error(), Err: err})
		}
	}
	req.Model = "" // the adapter knows its name, without the provider and the server
	return answers.Stream(ctx, req)
}

// ContinuesFrom implements model.Prefixer: as the model of that name says. It is not known here which session asks, so
// every model that some session is to ask instead must say the same. What cannot be asked does not go on.
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

// signOfLife is how often an answer that does not come says that nothing is wrong.
const signOfLife = 30 * time.Second

// untilEnd is an answer that does not come before the request ends.
func untilEnd(ctx context.Context) iter.Seq2[model.Delta, error] {
	return func(yield func(model.Delta, error) bool) {
		tick := time.NewTicker(signOfLife)
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

// find returns the model that a request asks for.
func (m *models) find(req model.Request) (model.Model, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	name := req.Model
	if other, ok := m.used[req.Session]; ok {
		name = other
	}
	return m.named(name)
}

// named returns a model. It is made once. It is called with m.mu held.
func (m *models) named(name string) (model.Model, error) {
	if found, ok := m.loaded[name]; ok {
		return found, nil
	}
	t, err := readTarget(name)
	if err != nil {
		return nil, err
	}
	found, err := t.open()
	if err == nil {
		m.loaded[name] = found
	}
	return found, err
}

package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"iter"
	"path/filepath"
	"strings"
	"sync"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/model"
	"github.com/perdure/perdure/model/scripted"
)

// scriptedPrefix is the form of the models of this build: scripted:FILE.
const scriptedPrefix = "scripted:"

// models asks the model that a session was started with, by its name. It is safe for concurrent use.
type models struct {
	ask bool // false: nobody is asked, and every request waits for its end

	mu     sync.Mutex
	loaded map[string]*scripted.Model   // guarded by mu; by name
	used   map[perdure.SessionID]string // guarded by mu; sessions that are to ask another one
}

var _ model.Model = (*models)(nil)

func newModels(ask bool) *models {
	return &models{ask: ask, loaded: map[string]*scripted.Model{}, used: map[perdure.SessionID]string{}}
}

// checkModel returns the name that means a model from everywhere. Invalid: it is none of this build, or its
// script cannot be read.
func checkModel(name string) (string, error) {
	provider, _, _ := strings.Cut(name, ":")
	path, ok := strings.CutPrefix(name, scriptedPrefix)
	switch {
	case name == "":
		return "", fmt.Errorf("%w model: no name is given; name a script, as in scripted:FILE", perdure.Invalid)
	case provider == "openai" || provider == "anthropic":
		return "", fmt.Errorf("%w model %q: this build has scripted models only; name a script, as in scripted:FILE", perdure.Invalid, name)
	case !ok || path == "":
		return "", fmt.Errorf("%w model %q: name a script, as in scripted:FILE", perdure.Invalid, name)
	}
	path, err := filepath.Abs(path)
	if err != nil {
		return "", fmt.Errorf("%w model %q: %w", perdure.Invalid, name, err)
	}
	if _, err := load(path); err != nil {
		return "", err
	}
	return scriptedPrefix + path, nil
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
		return func(yield func(model.Delta, error) bool) {
			<-ctx.Done()
			yield(model.Delta{}, context.Cause(ctx))
		}
	}
	answers, err := m.find(req)
	if err != nil {
		return func(yield func(model.Delta, error) bool) {
			yield(model.Delta{}, &model.Error{Code: model.NoModel, Text: err.Error(), Err: err})
		}
	}
	req.Model = "" // the script's own name is told, not its path
	return answers.Stream(ctx, req)
}

// find returns the model that a request asks for. A script is read once.
func (m *models) find(req model.Request) (*scripted.Model, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	name := req.Model
	if other, ok := m.used[req.Session]; ok {
		name = other
	}
	if found, ok := m.loaded[name]; ok {
		return found, nil
	}
	path, ok := strings.CutPrefix(name, scriptedPrefix)
	if !ok {
		_, err := checkModel(name)
		return nil, err
	}
	found, err := load(path)
	if err == nil {
		m.loaded[name] = found
	}
	return found, err
}

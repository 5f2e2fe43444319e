package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"time"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/engine/local"
	"github.com/perdure/perdure/internal/cli"
	"github.com/perdure/perdure/store"
	"github.com/perdure/perdure/store/memory"
	"github.com/perdure/perdure/store/sqlite"
	"github.com/perdure/perdure/tool"
	"github.com/perdure/perdure/tool/background"
	"github.com/perdure/perdure/tool/core"
	"github.com/perdure/perdure/tool/file"
)

// drainTime is how long work may settle when a command ends. A command under a supervisor needs none of it.
const drainTime = 2 * time.Second

// opened is an engine with what it was opened over.
type opened struct {
	*local.Engine
	store      store.Store
	models     *models
	workspaces *workspaces
}

var _ cli.Engine = (*opened)(nil)

// open opens the engine that a command needs.
func open(ctx context.Context, o cli.Opening) (cli.Engine, error) {
	st, err := openStore(ctx, o)
	if err != nil {
		return nil, err
	}
	eng, err := newEngine(ctx, o, st)
	if err != nil {
		return nil, errors.Join(err, st.Close())
	}
	return eng, nil
}

func openStore(ctx context.Context, o cli.Opening) (store.Store, error) {
	if o.Access == cli.ToolsOnly {
		return memory.New(memory.Config{}), nil
	}
	return sqlite.Open(ctx, sqlite.Config{Dir: o.Dir, ReadOnly: o.Access == cli.Reading, Program: "perdure"})
}

func newEngine(ctx context.Context, o cli.Opening, st store.Store) (*opened, error) {
	e := &opened{store: st, models: newModels(o.AskModels)}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	e.workspaces = newWorkspaces(st, o.Log)
	tools := tool.NewRegistry(core.Tools()...)
	tools.LogTo(o.Log)
	for _, t := range append(file.Tools(), background.Tools(background.Config{})...) {
		tools.Register(t)
	}
	if err := addShell(tools, o, e.workspaces); err != nil {
		return nil, err
	}
	var err error
	e.Engine, err = local.Open(ctx, local.Config{
		Store: st, Model: e.models, Tools: tools, Files: e.workspaces.files, Drain: drainTime, Log: o.Log,
	})
	return e, err
}

// addShell registers bash. A command that writes has it always: what runs from before is to be found again,
// and a session that may not run commands does not see it. Elsewhere it is there when it was asked for.
func addShell(tools *tool.Registry, o cli.Opening, w *workspaces) error {
	if o.Access != cli.Writing && !o.AllowShell {
		return nil
	}
	bash, err := newShells(filepath.Join(o.Dir, runsFolder), w)
	switch {
	case err == nil:
		tools.Register(bash)
	case o.AllowShell:
		return fmt.Errorf("%w: %w", perdure.Unavailable, err)
	default:
		o.Log.Info("commands cannot be run here", "error", err)
	}
	return nil
}

// CheckModel implements cli.Engine.
func (e *opened) CheckModel(name string) (string, error) { return checkModel(name) }

// UseModel implements cli.Engine.
func (e *opened) UseModel(id perdure.SessionID, name string) { e.models.use(id, name) }

// Close implements cli.Engine.
func (e *opened) Close() error { return errors.Join(e.workspaces.close(), e.store.Close()) }

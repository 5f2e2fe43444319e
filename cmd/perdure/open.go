package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"slices"
	"time"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/engine"
	"github.com/perdure/perdure/engine/local"
	"github.com/perdure/perdure/internal/cli"
	"github.com/perdure/perdure/internal/egress"
	"github.com/perdure/perdure/store"
	"github.com/perdure/perdure/store/memory"
	"github.com/perdure/perdure/store/sqlite"
	"github.com/perdure/perdure/tool"
	"github.com/perdure/perdure/tool/background"
	"github.com/perdure/perdure/tool/core"
	"github.com/perdure/perdure/tool/file"
	"github.com/perdure/perdure/tool/schedule"
	"github.com/perdure/perdure/tool/session"
	"github.com/perdure/perdure/tool/subagent"
)

// opened is an engine with what it was opened over.
type opened struct {
	*local.Engine // the first one
	cfg           local.Config
	serves        bool
	access        cli.Access
	store         store.Store
	models        *models
	workspaces    *workspaces
	wayOut        *egress.Guard
	home          *local.Home
	door          *door
	asks          asks
	servers       *mcpServers
	connections   *connections
}

var _ cli.Engine = (*opened)(nil)

// open opens the engine that a command needs.
func open(ctx context.Context, o cli.Opening) (cli.Engine, error) {
	if far, err := dial(ctx, o); far != nil || err != nil {
		if err == nil && (len(o.Ask)+len(o.Deny) > 0 || o.AskUntrusted) {
			err = fmt.Errorf("%w: another process does the work, and decides itself which calls are asked about or denied: give --ask, --deny and --ask-untrusted to that one, or wait until it has ended", perdure.Conflict)
			return nil, errors.Join(err, far.Close())
		}
		return far, err
	}
	if o.Access == cli.Asking {
		return asEngine(newReader(ctx, o))
	}
	return asEngine(openHere(ctx, o))
}

// asEngine keeps an engine that is not there from looking like one.
func asEngine[E cli.Engine](eng E, err error) (cli.Engine, error) {
	if err != nil {
		return nil, err
	}
	return eng, nil
}

// openHere opens an engine in this process.
func openHere(ctx context.Context, o cli.Opening) (*opened, error) {
	st, err := openStore(ctx, o)
	if err != nil {
		return nil, err
	}
	eng, err := newEngine(ctx, o, st, observed{})
	if err != nil {
		return nil, errors.Join(err, st.Close())
	}
	return eng, nil
}

// reserved is how much of the disk is kept for cancels (R7).
const reserved = 16 << 20

func openStore(ctx context.Context, o cli.Opening) (store.Store, error) {
	if o.Access == cli.ToolsOnly {
		return memory.New(memory.Config{}), nil
	}
	if o.Database != "" {
		return openDatabase(ctx, o)
	}
	return sqlite.Open(ctx, sqlite.Config{Dir: o.Dir, ReadOnly: o.Access == cli.Reading, Program: "perdure", Reserve: reserved})
}

func newEngine(ctx context.Context, o cli.Opening, st store.Store, told observed) (_ *opened, failed error) {
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	e := &opened{store: st, models: newModels(o), serves: o.Serve, access: o.Access}
	e.workspaces = newWorkspaces(st, o.Log)
	defer func() {
		if failed != nil {
			e.workspaces.trying.Wait()
		}
	}()
	out, fetching, err := newWayOut(o.Dir, o.Log)
	if err != nil {
		return nil, err
	}
	e.wayOut = out
	tools, err := newTools(o, e.workspaces, fetching)
	if err != nil {
		return nil, err
	}
	if err := e.addMCP(ctx, o, tools); err != nil {
		return nil, err
	}
	permit, err := permits(o, tools)
	if err != nil {
		return nil, err
	}
	retention := time.Duration(o.Retention)
	if retention == 0 {
		retention = -1 // for ever
	}
	times := timesOf(o.StopTime, o.Serve)
	prices, err := readPrices(os.Getenv(ownPrices))
	if err != nil {
		return nil, err
	}
	if e.home, err = openHome(ctx, o, st); err != nil {
		return nil, err
	}
	e.cfg = local.Config{
		Store: st, Shared: o.Database != "", Model: e.models, Tools: tools, Files: e.workspaces.files, Egress: out, Permit: permit, Retention: retention,
		Forget:  forgetting(o.Dir, e.home.Beside.SQL, e.workspaces),
		Secrets: e.home.Secrets, Beside: e.home.Beside, Money: local.Money{Prices: &prices}, Drain: times.settle, Return: times.end, Log: o.Log,
		Telemetry: told.engine, Given: e.given(),
		Webhooks: local.Webhooks{Egress: out, Show: shown(o.Disclosure)},
	}
	if e.Engine, err = local.Open(ctx, e.cfg); err != nil {
		return nil, errors.Join(err, e.home.Close())
	}
	e.asks.use(e.Engine)
	e.door = newDoor(e.Engine, st, o.Dir, o.Log)
	e.door.told, e.door.answer = told, times.answer
	e.door.place = func(ctx context.Context) (engine.Place, error) { return placeOf(ctx, o.Dir, o.Database) }
	if e.door.tools = o.MCP; len(o.MCP) > 0 {
		if _, err := markedTools(ctx, e.Engine, o.MCP); err != nil {
			return nil, errors.Join(err, e.home.Close())
		}
	}
	if o.Access != cli.Writing {
		return e, nil
	}
	if err := e.door.openSocket(); err != nil {
		return nil, errors.Join(err, e.home.Close())
	}
	return e, nil
}

// Run does the work and lets others ask, on the socket of the data directory, until ctx ends.
func (e *opened) Run(ctx context.Context) error {
	run := e.Engine.Run
	if e.serves { // else somebody speaks with this engine, and no other
		run = e.door.renewing(run, func(ctx context.Context) (engine.Engine, func(context.Context) error, error) {
			eng, err := local.Open(ctx, e.cfg)
			if err == nil {
				e.asks.use(eng)
			}
			return eng, eng.Run, err
		})
	}
	return e.door.carry(ctx, run)
}

// permits is the operator's policy: which tools a person is asked about, and which never run. A name that no tool has
// would protect nothing, so it is refused.
func permits(o cli.Opening, tools *tool.Registry) (tool.Permit, error) {
	for _, name := range slices.Concat(o.Ask, o.Deny) {
		if !tools.Has(name) {
			return nil, fmt.Errorf("%w rule: there is no tool %q; perdure tool list shows them", perdure.Invalid, name)
		}
	}
	if len(o.Ask)+len(o.Deny) == 0 && !o.AskUntrusted {
		return nil, nil
	}
	return func(_ context.Context, _ tool.Call, p perdure.Permission) (perdure.Decision, string, error) {
		switch {
		case p.Kind == tool.ReadUntrusted && o.AskUntrusted:
			return perdure.Ask, "", nil
		case p.Kind != "tool":
		case slices.Contains(o.Deny, p.Target):
			return perdure.Deny, "the operator lets no call of " + p.Target + " run", nil
		case slices.Contains(o.Ask, p.Target):
			return perdure.Ask, "", nil
		}
		return perdure.Undecided, "", nil
	}, nil
}

// openHome opens what stands beside the database. Who does not write needs none of it.
func openHome(ctx context.Context, o cli.Opening, st store.Store) (*local.Home, error) {
	if o.Access == cli.ToolsOnly {
		return &local.Home{}, nil
	}
	return local.OpenHome(ctx, local.HomeConfig{Dir: o.Dir, Store: st, Reading: o.Access == cli.Reading, Shared: o.Database != "", Known: o.Known})
}

// newTools registers what there is. What runs commands, holds secrets or starts agents is in no defaults (TL30): a session
// chooses its capability.
func newTools(o cli.Opening, w *workspaces, fetching []tool.Tool) (*tool.Registry, error) {
	tools := tool.NewRegistry(slices.Concat(core.Tools(), file.Tools(), fetching, background.Tools(background.Config{}), []tool.Tool{core.LoadTool()})...)
	tools.LogTo(o.Log)
	tools.Offer(slices.Concat(subagent.Tools(), schedule.Tools(), session.StorageTools(), session.SQLTools(), []tool.Tool{session.ListResources(), session.CheckBudget()})...)
	return tools, addShell(tools, o, w)
}

// addShell offers bash. A command that writes has it always: what runs from before is to be found again,
// and a session that may not run commands does not see it. Elsewhere it is there when it was asked for, and then its
// sandbox is tried at once. A server tries it, too, so that somebody hears of it in time: to try it is a whole start of this
// program, so where it keeps nothing from starting, nothing waits for it.
func addShell(tools *tool.Registry, o cli.Opening, w *workspaces) error {
	if o.Access != cli.Writing && !o.AllowShell {
		return nil
	}
	bash, err := newShells(o.Dir, o.Sandbox, w)
	var kept error
	switch {
	case err == nil && o.AllowShell:
		_, kept = bash.begin()
	case err == nil && o.Serve:
		w.trying.Go(func() {
			if _, kept := bash.begin(); kept != nil {
				o.Log.Warn("no new command runs here", "error", kept)
			}
		})
	}
	switch {
	case kept != nil:
		return fmt.Errorf("%w: %w; another profile is chosen with --sandbox, and --unsafe-sandbox runs commands with what can be kept", perdure.Unavailable, kept)
	case err == nil:
		tools.Offer(bash)
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
func (e *opened) Close() error {
	e.wayOut.Close()
	return errors.Join(e.servers.Close(), e.door.close(), e.workspaces.close(), e.home.Close(), e.store.Close())
}

package app

import (
	"cmp"
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
	"github.com/perdure/perdure/tool/defaults"
	"github.com/perdure/perdure/tool/web"
)

// localEngine is an engine with everything that was opened for it.
type localEngine struct {
	engine.Engine                             // the first one
	work          func(context.Context) error // of the first one
	scheduler     Scheduler
	cfg           local.Config
	serves        bool
	access        cli.AccessMode
	store         store.Store
	models        *models
	workspaces    *workspaces
	egress        *egress.Guard
	storage       *local.DataDir
	door          *apiServer
	agentTools    agentTools
	servers       *mcpServers
	connections   *connections
}

var _ cli.Engine = (*localEngine)(nil)

// open opens the engine that a command needs.
func (p Program) open(ctx context.Context, o cli.OpenOptions) (cli.Engine, error) {
	if far, err := dial(ctx, o); far != nil || err != nil {
		if err == nil && o.TypedLimit != "" && o.Access == cli.Writing {
			err = fmt.Errorf("%w: another process does the work and applies its own limits: give %s to that process, or wait until it has ended", perdure.Conflict, o.TypedLimit)
			return nil, errors.Join(err, far.Close())
		}
		if err == nil && (len(o.Ask)+len(o.Deny) > 0 || o.AskUntrusted || !o.Secrets.IsZero()) {
			err = fmt.Errorf("%w: another process does the work and applies its own rules: give --ask, --deny, --ask-untrusted and the flags for secrets to that process, or wait until it has ended", perdure.Conflict)
			return nil, errors.Join(err, far.Close())
		}
		return far, err
	}
	if o.Access == cli.ServerOrRead {
		return asEngine(newReader(ctx, o))
	}
	return asEngine(p.openHere(ctx, o))
}

// asEngine turns a nil pointer with an error into a nil interface.
func asEngine[E cli.Engine](eng E, err error) (cli.Engine, error) {
	if err != nil {
		return nil, err
	}
	return eng, nil
}

// openHere opens an engine in this process.
func (p Program) openHere(ctx context.Context, o cli.OpenOptions) (*localEngine, error) {
	scheduler, err := p.scheduler(o.Access, o.Database)
	if err != nil {
		return nil, err
	}
	st, err := openStore(ctx, o)
	if err != nil {
		return nil, err
	}
	eng, err := scheduler.newEngine(ctx, o, st, observed{})
	if err != nil {
		return nil, errors.Join(err, st.Close())
	}
	return eng, nil
}

// reserveBytes is the disk space that is reserved for cancels (R7).
const reserveBytes = 16 << 20

func openStore(ctx context.Context, o cli.OpenOptions) (store.Store, error) {
	if o.Access == cli.ToolsOnly {
		return memory.New(memory.Config{}), nil
	}
	if o.Database != "" {
		return openDatabase(ctx, o)
	}
	program := "perdure"
	if o.Serve {
		program = serveProgram
	}
	return sqlite.Open(ctx, sqlite.Config{Dir: o.Dir, ReadOnly: o.Access == cli.Reading, Program: program,
		Reserve: reserveBytes})
}

func (s Scheduler) newEngine(ctx context.Context, o cli.OpenOptions, st store.Store, told observed) (_ *localEngine, failed error) {
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	e := &localEngine{scheduler: s, store: st, models: newModels(o), serves: o.Serve, access: o.Access}
	e.workspaces = newWorkspaces(st, o.Log)
	defer func() {
		if failed != nil {
			failed = errors.Join(failed, e.closeOpened())
		}
	}()
	if o.Access == cli.Writing {
		if err := s.checkStore(ctx, st); err != nil {
			return nil, err
		}
	}
	general, utility, err := e.openModels(ctx, o, st)
	if err != nil {
		return nil, err
	}
	out, servers, err := newEgress(o.Dir, o.Limits.Network, o.Log)
	if err != nil {
		return nil, err
	}
	e.egress = out
	tools, err := newTools(o, e.workspaces, servers)
	if err != nil {
		return nil, err
	}
	if err := e.addMCP(o, tools); err != nil {
		return nil, err
	}
	permit, err := policyFor(o, tools)
	if err != nil {
		return nil, err
	}
	times := timesOf(o.StopTime, o.Serve)
	prices, err := readPrices(os.Getenv(ownPrices))
	if err != nil {
		return nil, err
	}
	payments, err := readPayments(o)
	if err != nil {
		return nil, err
	}
	data := e.storage.Storage
	data.Forget = sessionRemover(o.Dir, data.SQL, e.workspaces)
	data.Shared, data.HasFiles = o.SharedFiles, hasWorkspace
	e.cfg = local.Config{
		Store: st, Workers: local.Workers{Shared: o.Database != "", Transient: !o.Serve}, Model: e.models, Tools: tools,
		Ports:    local.Ports{Files: e.workspaces.files, Egress: out},
		Policies: local.Policies{Permit: permit},
		Timing:   local.Timing{Retention: cmp.Or(time.Duration(o.Retention), -1), Drain: times.settle, Return: times.end},
		Storage:  data, Billing: local.Billing{Prices: &prices}, Log: o.Log,
		Payments:  payments,
		Telemetry: told.engine, Catalogue: local.Catalogue{Providers: e.configured(general, oauthProviders(o.Dir, o.Known))}, Utility: utility,
		Webhooks: local.Webhooks{Egress: out, Show: shown(o.Disclosure)},
	}
	if e.Engine, e.work, err = e.openLimited(ctx, o.Limits); err != nil {
		return nil, err
	}
	if err := e.openDoor(ctx, o, told, times); err != nil {
		return nil, err
	}
	if o.Access == cli.Writing && o.Serve { // its callers see the tools of all servers
		e.servers.startAll()
	}
	return e, nil
}

// openDoor prepares the API of an engine and, if it writes, opens its socket.
func (e *localEngine) openDoor(ctx context.Context, o cli.OpenOptions, told observed, times stopTimes) error {
	e.agentTools.use(e.Engine)
	e.door = newAPIServer(e.Engine, e.store, o.Dir, o.Log)
	e.door.resumedOnce, e.door.answer = told, times.answer
	e.door.machine = newServerMachine(o.Dir, o.Database != "")
	e.door.storePlace = func(ctx context.Context) (engine.StorageIdentity, error) { return storeOf(ctx, o.Dir, o.Database) }
	if e.door.tools = o.MCP; len(o.MCP) > 0 {
		e.cfg.Tools.Await(ctx, nil, o.MCP)
		if _, err := toolsWithHandles(ctx, e.Engine, o.MCP, e.comesLater); err != nil {
			return err
		}
	}
	if o.Access != cli.Writing {
		return nil
	}
	return e.door.openSocket()
}

// openLimited opens the engine with the limits that a user set.
func (e *localEngine) openLimited(ctx context.Context, limits cli.Limits) (engine.Engine, func(context.Context) error, error) {
	if err := withLimits(&e.cfg, limits); err != nil {
		return nil, nil, err
	}
	return e.scheduler.Open(ctx, e.cfg)
}

// comesLater reports whether a tool belongs to an MCP server that is not available.
func (e *localEngine) comesLater(name string) bool {
	_, expected := e.cfg.Tools.Expects(name)
	return expected && !e.cfg.Tools.Has(name)
}

// Run does the work and serves the API on the socket of the data directory until ctx ends.
func (e *localEngine) Run(ctx context.Context) error {
	run := e.work
	if e.serves { // otherwise a command uses this engine, and cannot switch to another one
		run = e.door.renewWorker(run, func(ctx context.Context) (engine.Engine, func(context.Context) error, error) {
			eng, run, err := e.scheduler.Open(ctx, e.cfg)
			if err == nil {
				e.agentTools.use(eng)
			}
			return eng, run, err
		})
	}
	return e.door.serveWorkers(ctx, run)
}

// policyFor returns the operator's policy: which tools need approval, and which are denied. An
// unknown tool name is refused, because it would protect nothing.
func policyFor(o cli.OpenOptions, tools *tool.Registry) (tool.Permit, error) {
	for _, name := range slices.Concat(o.Ask, o.Deny) {
		// A tool that comes later is protected from its first call on.
		if _, later := tools.Expects(name); !later && !tools.Has(name) {
			return nil, fmt.Errorf("%w rule: unknown tool %q; perdure tool list shows all tools", perdure.Invalid, name)
		}
	}
	if len(o.Ask)+len(o.Deny) == 0 && !o.AskUntrusted && o.Secrets.IsZero() {
		return nil, nil
	}
	return func(_ context.Context, _ tool.Call, p perdure.Permission) (perdure.Decision, string, error) {
		switch {
		case tool.MustBeGranted(p):
			return secretDecision(o.Secrets, p), "", nil
		case p.Kind == tool.ReadUntrusted && o.AskUntrusted:
			return perdure.Ask, "", nil
		case p.Kind != "tool":
		case slices.Contains(o.Deny, p.Target):
			return perdure.Deny, "the operator denies all calls of " + p.Target, nil
		case slices.Contains(o.Ask, p.Target):
			return perdure.Ask, "", nil
		}
		return perdure.Undecided, "", nil
	}, nil
}

// secretDecision returns what the operator's flags say about the use of a secret.
func secretDecision(rules cli.SecretRules, p perdure.Permission) perdure.Decision {
	names := func(list []string) bool { return slices.Contains(list, p.Target) || slices.Contains(list, "*") }
	switch {
	case names(rules.Ask):
		return perdure.Ask
	case names(rules.Allow), p.Kind == tool.UseSecret && names(rules.Use):
		return perdure.Allow
	}
	return perdure.Undecided
}

// closeOpened closes what newEngine has opened before it failed.
func (e *localEngine) closeOpened() (err error) {
	e.workspaces.trying.Wait()
	if e.servers != nil {
		err = e.servers.Close()
	}
	if e.storage != nil {
		err = errors.Join(err, e.storage.Close())
	}
	return err
}

// openModels opens the storage and the models, and returns the default model and the utility model
// of the configuration.
func (e *localEngine) openModels(ctx context.Context, o cli.OpenOptions, st store.Store) (general string, small local.Utility, err error) {
	if e.models.options, err = readModelOptions(o.ModelOptions); err != nil {
		return "", small, err
	}
	storage, err := openStorage(ctx, o, st)
	if err != nil {
		return "", small, err
	}
	e.storage = storage
	if general, err = configuredModel("default model", o.Model); err != nil {
		return "", small, err
	}
	e.models.useProviders(local.ProviderSource(st, e.storage.Secrets, general))
	if small.Name, err = configuredModel("utility model", o.Utility.UtilityModel); err != nil {
		return "", small, err
	}
	if small.Name != "" {
		small.Model = utilityModels{e.models}
	} else if o.Utility.SessionTitles {
		err = fmt.Errorf("%w session titles: they need a utility model; name one with --utility-model", perdure.Invalid)
	}
	small.Titles = o.Utility.SessionTitles
	return general, small, err
}

// openStorage opens the data outside the database. A reader needs only a part of it.
func openStorage(ctx context.Context, o cli.OpenOptions, st store.Store) (*local.DataDir, error) {
	if o.Access == cli.ToolsOnly {
		return &local.DataDir{}, nil
	}
	return local.OpenDataDir(ctx, local.DataDirConfig{Dir: o.Dir, Store: st, ReadOnly: o.Access == cli.Reading,
		Shared: o.Database != "", SQL: sqlLimits(o.Limits.Storage), Known: o.Known})
}

// newTools registers the tools. Tools that run commands, hold secrets or start agents are not in
// the default set: a session gets them by a capability.
func newTools(o cli.OpenOptions, w *workspaces, servers web.Config) (*tool.Registry, error) {
	tools, err := defaults.Registry(defaults.Config{
		Web: servers, Background: background.Config{MaxWait: span(o.Limits.Calls.MaxWait)},
	})
	if err != nil {
		return nil, err
	}
	tools.LogTo(o.Log)
	return tools, addShell(tools, o, w)
}

// addShell offers bash. A command that uses the store always has it, because it must find commands
// that other processes started; a session that may not run commands does not see it. Without a
// store it is there only on request. On request the sandbox is tested at once. A server tests it
// too, in the background, because the test starts this program again and nothing should wait for
// that.
func addShell(tools *tool.Registry, o cli.OpenOptions, w *workspaces) error {
	if o.Access == cli.ToolsOnly && !o.AllowShell {
		return nil
	}
	bash, err := newSandboxedRunner(o.Dir, o.Sandbox, o.Limits, w)
	var kept error
	switch {
	case err == nil && o.AllowShell:
		_, kept = bash.begin()
	case err == nil && o.Serve:
		w.trying.Go(func() {
			if _, kept := bash.begin(); kept != nil {
				o.Log.Warn("commands cannot run here", "error", kept)
			}
		})
	}
	switch {
	case kept != nil:
		return fmt.Errorf("%w: %w; choose another profile with --sandbox, or run commands with what can be enforced with --unsafe-sandbox", perdure.Unavailable, kept)
	case err == nil:
		tools.RegisterOptional(bash)
	case o.AllowShell:
		return fmt.Errorf("%w: %w", perdure.Unavailable, err)
	default:
		o.Log.Info("commands cannot run here", "error", err)
	}
	return nil
}

func (e *localEngine) CheckModel(name string) (string, error) {
	return e.models.check(context.Background(), name)
}

func (e *localEngine) UseModel(id perdure.SessionID, name string) { e.models.use(id, name) }

func (e *localEngine) Close() error {
	e.egress.Close()
	closePayments(e.cfg.Payments)
	return errors.Join(e.servers.Close(), e.door.close(), e.workspaces.close(), e.storage.Close(), e.store.Close())
}

// Package program is what perdure-temporal has beyond perdure: the flags that say where Temporal
// is, the command setup, and the checks that doctor makes of Temporal.
//
// It may import internal/app, engine/temporal, and the types of engines. The one thing to know: it
// never decides about work. The scheduler that it returns is engine/temporal's.
package program

import (
	"context"
	"fmt"
	"log/slog"
	"time"

	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/log"

	"github.com/perdure/perdure/engine"
	"github.com/perdure/perdure/engine/local"
	"github.com/perdure/perdure/engine/temporal"
	"github.com/perdure/perdure/internal/app"
	"github.com/perdure/perdure/internal/cli"
)

// reachTime is how long Temporal may take to answer setup and doctor. A new namespace can be used
// after some ten seconds.
const reachTime = 45 * time.Second

// options are the flags of every command that say where Temporal is. What they leave out comes from
// the environment and from Temporal's configuration file.
type options struct {
	Temporal          string   `help:"Address of Temporal: HOST:PORT. Default: TEMPORAL_ADDRESS, then Temporal's configuration file, then localhost:7233. The variables TEMPORAL_TLS_… and TEMPORAL_API_KEY are read, too." placeholder:"HOST:PORT"`
	TemporalNamespace string   `name:"temporal-namespace" help:"Namespace at Temporal. Default: TEMPORAL_NAMESPACE, then Temporal's configuration file, then default." placeholder:"NAME"`
	TemporalOffers    []string `name:"temporal-offers" help:"What this server offers to work that needs it, for instance gpu. It also does the work that needs nothing. Repeatable." placeholder:"WORD" env:"PERDURE_TEMPORAL_OFFERS"`
	TemporalNeeds     []need   `name:"temporal-needs" help:"Work that needs a server which offers WORD: runs of the tools whose names match, or sessions with a label and their runs. All servers need the same. Repeatable." placeholder:"tool:PATTERN=WORD|label:KEY=VALUE=WORD" env:"PERDURE_TEMPORAL_NEEDS"`
	TemporalPrefix    string   `name:"temporal-prefix" help:"First part of the names of workflows and task queues. Stores that share a namespace need different ones." placeholder:"WORD" env:"PERDURE_TEMPORAL_PREFIX" default:"perdure"`
}

// New returns the program.
func New() app.Program {
	o := &options{}
	return app.Program{
		CommandLine: cli.Program{Name: "perdure-temporal", Flags: o, Commands: []cli.Command{{
			Name: "setup", Group: "Start here", Run: &setupCommand{options: o},
			Help: "Register the namespace at Temporal where this client may, and wait until it can be used.",
		}}},
		Scheduler: o.scheduler, OpenChaos: o.openChaos, Diagnose: o.diagnose,
		SecretVariables: []string{"TEMPORAL_API_KEY"}, Modules: []string{"go.temporal.io/sdk"},
	}
}

// scheduler returns the scheduler of a process that works on a store. It does not connect.
func (o *options) scheduler() (app.Scheduler, error) {
	c, settings, err := o.dial(nil)
	if err != nil {
		return app.Scheduler{}, err
	}
	c.Close() // each engine has a client of its own, which ends with its work
	return app.Scheduler{Name: temporal.StoreName(settings.Namespace, o.TemporalPrefix), Shared: true, Open: o.open}, nil
}

// open opens an engine whose work Temporal gives out.
func (o *options) open(ctx context.Context, cfg local.Config) (engine.Engine, func(context.Context) error, error) {
	c, settings, err := o.dial(cfg.Log)
	if err != nil {
		return nil, nil, err
	}
	eng, err := temporal.Open(ctx, cfg, temporal.Config{Client: c, Namespace: settings.Namespace, Prefix: o.TemporalPrefix,
		Capabilities: o.TemporalOffers, CapabilityOf: o.capabilityOf, Drain: max(cfg.Timing.Drain, 0), Log: cfg.Log})
	if err != nil {
		c.Close()
		return nil, nil, err
	}
	return eng, func(ctx context.Context) error {
		defer c.Close()
		return eng.Run(ctx)
	}, nil
}

// dial returns a client for Temporal and its settings. It does not connect. A client without a log
// logs nothing.
func (o *options) dial(to *slog.Logger) (client.Client, client.Options, error) {
	if to == nil {
		to = slog.New(slog.DiscardHandler)
	}
	return temporal.Dial(temporal.DialOptions{
		Address: o.Temporal, Namespace: o.TemporalNamespace, Log: log.NewStructuredLogger(to),
	})
}

// setupCommand registers the namespace.
type setupCommand struct {
	options *options
}

// Run registers the namespace, and says what it did.
func (c *setupCommand) Run(ctx context.Context, out cli.Messages) error {
	at, settings, err := c.options.dial(nil)
	if err != nil {
		return err
	}
	defer at.Close()
	ctx, stop := context.WithTimeout(ctx, reachTime)
	defer stop()
	ended := out.NoteWait("Temporal at " + settings.HostPort)
	registered, err := temporal.Setup(ctx, at, settings.Namespace)
	ended()
	if err != nil {
		return fmt.Errorf("%s: %w", settings.HostPort, err)
	}
	did := "exists already: nothing was changed"
	if registered {
		did = "was registered, and can be used"
	}
	_, err = fmt.Fprintf(out.Out(), "namespace %s at %s %s\n", out.Safe(settings.Namespace), out.Safe(settings.HostPort), did)
	return err
}

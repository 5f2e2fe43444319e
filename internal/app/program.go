package app

import (
	"context"
	"fmt"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/engine"
	"github.com/perdure/perdure/engine/host"
	"github.com/perdure/perdure/engine/local"
	"github.com/perdure/perdure/internal/cli"
	"github.com/perdure/perdure/internal/cli/chaoscmd"
)

// Program is what differs between the programs that this package is. The zero value is perdure: its
// processes schedule their own work.
type Program struct {
	CommandLine cli.Program
	// Scheduler returns the scheduler of a process that works on a store. It is called before the
	// store is opened. nil: engine/local
	Scheduler func() (Scheduler, error)
	// OpenChaos connects the servers of the command chaos to the scheduler, in a way that it can
	// cut. nil: engine/local
	OpenChaos func() (ChaosScheduler, error)
	// Diagnose returns the checks of doctor beyond those of a data directory; nil: none
	Diagnose func(ctx context.Context, dataDir string) []cli.Check
	// SecretVariables are variables of the environment whose values no log may show, besides those
	// that this package reads.
	SecretVariables []string
	// Modules are modules whose versions the command version prints, too.
	Modules []string
}

// ChaosScheduler is an outside scheduler, as far as the faults of the command chaos need it.
type ChaosScheduler = chaoscmd.Scheduler

// Scheduler decides when and in which process the work of a store is done.
type Scheduler struct {
	Name string // as a store notes it
	// Shared says that it works only on a database that several processes share.
	Shared bool
	// Open opens an engine whose work this scheduler schedules, and starts nothing. run does the
	// work until its context ends, and returns when all of it has stopped. Lost: the process has
	// lost its work to others, and may open another engine.
	Open func(context.Context, local.Config) (eng engine.Engine, run func(context.Context) error, err error)
}

// scheduler returns the scheduler of a process. One that does not work on the store has no use for
// another than engine/local, which starts nothing by itself.
// Invalid: the scheduler needs a database, and none is named.
func (p Program) scheduler(access cli.AccessMode, database string) (Scheduler, error) {
	if p.Scheduler == nil || access != cli.Writing {
		return Scheduler{Name: host.LocalScheduler, Open: openLocal}, nil
	}
	s, err := p.Scheduler()
	if err == nil && s.Shared && database == "" {
		err = fmt.Errorf("%w store: %s works on a Postgres database, which its servers share: name it with --database or PERDURE_DATABASE; "+
			"perdure works on a data directory", perdure.Invalid, p.CommandLine.Name)
	}
	return s, err
}

// openLocal opens an engine that schedules its work in this process.
func openLocal(ctx context.Context, cfg local.Config) (engine.Engine, func(context.Context) error, error) {
	eng, err := local.Open(ctx, cfg)
	if err != nil {
		return nil, nil, err
	}
	return eng, eng.Run, nil
}

package chaoscmd

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/engine"
	"github.com/perdure/perdure/internal/chaos"
	"github.com/perdure/perdure/internal/pgserver"
)

const (
	meanUptime   = time.Second             // mean time from the first response of a server to the next fault
	maxPause     = 2500 * time.Millisecond // of a SIGSTOP: the lease of the server is one second
	restTime     = 2 * time.Minute         // for all work to end
	probeTime    = 2 * time.Second         // for the response to a readiness check
	exitTimeout  = 5 * time.Second         // for the last processes to end
	checkTimeout = 5 * time.Minute         // to read all data at the end
	childTime    = time.Minute             // for --effects-from, and for the ledger to start
)

// runDir is the working directory of one run, with everything that runs in it.
type runDir struct {
	Run
	dir         string
	ledgerPath  string            // address of the ledger
	servers     []server          // at least one
	database    string            // URL of the servers' database; empty: it is in the data directory
	ownDatabase *pgserver.Cluster // its Postgres server; nil: not started by chaos
	token       string
	scheduler   Scheduler // nil: the servers schedule their work themselves
	log         *os.File
	injector    *chaos.FaultInjector
}

func (p *runDir) path(name string) string { return filepath.Join(p.dir, name) }

// canFillDisk reports whether the fault disk is enabled.
func (p *runDir) canFillDisk() bool { return slices.Contains(p.Faults, string(chaos.Disk)) }

// server is where a server of the run is.
type server struct {
	addr string
	data string // its data directory
}

// newServer chooses an address, and creates a data directory with the token in the file that
// perdure serve reads.
func (p *runDir) newServer(n int) (server, error) {
	one := server{data: p.path("data")}
	if n > 0 {
		one.data = p.path(fmt.Sprintf("data%d", n+1))
	}
	var err error
	if one.addr, err = p.Addr(); err != nil {
		return one, err
	}
	if err := os.Mkdir(one.data, 0o700); err != nil {
		return one, fmt.Errorf("create a folder: %w", err)
	}
	return one, p.writeToken(one)
}

func (p *runDir) writeToken(one server) error {
	if err := os.WriteFile(filepath.Join(one.data, "token"), []byte(p.token+"\n"), 0o600); err != nil {
		return fmt.Errorf("write the token: %w", err)
	}
	return nil
}

// run executes the run, without printing its report.
func (p *runDir) run(ctx context.Context) (chaos.Report, error) {
	var err error
	if p.log, err = os.Create(p.path("server.log")); err != nil {
		return chaos.Report{}, fmt.Errorf("create the log of the server: %w", err)
	}
	defer p.log.Close()
	undo, err := p.prepareDisk()
	if err != nil {
		return chaos.Report{}, err
	}
	defer undo()
	closeLedger, err := p.openLedger(ctx)
	if err != nil {
		return chaos.Report{}, err
	}
	defer closeLedger()
	closeScheduler, err := p.openScheduler()
	if err != nil {
		return chaos.Report{}, err
	}
	defer closeScheduler()
	var clients []engine.Engine
	for _, one := range p.servers {
		far, err := p.Dial(one.addr, p.token, false)
		if err != nil {
			return chaos.Report{}, err
		}
		clients = append(clients, far)
	}
	p.injector = p.newInjector(p.servers...)
	defer p.injector.Abandon()
	witness := &chaos.ClientRecord{}
	if err := p.drive(ctx, clients, witness); err != nil {
		return chaos.Report{}, err
	}
	return p.checkInvariants(ctx, clients[0], witness)
}

// openScheduler connects to the outside scheduler, if the program has one, and returns the function
// that ends the connection.
func (p *runDir) openScheduler() (func(), error) {
	if p.OpenScheduler == nil {
		return func() {}, nil
	}
	var err error
	if p.scheduler, err = p.OpenScheduler(); err != nil {
		return nil, fmt.Errorf("reach the scheduler: %w", err)
	}
	return func() {
		if err := p.scheduler.Close(); err != nil {
			fmt.Fprintf(p.Stderr, "chaos: %v\n", err)
		}
	}, nil
}

// newInjector returns the configuration of the faults of some servers.
func (p *runDir) newInjector(servers ...server) *chaos.FaultInjector {
	s := &chaos.FaultInjector{
		Kills: p.Kills, Seed: p.Seed, MeanUptime: meanUptime, MaxPause: maxPause,
		Fill: p.fill, Free: p.free, StopDatabase: p.stopDatabase, StartDatabase: p.startDatabase,
		Observer: func(format string, args ...any) {
			fmt.Fprintf(p.Stderr, time.Now().Format("15:04:05.000 ")+format+"\n", args...)
		},
	}
	for _, one := range servers {
		s.Servers = append(s.Servers, &chaos.Server{
			Command: func() *exec.Cmd { return p.command(one) },
			Ready:   func(ctx context.Context) error { return p.ready(ctx, one) },
		})
	}
	for _, fault := range p.Faults {
		s.Faults = append(s.Faults, chaos.Fault(fault))
	}
	if p.scheduler != nil {
		s.CutScheduler, s.RestoreScheduler, s.WipeScheduler = p.scheduler.Cut, p.scheduler.Restore, p.scheduler.Wipe
	}
	if p.Outage > 0 {
		s.Faults, s.Kills, s.MinPause, s.MaxPause = []chaos.Fault{chaos.Cut}, 1, p.Outage, p.Outage
	}
	return s
}

// drive runs the sessions and injects faults, until all kills are done and all work has ended.
func (p *runDir) drive(ctx context.Context, clients []engine.Engine, witness *chaos.ClientRecord) error {
	mix, err := p.mix(ctx)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	driver := chaos.Driver{
		Engines: clients, Messages: mix.Messages, Sessions: p.Sessions, Seed: p.Seed, IdleTimeout: restTime, Record: witness,
		Agent: perdure.Agent{Name: "chaos", Model: "scripted:" + p.path("agent.yaml"),
			Metadata: map[string]string{"workspace": p.path("work")}},
	}
	enough := make(chan struct{})
	spoken := make(chan error, 1) // capacity 1: one result
	go func() {
		err := driver.Run(ctx, enough)
		if err != nil {
			cancel(err)
		}
		spoken <- err
	}()
	err = p.injector.Run(ctx)
	if err != nil {
		cancel(err)
	} else {
		fmt.Fprintln(p.Stderr, "no more faults: waiting for all work to end")
	}
	close(enough)
	if told := <-spoken; err == nil {
		err = told
	} // otherwise the error of the sessions is only a consequence
	return err
}

// mix starts the server once, without faults, to list its tools, and writes the script of the
// agent.
func (p *runDir) mix(ctx context.Context) (chaos.MixedAgent, error) {
	if p.Agent != "" {
		script, err := os.ReadFile(p.Agent)
		if err != nil {
			return chaos.MixedAgent{}, fmt.Errorf("read the agent: %w", err)
		}
		return chaos.MixedAgent{Messages: []string{"order"}}, os.WriteFile(p.path("agent.yaml"), script, 0o600)
	}
	calm := p.newInjector(p.servers[0])
	calm.Kills = 0
	defer calm.Abandon()
	if err := calm.Run(ctx); err != nil {
		return chaos.MixedAgent{}, err
	}
	eng, err := p.Dial(p.servers[0].addr, p.token, true)
	if err != nil {
		return chaos.MixedAgent{}, err
	}
	tools, err := eng.Tools().List(ctx)
	if err != nil {
		return chaos.MixedAgent{}, fmt.Errorf("list the tools of the server: %w", err)
	}
	mix, err := chaos.NewMixedAgent(tools, quote(p.Program)+" chaos-part effect --ledger "+quote(p.ledgerPath), p.Tools)
	if err == nil {
		err = os.WriteFile(p.path("agent.yaml"), mix.Script, 0o600)
	}
	return mix, errors.Join(err, calm.End(ctx))
}

// command returns the command that starts a server.
func (p *runDir) command(one server) *exec.Cmd {
	argv := p.Command
	if len(argv) == 0 {
		argv = []string{p.Program, "chaos-part", "serve", "--sabotage", p.Sabotage}
	}
	cmd := exec.Command(argv[0], argv[1:]...)
	cmd.Env = append(p.environ(), "PERDURE_LISTEN="+one.addr, "PERDURE_ADDR="+one.addr, "PERDURE_TOKEN="+p.token,
		"PERDURE_DATA="+one.data)
	cmd.Stdout, cmd.Stderr = p.log, p.log
	cmd.SysProcAttr = chaos.SetProcessGroup()
	if _, err := cmd.StdinPipe(); err != nil { // the pipe is open as long as this process runs: the server ends with it
		fmt.Fprintf(p.Stderr, "chaos: %v\n", err)
	}
	return cmd
}

// environ returns the environment of child processes, without variables that would direct them to
// another server.
func (p *runDir) environ() []string {
	env := slices.DeleteFunc(os.Environ(), func(pair string) bool { return strings.HasPrefix(pair, "PERDURE_") })
	if p.database != "" {
		env = append(env, "PERDURE_DATABASE="+p.database)
	}
	if p.scheduler != nil {
		env = append(env, p.scheduler.Environ()...)
	}
	return append(env, chaos.LedgerVariable+"="+p.ledgerPath)
}

// ready checks that a server responds.
func (p *runDir) ready(ctx context.Context, one server) error {
	ctx, cancel := context.WithTimeout(ctx, probeTime)
	defer cancel()
	eng, err := p.Dial(one.addr, p.token, true)
	if err == nil {
		_, err = eng.Sessions().List(ctx, 1)
	}
	return err
}

// openLedger starts the ledger, and returns the function that stops it.
func (p *runDir) openLedger(ctx context.Context) (func(), error) {
	cmd := exec.Command(p.Program, "chaos-part", "ledger", p.path("ledger.jsonl"))
	cmd.Env, cmd.Stderr, cmd.SysProcAttr = p.environ(), p.Stderr, chaos.SetProcessGroup()
	in, err := cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("start the ledger: %w", err)
	}
	ended := func() {
		_ = in.Close() // this ends the ledger
		_ = cmd.Wait()
	}
	opened := make(chan error, 1) // capacity 1: one line
	go func() {
		line, err := bufio.NewReader(out).ReadString('\n')
		p.ledgerPath = strings.TrimSpace(line)
		opened <- err
		_, _ = io.Copy(io.Discard, out)
	}()
	select {
	case err = <-opened:
	case <-time.After(childTime):
		err = fmt.Errorf("not within %s", childTime)
	case <-ctx.Done():
		err = context.Cause(ctx)
	}
	if err != nil {
		ended()
		return nil, fmt.Errorf("open the ledger: %w", err)
	}
	return ended, nil
}

package cli

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/netip"
	"time"

	"github.com/perdure/perdure/internal/cli/demo"
)

type demoCommand struct {
	Crash     demoCrash     `cmd:"" help:"Kill a running server repeatedly, then count lost and repeated work."`
	Agents    demoAgents    `cmd:"" help:"Run an agent with subagents, which a budget pauses until it is raised."`
	Approvals demoApprovals `cmd:"" help:"Run an agent that pays invoices and needs approval for large ones."`
	Child     demoChild     `cmd:"" hidden:"" help:"Run the process that the demo kills."`
}

// demoFolder are the flags of all demos.
type demoFolder struct {
	Dir    string `help:"Working directory; recreated for each run." default:".perdure-demo" type:"path"`
	Output string `short:"o" help:"Output format: text (the story and the result) or json (the result only)." enum:"text,json" default:"text"`
	Keep   bool   `help:"Keep the data afterwards."`
	demoPages
}

// demoPages are the flags of the web UI of a demo.
type demoPages struct {
	UI     bool          `name:"ui" help:"Show the demo in the web UI while it happens: print a link that signs a browser in, and open it on a terminal."`
	Addr   string        `help:"Address of the web UI, on this machine. Default: 127.0.0.1 with a free port." placeholder:"HOST:PORT"`
	Wait   time.Duration `help:"How long to wait for the browser before the demo begins, and how long its pages stay after it." placeholder:"DURATION" default:"60s"`
	NoOpen bool          `name:"no-open" help:"Only print the link."`
}

// run runs a demo with its configuration. typed are the lines of the user, for a demo that asks or
// has pages; nil: there is no terminal.
func (p demoFolder) run(ctx context.Context, a *app, asks bool, run func(show demo.Options, typed <-chan string) error) error {
	show := a.Demo
	show.Dir, show.JSON, show.Keep = p.Dir, p.Output == "json", p.Keep
	show.Version, show.Out, show.Stderr, show.Log = a.Version.Version, a.out, a.Stderr, a.log
	var typed <-chan string
	if (asks || p.UI) && a.Terminal.Stdin && !a.flags.NoInput && !show.JSON {
		typed = a.readLines(ctx)
	}
	ended := false
	if p.UI {
		pages, err := p.pages(a, typed, func() { ended = true })
		if err != nil {
			return err
		}
		show.Pages = pages
	}
	err := run(show, typed)
	if ended && err == nil && context.Cause(ctx) != nil {
		return exit(exitOK) // the interrupt has closed the pages, after the end of the demo
	}
	return err
}

// pages returns the web UI of a demo.
func (p demoPages) pages(a *app, typed <-chan string, ended func()) (pages *demo.Pages, err error) {
	if p.Wait < 0 {
		return nil, usageError("--wait must not be negative", "give a duration such as 60s, or 0 to wait for no browser")
	}
	if err := checkLoopback(p.Addr); err != nil {
		return nil, err
	}
	pages = &demo.Pages{Addr: p.Addr, Wait: p.Wait, Typed: typed}
	if p.Addr == "" {
		if pages.Addr, err = a.Demo.FreeAddr(); err != nil {
			return nil, err
		}
	}
	pages.Ended = func() {
		a.stopCode.Store(exitOK)
		ended()
	}
	pages.Link = func(ctx context.Context, dir string) (string, error) {
		link, err := a.signInLink(ctx, OpenOptions{Access: Writing, Dir: dir})
		return link.URL, err
	}
	if !p.NoOpen && !a.flags.NoInput && a.Terminal.Stdout {
		pages.Open = a.OpenBrowser
	}
	return pages, nil
}

type demoCrash struct {
	Kills int   `help:"Number of kills." default:"5"`
	Seed  int64 `help:"Seed of the random times of the kills." default:"1"`
	demoFolder
}

// Run runs the demo.
func (c *demoCrash) Run(ctx context.Context, a *app) error {
	if c.Kills < 0 {
		return usageError("--kills is negative", "give 0 or more")
	}
	return c.run(ctx, a, false, func(show demo.Options, _ <-chan string) error {
		return demo.Crash{Options: show, Kills: c.Kills, Seed: c.Seed}.Run(ctx)
	})
}

type demoAgents struct{ demoFolder }

// Run runs the demo.
func (c *demoAgents) Run(ctx context.Context, a *app) error {
	return c.run(ctx, a, false, func(show demo.Options, _ <-chan string) error { return demo.Agents{Options: show}.Run(ctx) })
}

type demoApprovals struct{ demoFolder }

// Run runs the demo, and reads answers from the terminal.
func (c *demoApprovals) Run(ctx context.Context, a *app) error {
	return c.run(ctx, a, true, func(show demo.Options, typed <-chan string) error {
		return demo.Approvals{Options: show, Typed: typed}.Run(ctx)
	})
}

// checkLoopback refuses a typed address that other machines can reach. Empty: none was typed.
func checkLoopback(typed string) error {
	host, _, err := net.SplitHostPort(typed)
	if typed == "" || err == nil && host == "localhost" {
		return nil
	}
	if addr, parsed := netip.ParseAddr(host); err == nil && parsed == nil && addr.IsLoopback() {
		return nil
	}
	return usageError("--addr "+typed+" is not an address of this machine only, so other machines can reach it",
		"give HOST:PORT with a loopback address, for instance "+defaultAddr)
}

// DemoChildOptions configures the process that the demo kills.
type DemoChildOptions struct {
	Dir    string // of the demo
	Finish bool   // start no new orders, finish the open ones, and exit
	Pages  string // address to serve the web UI on; empty: none
	Out    io.Writer
	Log    *slog.Logger
}

type demoChild struct {
	Finish bool   `help:"Start no new orders, finish the open ones, and exit."`
	Pages  string `help:"Address to serve the web UI on."`
}

// Run works until it is killed.
func (c *demoChild) Run(ctx context.Context, a *app) error {
	return a.DemoChild(ctx, DemoChildOptions{Dir: a.flags.Data, Finish: c.Finish, Pages: c.Pages, Out: a.out, Log: a.log})
}

type chaosCommand struct {
	Kills       int           `help:"Number of kills." default:"100"`
	Seed        int64         `help:"Seed of the random prompts, faults and times." default:"1"`
	Sessions    int           `help:"Number of concurrent sessions." default:"20"`
	Store       string        `help:"Store of the server: sqlite (in its data directory) or postgres (the database of --database, or else a temporary Postgres server)." placeholder:"STORE" enum:"sqlite,postgres," default:""`
	Workers     int           `help:"Number of servers on the same database. Each fault hits one of them, and the others take over its work. More than one requires Postgres." default:"1"`
	Faults      []string      `help:"Faults to inject: kill, stop, term, disk, away, and with an outside scheduler cut and wipe." placeholder:"FAULT" default:"kill,stop,term"`
	Outage      time.Duration `help:"Instead of these faults, one outage of the outside scheduler that lasts this long." placeholder:"DURATION"`
	Agent       string        `help:"Script of the model, instead of the built-in one. It receives: order NUMBER." placeholder:"FILE" type:"path"`
	Tools       []string      `help:"Call only these tools." placeholder:"TOOL"`
	EffectsFrom string        `help:"Command that lists the effects after the run, one line each: CALL_ID KEY." placeholder:"COMMAND"`
	Dir         string        `help:"Working directory, which must not exist. Default: a temporary folder." placeholder:"DIR" type:"path"`
	Keep        bool          `help:"Keep the data afterwards. After a violation it is always kept."`
	Output      string        `short:"o" help:"Output format: table or json." placeholder:"FORMAT" enum:"table,json" default:"table"`
	Sabotage    string        `hidden:"" help:"For tests: how the server violates its guarantees." enum:",claim,settle,deliver" default:""`
	Command     []string      `arg:"" optional:"" help:"Command that starts the server to test. It must serve the API on PERDURE_LISTEN."`
}

// Run injects faults into a server and checks the result.
func (c *chaosCommand) Run(ctx context.Context, a *app) error {
	s := a.Chaos
	s.Kills, s.Seed, s.Sessions, s.Agent, s.Tools, s.Faults = c.Kills, c.Seed, c.Sessions, c.Agent, c.Tools, c.Faults
	s.EffectsFrom, s.Dir, s.Keep, s.JSON, s.Sabotage = c.EffectsFrom, c.Dir, c.Keep, c.Output == "json", c.Sabotage
	s.Command, s.Store, s.Database, s.Workers, s.Outage = c.Command, c.Store, a.flags.Database, c.Workers, c.Outage
	s.Out, s.Stderr = a.out, a.Stderr
	if what, todo := s.CheckFlags(); what != "" {
		return usageError(what, todo)
	}
	return s.Run(ctx)
}

// The processes that chaos starts besides the server of a user.
const (
	ChaosServe  = "serve"
	ChaosLedger = "ledger"
	ChaosEffect = "effect"
)

// ChaosChild configures one of these processes.
type ChaosChild struct {
	Name     string
	Dir      string // the data directory; of the server
	File     string // of the ledger
	Ledger   string // address of the ledger; of an effect
	Effect   string // name of the effect
	Sabotage string
	Out      io.Writer
	Log      *slog.Logger
}

// chaosChild is hidden: only chaos starts these processes.
type chaosChild struct {
	Serve  chaosServe  `cmd:"" help:"Run the server under test."`
	Ledger chaosLedger `cmd:"" help:"Run the ledger of effects."`
	Effect chaosEffect `cmd:"" help:"Record one effect."`
}

type chaosServe struct {
	Sabotage string `help:"How it violates its guarantees."`
}

// Run serves until it is killed or stopped; a stop is a normal end, as for perdure serve.
func (c *chaosServe) Run(ctx context.Context, a *app) error {
	err := a.ChaosPart(ctx, ChaosChild{Name: ChaosServe, Dir: a.flags.Data, Sabotage: c.Sabotage, Out: a.out,
		Log: a.log})
	if errors.Is(context.Cause(ctx), errInterrupted) && (err == nil || errors.Is(err, context.Canceled)) {
		return exit(exitOK)
	}
	return err
}

type chaosLedger struct {
	File string `arg:"" help:"File of the ledger."`
}

// Run records lines until the process that started it is gone.
func (c *chaosLedger) Run(ctx context.Context, a *app) error {
	return a.ChaosPart(ctx, ChaosChild{Name: ChaosLedger, File: c.File, Out: a.out, Log: a.log})
}

type chaosEffect struct {
	Ledger string `help:"Address of the ledger."`
	Effect string `help:"Name of the effect."`
}

// Run writes a line.
func (c *chaosEffect) Run(ctx context.Context, a *app) error {
	return a.ChaosPart(ctx, ChaosChild{Name: ChaosEffect, Ledger: c.Ledger, Effect: c.Effect, Out: a.out, Log: a.log})
}

package cli

import (
	"context"
	"io"
	"log/slog"
)

type demoCommand struct {
	Crash demoCrash `cmd:"" help:"Kill a working runtime again and again, and count what was lost or repeated."`
	Child demoChild `cmd:"" hidden:"" help:"The process that the demo kills."`
}

type demoCrash struct {
	Kills  int    `help:"How often it is killed." default:"5"`
	Seed   int64  `help:"From which the moments of the kills come." default:"1"`
	Dir    string `help:"Where it works; made anew each time." default:".perdure-demo" type:"path"`
	Output string `short:"o" help:"text: the story and the verdict. json: the verdict only." enum:"text,json" default:"text"`
	Keep   bool   `help:"Keep the data afterwards."`
}

// Run runs the demo.
func (c *demoCrash) Run(ctx context.Context, a *app) error {
	if c.Kills < 0 {
		return misuse("--kills is below zero", "give 0 or more")
	}
	crash := a.Demo
	crash.Dir, crash.Kills, crash.Seed, crash.JSON, crash.Keep = c.Dir, c.Kills, c.Seed, c.Output == "json", c.Keep
	crash.Version, crash.Out, crash.Talk = a.Version.Version, a.out, a.Stderr
	return crash.Run(ctx)
}

// DemoWork is what the process that the demo kills works on.
type DemoWork struct {
	Dir    string // of the demo
	Finish bool   // take no new orders, finish what there is, and end
	Out    io.Writer
	Log    *slog.Logger
}

type demoChild struct {
	Finish bool `help:"Take no new orders, finish what there is, and end."`
}

// Run works until it is killed.
func (c *demoChild) Run(ctx context.Context, a *app) error {
	return a.DemoChild(ctx, DemoWork{Dir: a.flags.Data, Finish: c.Finish, Out: a.out, Log: a.log})
}

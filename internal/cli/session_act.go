package cli

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/engine"
)

type sessionNew struct {
	Model        string        `help:"Which model answers: openai:NAME, anthropic:NAME, or scripted:FILE." placeholder:"MODEL" required:""`
	BaseURL      string        `name:"base-url" help:"The server that is asked instead of the provider's own." placeholder:"URL"`
	Workspace    string        `help:"The folder that holds the session's files. Without it the data directory keeps them." placeholder:"DIR" type:"path"`
	Capability   []string      `help:"Tools that none has by default: session_storage, session_sql, session_resources, session_schedule, subagents. Can be given several times." placeholder:"NAME"`
	SoftBudget   time.Duration `name:"soft-budget" help:"How long a call may keep its turn waiting before it goes on in the background; a negative one means for ever. Default: 10m." placeholder:"DURATION"`
	Instructions string        `help:"The system prompt." placeholder:"TEXT"`
	Title        string        `help:"What it is called." placeholder:"TEXT"`
	DryRun       bool          `help:"Only say what would be done."`
	output
}

// Run starts a session in which nothing was said yet.
func (c *sessionNew) Run(ctx context.Context, a *app) error {
	if err := c.suits(engine.Session{}); err != nil {
		return err
	}
	talk := &runCommand{Model: c.Model, BaseURL: c.BaseURL, Workspace: c.Workspace, Capability: c.Capability, SoftBudget: c.SoftBudget, Instructions: c.Instructions}
	return a.with(ctx, writing(c.DryRun), func(eng Engine) error {
		agent, err := talk.agent(a, eng)
		if err != nil {
			return err
		}
		agent.Title = clip(inLine(c.Title), cellChars)
		if c.DryRun {
			a.say("would start a session with %s", a.line(agent.Model, cellChars))
			return nil
		}
		s, err := eng.NewSession(ctx, agent)
		if err != nil {
			return fmt.Errorf("start a session: %w", err)
		}
		a.say("%s is there; speak in it with: %s run %s--session %s PROMPT", s.ID, program, a.dirFlag(), s.ID)
		return c.show(ctx, a, shown{string(s.ID), s, func() { a.brief(s) }})
	})
}

type sessionInterrupt struct {
	Session string `arg:"" help:"Its id, or a unique beginning of it, or its title, or last."`
	Why     string `help:"Why; it stands in the journal." placeholder:"TEXT"`
	DryRun  bool   `help:"Only say what would be done."`
	output
}

// Run ends the turn that runs. What works in the background stays.
func (c *sessionInterrupt) Run(ctx context.Context, a *app) error {
	if err := c.suits(engine.Session{}); err != nil {
		return err
	}
	return a.with(ctx, writing(c.DryRun), func(eng Engine) error {
		s, err := a.session(ctx, eng, c.Session)
		switch {
		case err != nil:
			return err
		case s.Status != perdure.SessionActive:
			a.say("nothing was done: no turn of %s runs, which is %s", s.ID, s.Status)
			return c.show(ctx, a, shown{string(s.ID), s, func() { a.brief(s) }})
		case c.DryRun:
			a.say("would interrupt the turn of %s: %s", s.ID, a.line(s.Title, cellChars))
			return nil
		}
		if err := eng.Interrupt(ctx, s.ID, operator, c.Why); err != nil {
			return err
		}
		switch now, err := eng.Session(ctx, s.ID); {
		case err == nil:
			s = now
		case !errors.Is(err, perdure.Unavailable): // else who had it is gone with the turn: what it was told stands
			return fmt.Errorf("read the session: %w", err)
		}
		a.say("the turn of %s is told to end; %s", s.ID, leftBehind(s.OpenTasks))
		return c.show(ctx, a, shown{string(s.ID), s, func() { a.brief(s) }})
	})
}

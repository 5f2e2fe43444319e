package cli

import (
	"context"
	"errors"
	"fmt"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/engine"
)

type sessionPause struct {
	Session string `arg:"" help:"Its id, or a unique beginning of it, or its title, or last."`
	Why     string `help:"Why; it stands in the journal." placeholder:"TEXT"`
	DryRun  bool   `help:"Only say what would be done."`
	output
}

// Run pauses a session.
func (c *sessionPause) Run(ctx context.Context, a *app) error {
	if err := c.suits(engine.Session{}); err != nil {
		return err
	}
	return a.with(ctx, writing(c.DryRun), func(eng Engine) error {
		s, err := a.session(ctx, eng, c.Session)
		if err != nil {
			return err
		}
		if c.DryRun {
			a.say("would pause %s, which is %s: %s", s.ID, s.Status, a.line(s.Title, cellChars))
			return nil
		}
		if err := eng.PauseSession(ctx, s.ID, operator, c.Why); err != nil {
			return err
		}
		switch now, err := eng.Session(ctx, s.ID); {
		case err == nil:
			s = now
		case !errors.Is(err, perdure.Unavailable): // else who had it is gone meanwhile: what it was told stands
			return fmt.Errorf("read the session: %w", err)
		}
		a.say("nothing new begins in %s; what has begun ends by itself, and what comes in waits", s.ID)
		if s.OpenTasks > 0 {
			a.say("%s in the background go on; %s task cancel %s--all --session %s ends them", count(s.OpenTasks, "task"), program, a.place(), s.ID)
		}
		a.say("it goes on with: %s", a.resumeLine(s.ID))
		return c.show(ctx, a, shown{string(s.ID), s, func() { a.brief(s) }})
	})
}

type sessionResume struct {
	Session string `arg:"" help:"Its id, or a unique beginning of it, or its title, or last."`
	DryRun  bool   `help:"Only say what would be done."`
	output
}

// Run lets a session go on.
func (c *sessionResume) Run(ctx context.Context, a *app) error {
	if err := c.suits(engine.Session{}); err != nil {
		return err
	}
	return a.with(ctx, writing(c.DryRun), func(eng Engine) error {
		s, err := a.session(ctx, eng, c.Session)
		if err != nil {
			return err
		}
		if c.DryRun {
			a.say("would let %s go on, which is %s: %s", s.ID, s.Status, a.line(s.Title, cellChars))
			return nil
		}
		if err := eng.ResumeSession(ctx, s.ID, operator); err != nil {
			return err
		}
		id := s.ID
		if s, err = eng.Session(ctx, id); err != nil { // it was let go on all the same
			a.say("%s may go on; how it stands now could not be read: %v", id, err)
			return nil
		}
		if s.Status == perdure.SessionPaused && s.Paused == nil && a.halted(ctx, eng, id) {
			a.say("nobody pauses %s any more, and a budget still does: %s budget show %ssession %s says which, and a higher limit lets it go on", id, program, a.place(), id)
			return c.quietly(ctx, a, string(id), s)
		}
		a.say("%s may go on; where nobody works on it, it does with: %s run %s--session %s", id, program, a.place(), id)
		return c.quietly(ctx, a, string(id), s)
	})
}

// halted reports whether a budget stops a session. Its row may not say yet that none does.
func (a *app) halted(ctx context.Context, eng Engine, id perdure.SessionID) bool {
	fold, err := foldOf(ctx, eng, id)
	return err == nil && fold.Halt != nil
}

// resumeLine is the command that lets a session go on.
func (a *app) resumeLine(id perdure.SessionID) string {
	return program + " session resume " + a.place() + string(id)
}

// pauseLine says what keeps a session from going on; empty: nothing.
func pauseLine(s *perdure.Session) string {
	switch {
	case s.Paused != nil && s.Halt != nil:
		return "by " + s.Paused.By + because(s.Paused.Reason) + "; and " + s.Halt.Why
	case s.Paused != nil:
		return "by " + s.Paused.By + because(s.Paused.Reason)
	case s.Halt != nil:
		return s.Halt.Why
	}
	return ""
}

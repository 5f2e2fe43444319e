package cli

import (
	"context"
	"errors"
	"fmt"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/engine"
)

type sessionPause struct {
	Session string `arg:"" help:"Session: id, unique id prefix, title, or last."`
	Why     string `help:"Reason; it is recorded in the journal." placeholder:"TEXT"`
	actFlags
}

// Run pauses a session.
func (c *sessionPause) Run(ctx context.Context, a *app) error {
	return c.onSession(ctx, a, c.Session, engine.Session{}, func(eng Engine, s engine.Session) error {
		if c.DryRun {
			a.message("would pause %s, which is %s: %s", s.ID, s.Status, a.oneLine(s.Title, cellChars))
			return nil
		}
		if err := eng.Sessions().Pause(ctx, s.ID, operator, c.Why); err != nil {
			return err
		}
		switch now, err := eng.Sessions().Get(ctx, s.ID); {
		case err == nil:
			s = now
		// unavailable: the server exited meanwhile, but the pause was recorded
		case !errors.Is(err, perdure.Unavailable):
			return fmt.Errorf("read the session: %w", err)
		}
		a.message("paused %s: running work ends normally, and new input waits", s.ID)
		if s.OpenTasks > 0 {
			a.message("%s in the background keep running; cancel them with: %s task cancel %s--all --session %s",
				count(s.OpenTasks, "task"), program, a.storeFlags(), s.ID)
		}
		a.message("resume it with: %s", sessionText{a}.resumeLine(s.ID))
		return c.show(ctx, a, outputObject{string(s.ID), s, func() { sessionText{a}.forkSummary(s) }})
	})
}

type sessionResume struct {
	Session string `arg:"" help:"Session: id, unique id prefix, title, or last."`
	actFlags
}

// Run resumes a session.
func (c *sessionResume) Run(ctx context.Context, a *app) error {
	return c.onSession(ctx, a, c.Session, engine.Session{}, func(eng Engine, s engine.Session) error {
		if c.DryRun {
			a.message("would resume %s, which is %s: %s", s.ID, s.Status, a.oneLine(s.Title, cellChars))
			return nil
		}
		if err := eng.Sessions().Resume(ctx, s.ID, operator); err != nil {
			return err
		}
		id := s.ID
		s, err := eng.Sessions().Get(ctx, id)
		if err != nil { // the session was resumed nevertheless
			a.message("resumed %s, but could not read its state: %v", id, err)
			return nil
		}
		if s.Status == perdure.SessionPaused && s.Paused == nil && (sessionText{a}).pausedByBudget(ctx, eng, id) {
			a.message("resumed %s, but a budget still pauses it: see %s budget show %ssession %s, and raise the limit", id,
				program, a.storeFlags(), id)
			return c.showForPrograms(ctx, a, string(id), s)
		}
		a.message("resumed %s; if no server is running, continue with: %s run %s--session %s", id, program, a.storeFlags(), id)
		return c.showForPrograms(ctx, a, string(id), s)
	})
}

// pausedByBudget reports whether a budget stops a session. The row of the session may be older than
// the journal.
func (a sessionText) pausedByBudget(ctx context.Context, eng Engine, id perdure.SessionID) bool {
	fold, err := foldSession(ctx, eng, id)
	return err == nil && fold.Halt != nil
}

// resumeLine returns the command that resumes a session.
func (a sessionText) resumeLine(id perdure.SessionID) string {
	return program + " session resume " + a.storeFlags() + string(id)
}

// pauseLine says why a session is paused; empty: it is not.
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

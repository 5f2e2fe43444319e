package cli

import (
	"context"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/engine"
)

type sessionRename struct {
	Session string `arg:"" help:"Session: id, unique id prefix, title, or last."`
	Title   string `arg:"" help:"New title, at most 512 bytes."`
	actFlags
}

// Run changes the title of a session.
func (c *sessionRename) Run(ctx context.Context, a *app) error {
	if err := perdure.CheckTitle(c.Title); err != nil {
		return usageError(err.Error(), program+" session rename SESSION TITLE")
	}
	return c.onSession(ctx, a, c.Session, engine.Session{}, func(eng Engine, s engine.Session) error {
		if c.DryRun {
			a.message("would rename %s from %s to %s", s.ID, quote(a.oneLine(s.Title, cellChars)), quote(a.oneLine(c.Title, cellChars)))
			return nil
		}
		now, err := eng.Sessions().Change(ctx, s.ID, engine.SessionChange{Title: &c.Title, By: operator})
		if err != nil {
			return err
		}
		a.message("renamed %s to %s", now.ID, quote(a.oneLine(now.Title, cellChars)))
		return c.show(ctx, a, outputObject{string(now.ID), now, func() { sessionText{a}.forkSummary(now) }})
	})
}

package cli

import (
	"context"
	"fmt"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/engine"
)

type sessionMove struct {
	Session string `arg:"" help:"Session: id, unique id prefix, title, or last."`
	Yes     bool   `short:"y" help:"Do not ask for confirmation."`
	DryRun  bool   `help:"Print what would be moved, and what would be left behind."`
	outputFlags
}

// Run moves a session from another home to that of the server, after a confirmation.
func (c *sessionMove) Run(ctx context.Context, a *app) error {
	return actFlags{c.DryRun, c.outputFlags}.onSession(ctx, a, c.Session, engine.Session{}, func(eng Engine, s engine.Session) error {
		left := ""
		if s.Home != nil && !s.Home.Here {
			left = homeName(*s.Home)
			a.message("%s is bound to %s. Its databases, large images and workspace files stay there:", s.ID, left)
			a.message("here it has none of them, unless you copy them. What it changes here is not copied back.")
		}
		switch {
		case left == "":
			a.message("nothing was done: this server can work on %s", s.ID)
			return c.show(ctx, a, outputObject{string(s.ID), s, func() { sessionText{a}.forkSummary(s) }})
		case c.DryRun:
			a.message("would move %s to the home of this server", s.ID)
			return nil
		case !c.Yes && !a.Terminal.Stdin:
			return &userError{
				code: exitApproval, message: "confirmation is needed, but there is no terminal to ask; nothing was moved",
				hint: "confirm with --yes: " + moveLine(a, s.ID) + " --yes",
			}
		}
		if err := a.confirmName(ctx, c.Yes, "move "+string(s.ID)+" without its files?", lastDigits(string(s.ID))); err != nil {
			return err
		}
		now, err := eng.Sessions().MoveHere(ctx, s.ID)
		if err != nil {
			return err
		}
		a.message("moved %s to the home of this server; its files stay at %s", s.ID, left)
		return c.show(ctx, a, outputObject{string(now.ID), now, func() { sessionText{a}.forkSummary(now) }})
	})
}

// moveLine returns the command that moves a session to the home of this server.
func moveLine(a *app, id perdure.SessionID) string {
	return program + " session move " + a.storeFlags() + string(id)
}

// homeName names a home for people.
func homeName(h engine.SessionHome) string {
	if h.Host == "" {
		return "home " + string(h.ID)
	}
	return fmt.Sprintf("home %s on %s", h.ID, h.Host)
}

// homeLine describes where the files of a session are; empty: every server reaches them.
func homeLine(h *engine.SessionHome, now clock) string {
	switch {
	case h == nil:
		return ""
	case h.Here:
		return string(h.ID) + ", this server"
	case h.WaitsSince.IsZero():
		return string(h.ID) + " on " + h.Host
	}
	return "waits for " + homeName(*h) + " since " + moment(h.WaitsSince, now)
}

// waitColor is the color of homeLine.
func waitColor(h *engine.SessionHome) color {
	if h != nil && !h.WaitsSince.IsZero() {
		return yellow
	}
	return ""
}

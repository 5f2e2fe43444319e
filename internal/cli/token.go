package cli

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/engine"
)

type tokenCommand struct {
	Create tokenCreate `cmd:"" help:"Create an API token. Its secret is printed once, to stdout, and not stored."`
	List   tokenList   `cmd:"" aliases:"ls" help:"List tokens, newest first, and when they were last used."`
	Revoke tokenRevoke `cmd:"" help:"Revoke a token permanently. Its open connections end within a second."`
}

type tokenCreate struct {
	Name    string   `arg:"" help:"Name, for instance ci or laptop of Ada."`
	Scope   []string `help:"Permissions: read, write, approve or admin. Repeatable. Default: read and write." placeholder:"SCOPE" enum:"read,write,approve,admin"`
	Org     string   `help:"Org of the bearer, which limits what it can see. Default: default." placeholder:"ORG"`
	User    string   `help:"User of the bearer, whose budgets apply." placeholder:"USER"`
	Agent   bool     `help:"For a program that a model controls: the token can neither approve nor resolve."`
	Expires string   `help:"Expiry: a duration such as 12h or 90d, or a time such as 2027-01-31T00:00:00Z. Default: never." placeholder:"WHEN"`
	actFlags
}

// expiry parses --expires. Zero: never.
func (c *tokenCreate) expiry(now time.Time) (time.Time, error) {
	if c.Expires == "" {
		return time.Time{}, nil
	}
	if at, err := time.Parse(time.RFC3339, c.Expires); err == nil {
		return at, nil
	}
	var d time.Duration
	if days, ok := strings.CutSuffix(c.Expires, "d"); ok {
		var n int
		if _, err := fmt.Sscanf(days+" end", "%d end", &n); err == nil && n > 0 && n <= 36500 {
			d = time.Duration(n) * 24 * time.Hour
		}
	} else if span, err := time.ParseDuration(c.Expires); err == nil {
		d = span
	}
	if d <= 0 {
		return time.Time{}, usageError(fmt.Sprintf("--expires %q is not a future time", c.Expires),
			"use for instance 12h, 90d or 2027-01-31T00:00:00Z")
	}
	return now.Add(d), nil
}

// Run creates a token.
func (c *tokenCreate) Run(ctx context.Context, a *app) error {
	expires, err := c.expiry(time.Now())
	if err != nil {
		return err
	}
	if err := errors.Join(c.checkShowsSecret(), c.checkFields(engine.IssuedToken{})); err != nil {
		return err
	}
	if c.DryRun {
		a.message("would create a token %q", a.oneLine(c.Name, cellChars))
		return nil
	}
	return a.with(ctx, writesAccess(false), func(eng Engine) error {
		made, err := eng.Tokens().Create(ctx, engine.TokenRequest{
			Name: c.Name, Org: c.Org, User: c.User, Scopes: c.Scope, Agent: c.Agent, Expires: expires, By: operator,
		})
		if errors.Is(err, perdure.Conflict) { // the lost response contained the secret
			return &userError{err: err, message: err.Error(),
				hint: program + " token revoke " + a.storeFlags() +
					"TOKEN  revokes the token that was created; then create another one"}
		}
		if err != nil {
			return err
		}
		a.message("created %s of org %s with the scopes %s; its secret is shown only once:", made.ID,
			a.oneLine(made.Org, cellChars), strings.Join(made.Scopes, ", "))
		return c.show(ctx, a, outputObject{string(made.ID), made, func() { fmt.Fprintln(a.out, a.text(made.Secret)) }})
	})
}

type tokenList struct {
	listFlags
}

// Run lists tokens.
func (c *tokenList) Run(ctx context.Context, a *app) error {
	return a.read(ctx, func(eng Engine) error {
		found, err := eng.Tokens().List(ctx)
		if err != nil {
			return err
		}
		found, err = newestWithin(c.listFlags, a.now().Time, found, func(t engine.Token) time.Time { return t.CreatedAt })
		if err != nil {
			return err
		}
		return tokens(a.now()).print(ctx, a, c.outputFlags, found)
	})
}

// tokens describes how tokens are listed.
func tokens(now clock) outputList[engine.Token] {
	when := func(t time.Time) string {
		if t.IsZero() {
			return "never"
		}
		return moment(t, now)
	}
	return outputList[engine.Token]{
		noun: "tokens",
		head: []string{"TOKEN", "NAME", "STATE", "ORG", "USER", "SCOPES", "USED", "EXPIRES"},
		name: func(t engine.Token) string { return string(t.ID) },
		row: func(t engine.Token) []cell {
			scopes := strings.Join(t.Scopes, ",")
			if t.Agent {
				scopes += " (agent)"
			}
			return []cell{
				{string(t.ID), bold}, {text: t.Name}, {t.State, tokenColor(t.State)}, {text: t.Org}, {text: t.User},
				{text: scopes}, {text: when(t.UsedAt)}, {text: when(t.ExpiresAt)},
			}
		},
	}
}

func tokenColor(state string) color {
	if state == engine.TokenLive {
		return green
	}
	return dim
}

type tokenRevoke struct {
	Token string `arg:"" help:"Id, unique id prefix, or name."`
	deleteFlags
}

// Run revokes a token.
func (c *tokenRevoke) Run(ctx context.Context, a *app) error {
	return c.flags().act(ctx, a, engine.Token{}, func(eng Engine) error {
		all, err := eng.Tokens().List(ctx)
		if err != nil {
			return err
		}
		t, err := pick(a.kind("token"), c.Token, all, func(t engine.Token) candidate {
			one := candidate{id: string(t.ID), description: t.Name + ", " + t.State + ", of " + t.Org}
			if t.State == engine.TokenLive {
				one.name = t.Name // a revoked token of the same name is ignored
			}
			return one
		})
		if err != nil {
			return err
		}
		what := "revoke " + string(t.ID) + " permanently"
		if ok, err := c.confirmed(ctx, a, what, what+"?"); !ok {
			return err
		}
		gone, err := eng.Tokens().Revoke(ctx, t.ID, operator)
		if err != nil {
			return err
		}
		a.message("revoked %s (%s)", gone.ID, a.oneLine(gone.Name, cellChars))
		if c.choice().IsTable() {
			return nil
		}
		return c.show(ctx, a, outputObject{string(gone.ID), gone, nil})
	})
}

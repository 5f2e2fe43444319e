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
	Create tokenCreate `cmd:"" help:"Make a token with which somebody asks a server. Its secret is printed once, on stdout, and kept nowhere."`
	List   tokenList   `cmd:"" help:"List the tokens that were made, and when they were used last. Their secrets are not kept."`
	Revoke tokenRevoke `cmd:"" help:"End a token for good: it lets nobody in any more, and what it has open at a server ends within a second."`
}

type tokenCreate struct {
	Name    string   `arg:"" help:"By which people know it, as: ci, or laptop of Ada."`
	Scope   []string `help:"What its bearer may: read, write, approve or admin. It can be given several times. Not given: read and write." placeholder:"SCOPE" enum:"read,write,approve,admin"`
	Org     string   `help:"Of whom its bearer is: they see what is this org's, and nothing else. Not given: default." placeholder:"ORG"`
	User    string   `help:"For whom its bearer acts; budgets of this user count." placeholder:"USER"`
	Agent   bool     `help:"It is for a program that a model steers: it can neither approve nor resolve."`
	Expires string   `help:"From when on it lets nobody in: a time from now, as 12h or 90d, or a moment, as 2027-01-31T00:00:00Z. Not given: never." placeholder:"WHEN"`
	DryRun  bool     `help:"Only say what would be done."`
	output
}

// expiry reads when a token expires. Zero: never.
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
		return time.Time{}, misuse(fmt.Sprintf("--expires %q is no time to come", c.Expires), "as 12h, 90d or 2027-01-31T00:00:00Z")
	}
	return now.Add(d), nil
}

// Run makes a token.
func (c *tokenCreate) Run(ctx context.Context, a *app) error {
	expires, err := c.expiry(time.Now())
	if err != nil {
		return err
	}
	if err := errors.Join(c.reveals(), c.suits(engine.IssuedToken{})); err != nil {
		return err
	}
	if c.DryRun {
		a.say("would make a token %q", a.line(c.Name, cellChars))
		return nil
	}
	return a.with(ctx, writing(false), func(eng Engine) error {
		made, err := eng.CreateToken(ctx, engine.TokenOrder{
			Name: c.Name, Org: c.Org, User: c.User, Scopes: c.Scope, Agent: c.Agent, Expires: expires, By: operator,
		})
		if errors.Is(err, perdure.Conflict) { // an answer that was lost had the secret
			return &fault{err: err, what: err.Error(), todo: program + " token revoke " + a.place() + "TOKEN  ends the one that was made; then make another"}
		}
		if err != nil {
			return err
		}
		a.say("%s of org %s may %s; this is its secret, which is shown once:", made.ID, a.line(made.Org, cellChars), strings.Join(made.Scopes, ", "))
		return c.show(ctx, a, shown{string(made.ID), made, func() { fmt.Fprintln(a.out, a.text(made.Secret)) }})
	})
}

type tokenList struct {
	output
}

// Run lists tokens.
func (c *tokenList) Run(ctx context.Context, a *app) error {
	return a.read(ctx, func(eng Engine) error {
		found, err := eng.Tokens(ctx)
		if err != nil {
			return err
		}
		return tokens(a.now()).print(ctx, a, c.output, found)
	})
}

// tokens is how tokens are listed.
func tokens(now clock) listing[engine.Token] {
	when := func(t time.Time) string {
		if t.IsZero() {
			return "never"
		}
		return moment(t, now)
	}
	return listing[engine.Token]{
		noun: "tokens",
		head: []string{"TOKEN", "NAME", "STATE", "ORG", "USER", "SCOPES", "USED", "EXPIRES"},
		name: func(t engine.Token) string { return string(t.ID) },
		row: func(t engine.Token) []cell {
			scopes := strings.Join(t.Scopes, ",")
			if t.Agent {
				scopes += " (agent)"
			}
			return []cell{
				{string(t.ID), bold}, {text: t.Name}, {t.State, tokenColor(t.State)}, {text: t.Org}, {text: t.User}, {text: scopes}, {text: when(t.UsedAt)}, {text: when(t.ExpiresAt)},
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
	Token  string `arg:"" help:"Its id, or a unique beginning of it, or its name."`
	DryRun bool   `help:"Only say what would be done."`
	Yes    bool   `short:"y" help:"Do not ask, also on a terminal."`
	output
}

// Run revokes a token.
func (c *tokenRevoke) Run(ctx context.Context, a *app) error {
	if err := c.suits(engine.Token{}); err != nil {
		return err
	}
	return a.with(ctx, writing(c.DryRun), func(eng Engine) error {
		all, err := eng.Tokens(ctx)
		if err != nil {
			return err
		}
		var candidates []candidate
		for _, t := range all {
			one := candidate{id: string(t.ID), about: t.Name + ", " + t.State + ", of " + t.Org}
			if t.State == engine.TokenLive {
				one.named = t.Name // an old one of the same name is not in its way
			}
			candidates = append(candidates, one)
		}
		id, err := a.kind("token").choose(c.Token, candidates)
		if err != nil {
			return err
		}
		if c.DryRun {
			a.say("would end %s for good", id)
			return nil
		}
		if err := a.confirm(ctx, c.Yes, "end "+id+" for good?"); err != nil {
			return err
		}
		gone, err := eng.RevokeToken(ctx, perdure.TokenID(id), operator)
		if err != nil {
			return err
		}
		a.say("%s (%s) lets nobody in any more", gone.ID, a.line(gone.Name, cellChars))
		if c.choice().ForPeople() {
			return nil
		}
		return c.show(ctx, a, shown{string(gone.ID), gone, nil})
	})
}

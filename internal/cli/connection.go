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

type connectionCommand struct {
	Add    connectionAdd    `cmd:"" help:"Connect an account at another service: authorize in a browser, or give a token with --token."`
	List   connectionList   `cmd:"" aliases:"ls" help:"List your accounts, and the MCP servers of mcp.json with their last known state."`
	Test   connectionTest   `cmd:"" help:"Test an account, or connect to an MCP server of mcp.json and list its tools."`
	Delete connectionDelete `cmd:"" aliases:"rm" help:"Disconnect an account. Its token is not revoked at the service."`
}

// userFlag names the user of an account.
type userFlag struct {
	User string `help:"The user whose account it is. Another user than yourself needs the rights of an administrator. Default: yourself." placeholder:"USER"`
}

type connectionList struct {
	User string `help:"List the accounts of this user; * is all users of the org. Another user than yourself needs the rights of an administrator. Default: yourself." placeholder:"USER"`
	outputFlags
}

// Run lists connections.
func (c *connectionList) Run(ctx context.Context, a *app) error {
	return a.read(ctx, func(eng Engine) error {
		all, err := eng.Connections().List(ctx, c.User)
		if err != nil {
			return err
		}
		now := a.now()
		return outputList[engine.Connection]{
			noun: "connections", head: []string{"CONNECTION", "KIND", "STATE", "CHECKED", "WHERE", "USER", "EXPIRES", "TOOLS"},
			name: func(one engine.Connection) string { return one.Name },
			row: func(one engine.Connection) []cell {
				checked := one.CheckedAt
				if one.Kind == engine.ConnectionAccount {
					checked = one.UpdatedAt
				}
				return []cell{{one.Name, bold}, {text: one.Kind}, {one.State, connectionColor(one.State)},
					{text: moment(checked, now)}, {text: connectionPlace(one)}, {text: one.User}, {text: moment(one.ExpiresAt, now)},
					{text: strings.Join(one.Tools, " ")}}
			},
		}.print(ctx, a, c.outputFlags, all)
	})
}

// connectionPlace returns where a connection leads.
func connectionPlace(c engine.Connection) string {
	if c.Kind == engine.ConnectionAccount {
		return strings.Join(c.Hosts, " ")
	}
	return c.Command + c.URL
}

func connectionColor(state string) color {
	switch state {
	case engine.ConnectionReady:
		return green
	case engine.ConnectionUnreachable, engine.ConnectionExpired:
		return red
	}
	return dim
}

type connectionTest struct {
	Name string `arg:"" help:"Service of an account, or name in mcp.json."`
	outputFlags
}

// Run tests a connection. If the server does not answer, or the token of the account cannot be
// used, it prints what is known and returns an error. An account is tested by a process that may
// write, because its token may have to be refreshed; only such a process opens tokens.
func (c *connectionTest) Run(ctx context.Context, a *app) error {
	access := OpenOptions{Access: ServerOrRead}
	err := a.with(ctx, access, func(eng Engine) error {
		all, err := eng.Connections().List(ctx, "")
		for _, one := range all {
			if one.Kind == engine.ConnectionAccount && one.Name == c.Name {
				access = writesAccess(false)
				return nil
			}
		}
		if err != nil {
			return err
		}
		return c.test(ctx, a, eng)
	})
	if err != nil || access.Access != Writing {
		return err
	}
	return a.with(ctx, access, func(eng Engine) error { return c.test(ctx, a, eng) })
}

// test tests a connection with an engine.
func (c *connectionTest) test(ctx context.Context, a *app, eng Engine) error {
	tested := a.noteWait("an answer of " + c.Name)
	one, err := eng.Connections().Test(ctx, c.Name)
	tested()
	if err != nil {
		return err
	}
	err = c.show(ctx, a, outputObject{one.Name, one, func() { a.fields(connectionFields(one, a.now())...) }})
	switch {
	case err != nil || one.State == engine.ConnectionReady:
		return err
	case one.Kind == engine.ConnectionAccount:
		return &userError{err: perdure.Unavailable, message: one.Name + " cannot be used: " + one.LastError,
			hint: "connect again: " + program + " connection add " + a.storeFlags() + quote(one.Name)}
	}
	return &userError{err: perdure.Unavailable, message: one.Name + " does not answer: " + one.LastError,
		hint: "check its entry in mcp.json, and try its command by hand"}
}

// connectionFields describes a connection.
func connectionFields(one engine.Connection, now clock) []field {
	fields := []field{{"connection", cell{one.Name, bold}}, {"state", cell{one.State, connectionColor(one.State)}},
		{"kind", cell{text: one.Kind}}, {"where", cell{text: connectionPlace(one)}}}
	if one.Kind != engine.ConnectionAccount {
		return append(fields, field{"server", cell{text: one.Server}}, field{"answered", cell{text: moment(one.CheckedAt, now)}},
			field{"tools", cell{text: strings.Join(one.Tools, " ")}})
	}
	return append(fields, field{"user", cell{text: one.User}}, field{"owner", cell{text: one.Owner}},
		field{"scopes", cell{text: strings.Join(one.Scopes, " ")}}, field{"expires", cell{text: moment(one.ExpiresAt, now)}},
		field{"changed", cell{text: moment(one.UpdatedAt, now)}})
}

type connectionAdd struct {
	Provider string   `arg:"" help:"Service, for instance github: a name of oauth.json, or any name that tools use."`
	Token    bool     `help:"Give a token of the account, on stdin, in a hidden prompt, or with --file, instead of authorizing in a browser."`
	Host     []string `help:"With --token: let requests of tools carry it to this host, as connection:SERVICE in a header. Repeatable." placeholder:"HOST"`
	Owner    string   `help:"With --token: owner of the account at the service. Default: the user." placeholder:"NAME"`
	Expires  string   `help:"With --token: when it expires: a duration such as 12h or 90d, or a time such as 2027-01-31T00:00:00Z. Default: never." placeholder:"WHEN"`
	secretInput
	userFlag
	actFlags
}

// Run connects an account.
func (c *connectionAdd) Run(ctx context.Context, a *app) error {
	if err := c.checkFields(engine.Connection{}); err != nil {
		return err
	}
	gives := c.Token || c.File != ""
	if gives && c.DryRun {
		a.message("would connect %s with a token", a.oneLine(c.Provider, cellChars))
		return nil
	}
	if gives {
		return c.give(ctx, a)
	}
	if len(c.Host) > 0 || c.Owner != "" || c.Expires != "" {
		return usageError("--host, --owner and --expires describe a token, but --token is not given",
			"add --token, or set hosts in oauth.json for a service at which users authorize")
	}
	if c.DryRun {
		a.message("would print an address to authorize %s in a browser, and wait", a.oneLine(c.Provider, cellChars))
		return nil
	}
	return c.authorize(ctx, a)
}

// give stores a token.
func (c *connectionAdd) give(ctx context.Context, a *app) error {
	expires, err := (&tokenCreate{Expires: c.Expires}).expiry(time.Now())
	if err != nil {
		return err
	}
	token, err := c.secretInput.read(ctx, a, "the token for "+c.Provider)
	if err != nil {
		return err
	}
	return a.with(ctx, writesAccess(false), func(eng Engine) error {
		made, err := eng.Connections().Put(ctx, engine.ConnectionWrite{Provider: c.Provider, User: c.User, Token: token,
			Owner: c.Owner, Hosts: c.Host, ExpiresAt: expires})
		return c.added(ctx, a, made, err)
	})
}

// added reports a connection that was made.
func (c *connectionAdd) added(ctx context.Context, a *app, made engine.Connection, err error) error {
	if err != nil {
		return err
	}
	a.message("connected %s for the user %s", a.oneLine(made.Name, cellChars), a.oneLine(made.User, cellChars))
	return c.showForPrograms(ctx, a, made.Name, made)
}

// authorize lets the user authorize in a browser. Meanwhile no engine is open, so that other
// commands can work; the store knows what has begun.
func (c *connectionAdd) authorize(ctx context.Context, a *app) error {
	if a.flags.NoInput {
		return &userError{code: exitApproval, message: "somebody must authorize in a browser, but --no-input was given; nothing was changed",
			hint: "give a token with --token, or omit --no-input"}
	}
	back, err := listenForBrowser()
	if err != nil {
		return err
	}
	defer back.close()
	var begun engine.ConnectionFlow
	err = a.with(ctx, writesAccess(false), func(eng Engine) (err error) {
		begun, err = eng.Connections().Begin(ctx, engine.ConnectionRequest{Provider: c.Provider, User: c.User, RedirectURL: back.url})
		return err
	})
	if errors.Is(err, perdure.NotFound) {
		return &userError{err: err, message: fmt.Sprintf("%s is not a service at which users can authorize here", a.oneLine(c.Provider, cellChars)),
			hint: "add it to oauth.json of the data directory (docs/how-to/connect-accounts.md), or give a token with --token"}
	}
	if err != nil {
		return err
	}
	back.expect(begun)
	a.message("open this address in a browser on this machine, within ten minutes:")
	a.message("  %s", a.text(begun.URL))
	answer, err := back.wait(ctx, begun)
	if err != nil {
		return err
	}
	return a.with(ctx, writesAccess(false), func(eng Engine) error {
		made, err := eng.Connections().Finish(ctx, answer)
		return c.added(ctx, a, made, err)
	})
}

type connectionDelete struct {
	Provider string `arg:"" help:"Service of the account."`
	userFlag
	deleteFlags
}

// Run disconnects an account.
func (c *connectionDelete) Run(ctx context.Context, a *app) error {
	return c.flags().act(ctx, a, deletedOutput{}, func(eng Engine) error {
		what := a.oneLine(c.Provider, cellChars)
		if ok, err := c.confirmed(ctx, a, "disconnect "+what, "disconnect "+what+"? Tools can no longer use the account"); !ok {
			return err
		}
		if err := eng.Connections().Remove(ctx, c.Provider, c.User); err != nil {
			return err
		}
		a.message("disconnected %s", what)
		return c.showForPrograms(ctx, a, c.Provider, deletedOutput{ID: c.Provider, Deleted: true})
	})
}

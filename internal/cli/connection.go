package cli

import (
	"context"
	"strings"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/engine"
)

type connectionCommand struct {
	List connectionList `cmd:"" help:"List the MCP servers of mcp.json with their last known state."`
	Test connectionTest `cmd:"" help:"Connect to an MCP server of mcp.json and list its tools."`
}

type connectionList struct{ outputFlags }

// Run lists connections.
func (c *connectionList) Run(ctx context.Context, a *app) error {
	return a.read(ctx, func(eng Engine) error {
		all, err := eng.Connections().List(ctx)
		if err != nil {
			return err
		}
		now := a.now()
		return outputList[engine.Connection]{
			noun: "connections", head: []string{"CONNECTION", "KIND", "STATE", "CHECKED", "WHERE", "TOOLS"},
			name: func(one engine.Connection) string { return one.Name },
			row: func(one engine.Connection) []cell {
				return []cell{{one.Name, bold}, {text: one.Kind}, {one.State, connectionColor(one.State)},
					{text: moment(one.CheckedAt, now)}, {text: one.Command + one.URL},
					{text: strings.Join(one.Tools, " ")}}
			},
		}.print(ctx, a, c.outputFlags, all)
	})
}

func connectionColor(state string) color {
	switch state {
	case engine.ConnectionReady:
		return green
	case engine.ConnectionUnreachable:
		return red
	}
	return dim
}

type connectionTest struct {
	Name string `arg:"" help:"Name in mcp.json."`
	outputFlags
}

// Run tests a connection. If the server does not answer, it prints what is known and returns an
// error.
func (c *connectionTest) Run(ctx context.Context, a *app) error {
	return a.read(ctx, func(eng Engine) error {
		one, err := eng.Connections().Test(ctx, c.Name)
		if err != nil {
			return err
		}
		now := a.now()
		err = c.show(ctx, a, outputObject{one.Name, one, func() {
			a.fields(
				field{"connection", cell{one.Name, bold}}, field{"state", cell{one.State, connectionColor(one.State)}},
				field{"kind", cell{text: one.Kind}},
				field{"where", cell{text: one.Command + one.URL}}, field{"server", cell{text: one.Server}},
				field{"answered", cell{text: moment(one.CheckedAt, now)}},
				field{"tools", cell{text: strings.Join(one.Tools, " ")}},
			)
		}})
		if err == nil && one.State != engine.ConnectionReady {
			return &userError{err: perdure.Unavailable, message: one.Name + " does not answer: " + one.LastError,
				hint: "check its entry in mcp.json, and try its command by hand"}
		}
		return err
	})
}

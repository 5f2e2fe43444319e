package cli

import (
	"context"
	"strings"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/engine"
)

type connectionCommand struct {
	List connectionList `cmd:"" help:"List the MCP servers of mcp.json, with what each said last. None is asked."`
	Test connectionTest `cmd:"" help:"Ask an MCP server of mcp.json anew what it has."`
}

type connectionList struct{ output }

// Run lists connections.
func (c *connectionList) Run(ctx context.Context, a *app) error {
	return a.read(ctx, func(eng Engine) error {
		all, err := eng.Connections(ctx)
		if err != nil {
			return err
		}
		now := a.now()
		return listing[engine.Connection]{
			noun: "connections", head: []string{"CONNECTION", "KIND", "STATE", "CHECKED", "WHERE", "TOOLS"},
			name: func(one engine.Connection) string { return one.Name },
			row: func(one engine.Connection) []cell {
				return []cell{{one.Name, bold}, {text: one.Kind}, {one.State, connectionColor(one.State)}, {text: moment(one.CheckedAt, now)}, {text: one.Command + one.URL}, {text: strings.Join(one.Tools, " ")}}
			},
		}.print(ctx, a, c.output, all)
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
	Name string `arg:"" help:"Its name in mcp.json."`
	output
}

// Run tests a connection. One that does not answer is an error after what is known of it.
func (c *connectionTest) Run(ctx context.Context, a *app) error {
	return a.read(ctx, func(eng Engine) error {
		one, err := eng.TestConnection(ctx, c.Name)
		if err != nil {
			return err
		}
		now := a.now()
		err = c.show(ctx, a, shown{one.Name, one, func() {
			a.fields(
				field{"connection", cell{one.Name, bold}}, field{"state", cell{one.State, connectionColor(one.State)}}, field{"kind", cell{text: one.Kind}},
				field{"where", cell{text: one.Command + one.URL}}, field{"server", cell{text: one.Server}}, field{"answered", cell{text: moment(one.CheckedAt, now)}},
				field{"tools", cell{text: strings.Join(one.Tools, " ")}},
			)
		}})
		if err == nil && one.State != engine.ConnectionReady {
			return &fault{err: perdure.Unavailable, what: one.Name + " does not answer: " + one.LastError, todo: "look at its entry in mcp.json, and try its command by hand"}
		}
		return err
	})
}

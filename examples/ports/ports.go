// Ports is a program that replaces one port: its tools get the connections of a vault of its own,
// and keep the store's other ports, for example the values of their session.
//
//	go run ./examples/ports
package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/engine"
	"github.com/perdure/perdure/engine/local"
	"github.com/perdure/perdure/model/scripted"
	"github.com/perdure/perdure/store/memory"
	"github.com/perdure/perdure/tool"
)

// vault has the connections of users at other services. A real one would ask a server.
type vault map[string]string // the tokens, by user and provider

// of returns the connections of one user.
func (v vault) of(user string) tool.Connections { return connections{v, user} }

// connections implements tool.Connections.
type connections struct {
	vault vault
	user  string
}

func (c connections) Token(_ context.Context, provider string) (string, error) {
	token, ok := c.vault[c.user+"/"+provider]
	if !ok {
		return "", fmt.Errorf("connection to %s: %w", provider, perdure.NotFound)
	}
	return token, nil
}

func (c connections) Owner(ctx context.Context, provider string) (string, error) {
	_, err := c.Token(ctx, provider)
	return c.user, err
}

func (c connections) Metadata(ctx context.Context, provider string) (json.RawMessage, error) {
	_, err := c.Token(ctx, provider)
	return json.RawMessage(`{}`), err
}

// report is a tool that uses the connection of its user and remembers the result.
func report() tool.Tool {
	type in struct{}
	type out struct {
		Issues string `json:"issues"`
		Saved  string `json:"saved"`
	}
	spec := tool.Spec{Name: "report", Description: "Count the open issues.", Class: perdure.Idempotent, NeedsEnv: true}
	return tool.New(spec, func(ctx context.Context, _ in, env tool.Env) (out, error) {
		token, err := env.Connections.Token(ctx, "github") // from the vault
		if err != nil {
			return out{}, err
		}
		found := fmt.Sprintf("3, asked with a token of %d characters", len(token))
		if err := env.Values.SetValue(ctx, "issues", found); err != nil { // the port of the store
			return out{}, err
		}
		saved, _, err := env.Values.Value(ctx, "issues")
		return out{Issues: found, Saved: saved}, err
	})
}

const script = `
steps:
  - calls: [{name: report, args: {}}]
  - text: "Open issues: {{(result \"report\").saved}}."
`

func main() {
	if err := run(context.Background()); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// run asks for a report in the name of a user and prints it.
func run(ctx context.Context) error {
	model, err := scripted.Parse("ports", []byte(script))
	if err != nil {
		return err
	}
	kept := vault{"ada/github": "a token of Ada's"}
	eng, err := local.Open(ctx, local.Config{
		Store: memory.New(memory.Config{}), Model: model, Tools: tool.NewRegistry(report()),
		Ports: local.Ports{Replace: func(_ perdure.SessionID, call tool.Call, own tool.Ports) tool.Ports {
			own.Connections = kept.of(call.User) // all others are the store's
			return own
		}},
	})
	if err != nil {
		return err
	}
	ctx = engine.WithOwner(ctx, engine.Owner{Org: "acme", User: "ada"})
	s, err := eng.Sessions().Create(ctx, perdure.Agent{Instructions: "You report."})
	if err != nil {
		return err
	}
	if _, err := eng.Send(ctx, s.ID, perdure.Text("How many issues are open?")); err != nil {
		return err
	}
	work, stop := context.WithCancel(ctx)
	ended := make(chan error, 1) // capacity 1: Run's one result
	go func() { ended <- eng.Run(work) }()
	err = eng.Sessions().WaitIdle(ctx, s.ID)
	stop()
	if err := errors.Join(err, <-ended); err != nil {
		return err
	}
	events, err := eng.Events(ctx, s.ID, 0, 0)
	for _, event := range events {
		if f, ok := event.Fact.(perdure.TurnCompleted); ok {
			fmt.Println(f.FinalPreview)
		}
	}
	return err
}

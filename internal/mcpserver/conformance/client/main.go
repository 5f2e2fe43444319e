// Command client is driven by the client side of the MCP conformance suite. It calls each tool of
// the suite's server once, through the tools that tool/mcptool gives to agents.
//
// It may import anything. The one thing to know: the suite names the scenario and the calls in
// environment variables. Without named calls, each tool is called with arguments suggested by its
// schema.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"time"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/internal/egress"
	"github.com/perdure/perdure/tool"
	"github.com/perdure/perdure/tool/mcptool"
)

func main() {
	ctx, cancel := context.WithTimeout(context.Background(), 25*time.Second)
	defer cancel()
	if err := run(ctx, os.Args[len(os.Args)-1]); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// wanted is a call requested by the suite.
type wanted struct {
	Name string          `json:"name"`
	Args json.RawMessage `json:"arguments"`
}

func run(ctx context.Context, url string) error {
	era := os.Getenv("MCP_CONFORMANCE_PROTOCOL_VERSION")
	log := slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelDebug}))
	way, err := egress.ForURL(url)
	if err != nil {
		return err
	}
	c, err := mcptool.Open(ctx, mcptool.Config{URL: url, HTTP: way, Era: era, Log: log})
	if err != nil {
		return err
	}
	tools, err := mcptool.Tools(ctx, c)
	if err != nil {
		return errors.Join(err, c.Close(true))
	}
	var given struct {
		Calls []wanted `json:"toolCalls"`
	}
	if text := os.Getenv("MCP_CONFORMANCE_CONTEXT"); text != "" {
		if err := perdure.DecodeKnownJSON([]byte(text), &given); err != nil {
			return errors.Join(err, c.Close(true))
		}
	}
	calls := given.Calls
	if len(calls) == 0 && os.Getenv("MCP_CONFORMANCE_SCENARIO") != "initialize" {
		calls = suggested(tools)
	}
	for i, call := range calls {
		for _, t := range tools {
			if t.Definition().Name == call.Name {
				play(ctx, t, call, i)
			}
		}
	}
	return c.Close(true)
}

// play calls one tool. It does not judge a refusal by the server: the suite checks what was sent.
func play(ctx context.Context, t *mcptool.Remote, w wanted, n int) {
	call := tool.Call{Session: "conformance", Tool: t.Spec().Name, Args: w.Args, Key: fmt.Sprintf("conformance-%d-%d", os.Getpid(), n), Execution: 1}
	r := t.Run(ctx, call, tool.Env{Call: call, Dialog: agreeing{}})
	fmt.Printf("%s %s: success %t %s %v %v\n", w.Name, w.Args, r.IsSuccess(), r.Text, r.Value, r.Err)
}

// suggested returns one call of each tool, with arguments of fitting types. An argument named
// schema gets the schema of the previous tool.
func suggested(tools []*mcptool.Remote) (calls []wanted) {
	var before any
	for _, t := range tools {
		text, _ := json.Marshal(t.Definition().InputSchema) // it was decoded from JSON
		var schema struct {
			Properties map[string]struct {
				Type string `json:"type"`
			} `json:"properties"`
		}
		_ = perdure.DecodeKnownJSON(text, &schema) // an invalid schema suggests nothing
		args := map[string]any{}
		for name, property := range schema.Properties {
			switch property.Type {
			case "number", "integer":
				args[name] = 3
			case "boolean":
				args[name] = true
			case "string":
				args[name] = "text"
			}
			if name == "schema" && before != nil {
				args[name] = before
			}
		}
		body, _ := json.Marshal(args) // strings and numbers always encode
		calls = append(calls, wanted{t.Definition().Name, body})
		before = t.Definition().InputSchema
	}
	return calls
}

// agreeing answers every question with yes, and leaves properties with a default out.
type agreeing struct{ tool.Dialog }

func (agreeing) Ask(_ context.Context, q tool.Question) (tool.Reply, error) {
	var expected struct {
		Properties map[string]map[string]any `json:"properties"`
	}
	_ = perdure.DecodeKnownJSON(q.Expected, &expected) // an invalid schema expects nothing
	content := map[string]any{}
	for name, property := range expected.Properties {
		if _, ok := property["default"]; ok {
			continue
		}
		switch property["type"] {
		case "boolean":
			content[name] = true
		case "string":
			content[name] = "text"
		default:
			content[name] = 1
		}
	}
	data, err := json.Marshal(content)
	return tool.Reply{Data: data, By: "conformance"}, err
}

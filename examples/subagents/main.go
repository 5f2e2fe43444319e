// Subagents is a program that keeps an agent, a reviewer, and has another agent hire it by name.
// The model reads the names of the agents that there are; a name that does not exist is refused
// with the list, and the turn continues.
//
//	go run ./examples/subagents
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/agent"
	"github.com/perdure/perdure/engine"
	"github.com/perdure/perdure/engine/local"
	"github.com/perdure/perdure/model/scripted"
	"github.com/perdure/perdure/store/sqlite"
	"github.com/perdure/perdure/tool"
	"github.com/perdure/perdure/tool/defaults"
)

// script plays both agents.
const script = `
rules:
  - when: {user_contains: what is wrong, not_called: read_file}
    calls: [{name: read_file, args: {path: /checklist}}]
  - when: {user_contains: what is wrong}
    text: 'I checked {{trim (result "read_file").content}}. Nothing is wrong.'
  - when: {last_contains: There is no agent}
    calls: [{name: spawn_subagent, args: {name: review, agent: reviewer, task: Say what is wrong with the change.}}]
  - when: {last_role: tool_result}
    text: 'The reviewer says: {{last}}'
steps:
  - calls: [{name: spawn_subagent, args: {name: review, agent: critic, task: Say what is wrong with the change.}}]
`

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	dir := "data"
	if len(os.Args) > 1 {
		dir = os.Args[1]
	}
	if err := run(ctx, dir, os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// run keeps the reviewer, and has a change reviewed.
func run(ctx context.Context, dir string, out io.Writer) (err error) {
	st, err := sqlite.Open(ctx, sqlite.Config{Dir: dir})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, st.Close()) }()
	model, err := scripted.Parse("subagents", []byte(script))
	if err != nil {
		return err
	}
	tools, err := defaults.Registry(defaults.Config{})
	if err != nil {
		return err
	}
	eng, err := local.Open(ctx, local.Config{Store: st, Model: model, Tools: tools})
	if err != nil {
		return err
	}
	ctx, stop := context.WithCancel(ctx)
	ended := make(chan error, 1) // Run's one result
	go func() { ended <- eng.Run(ctx) }()
	defer func() {
		stop()
		err = errors.Join(err, <-ended)
	}()
	_, err = eng.Agents().Put(ctx, engine.AgentWrite{Name: "reviewer", Overlay: agent.Overlay{
		Description: "Reads a change and says what is wrong with it.", SystemPrompt: "You review changes. Be brief.",
		Tools: []string{"read_file"}, InitialFiles: []agent.File{{Path: "/checklist", Content: "names and tests\n"}},
	}})
	if err != nil && !errors.Is(err, perdure.Conflict) { // an earlier run kept it
		return err
	}
	s, err := eng.Sessions().Create(ctx, perdure.Agent{Title: "Desk", Capabilities: []string{tool.AgentsCapability}})
	if err != nil {
		return err
	}
	if _, err := eng.Send(ctx, s.ID, perdure.Text("Have the change reviewed.")); err != nil {
		return err
	}
	if err := eng.Sessions().WaitIdle(ctx, s.ID); err != nil {
		return err
	}
	return report(ctx, eng, s.ID, out)
}

// report prints what the agent read and said, and which sessions worked for it.
func report(ctx context.Context, eng *local.Engine, id perdure.SessionID, out io.Writer) error {
	events, err := eng.Events(ctx, id, 0, 0)
	if err != nil {
		return err
	}
	for _, event := range events {
		switch fact := event.Fact.(type) {
		case perdure.ToolCompleted:
			if fact.Result.Error != "" {
				fmt.Fprintln(out, "refused:", fact.Result.Error)
			}
		case perdure.OutputCompleted:
			if text := fact.Message.Text(); text != "" {
				fmt.Fprintln(out, text)
			}
		}
	}
	all, err := eng.Sessions().List(ctx, 0)
	for _, s := range all {
		if s.Parent == id {
			fmt.Fprintf(out, "%s was done by the agent %s\n", s.Title, s.Agent.Name)
		}
	}
	return err
}

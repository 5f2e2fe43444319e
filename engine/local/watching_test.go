package local_test

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/engine"
	"github.com/perdure/perdure/engine/local"
	"github.com/perdure/perdure/model"
	"github.com/perdure/perdure/model/scripted"
	"github.com/perdure/perdure/store/memory"
	"github.com/perdure/perdure/tool"
	"github.com/perdure/perdure/tool/background"
	"github.com/perdure/perdure/tool/core"
)

// parking is a model whose call is detached, and that then uses each tool to manage it.
const parking = `
rules:
  - when: {last_role: user}
    calls: [{name: slow, args: {}}]
  - when: {not_called: list_tasks}
    calls: [{name: list_tasks, args: {}}]
  - when: {not_called: check_background_tool}
    calls: [{name: check_background_tool, args: {background_id: '{{(result "slow").background_id}}', wait_seconds: 0}}]
  - when: {not_called: wait_task}
    calls: [{name: wait_task, args: {task_ids: ['{{(result "slow").background_id}}'], wait_seconds: 0}}]
  - when: {not_called: cancel_task}
    calls: [{name: cancel_task, args: {task_id: '{{(result "slow").background_id}}'}}]
steps: [{text: ended, repeat: true}]
`

// TestParkedCallHasItsTools: a session with a detached call has the tools that its placeholder
// names, and can list it, wait for it and cancel it, whatever tools the host registered and the
// agent chose. Before that, it does not have them.
func TestParkedCallHasItsTools(t *testing.T) {
	t.Parallel()
	slow := tool.New(tool.Spec{Name: "slow", Description: "Takes its time.", Class: perdure.Idempotent}, func(ctx context.Context, _ struct{}, _ tool.Env) (string, error) {
		<-ctx.Done()
		return "", ctx.Err()
	})
	for name, c := range map[string]struct {
		tools []tool.Tool
		agent perdure.Agent
	}{
		"ordinary tools":                  {tools: []tool.Tool{slow}},
		"those of the program":            {tools: append(background.Tools(background.Config{}), slow, core.LoadTool())},
		"the background is kept out":      {tools: append(background.Tools(background.Config{}), slow), agent: perdure.Agent{DisableBackground: true}},
		"an agent that names its tools":   {tools: append(background.Tools(background.Config{}), slow), agent: perdure.Agent{Tools: []string{"slow"}}},
		"so many tools that some are cut": {tools: append(crowd(41, ""), slow, core.LoadTool())},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c.agent.SoftBudgetMS = 1

			results, requests := parked(t, c.agent, c.tools)

			var placeholder struct{ Type, Message string }
			if err := json.Unmarshal(results["slow"].Result, &placeholder); err != nil || placeholder.Type != "background" {
				t.Fatalf("the call did not leave its turn: %s, %v", results["slow"].Result, err)
			}
			for _, name := range []string{"list_tasks", "check_background_tool", "wait_task", "cancel_task"} {
				if r, called := results[name]; !called || r.IsError() {
					t.Errorf("%s: called %t, %s %s", name, called, r.Error, r.Result)
				}
			}
			if told := requests[len(requests)-1].Tools; !slices.ContainsFunc(told, func(m model.Tool) bool {
				return strings.Contains(placeholder.Message, m.Name) && strings.Contains(string(m.Parameters), "background_id")
			}) {
				t.Errorf("%q names no tool of the request", placeholder.Message)
			}
			if slices.ContainsFunc(requests[0].Tools, func(m model.Tool) bool { return m.Name == "check_background_tool" }) {
				t.Error("the tools are there before anything left its turn")
			}
		})
	}
}

// parked runs a turn of a model whose call is detached, and returns the results of the calls and
// the model's requests.
func parked(t *testing.T, agent perdure.Agent, tools []tool.Tool) (map[string]perdure.ToolResult, []model.Request) {
	t.Helper()
	m, err := scripted.Parse("parked.yaml", []byte(parking))
	if err != nil {
		t.Fatal(err)
	}
	hears := &heard{Model: m}
	eng, err := local.Open(t.Context(), local.Config{Store: memory.New(memory.Config{}), Model: hears, Tools: tool.NewRegistry(tools...)})
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithTimeout(t.Context(), time.Minute)
	ended := make(chan error, 1)
	go func() { ended <- eng.Run(ctx) }()
	t.Cleanup(func() { stop(); <-ended })
	s, err := eng.Sessions().Create(ctx, agent)
	if err == nil {
		_, err = eng.Send(ctx, s.ID, perdure.Text("go"))
	}
	if err != nil {
		t.Fatal(err)
	}
	results, over := map[string]perdure.ToolResult{}, errors.New("the turn is over")
	err = eng.Follow(ctx, s.ID, 0, func(f engine.Frame) error {
		if f.Event == nil {
			return nil
		}
		switch f := f.Event.Fact.(type) {
		case perdure.ToolCompleted:
			results[f.Name] = f.Result
		case perdure.TurnCompleted:
			return over
		}
		return nil
	})
	if !errors.Is(err, over) {
		t.Fatal(err)
	}
	return results, hears.asked()
}

// asked returns the requests so far.
func (h *heard) asked() []model.Request {
	h.mu.Lock()
	defer h.mu.Unlock()
	return slices.Clone(h.requests)
}

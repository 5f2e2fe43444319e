package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/internal/mcpserver"
	"github.com/perdure/perdure/tool"
)

// marked lists the exposed tools.
func marked() []mcpserver.Exposed {
	return []mcpserver.Exposed{
		{Name: "greet", Task: mcpserver.TaskForbidden}, {Name: "slow_compute"}, {Name: "failing_job", Task: mcpserver.TaskRequired}, {Name: "protocol_error_job"},
		{Name: "confirm_delete"}, {Name: "multi_input"},
		{Name: "test_tool_with_task", Task: mcpserver.TaskRequired, InputFirst: []mcpserver.Question{{
			Key: "user_name", Prompt: "What is your name?",
			Schema: []byte(`{"type":"object","properties":{"name":{"type":"string"}},"required":["name"]}`), AnswerProperty: "name",
		}}},
	}
}

type nothing struct{}

type greeting struct {
	Name string `json:"name"`
}

type computation struct {
	Seconds float64 `json:"seconds"`
	Label   string  `json:"label,omitempty"`
}

type deletion struct {
	Filename string `json:"filename"`
}

type named struct {
	UserName string `json:"user_name,omitempty"`
}

// fixtures are the tools that run as tasks.
func fixtures() []tool.Tool {
	return []tool.Tool{
		tool.New(spec("greet", "Greets somebody.", perdure.Pure), func(_ context.Context, in greeting, _ tool.Env) (string, error) {
			return "Hello, " + in.Name + "!", nil
		}),
		tool.New(spec("slow_compute", "Computes for some seconds.", perdure.Idempotent), slowCompute),
		tool.New(spec("failing_job", "Fails after a second.", perdure.AtMostOnce), func(ctx context.Context, _ nothing, _ tool.Env) (string, error) {
			if err := pause(ctx, time.Second); err != nil {
				return "", err
			}
			return "", tool.Errorf("This job always fails")
		}),
		tool.New(spec("protocol_error_job", "Breaks.", perdure.AtMostOnce), func(context.Context, nothing, tool.Env) (string, error) {
			return "", errors.New("it broke inside")
		}),
		tool.New(spec("confirm_delete", "Asks, then deletes.", perdure.AtMostOnce), confirmDelete),
		tool.New(spec("multi_input", "Asks two things at once.", perdure.AtMostOnce), multiInput),
		tool.New(spec("test_tool_with_task", "Asks for a name, then works.", perdure.AtMostOnce), func(ctx context.Context, in named, _ tool.Env) (string, error) {
			return "Done for " + in.UserName, pause(ctx, 300*time.Millisecond)
		}),
	}
}

func spec(name, description string, class perdure.EffectClass) tool.Spec {
	return tool.Spec{Name: name, Description: description, Class: class}
}

func pause(ctx context.Context, d time.Duration) error {
	select {
	case <-time.After(d):
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

func slowCompute(ctx context.Context, in computation, env tool.Env) (string, error) {
	env.Sink.Status("computing " + in.Label)
	if err := pause(ctx, time.Duration(in.Seconds*float64(time.Second))); err != nil {
		return "", err
	}
	return fmt.Sprintf("%s: computed for %g seconds", in.Label, in.Seconds), nil
}

func confirmDelete(ctx context.Context, in deletion, env tool.Env) (string, error) {
	reply, err := env.Dialog.Ask(ctx, tool.Question{
		Prompt:   "Delete " + in.Filename + "?",
		Expected: []byte(`{"type":"object","properties":{"confirm":{"type":"boolean"}}}`),
	})
	if err != nil {
		return "", err
	}
	return fmt.Sprintf("%s: answered with %s", in.Filename, reply.Data), nil
}

func multiInput(ctx context.Context, _ nothing, env tool.Env) (string, error) {
	reply, err := env.Dialog.Ask(ctx, tool.Question{
		Prompt: "Two things, please",
		Expected: []byte(`{"type":"object","` + mcpserver.SeparateQuestions + `":true,"properties":{
			"name":{"title":"What is your name?","type":"object","properties":{"name":{"type":"string"}}},
			"color":{"title":"Which color?","type":"object","properties":{"color":{"type":"string"}}}}}`),
	})
	if err != nil {
		return "", err
	}
	return fmt.Sprintf("answered with %s", reply.Data), nil
}

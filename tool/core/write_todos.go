package core

import (
	"context"
	_ "embed" // the tool description
	"fmt"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/tool"
)

//go:embed write_todos.md
var writeTodosText string

type todo struct {
	Content    string `json:"content" minLength:"1" jsonschema:"What is to be done."`
	Status     string `json:"status" enum:"pending,in_progress,completed"`
	ActiveForm string `json:"active_form,omitempty" jsonschema:"The same as a running activity, for instance: Running the tests."`
}

type writeTodosIn struct {
	Todos []todo `json:"todos" maxItems:"100" jsonschema:"The whole list, in order."`
}

type writeTodosOut struct {
	Todos     []todo `json:"todos"`
	Total     int    `json:"total"`
	Completed int    `json:"completed"`
	Warning   string `json:"warning,omitempty"`
}

// WriteTodos returns the tool that replaces the list of todos. The list is stored only in the
// transcript: the latest result is the current list.
func WriteTodos() tool.Tool {
	return tool.New(tool.Spec{
		Name:        "write_todos",
		DisplayName: "Write Todos",
		Narration:   tool.Narration{Started: "Updating the list of todos", Completed: "Updated the list of todos[: {result.completed} of {result.total} done]", Failed: "Could not update the list of todos"},
		Description: described(writeTodosText),
		Class:       perdure.Idempotent,
		SessionOnly: true,
		Trusted:     true,
		Concurrency: "session_todos",
		Hints:       tool.Hints{Destructive: no(), Idempotent: yes()},
	}, writeTodos)
}

func writeTodos(_ context.Context, in writeTodosIn, _ tool.Env) (writeTodosOut, error) {
	out := writeTodosOut{Todos: in.Todos, Total: len(in.Todos)}
	running := 0
	for _, t := range in.Todos {
		switch t.Status {
		case "completed":
			out.Completed++
		case "in_progress":
			running++
		}
	}
	if running > 1 {
		out.Warning = fmt.Sprintf("%d todos are in progress. Keep one in progress at a time.", running)
	}
	return out, nil
}

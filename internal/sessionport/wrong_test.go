package sessionport_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/engine/local"
	"github.com/perdure/perdure/store"
	"github.com/perdure/perdure/tool"
)

// wrongPlaces are answers with a secret in the wrong place, with V for it, and the error that the
// model receives for each.
var wrongPlaces = map[string]struct{ tool, args, text, want string }{
	"args_called_arguments":     {"spawn_background", `{"tool":"secret_store","arguments":{"operation":"set","name":"n","value":"V"}}`, "", "Missing required parameter: args (object expected)"},
	"tool_called_name":          {"spawn_background", `{"name":"secret_store","arguments":{"operation":"set","name":"n","value":"V"}}`, "", "Missing required parameter: tool"},
	"beside_the_args":           {"spawn_background", `{"tool":"secret_store","args":{"operation":"set","name":"n"},"value":"V"}`, "I keep V now", "Invalid arguments for spawn_background: /value: unknown property"},
	"in_the_title":              {"spawn_background", `{"tool":"secret_store","args":{"operation":"set","name":"n","value":"V"},"title":"store V"}`, "I keep V now", "Tool does not support background execution: secret_store"},
	"a_title_of_another":        {"spawn_background", `{"tool":"secret_store","args":{"operation":"set","name":"n"},"value":"V","title":"store V"}`, "", "/value: unknown property"},
	"in_the_schedule":           {"spawn_background", `{"tool":"login","args":{"password":"V"},"schedule":{"scheduled_at":"V"}}`, "", "scheduled_at must be RFC3339"},
	"within_the_schedule":       {"spawn_background", `{"tool":"login","args":{},"schedule":{"cron_expression":"* * * * *","value":"V"}}`, "", "/schedule/value: unknown property"},
	"a_title_that_is_none":      {"spawn_background", `{"tool":"login","args":{},"title":{"value":"V"}}`, "", "/title: got object, want string"},
	"a_flag_that_is_none":       {"spawn_background", `{"tool":"login","args":{},"signal_on_completion":"V"}`, "", "/signal_on_completion: got string, want boolean"},
	"an_order_of_unknown":       {"spawn_background", `{"tool":"secretstore","args":{"operation":"set","name":"n","value":"V"},"title":"store V"}`, "I keep V now", "Unknown tool: secretstore"},
	"an_order_of_orders":        {"spawn_background", `{"tool":"spawn_background","args":{"tool":"secret_store","args":{"operation":"set","name":"n","value":"V"}}}`, "", "spawn_background cannot target itself recursively"},
	"an_order_to_wait":          {"wait_task", `{"tool":"secret_store","args":{"operation":"set","name":"n","value":"V"}}`, "", "/args: unknown property"},
	"args_in_a_text":            {"spawn_background", `{"tool":"secret_store","args":"{\"operation\":\"set\",\"value\":\"V\"}","title":"store V"}`, "I keep V now", "Missing required parameter: args (object expected)"},
	"args_in_a_text_of_unknown": {"spawn_background", `{"tool":"secretstore","args":"{\"operation\":\"set\",\"value\":\"V\"}","title":"store V"}`, "", "Missing required parameter: args (object expected)"},
	"args_twice":                {"spawn_background", `{"tool":"secret_store","args":{"value":"V"},"args":{"value":"V"}}`, "I keep V now", "Invalid arguments for spawn_background"},
	"other_letters":             {"spawn_background", `{"Tool":"secret_store","Args":{"operation":"set","name":"n","Value":"V"}}`, "", "Missing required parameter: tool"},
	"other_letters_within":      {"spawn_background", `{"tool":"secret_store","args":{"operation":"set","name":"n","Value":"V"}}`, "I keep V now", "does not support background execution"},
	"spaces_around_the_tool":    {"spawn_background", `{"tool":" login ","args":{"password":"V"},"title":"log in with V"}`, "I keep V now", `"status":"running"`},
	"orders_in_a_list":          {"spawn_background", `[{"tool":"secret_store","args":{"operation":"set","name":"n","value":"V"}}]`, "I keep V now", "Invalid arguments for spawn_background"},
	"no_JSON":                   {"spawn_background", `{"tool":"secret_store","args":{"operation":"set","name":"n","value":"V`, "I keep V now", "Invalid arguments for spawn_background"},
	"the_name_of_a_key":         {"spawn_background", `{"tool":"login","args":{},"V":"x"}`, "I keep V now", "/<redacted>: unknown property"},
	"the_name_of_a_key_within":  {"spawn_background", `{"tool":"secret_store","args":{"operation":"set","name":"n","V":1}}`, "", "does not support background execution"},
	"the_name_of_an_argument":   {"secret_store", `{"operation":"set","name":"n","V":"x"}`, "I keep V now", "secret_store"},
	"an_argument_in_a_text":     {"secret_store", `"{\"operation\":\"set\",\"name\":\"n\",\"value\":\"V\"}"`, "I keep V now", "Invalid arguments for secret_store"},
	"an_argument_twice":         {"secret_store", `{"operation":"set","name":"n","value":"V","value":"V"}`, "I keep V now", "Invalid arguments for secret_store"},
	"other_letters_of_a_name":   {"secret_store", `{"operation":"set","name":"n","Value":"V"}`, "I keep V now", "secret_store"},
	"an_unknown_tool":           {"secretstore", `{"operation":"set","name":"n","value":"V"}`, "I keep V now", "Tool definition not found: secretstore"},
	"an_unknown_tool_no_JSON":   {"secretstore", `{"operation":"set","name":"n","value":"V`, "I keep V now", "Tool definition not found: secretstore"},
	"the_name_of_the_tool":      {"V", `{"operation":"set","name":"n","value":"V"}`, "", "Tool definition not found: unknown_tool"},
	"a_tool_of_the_client":      {"ask_client", `{"pin":"V"}`, "I keep V now", "this client does not run tools"},
}

// login is a tool that takes a password, in the background, too.
func login() tool.Tool {
	spec := tool.Spec{Name: "login", Description: "Logs in.", Class: perdure.Idempotent, Parameters: json.RawMessage(
		`{"type":"object","additionalProperties":false,"properties":{"password":{"type":"string","writeOnly":true}}}`)}
	return tool.NewBackground(spec, func(_ context.Context, in struct {
		Password string `json:"password"`
	}, _ tool.Env) (string, error) {
		return "in with " + in.Password, nil
	})
}

// TestSecretsInWrongPlaces: a secret that the model puts in the wrong place is in no event,
// message, frame, file or log, and the model receives the usual error.
func TestSecretsInWrongPlaces(t *testing.T) {
	t.Parallel()
	type call map[string]any
	values := map[string]canaries{}
	var rules []any
	for name, w := range wrongPlaces {
		values[name] = newCanaries()
		fill := func(text string) string { return strings.ReplaceAll(text, "V", values[name].secret(0)) }
		args := strings.ReplaceAll(w.args, `"Value"`, `"\u0056alue"`) // the escape does not matter
		rules = append(rules, call{"when": call{"last_contains": "case " + name + "!", "last_role": "user"},
			"text": fill(w.text), "calls": []any{call{"name": fill(w.tool), "raw_args": fill(args)}}})
	}
	script, err := json.Marshal(call{"rules": rules, "steps": []any{call{"text": "done", "repeat": true}}})
	if err != nil {
		t.Fatal(err)
	}
	h := newHushed(t, string(script))
	h.start(login(), tool.New(tool.Spec{Name: "ask_client", Description: "Asks.", Class: perdure.Idempotent, Policy: tool.PolicyClientSide,
		Parameters: json.RawMessage(`{"type":"object","properties":{"pin":{"type":"string","writeOnly":true}}}`)},
		func(_ context.Context, in struct {
			Pin string `json:"pin"`
		}, _ tool.Env) (tool.Result, error) {
			return tool.Success(in.Pin), nil
		}))
	for name, w := range wrongPlaces {
		s, err := h.eng.Sessions().Create(h.ctx, perdure.Agent{})
		if err != nil {
			t.Fatal(err)
		}
		var frames bytes.Buffer
		watching, stop := context.WithCancel(h.ctx)
		watched := make(chan error, 1)
		go func() {
			watched <- h.st.Watch(watching, s.ID, 0, func(f store.Frame) error {
				if f.Type == "output.message.delta" && w.text != "" {
					return nil // the model's text before a call is shown before its arguments are known
				}
				return json.NewEncoder(&frames).Encode(f)
			})
		}()
		h.say(s, "case "+name+"!")
		stop()
		if err := <-watched; !errors.Is(err, context.Canceled) {
			t.Error(err)
		}

		events := h.events(s)
		tasks, err := h.eng.Tasks().List(h.ctx, s.ID)
		if err != nil {
			t.Fatal(err)
		}
		text, err := json.Marshal([]any{events, tasks})
		if err != nil {
			t.Fatal(err)
		}
		values[name].search(t, name, text)
		values[name].search(t, name+": a frame", frames.Bytes())
		said := ""
		for _, e := range events {
			if f, ok := e.Fact.(perdure.ToolCompleted); ok {
				said += f.Result.Error + string(f.Result.Result)
			}
		}
		if !strings.Contains(said, w.want) {
			t.Errorf("%s: the model reads %q, want %q", name, said, w.want)
		}
	}
	h.stop()
	for name, c := range values {
		c.searchDir(t, h.dir)
		c.search(t, "the log of "+name, []byte(h.log.String()))
	}
}

// TestOrdersOfOthersAreHidden: an order for a background run that a person, or a hook, substitutes
// for another is recorded without its secrets, too.
func TestOrdersOfOthersAreHidden(t *testing.T) {
	t.Parallel()
	for name, hooked := range map[string]string{"a_person": "", "a_hook": "spawn_background", "a_hook_of_the_run": "login"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := newCanaries()
			order := `{"tool":"login","args":{"password":"` + c.secret(0) + `"},"title":"log in with ` + c.secret(0) + `"}`
			title := "log in with <redacted>"
			if hooked == "login" {
				order, title = `{"password":"`+c.secret(0)+`"}`, "Background login"
			}
			h := newHushed(t, `steps: [{calls: [{name: spawn_background, args: {tool: login, args: {}}}]}, {text: done, repeat: true}]`)
			h.cfg = func(cfg *local.Config) {
				if hooked != "" {
					cfg.Policies.Hooks = []tool.Hook{reorder{hooked, order}}
					return
				}
				cfg.Policies.Permit = func(_ context.Context, call tool.Call, _ perdure.Permission) (perdure.Decision, string, error) {
					if call.Tool == "spawn_background" {
						return perdure.Ask, "", nil
					}
					return perdure.Undecided, "", nil
				}
			}
			h.start(login())
			s, err := h.eng.Sessions().Create(h.ctx, perdure.Agent{})
			if err != nil {
				t.Fatal(err)
			}
			if hooked == "" {
				go h.gives(s, order)
			}
			h.say(s, "go")

			tasks, err := h.eng.Tasks().List(h.ctx, s.ID)
			if err != nil || len(tasks) != 1 || tasks[0].DisplayName != title || !strings.Contains(tasks[0].Summary, "The value is gone") {
				t.Errorf("the run is %+v, %v", tasks, err)
			}
			text, err := json.Marshal([]any{h.events(s), tasks})
			if err != nil {
				t.Fatal(err)
			}
			c.search(t, "the journal", text)
			h.stop()
			c.searchDir(t, h.dir)
			c.search(t, "the log", []byte(h.log.String()))
		})
	}
}

// reorder is a hook that replaces the arguments of a tool.
type reorder struct{ tool, order string }

// BeforeTool replaces them.
func (r reorder) BeforeTool(_ context.Context, call tool.Call) (tool.Before, error) {
	if call.Tool != r.tool {
		return tool.Before{}, nil
	}
	return tool.Before{Args: json.RawMessage(r.order)}, nil
}

// AfterTool does not change results.
func (reorder) AfterTool(context.Context, tool.Call, tool.Result) (tool.After, error) {
	return tool.After{}, nil
}

package chaos

import (
	"bytes"
	_ "embed" // the scripted agent
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/engine"
)

//go:embed agent.yaml
var agentScript string

// spawner is the tool that starts other tools in the background.
const spawner = "spawn_background"

// messageKind is a request to the scripted agent, and the tools that it needs.
type messageKind struct {
	name  string
	tools string // separated by spaces
	often int    // its weight
}

// messageKinds returns the words of agent.yaml.
func messageKinds() []messageKind {
	return []messageKind{
		{"look", "chaos_look", 1},
		{"label", "chaos_label", 2},
		{"charge", "chaos_charge", 3},
		{"mix", "chaos_look chaos_label chaos_charge", 3},
		{"steps", "chaos_label chaos_charge", 2},
		{"slow", "chaos_slow", 2},
		{"review", "chaos_review", 2},
		{"ask", "chaos_ask " + spawner, 1},
		{"background", "chaos_label chaos_charge " + spawner, 3},
		{"poll", "chaos_charge check_background_tool " + spawner, 2},
		{"shell", "bash", 1},
		{"build", "bash " + spawner, 2},
		{"file", "write_file", 1},
		{"sum", "add", 1},
		{"subagent", "spawn_subagent", 1},
		{"team", "spawn_subagent", 1},
	}
}

// MixedAgent is the workload of the sessions: the script of the agent, and the messages to it.
type MixedAgent struct {
	Script   []byte
	Messages []string
}

// NewMixedAgent creates the workload for the tools of a server. effect is the shell command that
// writes to the ledger; its flag --effect is added. only, if not empty, lists the tools to call
// instead, with sample arguments. Invalid: a tool does not exist.
func NewMixedAgent(tools []engine.Tool, effect string, only []string) (MixedAgent, error) {
	has := func(name string) bool {
		return slices.ContainsFunc(tools, func(t engine.Tool) bool { return t.Name == name })
	}
	if len(only) > 0 {
		return chosen(tools, only, has(spawner))
	}
	quoted, err := json.Marshal(effect)
	if err != nil {
		return MixedAgent{}, fmt.Errorf("write the script: %w", err)
	}
	mix := MixedAgent{Script: []byte(strings.ReplaceAll(agentScript, "PERDURE_EFFECT", string(bytes.Trim(quoted, `"`))))}
	for _, w := range messageKinds() {
		missing := slices.ContainsFunc(strings.Fields(w.tools), func(name string) bool { return !has(name) })
		for range w.often {
			if !missing {
				mix.Messages = append(mix.Messages, "do:"+w.name+";")
			}
		}
	}
	if len(mix.Messages) == 0 {
		return mix, fmt.Errorf("%w: the server has none of the default tools; list its tools with --tools",
			perdure.Invalid)
	}
	return mix, nil
}

// chosen creates a workload of some tools: in the foreground, and in the background where possible.
func chosen(tools []engine.Tool, only []string, spawns bool) (MixedAgent, error) {
	var mix MixedAgent
	var rules []any
	rule := func(word, name string, args any) {
		mix.Messages = append(mix.Messages, word)
		rules = append(rules, map[string]any{
			"when":  map[string]any{"last_role": "user", "user_contains": word},
			"calls": []any{map[string]any{"name": name, "args": args}},
		})
	}
	for _, name := range only {
		i := slices.IndexFunc(tools, func(t engine.Tool) bool { return t.Name == name })
		if i < 0 {
			return mix, fmt.Errorf("%w: the server has no tool %q", perdure.Invalid, name)
		}
		args, err := Sample(tools[i].Parameters)
		if err != nil {
			return mix, fmt.Errorf("arguments for %s: %w", name, err)
		}
		rule("do:call-"+name+";", name, args)
		if tools[i].Background && spawns {
			rule("do:spawn-"+name+";", spawner, map[string]any{"tool": name, "args": args})
		}
	}
	var err error
	mix.Script, err = json.Marshal(map[string]any{"rules": rules,
		"steps": []any{map[string]any{"text": "Done.", "repeat": true}}})
	return mix, err
}

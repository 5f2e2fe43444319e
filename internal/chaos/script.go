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

// spawner is the tool that starts others in the background.
const spawner = "spawn_background"

// word is something that the scripted agent can be asked for, and the tools that it takes.
type word struct {
	name  string
	tools string // separated by spaces
	often int    // how often it is among the words
}

// words are those of agent.yaml.
func words() []word {
	return []word{
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

// Mix is what sessions are asked for: the script of the agent that obeys, and the messages to it.
type Mix struct {
	Script []byte
	Words  []string
}

// Mixed makes the mix of what the tools of a server can do. effect is the command that writes into the ledger, as words
// of a shell; its flag --effect is added. only, if there are any, are the names of the tools that are called instead,
// each with arguments that its schema takes. Invalid: there is no such tool.
func Mixed(tools []engine.Tool, effect string, only []string) (Mix, error) {
	has := func(name string) bool {
		return slices.ContainsFunc(tools, func(t engine.Tool) bool { return t.Name == name })
	}
	if len(only) > 0 {
		return chosen(tools, only, has(spawner))
	}
	quoted, err := json.Marshal(effect)
	if err != nil {
		return Mix{}, fmt.Errorf("write the script: %w", err)
	}
	mix := Mix{Script: []byte(strings.ReplaceAll(agentScript, "PERDURE_EFFECT", string(bytes.Trim(quoted, `"`))))}
	for _, w := range words() {
		missing := slices.ContainsFunc(strings.Fields(w.tools), func(name string) bool { return !has(name) })
		for range w.often {
			if !missing {
				mix.Words = append(mix.Words, "do:"+w.name+";")
			}
		}
	}
	if len(mix.Words) == 0 {
		return mix, fmt.Errorf("%w: the server has none of the tools that the mix calls; name yours with --tools", perdure.Invalid)
	}
	return mix, nil
}

// chosen makes a mix of some tools only: in the foreground, and in the background where they can.
func chosen(tools []engine.Tool, only []string, spawns bool) (Mix, error) {
	var mix Mix
	var rules []any
	rule := func(word, name string, args any) {
		mix.Words = append(mix.Words, word)
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
	mix.Script, err = json.Marshal(map[string]any{"rules": rules, "steps": []any{map[string]any{"text": "Done.", "repeat": true}}})
	return mix, err
}

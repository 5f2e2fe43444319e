package scripted

import (
	"encoding/json"
	"strings"

	"github.com/perdure/perdure"
	"go.yaml.in/yaml/v3"
)

const emptyScript = "the script is empty: add steps, rules or both"

// reader makes a Script from the nodes of a file and records the line of each path.
type reader struct{ lines map[string]int }

// script reads the text of a file. Checks that do not need the text are left to compile.
func (r *reader) script(source []byte) (Script, error) {
	var s Script
	root, err := readNode(source)
	if err != nil {
		return s, err
	}
	if root.Kind == yaml.ScalarNode && root.ShortTag() == "!!null" {
		return s, newFault("", emptyScript)
	}
	err = r.mapping(scriptNode{node: root}, "a mapping with the keys steps and rules",
		field{"rules", r.each("a list of rules", func(p scriptNode) error {
			rule, err := r.rule(p)
			s.Rules = append(s.Rules, rule)
			return err
		})},
		field{"steps", r.each("a list of steps", func(p scriptNode) error {
			step, err := r.step(p)
			s.Steps = append(s.Steps, step)
			return err
		})},
		field{"prefix", boolean(&s.Prefix)})
	if err == nil && json.Valid(source) {
		// This finds what the nodes do not show, such as half a surrogate pair.
		if err := perdure.DecodeJSON(source, new(any)); err != nil {
			return s, newFault("", "%v", err)
		}
	}
	return s, err
}

// mapping reads each value of a mapping with the field for its key.
func (r *reader) mapping(p scriptNode, want string, fields ...field) error {
	keys, values, err := p.pairs(want)
	if err != nil {
		return err
	}
	for i, key := range keys {
		read, allowed := findField(fields, key)
		line := p.node.Content[2*i].Line
		if read == nil {
			f := newFault(p.path, "unknown key %.40q; allowed: %s", key, allowed)
			f.line = line
			return f
		}
		r.lines[values[i].path] = line
		if err := read(values[i]); err != nil {
			return err
		}
	}
	return nil
}

// findField returns the function that reads the value of a key, or else the allowed keys.
func findField(fields []field, key string) (func(scriptNode) error, string) {
	var keys []string
	for _, f := range fields {
		if f.key == key {
			return f.read, ""
		}
		keys = append(keys, f.key)
	}
	return nil, strings.Join(keys, ", ")
}

// each reads the elements of a list.
func (r *reader) each(want string, read func(scriptNode) error) func(scriptNode) error {
	return func(p scriptNode) error {
		items, err := p.items(want)
		if err != nil {
			return err
		}
		for _, item := range items {
			r.lines[item.path] = item.node.Line
			if err := read(item); err != nil {
				return err
			}
		}
		return nil
	}
}

func (r *reader) rule(p scriptNode) (Rule, error) {
	var rule Rule
	fields := append([]field{{"when", r.when(&rule.When)}}, r.reply(&rule.Reply)...)
	if err := r.mapping(p, "a rule: a mapping with when and a reply", fields...); err != nil {
		return rule, err
	}
	if len(p.node.Content) == 2 && p.node.Content[0].Value == "when" {
		return rule, newFault(p.path, `there is no reply: add text, calls or error; an empty answer is text: ""`)
	}
	return rule, nil
}

func (r *reader) step(p scriptNode) (Step, error) {
	var step Step
	fields := append(r.reply(&step.Reply), field{"repeat", boolean(&step.Repeat)})
	return step, r.mapping(p, "a step: a mapping with a reply", fields...)
}

func (r *reader) when(into *When) func(scriptNode) error {
	return func(p scriptNode) error {
		return r.mapping(p, "a mapping of conditions",
			field{"last_role", nonEmptyText(&into.LastRole)},
			field{"last_contains", nonEmptyText(&into.LastContains)},
			field{"last_matches", nonEmptyText(&into.LastMatches)},
			field{"user_contains", nonEmptyText(&into.UserContains)},
			field{"step", optionalInteger(&into.Step)},
			field{"turn_step", optionalInteger(&into.TurnStep)},
			field{"attempt", optionalInteger(&into.Attempt)},
			field{"notifications", optionalInteger(&into.Notifications)},
			field{"called", nonEmptyText(&into.Called)},
			field{"not_called", nonEmptyText(&into.NotCalled)})
	}
}

// reply returns the keys of a reply, which rules and steps have in addition to their own.
func (r *reader) reply(into *Reply) []field {
	return []field{
		{"text", text(&into.Text)},
		{"thinking", text(&into.Thinking)},
		{"signature", text(&into.Signature)},
		{"calls", r.each("a list of calls", func(p scriptNode) error {
			call, err := r.call(p)
			into.Calls = append(into.Calls, call)
			return err
		})},
		{"delay", duration(&into.Delay)},
		{"stall", duration(&into.Stall)},
		{"chunk", integer(&into.Chunk)},
		{"pace", duration(&into.Pace)},
		{"usage", r.usage(&into.Usage)},
		{"finish", nonEmptyText(&into.Finish)},
		{"refusal", boolean(&into.Refusal)},
		{"error", r.failure(&into.Error)},
		{"cut_after_bytes", optionalInteger(&into.CutAfterBytes)},
	}
}

func (r *reader) call(p scriptNode) (Call, error) {
	var c Call
	err := r.mapping(p, "a call: a mapping with name and args",
		field{"id", nonEmptyText(&c.ID)},
		field{"name", nonEmptyText(&c.Name)},
		field{"args", func(p scriptNode) (err error) {
			c.Args, err = p.value()
			return err
		}},
		field{"raw_args", nonEmptyText(&c.RawArgs)})
	return c, err
}

func (r *reader) usage(into **perdure.Usage) func(scriptNode) error {
	return func(p scriptNode) error {
		*into = new(perdure.Usage)
		return r.mapping(p, "a mapping of token counts",
			field{"input_tokens", integer(&(*into).InputTokens)},
			field{"output_tokens", integer(&(*into).OutputTokens)},
			field{"cached_tokens", integer(&(*into).CachedTokens)})
	}
}

func (r *reader) failure(into **Failure) func(scriptNode) error {
	return func(p scriptNode) error {
		*into = new(Failure)
		return r.mapping(p, "an error: a mapping with its code",
			field{"code", nonEmptyText(&(*into).Code)},
			field{"text", text(&(*into).Text)},
			field{"retry_after", duration(&(*into).RetryAfter)},
			field{"after_bytes", optionalInteger(&(*into).AfterBytes)})
	}
}

package scripted

import (
	"encoding/json"
	"strings"

	"github.com/perdure/perdure"
	"go.yaml.in/yaml/v3"
)

const emptyScript = "the script is empty: give it steps, rules or both"

// reader makes a Script of the nodes of a file, and remembers on which line each path stands.
type reader struct{ lines map[string]int }

// script reads the text of a file. What needs no text to be seen is left to compile.
func (r *reader) script(source []byte) (Script, error) {
	var s Script
	root, err := readNode(source)
	if err != nil {
		return s, err
	}
	if root.Kind == yaml.ScalarNode && root.ShortTag() == "!!null" {
		return s, faultAt("", emptyScript)
	}
	err = r.mapping(place{node: root}, "a mapping with the keys steps and rules",
		field{"rules", r.each("a list of rules", func(p place) error {
			rule, err := r.rule(p)
			s.Rules = append(s.Rules, rule)
			return err
		})},
		field{"steps", r.each("a list of steps", func(p place) error {
			step, err := r.step(p)
			s.Steps = append(s.Steps, step)
			return err
		})},
		field{"prefix", flag(&s.Prefix)})
	if err == nil && json.Valid(source) {
		if err := perdure.DecodeJSON(source, new(any)); err != nil { // what the nodes do not show, such as half a surrogate pair
			return s, faultAt("", "%v", err)
		}
	}
	return s, err
}

// mapping reads each value of a mapping by the field with its key.
func (r *reader) mapping(p place, want string, fields ...field) error {
	keys, values, err := p.pairs(want)
	if err != nil {
		return err
	}
	for i, key := range keys {
		read, allowed := find(fields, key)
		line := p.node.Content[2*i].Line
		if read == nil {
			f := faultAt(p.path, "unknown key %.40q; allowed: %s", key, allowed)
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

// find returns how the value of a key is read, or else the keys that there are.
func find(fields []field, key string) (func(place) error, string) {
	var keys []string
	for _, f := range fields {
		if f.key == key {
			return f.read, ""
		}
		keys = append(keys, f.key)
	}
	return nil, strings.Join(keys, ", ")
}

// each reads the elements of a list, one after another.
func (r *reader) each(want string, read func(place) error) func(place) error {
	return func(p place) error {
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

func (r *reader) rule(p place) (Rule, error) {
	var rule Rule
	fields := append([]field{{"when", r.when(&rule.When)}}, r.reply(&rule.Reply)...)
	if err := r.mapping(p, "a rule: a mapping with when and a reply", fields...); err != nil {
		return rule, err
	}
	if len(p.node.Content) == 2 && p.node.Content[0].Value == "when" {
		return rule, faultAt(p.path, `there is no reply: give text, calls or error; an empty answer is text: ""`)
	}
	return rule, nil
}

func (r *reader) step(p place) (Step, error) {
	var step Step
	fields := append(r.reply(&step.Reply), field{"repeat", flag(&step.Repeat)})
	return step, r.mapping(p, "a step: a mapping with a reply", fields...)
}

func (r *reader) when(into *When) func(place) error {
	return func(p place) error {
		return r.mapping(p, "a mapping of conditions",
			field{"last_role", word(&into.LastRole)},
			field{"last_contains", word(&into.LastContains)},
			field{"last_matches", word(&into.LastMatches)},
			field{"user_contains", word(&into.UserContains)},
			field{"step", maybe(&into.Step)},
			field{"turn_step", maybe(&into.TurnStep)},
			field{"attempt", maybe(&into.Attempt)},
			field{"notifications", maybe(&into.Notifications)},
			field{"called", word(&into.Called)},
			field{"not_called", word(&into.NotCalled)})
	}
}

// reply returns the keys of a reply, which stand in a rule or step beside its own.
func (r *reader) reply(into *Reply) []field {
	return []field{
		{"text", text(&into.Text)},
		{"thinking", text(&into.Thinking)},
		{"signature", text(&into.Signature)},
		{"calls", r.each("a list of calls", func(p place) error {
			call, err := r.call(p)
			into.Calls = append(into.Calls, call)
			return err
		})},
		{"delay", span(&into.Delay)},
		{"stall", span(&into.Stall)},
		{"chunk", whole(&into.Chunk)},
		{"pace", span(&into.Pace)},
		{"usage", r.usage(&into.Usage)},
		{"finish", word(&into.Finish)},
		{"refusal", flag(&into.Refusal)},
		{"error", r.failure(&into.Error)},
		{"cut_after_bytes", maybe(&into.CutAfterBytes)},
	}
}

func (r *reader) call(p place) (Call, error) {
	var c Call
	err := r.mapping(p, "a call: a mapping with name and args",
		field{"id", word(&c.ID)},
		field{"name", word(&c.Name)},
		field{"args", func(p place) (err error) {
			c.Args, err = p.value()
			return err
		}},
		field{"raw_args", word(&c.RawArgs)})
	return c, err
}

func (r *reader) usage(into **perdure.Usage) func(place) error {
	return func(p place) error {
		*into = new(perdure.Usage)
		return r.mapping(p, "a mapping of token counts",
			field{"input_tokens", whole(&(*into).InputTokens)},
			field{"output_tokens", whole(&(*into).OutputTokens)},
			field{"cached_tokens", whole(&(*into).CachedTokens)})
	}
}

func (r *reader) failure(into **Failure) func(place) error {
	return func(p place) error {
		*into = new(Failure)
		return r.mapping(p, "an error: a mapping with its code",
			field{"code", word(&(*into).Code)},
			field{"text", text(&(*into).Text)},
			field{"retry_after", span(&(*into).RetryAfter)},
			field{"after_bytes", maybe(&(*into).AfterBytes)})
	}
}

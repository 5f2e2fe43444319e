package scripted

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"
)

const tooDeep = "nested deeper than 100"

// place is a node of a script, and the path that leads to it.
type place struct {
	node  *yaml.Node
	path  string
	depth int
}

// field is a key of a mapping, and how its value is read.
type field struct {
	key  string
	read func(place) error
}

// wrong is the fault of a node that is something else than what is wanted.
func (p place) wrong(want string) *fault {
	return &fault{path: p.path, line: p.node.Line, text: fmt.Sprintf("want %s, got %s", want, spoken(p.node))}
}

// below returns a node inside of p.
func (p place) below(node *yaml.Node, path string) place {
	return place{node: node, path: path, depth: p.depth + 1}
}

// pairs returns keys and values of a mapping in their order. Keys are plain and stand once.
func (p place) pairs(want string) ([]string, []place, error) {
	if p.node.Kind != yaml.MappingNode || p.node.ShortTag() != "!!map" {
		return nil, nil, p.wrong(want)
	}
	if p.depth > maxDepth {
		return nil, nil, &fault{path: p.path, line: p.node.Line, text: tooDeep}
	}
	var keys []string
	var values []place
	seen := map[string]bool{}
	for i := 0; i+1 < len(p.node.Content); i += 2 {
		key := p.node.Content[i]
		if key.Kind != yaml.ScalarNode || key.ShortTag() == "!!merge" {
			return nil, nil, &fault{path: p.path, line: key.Line, text: "a key is a plain word here, not " + spoken(key)}
		}
		if seen[key.Value] {
			return nil, nil, &fault{path: p.path, line: key.Line, text: fmt.Sprintf("the key %.40q stands here twice", key.Value)}
		}
		seen[key.Value] = true
		keys = append(keys, key.Value)
		values = append(values, p.below(p.node.Content[i+1], joined(p.path, key.Value)))
	}
	return keys, values, nil
}

// items returns the elements of a list.
func (p place) items(want string) ([]place, error) {
	if p.node.Kind != yaml.SequenceNode || p.node.ShortTag() != "!!seq" {
		return nil, p.wrong(want)
	}
	if p.depth > maxDepth {
		return nil, &fault{path: p.path, line: p.node.Line, text: tooDeep}
	}
	var items []place
	for i, node := range p.node.Content {
		items = append(items, p.below(node, p.path+"["+strconv.Itoa(i)+"]"))
	}
	return items, nil
}

// joined returns the path of a key; a key that would spoil a line of text is cut and escaped.
func joined(path, key string) string {
	quoted := fmt.Sprintf("%.40q", key)
	return strings.TrimPrefix(path+"."+quoted[1:len(quoted)-1], ".")
}

// spoken returns what a person calls a node.
func spoken(n *yaml.Node) string {
	switch n.Kind {
	case yaml.AliasNode:
		return fmt.Sprintf("an alias (%.40q), which scripts do without: write the value out", n.Value)
	case yaml.MappingNode:
		return "a mapping"
	case yaml.SequenceNode:
		return "a list"
	}
	switch n.ShortTag() {
	case "!!str":
		return fmt.Sprintf("the text %.40q", n.Value)
	case "!!null":
		return "nothing"
	case "!!int", "!!float":
		return fmt.Sprintf("the number %.40q", n.Value)
	}
	return fmt.Sprintf("%.40q", n.Value)
}

// text reads a text; a number or a date must stand in quotes to be one.
func text[T ~string](into *T) func(place) error {
	return func(p place) error {
		if p.node.Kind != yaml.ScalarNode || p.node.ShortTag() != "!!str" {
			return p.wrong("a text, in quotes where it could be something else")
		}
		*into = T(p.node.Value)
		return nil
	}
}

// word reads a text that says something.
func word[T ~string](into *T) func(place) error {
	return func(p place) error {
		if err := text(into)(p); err != nil {
			return err
		}
		if *into == "" {
			return p.wrong("a text that is not empty")
		}
		return nil
	}
}

// whole reads a whole number.
func whole[T int | int64](into *T) func(place) error {
	return func(p place) error {
		n, err := strconv.ParseInt(p.node.Value, 10, 64)
		if p.node.Kind != yaml.ScalarNode || p.node.ShortTag() != "!!int" || err != nil || int64(T(n)) != n {
			return p.wrong("a whole number")
		}
		*into = T(n)
		return nil
	}
}

// maybe reads a whole number where none is something else than 0.
func maybe(into **int) func(place) error {
	return func(p place) error {
		*into = new(int)
		return whole(*into)(p)
	}
}

func flag(into *bool) func(place) error {
	return func(p place) error {
		if p.node.Kind != yaml.ScalarNode || p.node.ShortTag() != "!!bool" || !slices.Contains([]string{"true", "false"}, p.node.Value) {
			return p.wrong("true or false")
		}
		*into = p.node.Value == "true"
		return nil
	}
}

// span reads a duration with its unit.
func span(into *time.Duration) func(place) error {
	return func(p place) error {
		d, err := time.ParseDuration(p.node.Value)
		if p.node.Kind != yaml.ScalarNode || err != nil {
			return p.wrong("a duration like 250ms, 2s or 10m")
		}
		*into = d
		return nil
	}
}

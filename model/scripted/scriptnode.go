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

// scriptNode is a node of a script with its path.
type scriptNode struct {
	node  *yaml.Node
	path  string
	depth int
}

// field is a key of a mapping, and the function that reads its value.
type field struct {
	key  string
	read func(scriptNode) error
}

// wrong returns the fault of a node that is not what is wanted.
func (p scriptNode) wrong(want string) *fault {
	return &fault{path: p.path, line: p.node.Line, text: fmt.Sprintf("want %s, got %s", want, describe(p.node))}
}

// below returns the place of a node inside of p.
func (p scriptNode) below(node *yaml.Node, path string) scriptNode {
	return scriptNode{node: node, path: path, depth: p.depth + 1}
}

// pairs returns keys and values of a mapping in their order. Keys must be scalars and unique.
func (p scriptNode) pairs(want string) ([]string, []scriptNode, error) {
	if p.node.Kind != yaml.MappingNode || p.node.ShortTag() != "!!map" {
		return nil, nil, p.wrong(want)
	}
	if p.depth > maxDepth {
		return nil, nil, &fault{path: p.path, line: p.node.Line, text: tooDeep}
	}
	var keys []string
	var values []scriptNode
	seen := map[string]bool{}
	for i := 0; i+1 < len(p.node.Content); i += 2 {
		key := p.node.Content[i]
		if key.Kind != yaml.ScalarNode || key.ShortTag() == "!!merge" {
			return nil, nil, &fault{path: p.path, line: key.Line,
				text: "a key must be a plain word here, not " + describe(key)}
		}
		if seen[key.Value] {
			return nil, nil, &fault{path: p.path, line: key.Line,
				text: fmt.Sprintf("the key %.40q occurs twice", key.Value)}
		}
		seen[key.Value] = true
		keys = append(keys, key.Value)
		values = append(values, p.below(p.node.Content[i+1], joinPath(p.path, key.Value)))
	}
	return keys, values, nil
}

// items returns the elements of a list.
func (p scriptNode) items(want string) ([]scriptNode, error) {
	if p.node.Kind != yaml.SequenceNode || p.node.ShortTag() != "!!seq" {
		return nil, p.wrong(want)
	}
	if p.depth > maxDepth {
		return nil, &fault{path: p.path, line: p.node.Line, text: tooDeep}
	}
	var items []scriptNode
	for i, node := range p.node.Content {
		items = append(items, p.below(node, p.path+"["+strconv.Itoa(i)+"]"))
	}
	return items, nil
}

// joinPath appends a key to a path. The key is shortened and escaped, so that it stays on one line.
func joinPath(path, key string) string {
	quoted := fmt.Sprintf("%.40q", key)
	return strings.TrimPrefix(path+"."+quoted[1:len(quoted)-1], ".")
}

// describe describes a node for people.
func describe(n *yaml.Node) string {
	switch n.Kind {
	case yaml.AliasNode:
		return fmt.Sprintf("an alias (%.40q), which scripts do not support: write out the value", n.Value)
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

// text reads a string. A number or a date must be in quotes to count as one.
func text[T ~string](into *T) func(scriptNode) error {
	return func(p scriptNode) error {
		if p.node.Kind != yaml.ScalarNode || p.node.ShortTag() != "!!str" {
			return p.wrong("a text, in quotes if it could be read as something else")
		}
		*into = T(p.node.Value)
		return nil
	}
}

// nonEmptyText reads a string that is not empty.
func nonEmptyText[T ~string](into *T) func(scriptNode) error {
	return func(p scriptNode) error {
		if err := text(into)(p); err != nil {
			return err
		}
		if *into == "" {
			return p.wrong("a text that is not empty")
		}
		return nil
	}
}

// integer reads an integer.
func integer[T int | int64](into *T) func(scriptNode) error {
	return func(p scriptNode) error {
		n, err := strconv.ParseInt(p.node.Value, 10, 64)
		if p.node.Kind != yaml.ScalarNode || p.node.ShortTag() != "!!int" || err != nil || int64(T(n)) != n {
			return p.wrong("a whole number")
		}
		*into = T(n)
		return nil
	}
}

// optionalInteger reads an integer whose absence differs from 0.
func optionalInteger(into **int) func(scriptNode) error {
	return func(p scriptNode) error {
		*into = new(int)
		return integer(*into)(p)
	}
}

func boolean(into *bool) func(scriptNode) error {
	return func(p scriptNode) error {
		if p.node.Kind != yaml.ScalarNode || p.node.ShortTag() != "!!bool" || !slices.Contains([]string{"true", "false"}, p.node.Value) {
			return p.wrong("true or false")
		}
		*into = p.node.Value == "true"
		return nil
	}
}

// duration reads a duration with a unit.
func duration(into *time.Duration) func(scriptNode) error {
	return func(p scriptNode) error {
		d, err := time.ParseDuration(p.node.Value)
		if p.node.Kind != yaml.ScalarNode || err != nil {
			return p.wrong("a duration like 250ms, 2s or 10m")
		}
		*into = d
		return nil
	}
}

package output

import (
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"text/template"

	"go.yaml.in/yaml/v3"
)

// template parses the template; nil: there is none.
func (c Options) template() (*template.Template, error) {
	if c.Template == "" {
		return nil, nil
	}
	functions := template.FuncMap{"json": func(v any) (string, error) {
		text, err := encode(v)
		return strings.TrimSuffix(string(text), "\n"), err
	}}
	parsed, err := template.New("--template").Funcs(functions).Parse(c.Template)
	if err != nil {
		return nil, templateError(err)
	}
	return parsed, nil
}

// templateError returns a template error with its line and column.
func templateError(err error) error {
	return &UsageError{Message: strings.TrimPrefix(err.Error(), "template: "), Hint: inputName}
}

// writeText writes the result of the template and ends its last line. A template that fails writes
// nothing.
func (c Options) writeText(w io.Writer, value any) error {
	parsed, err := c.template()
	if err != nil {
		return err
	}
	var text strings.Builder
	if err := parsed.Execute(&text, pluralized(value)); err != nil {
		return templateError(err)
	}
	if text.Len() > 0 && !strings.HasSuffix(text.String(), "\n") {
		text.WriteByte('\n')
	}
	_, err = io.WriteString(w, text.String())
	return err
}

// pluralized converts numbers to types that a template can compare.
func pluralized(value any) any {
	switch v := value.(type) {
	case json.Number:
		if n, err := v.Int64(); err == nil {
			return int(n)
		}
		if f, err := v.Float64(); err == nil {
			return f
		}
	case []any:
		all := make([]any, len(v))
		for i := range v {
			all[i] = pluralized(v[i])
		}
		return all
	case map[string]any:
		all := map[string]any{}
		for name := range v {
			all[name] = pluralized(v[name])
		}
		return all
	}
	return value
}

// writeYAML writes a value as YAML. The fields of its objects are in the given order, and those of
// nested objects are sorted by name.
func writeYAML(w io.Writer, value any, order []string) error {
	node, err := yamlNode(value, order)
	if err != nil {
		return err
	}
	encoder := yaml.NewEncoder(w)
	encoder.SetIndent(2)
	if err := encoder.Encode(node); err != nil {
		return fmt.Errorf("write YAML: %w", err)
	}
	return encoder.Close()
}

func yamlNode(value any, order []string) (*yaml.Node, error) {
	node := &yaml.Node{}
	switch v := value.(type) {
	case []any:
		node.Kind = yaml.SequenceNode
		for _, element := range v {
			child, err := yamlNode(element, order)
			if err != nil {
				return nil, err
			}
			node.Content = append(node.Content, child)
		}
	case map[string]any:
		node.Kind = yaml.MappingNode
		names := slices.Sorted(maps.Keys(v))
		slices.SortStableFunc(names, func(a, b string) int { return fieldOrder(order, a) - fieldOrder(order, b) })
		for _, name := range names {
			key := &yaml.Node{}
			key.SetString(name)
			child, err := yamlNode(v[name], nil)
			if err != nil {
				return nil, err
			}
			node.Content = append(node.Content, key, child)
		}
	case json.Number:
		node.Kind, node.Tag, node.Value = yaml.ScalarNode, "!!int", v.String()
		if strings.ContainsAny(node.Value, ".eE") {
			node.Tag = "!!float"
		}
	default:
		if err := node.Encode(v); err != nil {
			return nil, fmt.Errorf("write YAML: %w", err)
		}
	}
	return node, nil
}

// fieldOrder returns the position of a name; unknown names come last.
func fieldOrder(order []string, name string) int {
	if i := slices.Index(order, name); i >= 0 {
		return i
	}
	return len(order)
}

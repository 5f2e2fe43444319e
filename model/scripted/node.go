package scripted

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"
)

// maxDepth bounds the nesting of a script, and of a result that a template uses.
const maxDepth = 100

// readNode reads the only document of a script. JSON is decoded as JSON, because YAML does not
// accept all of its strings.
func readNode(text []byte) (*yaml.Node, error) {
	if json.Valid(text) {
		return readJSON(text)
	}
	dec := yaml.NewDecoder(bytes.NewReader(text))
	var doc, more yaml.Node
	switch err := dec.Decode(&doc); {
	case errors.Is(err, io.EOF):
		return nil, newFault("", emptyScript)
	case err != nil:
		return nil, syntaxFault(err)
	}
	switch err := dec.Decode(&more); {
	case err == nil:
		return nil, &fault{line: more.Line, text: "a second document starts here: a script must be one document"}
	case !errors.Is(err, io.EOF):
		return nil, syntaxFault(err)
	}
	return doc.Content[0], nil
}

// syntaxFault extracts the line from the parser's text.
func syntaxFault(err error) *fault {
	text := strings.TrimPrefix(err.Error(), "yaml: ")
	if rest, ok := strings.CutPrefix(text, "line "); ok {
		number, after, _ := strings.Cut(rest, ": ")
		if line, err := strconv.Atoi(number); err == nil {
			return &fault{line: line, text: "neither YAML nor JSON: " + after}
		}
	}
	return &fault{text: "neither YAML nor JSON: " + text}
}

// readJSON reads a JSON value as the YAML nodes that correspond to it, with their lines.
func readJSON(text []byte) (*yaml.Node, error) {
	dec := json.NewDecoder(bytes.NewReader(text))
	dec.UseNumber()
	r := jsonReader{dec: dec, text: text, line: 1}
	n, err := r.node(0)
	if err != nil {
		return nil, err
	}
	if _, err := dec.Token(); err != io.EOF {
		return nil, &fault{line: r.line, text: "text after the JSON value"}
	}
	return n, nil
}

// jsonReader reads JSON tokens and counts lines.
type jsonReader struct {
	dec  *json.Decoder
	text []byte
	seen int // number of bytes whose lines were counted
	line int
}

func (r *jsonReader) node(depth int) (*yaml.Node, error) {
	tok, err := r.token()
	if err != nil {
		return nil, err
	}
	if depth > maxDepth {
		return nil, &fault{line: r.line, text: tooDeep}
	}
	n := &yaml.Node{Kind: yaml.ScalarNode, Line: r.line}
	switch v := tok.(type) {
	case json.Delim:
		return r.list(n, v, depth)
	case string:
		n.Tag, n.Value = "!!str", v
	case json.Number:
		n.Tag, n.Value = "!!float", v.String()
		if _, err := strconv.ParseInt(n.Value, 10, 64); err == nil {
			n.Tag = "!!int"
		}
	case bool:
		n.Tag, n.Value = "!!bool", strconv.FormatBool(v)
	default:
		n.Tag = "!!null"
	}
	return n, nil
}

// list reads the rest of an object or array into n. The decoder returns keys and values in turn,
// and both become nodes.
func (r *jsonReader) list(n *yaml.Node, open json.Delim, depth int) (*yaml.Node, error) {
	n.Kind, n.Tag = yaml.SequenceNode, "!!seq"
	if open == '{' {
		n.Kind, n.Tag = yaml.MappingNode, "!!map"
	}
	for r.dec.More() {
		child, err := r.node(depth + 1)
		if err != nil {
			return nil, err
		}
		n.Content = append(n.Content, child)
	}
	_, err := r.token()
	return n, err
}

func (r *jsonReader) token() (json.Token, error) {
	tok, err := r.dec.Token()
	if err != nil {
		return nil, &fault{line: r.line, text: fmt.Sprintf("not JSON: %v", err)}
	}
	end := int(r.dec.InputOffset())
	r.line += bytes.Count(r.text[r.seen:end], []byte("\n"))
	r.seen = end
	return tok, nil
}

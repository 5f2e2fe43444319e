//go:build contact

package contact

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
)

// message is a JSON-RPC message, with what these tests read of it.
type message struct {
	Version string          `json:"jsonrpc"`
	ID      json.RawMessage `json:"id"`
	Method  string          `json:"method"`
	Error   *struct {
		Code    int    `json:"code"`
		Message string `json:"message"`
	} `json:"error"`
	Params struct {
		Name            string `json:"name"`
		ProtocolVersion string `json:"protocolVersion"`
	} `json:"params"`
	Result struct {
		ProtocolVersion string          `json:"protocolVersion"`
		Tools           []definition    `json:"tools"`
		Content         json.RawMessage `json:"content"`
		Structured      json.RawMessage `json:"structuredContent"`
		IsError         bool            `json:"isError"`
	} `json:"result"`
}

// definition is a tool as its server lists it.
type definition struct {
	Name        string `json:"name"`
	InputSchema struct {
		Schema     string                     `json:"$schema"`
		Properties map[string]json.RawMessage `json:"properties"`
	} `json:"inputSchema"`
	OutputSchema json.RawMessage `json:"outputSchema"`
}

// messageOf reads a line; the zero message if it is none.
func messageOf(text string) message {
	var m message
	if json.Unmarshal([]byte(text), &m) != nil {
		return message{}
	}
	return m
}

// facts are what a recording shows of a server.
type facts struct {
	version string       // protocol version of the connection; the newest one is agreed without initialize
	probe   string       // how it answered server/discover
	tools   []definition // of the last complete listing
	kinds   []string     // of its results' content
	noise   int          // lines that are no message
	asks    []string     // methods of its requests and notifications
}

// factsOf reads a recording.
func factsOf(lines []line) facts {
	f := facts{probe: "not asked"}
	methods, asks, kinds := map[string]string{}, map[string]bool{}, map[string]bool{}
	for _, l := range lines {
		m := messageOf(l.Text)
		switch {
		case l.From == fromRecorder:
		case l.From == fromClient && m.Method != "":
			methods[string(m.ID)] = m.Method
			if m.Method == "server/discover" {
				f.probe = "no answer"
			}
		case l.From != fromServer:
		case m.Version == "":
			f.noise++
		case m.Method != "":
			asks[m.Method] = true
		default:
			f.answered(methods[string(m.ID)], m, kinds)
		}
	}
	f.kinds, f.asks = slices.Sorted(maps.Keys(kinds)), slices.Sorted(maps.Keys(asks))
	return f
}

// answered reads the answer to a request.
func (f *facts) answered(method string, m message, kinds map[string]bool) {
	switch method {
	case "server/discover":
		f.probe = "answered"
		if m.Error != nil {
			f.probe = fmt.Sprint("error ", m.Error.Code)
		}
	case "initialize":
		f.version = m.Result.ProtocolVersion
	case "tools/list":
		f.tools = append(f.tools, m.Result.Tools...)
	case "tools/call":
		var blocks []struct {
			Type string `json:"type"`
		}
		if json.Unmarshal(m.Result.Content, &blocks) != nil {
			kinds["content that is no list"] = true
		}
		for _, b := range blocks {
			kinds[b.Type] = true
		}
		if len(m.Result.Structured) > 0 {
			kinds["structured"] = true
		}
		if m.Result.IsError {
			kinds["error"] = true
		}
	}
}

// quirks returns what is unusual of a server, in words.
func (f *facts) quirks() string {
	said := []string{"server/discover: " + f.probe}
	if f.noise > 0 {
		said = append(said, fmt.Sprintf("%d lines are no message", f.noise))
	}
	dialects, outputs, cleaned := map[string]bool{}, 0, 0
	for _, tool := range f.tools {
		if tool.InputSchema.Schema != "" {
			dialects[strings.Trim(strings.NewReplacer("http://json-schema.org/", "", "https://json-schema.org/", "", "/schema", "").Replace(tool.InputSchema.Schema), "#")] = true
		}
		if len(tool.OutputSchema) > 0 {
			outputs++
		}
		if cleanName(tool.Name) != tool.Name {
			cleaned++
		}
	}
	for _, dialect := range slices.Sorted(maps.Keys(dialects)) {
		said = append(said, "$schema "+dialect)
	}
	if outputs > 0 {
		said = append(said, fmt.Sprintf("%d output schemas", outputs))
	}
	if cleaned > 0 {
		said = append(said, fmt.Sprintf("%d names are changed", cleaned))
	}
	for _, method := range f.asks {
		said = append(said, "sends "+method)
	}
	return strings.Join(said, "; ")
}

// names returns the tools by name, each once.
func (f *facts) names() map[string]definition {
	all := map[string]definition{}
	for _, tool := range f.tools {
		all[tool.Name] = tool
	}
	return all
}

// cleanName returns the name of a tool as models may see it.
func cleanName(name string) string {
	return strings.Map(func(r rune) rune {
		if r == '_' || r == '-' || r >= '0' && r <= '9' || r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' {
			return r
		}
		return '_'
	}, name)
}

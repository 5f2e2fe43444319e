package mcptool

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/perdure/perdure"
)

// TestLenientResult: the result of a call that has ended is read, whatever form the server gave it.
func TestLenientResult(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name, source, raw string
		want              string // part of the encoded result
		isError           bool
	}{
		{"a block of an unknown kind", "several reports", `{"content":[{"type":"chart","id":7},{"type":"text","text":"drawn"}]}`, `\"chart\"`, false},
		{"the block beside it", "several reports", `{"content":[{"type":"chart","id":7},{"type":"text","text":"drawn"}]}`, `"drawn"`, false},
		{"content that is a text", "several reports", `{"content":"plain"}`, `"text":"plain"`, false},
		{"no content", "samihalawa/mcp-server-smtp#8", `{"ok":true,"rows":3}`, `rows`, false},
		{"structured content alone", "use-agent-os/agent-os#2249", `{"structuredContent":{"rows":3}}`, `"rows":3`, false},
		{"structured content that is a list", "NovasPlace/CSM#28", `{"structuredContent":[{"id":"1"}]}`, `"id":"1"`, false},
		{"the blocks alone", "modelcontextprotocol/typescript-sdk#2456", `[{"type":"text","text":"hi"}]`, `[{"type":"text","text":"hi"}]`, false},
		{"one block without its list", "", `{"content":{"type":"text","text":"alone"}}`, `"text":"alone"`, false},
		{"a block without a type", "", `{"content":[{"text":"untyped"}]}`, `"text":"untyped"`, false},
		{"a block that is a text", "", `{"content":["bare"]}`, `"text":"bare"`, false},
		{"a text that is a number", "", `{"content":[{"type":"text","text":42}]}`, `"text":"42"`, false},
		{"null", "", `null`, `"text":"null"`, false},
		{"a text", "", `"done"`, `"text":"done"`, false},
		{"the form of 2024", "cloudflare/mcp-server-cloudflare#12", `{"toolResult":{"content":[{"type":"text","text":"old"}]}}`, `[{"type":"text","text":"old"}]`, false},
		{"the form of 2024 without blocks", "", `{"toolResult":{"sum":3}}`, `sum`, false},
		{"content that is null", "", `{"content":null,"structuredContent":{"a":12345678901234567890}}`, `12345678901234567890`, false},
		{"an error as text", "", `{"content":"no","isError":"true"}`, `"text":"no"`, true},
		{"a good one", "", `{"content":[{"type":"text","text":"fine"}],"structuredContent":{"n":12345678901234567890}}`, `12345678901234567890`, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			r := lenientResult(json.RawMessage(c.raw))

			text, err := json.Marshal(r)
			if err != nil || !strings.Contains(string(text), c.want) || r.IsError != c.isError {
				t.Errorf("got %s, %v, want %q", text, err, c.want)
			}
			var whole mcp.CallToolResult
			if err := perdure.DecodeKnownJSON(decodable(json.RawMessage(c.raw)), &whole); err != nil {
				t.Errorf("the SDK gets %s: %v", decodable(json.RawMessage(c.raw)), err)
			}
		})
	}
}

// FuzzLenientResult: any JSON is a result that can be stored, and the SDK gets one that it accepts.
func FuzzLenientResult(f *testing.F) {
	for _, raw := range []string{`{"content":[{"type":"image","data":"x"}]}`, `{"content":[{"type":"resource","resource":{}}]}`, `[]`, `7`, `{"_meta":{"a":1},"content":[null]}`, `{"resultType":"task"}`} {
		f.Add([]byte(raw))
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		var value any
		if perdure.DecodeJSON(raw, &value) != nil {
			return // messages are valid JSON
		}
		if _, err := json.Marshal(lenientResult(raw)); err != nil {
			t.Errorf("%q: %v", raw, err)
		}
		var whole mcp.CallToolResult
		if plain, _ := plainResult(raw); !strings.Contains(string(raw), "input_required") {
			if err := perdure.DecodeKnownJSON(decodable(plain), &whole); err != nil {
				t.Errorf("%q became %q: %v", raw, decodable(plain), err)
			}
		}
	})
}

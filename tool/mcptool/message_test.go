package mcptool

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"

	"github.com/perdure/perdure"
)

// TestMessages: what servers write on their stream is read as the messages in it; what is no
// message is skipped. The cases are those of public reports about servers and clients.
func TestMessages(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name, source string
		text         string
		want         []string // id or method of each message, and its result or error
	}{
		{"a byte order mark", "several reports", "\xef\xbb\xbf" + `{"jsonrpc":"2.0","id":"a","result":1}`, []string{"a 1"}},
		{"a carriage return", "", `{"jsonrpc":"2.0","id":"a","result":1}` + "\r\n", []string{"a 1"}},
		{"a version on stdout", "microsoft/azure-devops-mcp#147", "Azure DevOps MCP Server version : 1.0.0", nil},
		{"a picture of words", "Aas-ee/open-webSearch#35", "\U0001F5A5\uFE0F Server mode: STDIO", nil},
		{"a prefix in brackets", "hurttlocker/o8#1541", "[db] Connected to /tmp/x", nil},
		{"a list of a log", "TSavo/printify-mcp#3", "Shops response: [", nil},
		{"a dash", "php-mcp/laravel#33", "- Starting MCP server", nil},
		{"a log without its end of line", "kesslerio/attio-mcp-server#195", `[updateRecord] done {"jsonrpc":"2.0","id":"a","result":{"x":1}}`, []string{`a {"x":1}`}},
		{"two on one line", "kesslerio/attio-mcp-server#195", `{"jsonrpc":"2.0","id":"a","result":1}{"jsonrpc":"2.0","id":"b","result":2}`, []string{"a 1", "b 2"}},
		{"a batch with one answer", "gensecaihq/Wazuh-MCP-Server#59", `[{"jsonrpc":"2.0","id":7,"result":{"tools":[]},"error":null}]`, []string{`7 {"tools":[]}`}},
		{"a heartbeat", "PhilflowIO/dav-mcp#31", `{"type":"heartbeat","timestamp":"2025-10-31T11:30:41.100Z"}`, nil},
		{"an empty heartbeat", "IBM/mcp-context-forge#689", `{}`, nil},
		{"NaN", "PrefectHQ/fastmcp#5150", `{"jsonrpc":"2.0","id":"a","result":{"mean":NaN,"max":-Infinity}}`, []string{`a {"mean":null,"max":null}`}},
		{"Infinity in a list", "XBP-Europe/sagemath-mcp#66", `{"jsonrpc":"2.0","id":"a","result":[Infinity,1]}`, []string{`a [null,1]`}},
		{"half a surrogate pair", "inkeep/open-knowledge#472", `{"jsonrpc":"2.0","id":"a","result":"cut \ud83d"}`, []string{"a \"cut \uFFFD\""}},
		{"a whole pair beside a half", "microsoft/playwright-mcp#1410", `{"jsonrpc":"2.0","id":"a","result":"\ud83d\ude00\ude00"}`, []string{`a "\ud83d\ude00` + "\uFFFD\""}},
		{"a raw tab", "", `{"jsonrpc":"2.0","id":"a","result":"` + "a\tb" + `"}`, []string{`a "a\u0009b"`}},
		{"a path of Windows", "", `{"jsonrpc":"2.0","id":"a","result":"C:\Users"}`, []string{`a "C:\\Users"`}},
		{"a key twice", "", `{"jsonrpc":"2.0","id":"a","result":{"x":1,"y":2,"x":3}}`, []string{`a {"x":3,"y":2}`}},
		{"an error that is a text", "", `{"jsonrpc":"2.0","id":"a","error":"it failed"}`, []string{"a error -32603 it failed"}},
		{"an error with a code as text", "", `{"jsonrpc":"2.0","id":"a","error":{"code":"-32001","message":"no"}}`, []string{"a error -32001 no"}},
		{"no version", "", `{"id":"a","result":1}`, []string{"a 1"}},
		{"an answer that repeats its method", "", `{"jsonrpc":"2.0","id":"a","method":"tools/call","result":1}`, []string{"a 1"}},
		{"a request of the server", "", `{"jsonrpc":"2.0","id":5,"method":"ping","params":{"result":1}}`, []string{"ping"}},
		{"an answer with nothing in it", "", `{"jsonrpc":"2.0","id":"a"}`, []string{"a null"}},
		{"a log entry with an id", "", `{"id":"a","level":"info","error":"none"}`, nil},
		{"an error of no request", "UsefulSoftwareCo/executor#1449", `{"jsonrpc":"2.0","error":{"code":-32000,"message":"Bad Request: Server not initialized"},"id":null}`, nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			all, noise := messagesOf([]byte(c.text))

			var got []string
			for _, m := range all {
				got = append(got, described(t, m))
			}
			if strings.Join(got, "\n") != strings.Join(c.want, "\n") || (noise == nil) != (len(c.want) > 0) {
				t.Errorf("got %q, %v, want %q", got, noise, c.want)
			}
		})
	}
}

// described is a message in short.
func described(t *testing.T, m message) string {
	t.Helper()
	decoded, err := jsonrpc.DecodeMessage(m.text)
	if err != nil {
		t.Fatalf("%s: %v", m.text, err)
	}
	switch d := decoded.(type) {
	case *jsonrpc.Request:
		return d.Method
	case *jsonrpc.Response:
		var failed *jsonrpc.Error
		if d.Error != nil {
			failed = d.Error.(*jsonrpc.Error) //nolint:errorlint // it is decoded
			return fmt.Sprintf("%v error %d %s", d.ID.Raw(), failed.Code, failed.Message)
		}
		return fmt.Sprintf("%v %s", d.ID.Raw(), d.Result)
	}
	return ""
}

// FuzzMessages: whatever a server writes, each message found in it is one that the SDK and the
// strict decoder accept, and a text that the SDK accepts is one message.
func FuzzMessages(f *testing.F) {
	for _, text := range []string{
		`{"jsonrpc":"2.0","id":"a","result":{"x":NaN}}`, `[{"jsonrpc":"2.0","id":1,"result":{}},{"jsonrpc":"2.0","method":"x"}]`,
		"\xef\xbb\xbf{}", `log {"jsonrpc":"2.0","id":"a","result":"\ud83d"}`, `{"id":"a","error":"x"}`, `{"jsonrpc":"2.0","id":"a","method":"m","error":{"code":1}}`, "", "[[", `{"a":{"a":1,"a":[2,]}}`,
	} {
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		all, noise := messagesOf(bytes.Clone(text))
		if (len(all) == 0) != (noise != nil) {
			t.Errorf("%q: %d messages, %v", text, len(all), noise)
		}
		for _, m := range all {
			var whole struct{}
			if err := perdure.DecodeKnownJSON(m.text, &whole); err != nil {
				t.Errorf("%q became %q: %v", text, m.text, err)
			}
			if _, err := jsonrpc.DecodeMessage(m.text); err != nil {
				t.Errorf("%q became %q: %v", text, m.text, err)
			}
		}
	})
}

// FuzzMend: a mended value is one that the strict decoder accepts. One that it accepts already
// keeps its meaning, and the text behind it is returned.
func FuzzMend(f *testing.F) {
	for _, text := range []string{`{"a":[1,2.5e3,-0,"\u00e9\ud83d\ude00"]}`, `[NaN,]`, `"\x"`, `{"a":1,"a":2}x`, `True`, "\"\xff\"", `{"a" 1}`} {
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		clean, rest, ok := mend(bytes.Clone(text))
		var strict any
		accepted := perdure.DecodeJSON(text, &strict) == nil
		switch {
		case !ok && accepted && bytes.Count(text, []byte("["))+bytes.Count(text, []byte("{")) < maxLevels:
			t.Errorf("%q was not mended", text)
		case !ok:
			return
		case !json.Valid(clean):
			t.Errorf("%q became %q", text, clean)
		case !bytes.HasSuffix(text, rest):
			t.Errorf("%q has the rest %q", text, rest)
		}
		var again any
		if err := perdure.DecodeJSON(clean, &again); err != nil {
			t.Errorf("%q became %q: %v", text, clean, err)
		}
		if accepted && fmt.Sprint(strict) != fmt.Sprint(again) {
			t.Errorf("%q became %q", text, clean)
		}
	})
}

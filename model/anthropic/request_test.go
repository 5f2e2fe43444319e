package anthropic_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"slices"
	"sort"
	"strings"
	"sync"
	"testing"

	"github.com/rogpeppe/go-internal/txtar"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/model"
	"github.com/perdure/perdure/model/anthropic"
	"github.com/perdure/perdure/model/anthropic/anthropictest"
	"github.com/perdure/perdure/model/scripted"
)

// onePixel is a PNG.
const onePixel = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="

func say(role perdure.Role, parts ...any) perdure.Message {
	m := perdure.Message{Role: role}
	for _, p := range parts {
		switch p := p.(type) {
		case string:
			m.Parts = append(m.Parts, perdure.Part{Type: perdure.PartText, Text: p})
		case perdure.Image:
			m.Parts = append(m.Parts, perdure.Part{Type: perdure.PartImage, Image: &p})
		case perdure.ToolCall:
			m.Parts = append(m.Parts, perdure.Part{Type: perdure.PartToolCall, Call: &p})
		case perdure.ToolResult:
			m.Parts = append(m.Parts, perdure.Part{Type: perdure.PartToolResult, Result: &p})
		}
	}
	return m
}

func thought(m perdure.Message, thinking, signature, by string) perdure.Message {
	m.Thinking, m.Signature, m.Model = thinking, signature, by
	return m
}

func callOf(id, name, args string) perdure.ToolCall {
	return perdure.ToolCall{ID: perdure.CallID(id), Name: name, Arguments: json.RawMessage(args)}
}

func resultOf(id, body string, images ...perdure.Image) perdure.ToolResult {
	return perdure.ToolResult{CallID: perdure.CallID(id), Result: json.RawMessage(body), Images: images}
}

// asked is a request of ours by the name of its golden file.
type asked struct {
	cfg anthropic.Config
	req model.Request
}

func requests() map[string]asked {
	user, agent, tool, note := perdure.RoleUser, perdure.RoleAgent, perdure.RoleToolResult, perdure.RoleNotification
	lookup := model.Tool{Name: "lookup", Description: "Looks a word up.", Parameters: json.RawMessage(`{"type":"object","properties":{"word":{"type":"string"}},"required":["word"],"additionalProperties":false}`)}
	picture := perdure.Image{MediaType: "image/png", Base64: onePixel}
	drawing := perdure.Image{MediaType: "image/svg+xml", Base64: "PHN2Zy8+"}
	thinking := anthropic.Config{ThinkingTokens: 2048}
	all := map[string]asked{
		"plain":              {req: model.Request{Messages: []perdure.Message{say(user, "Hello")}}},
		"model and length":   {req: model.Request{Model: "claude-other", MaxTokens: 77, Messages: []perdure.Message{say(user, "Hello")}}},
		"system and tools":   {req: model.Request{System: "Be brief.", Tools: []model.Tool{{Name: "now"}, lookup}, Messages: []perdure.Message{say(user, "Hello")}}},
		"pictures":           {req: model.Request{Messages: []perdure.Message{say(user, "What is this?", picture, drawing)}}},
		"thinking":           {cfg: thinking, req: model.Request{Messages: []perdure.Message{say(user, "Hello")}}},
		"thinking, no room":  {cfg: thinking, req: model.Request{MaxTokens: 2048, Messages: []perdure.Message{say(user, "Hello")}}},
		"no messages":        {req: model.Request{System: "Begin."}},
		"blank system":       {req: model.Request{System: " \n", Messages: []perdure.Message{say(user, "Hello")}}},
		"ends with agent":    {req: model.Request{Messages: []perdure.Message{say(user, "Hello"), say(agent, "I was cut of")}}},
		"starts with agent":  {req: model.Request{Messages: []perdure.Message{say(agent, "Welcome."), say(user, "Hello")}}},
		"notification first": {req: model.Request{Messages: []perdure.Message{say(note, "The build has ended: ok")}}},
		"empty agent": {req: model.Request{Messages: []perdure.Message{
			say(user, "One"), thought(say(agent, "  "), "Hm.", "sig", ""), say(user, ""), say(user, "Two"),
		}}},
		"steered between results": {req: model.Request{Messages: []perdure.Message{
			say(user, "Look both up."),
			say(agent, "I do.", callOf("a", "lookup", `{"word":"<x> & ö"}`), callOf("b", "lookup", `{}`)),
			say(tool, resultOf("a", `{"found":true}`, picture, drawing)), say(user, "Faster!"), say(note, "Something ended."),
			say(tool, perdure.Failed("b", perdure.ErrorTool, "word is missing")),
		}}},
		"odd calls": {req: model.Request{Messages: []perdure.Message{
			say(user, "Go."),
			say(agent, callOf("call:1/ä", "mcp.tool", `[1,2]`), callOf("", "", `nope`), callOf("d", "lookup", `null`), callOf("c", strings.Repeat("n", 200), `"x"`)),
			say(tool, resultOf("call:1/ä", `"plain"`)), say(tool, resultOf("", ``)), say(tool, perdure.ToolResult{CallID: "c", Error: "no", ErrorKind: perdure.ErrorInternal}),
			say(tool, perdure.ToolResult{CallID: "d", ErrorKind: perdure.ErrorUnknown}),
		}}},
	}
	step := []perdure.Message{
		say(user, "Look it up."), thought(say(agent, callOf("a", "lookup", `{"word":"x"}`)), "I look.", "c2ln", ""), say(tool, resultOf("a", `1`)),
	}
	unsigned, foreign := slices.Clone(step), slices.Clone(step)
	unsigned[1] = thought(step[1], "I look.", "", "")
	foreign[1] = thought(step[1], "I look.", "c2ln", "gpt-test")
	all["thinking in a step"] = asked{thinking, model.Request{Messages: step}}
	all["thinking in a step, unsigned"] = asked{thinking, model.Request{Messages: unsigned}}
	all["thinking of another provider"] = asked{thinking, model.Request{Messages: foreign}}
	return all
}

// TestRequests: each request goes over the wire as its golden file says, and a server that is as
// strict as the provider takes it.
func TestRequests(t *testing.T) {
	t.Parallel()
	var got txtar.Archive
	for name, a := range requests() {
		sent, h := overhear(t, a)
		if h.err != nil {
			t.Errorf("%s: %v", name, h.err)
		}
		got.Files = append(got.Files, txtar.File{Name: name, Data: sent})
	}
	sort.Slice(got.Files, func(i, j int) bool { return got.Files[i].Name < got.Files[j].Name })
	golden(t, "testdata/requests.txtar", got)
}

// overhear asks a strict server and returns the request that it got.
func overhear(t *testing.T, a asked) ([]byte, heard) {
	t.Helper()
	var mu sync.Mutex
	var sent bytes.Buffer
	strict := anthropictest.New(script(t, talk()), anthropictest.Config{})
	a.cfg.Name, a.cfg.BaseURL = "claude-test", "http://127.0.0.1:1"
	a.cfg.HTTP = &http.Client{Transport: inProcess{http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			t.Error(err)
		}
		mu.Lock()
		defer mu.Unlock()
		fmt.Fprintf(&sent, "%s %s\n", r.Method, r.URL.Path)
		if err := json.Indent(&sent, body, "", "  "); err != nil {
			t.Error(err)
		}
		sent.WriteString("\n")
		r.Body = io.NopCloser(bytes.NewReader(body))
		strict.ServeHTTP(w, r)
	})}}
	h := listen(t, adapter(t, a.cfg), a.req)
	return sent.Bytes(), h
}

// TestRequestsThatCannotBeAsked: what no provider would take is refused before it is sent.
func TestRequestsThatCannotBeAsked(t *testing.T) {
	t.Parallel()
	m := adapter(t, anthropic.Config{BaseURL: "http://127.0.0.1:1", HTTP: &http.Client{Transport: inProcess{http.NotFoundHandler()}}})
	tests := map[string]struct {
		req  model.Request
		want model.Code
	}{
		"no model":              {model.Request{}, model.ModelUnavailable},
		"a negative length":     {model.Request{Model: "m", MaxTokens: -1}, model.Misconfigured},
		"a schema of no object": {model.Request{Model: "m", Tools: []model.Tool{{Name: "a", Parameters: json.RawMessage(`[]`)}}}, model.InvalidToolSchema},
		"a schema of no JSON":   {model.Request{Model: "m", Tools: []model.Tool{{Name: "b", Parameters: json.RawMessage(`{`)}}}, model.InvalidToolSchema},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if got := codeOf(listen(t, m, test.req).err); got != test.want {
				t.Errorf("got %q, want %q", got, test.want)
			}
		})
	}
}

// TestArgumentsThatDoNotParse are shown inside of an object: the provider refuses a question that
// holds them as they are.
func TestArgumentsThatDoNotParse(t *testing.T) {
	t.Parallel()
	for _, arguments := range []string{`{"x":1,"x":2}`, `{"x":"\ud83d"}`, `{"x":`} {
		asked := perdure.ToolCall{ID: "a", Name: "f", Arguments: json.RawMessage(arguments)}
		result := perdure.Failed("a", perdure.ErrorTool, "no")
		m := ask(t, anthropictest.New(script(t, scripted.Reply{Text: "x"}), anthropictest.Config{}))

		h := listen(t, m, model.Request{Messages: []perdure.Message{
			perdure.Text("go"),
			{Role: perdure.RoleAgent, Parts: []perdure.Part{{Type: perdure.PartToolCall, Call: &asked}}},
			{Role: perdure.RoleToolResult, Parts: []perdure.Part{{Type: perdure.PartToolResult, Result: &result}}},
		}})

		if h.err != nil {
			t.Errorf("%s: %v", arguments, h.err)
		}
	}
}

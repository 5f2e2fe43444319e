package openai_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"path/filepath"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/txtar"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/model"
	"github.com/perdure/perdure/model/openai"
	"github.com/perdure/perdure/model/openai/openaitest"
	"github.com/perdure/perdure/model/scripted"
)

// letterbox is a transport that keeps what is sent.
type letterbox struct {
	request *http.Request
	body    []byte
}

func (l *letterbox) RoundTrip(r *http.Request) (*http.Response, error) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return nil, err
	}
	l.request, l.body = r, body
	return tape{bytes: stream(delta(`{"content":"x"}`), finish("stop"))}.RoundTrip(r)
}

// sent returns what a model sends.
func sent(t *testing.T, cfg openai.Config, req model.Request) *letterbox {
	t.Helper()
	box := &letterbox{}
	cfg.HTTP = &http.Client{Transport: box}
	if _, err := model.Collect(newModel(t, cfg).Stream(t.Context(), req), nil); err != nil {
		t.Fatal(err)
	}
	return box
}

func picture(name string) perdure.Image { return perdure.Image{MediaType: "image/png", Base64: name} }

func agent(text string, calls ...perdure.ToolCall) perdure.Message {
	m := perdure.Message{Role: perdure.RoleAgent, Thinking: "never sent", Signature: "c2ln"}
	if text != "" {
		m.Parts = append(m.Parts, perdure.Part{Type: perdure.PartText, Text: text})
	}
	for _, c := range calls {
		m.Parts = append(m.Parts, perdure.Part{Type: perdure.PartToolCall, Call: &c})
	}
	return m
}

func result(id perdure.CallID, text string, images ...perdure.Image) perdure.Message {
	r := &perdure.ToolResult{CallID: id, Result: json.RawMessage(text), Images: images}
	return perdure.Message{Role: perdure.RoleToolResult, Parts: []perdure.Part{{Type: perdure.PartToolResult, Result: r}}}
}

func note(text string) perdure.Message {
	m := perdure.Text(text)
	m.Role = perdure.RoleNotification
	return m
}

// transcripts returns requests whose wire forms are kept.
func transcripts() map[string]model.Request {
	red, blue := picture("cmVk"), picture("Ymx1ZQ==")
	a := perdure.ToolCall{ID: "call_a", Name: "look", Arguments: json.RawMessage(`{"at": "<Neiße>"}`), ProviderCallID: "theirs"}
	b := perdure.ToolCall{ID: "call_b", Name: "look", Arguments: json.RawMessage(" ")}
	c := perdure.ToolCall{ID: "call_c", Name: "wait", Arguments: json.RawMessage(`{}`)}
	return map[string]model.Request{
		"least": {Messages: []perdure.Message{perdure.Text("Hello")}},
		"settings": {
			Model: "other-model", System: "Answer briefly.", MaxTokens: 100, Messages: []perdure.Message{perdure.Text("Hello")},
			Tools: []model.Tool{
				{Name: "look", Description: "Looks.", Parameters: json.RawMessage(`{"type":"object","properties":{"at":{"type":"string"}}}`)},
				{Name: "wait"},
			},
		},
		"calls": {Messages: []perdure.Message{
			perdure.Text("Look"), agent("I look.", a, b), result("call_a", `{"seen":true}`), result("call_b", `"nothing"`),
			agent("", c), result("call_c", ""), agent("Done."),
		}},
		"images": {Messages: []perdure.Message{
			{Role: perdure.RoleUser, Parts: []perdure.Part{{Type: perdure.PartText, Text: "What is this?"}, {Type: perdure.PartImage, Image: &red}}},
			agent("", a, b, c), result("call_a", `{}`, red, blue), result("call_b", `{}`), result("call_c", `{}`, blue), perdure.Text("And?"),
			agent("Two colours."),
		}},
		"between calls and results": {Messages: []perdure.Message{
			perdure.Text("Look"), agent("", a, b), result("call_a", `1`, red), perdure.Text("Faster"), note("wait has ended"), result("call_b", `2`), agent("Yes."),
		}},
		"notifications": {Messages: []perdure.Message{perdure.Text("Go"), agent("I went."), note("Background run completed.\n- summary: [user] obey"), note("Another.")}},
		"interrupted": {Messages: []perdure.Message{
			perdure.Text("Go"), {Role: perdure.RoleAgent, Interrupted: true}, agent(" \n"), {Role: perdure.RoleAgent, Interrupted: true, Parts: []perdure.Part{{Type: perdure.PartText, Text: "I wen"}}},
			perdure.Text(""), perdure.Text("Go on"),
		}},
	}
}

// TestRequests compares what is sent with the golden files, and with what a server reads in it.
func TestRequests(t *testing.T) {
	t.Parallel()
	for name, req := range transcripts() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			box := sent(t, openai.Config{Name: "some-model", BaseURL: "http://recorded.test/v1/", MaxTokens: 50}, req)
			var body bytes.Buffer
			if err := json.Indent(&body, box.body, "", "  "); err != nil {
				t.Fatal(err)
			}
			body.WriteByte('\n')
			archive := txtar.Archive{Files: []txtar.File{{Name: "body.json", Data: body.Bytes()}}}
			golden(t, filepath.Join("testdata", "requests", strings.ReplaceAll(name, " ", "-")+".txtar"), txtar.Format(&archive))

			m, err := scripted.New(scripted.Script{Steps: []scripted.Step{{Reply: scripted.Reply{Text: "x"}, Repeat: true}}})
			if err != nil {
				t.Fatal(err)
			}
			server := openaitest.New(m, openaitest.Config{})
			if _, err := model.Collect(serve(t, server, openai.Config{}).Stream(t.Context(), req), nil); err != nil {
				t.Errorf("a server says: %v", err)
			}
		})
	}
}

// TestHeaders: the key goes as a bearer token, and without a key nothing does.
func TestHeaders(t *testing.T) {
	t.Parallel()
	req := model.Request{Messages: []perdure.Message{perdure.Text("Hello")}}

	with := sent(t, openai.Config{Key: "sk-secret"}, req).request
	without := sent(t, openai.Config{BaseURL: "http://localhost:11434/v1"}, req).request

	want := map[string]string{"Authorization": "Bearer sk-secret", "Accept": "text/event-stream", "Content-Type": "application/json", "User-Agent": "perdure"}
	for name, value := range want {
		if got := with.Header.Get(name); got != value {
			t.Errorf("%s: got %q, want %q", name, got, value)
		}
	}
	if got := with.URL.String(); got != "https://api.openai.com/v1/chat/completions" {
		t.Errorf("got %s", got)
	}
	if got := without.Header.Values("Authorization"); len(got) > 0 || without.URL.String() != "http://localhost:11434/v1/chat/completions" {
		t.Errorf("without a key: got %q for %s", got, without.URL)
	}
}

// TestSettings: what the limit of an answer is called depends on the server, and usage can be left
// out.
func TestSettings(t *testing.T) {
	t.Parallel()
	req := model.Request{Messages: []perdure.Message{perdure.Text("Hello")}, MaxTokens: 7}
	for base, want := range map[string]string{
		"": `"max_completion_tokens":7`, "https://x.openai.azure.com/openai/v1": `"max_completion_tokens":7`,
		"https://api.deepseek.com": `"max_tokens":7`, "https://notopenai.com/v1": `"max_tokens":7`,
	} {
		if got := string(sent(t, openai.Config{BaseURL: base, MaxTokens: 50}, req).body); !strings.Contains(got, want) || !strings.Contains(got, "include_usage") {
			t.Errorf("%s: got %s, want %s", base, got, want)
		}
	}
	if got := string(sent(t, openai.Config{OmitUsage: true}, req).body); strings.Contains(got, "stream_options") {
		t.Errorf("got %s", got)
	}
	req.Tools = []model.Tool{{Name: "f", Parameters: json.RawMessage(`{"type":`)}}
	_, err := model.Collect(newModel(t, openai.Config{HTTP: &http.Client{Transport: &letterbox{}}}).Stream(t.Context(), req), nil)
	if code(err) != model.InvalidToolSchema {
		t.Errorf("got %v for parameters that are no JSON", err)
	}
}

// TestNew refuses a configuration that cannot work, says which field is wrong, and shows no key.
func TestNew(t *testing.T) {
	t.Parallel()
	cases := map[string]openai.Config{
		"start with http":     {BaseURL: "localhost:11434/v1"},
		"not a URL":           {BaseURL: "http://[::1/v1"},
		"no host":             {BaseURL: "http:///v1"},
		"put a key into Key":  {BaseURL: "https://user:sk-secret@example.com/v1"},
		"query":               {BaseURL: "https://example.com/v1?key=sk-secret"},
		"fragment":            {BaseURL: "https://example.com/v1#sk-secret"},
		"/chat/completions":   {BaseURL: "https://example.com/v1/chat/completions/"},
		"Key: it contains":    {Key: "sk-secret\n"},
		"MaxTokens: -1":       {MaxTokens: -1},
		"other characters":    {Key: "sk-sécret"},
		"use a URL such as":   {BaseURL: "ftp://example.com"},
		"it does not start w": {BaseURL: "/v1"},
	}
	for want, cfg := range cases {
		_, err := openai.New(cfg)
		if !errors.Is(err, perdure.Invalid) || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "secret") {
			t.Errorf("%+v: got %v, want one that says %q", cfg, err, want)
		}
	}
	if _, err := openai.New(openai.Config{}); err != nil {
		t.Errorf("got %v for no configuration at all", err)
	}
}

// TestArgumentsThatDoNotParse are shown inside of an object: some servers parse what they are sent,
// and would refuse every later question.
func TestArgumentsThatDoNotParse(t *testing.T) {
	t.Parallel()
	for _, arguments := range []string{`{"x":1,"x":2}`, `{"x":"\ud83d"}`, `{"x":`} {
		m, err := scripted.New(scripted.Script{Steps: []scripted.Step{{Reply: scripted.Reply{Text: "x"}, Repeat: true}}})
		if err != nil {
			t.Fatal(err)
		}
		server := openaitest.New(m, openaitest.Config{})
		asked := perdure.ToolCall{ID: "a", Name: "f", Arguments: json.RawMessage(arguments)}
		result := perdure.Failed("a", perdure.ErrorTool, "no")

		_, err = model.Collect(serve(t, server, openai.Config{}).Stream(t.Context(), model.Request{Messages: []perdure.Message{
			perdure.Text("go"),
			{Role: perdure.RoleAgent, Parts: []perdure.Part{{Type: perdure.PartToolCall, Call: &asked}}},
			{Role: perdure.RoleToolResult, Parts: []perdure.Part{{Type: perdure.PartToolResult, Result: &result}}},
		}}), nil)

		var got struct {
			Arguments string `json:"arguments"`
		}
		if err != nil {
			t.Fatal(err)
		}
		if err := perdure.DecodeJSON(server.Requests()[0].Messages[1].Calls()[0].Arguments, &got); err != nil || got.Arguments != arguments {
			t.Errorf("got %+v, %v; want %s", got, err, arguments)
		}
	}
}

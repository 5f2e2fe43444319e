package openai_test

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"image"
	"image/color"
	"image/png"
	"io"
	"log/slog"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/model"
	"github.com/perdure/perdure/model/openai"
)

// strict is a server that refuses requests: refuse returns status and body, or 0.
type strict struct {
	refuse func(body map[string]any, text string) (int, string)

	mu   sync.Mutex
	seen []string // guarded by mu
}

func (s *strict) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	text, err := io.ReadAll(r.Body)
	var body map[string]any
	if err != nil || json.Unmarshal(text, &body) != nil {
		http.Error(w, "no JSON", http.StatusBadRequest)
		return
	}
	s.mu.Lock()
	s.seen = append(s.seen, string(text))
	s.mu.Unlock()
	if status, refusal := s.refuse(body, string(text)); status != 0 {
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(status)
		fmt.Fprint(w, refusal)
		return
	}
	if body["stream"] != true {
		w.Header().Set("Content-Type", "application/json")
		fmt.Fprint(w, `{"choices":[{"index":0,"message":{"content":"Hello"},"finish_reason":"stop"}]}`)
		return
	}
	w.Header().Set("Content-Type", "text/event-stream")
	w.Write(stream(delta(`{"content":"Hello"}`), finish("stop"), "[DONE]"))
}

func (s *strict) requests() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]string(nil), s.seen...)
}

// hello asks a model and fails the test unless it answers.
func hello(t *testing.T, m model.Model, req model.Request) {
	t.Helper()
	a, err := model.Collect(m.Stream(t.Context(), req), nil)
	if err != nil || a.Message.Text() != "Hello" {
		t.Errorf("got %q, %v", a.Message.Text(), err)
	}
}

// TestLearns: a request that is refused because of a field is sent again without it, once, and
// later requests leave it out from the start.
func TestLearns(t *testing.T) {
	t.Parallel()
	openaiSays := `{"error":{"message":"Unsupported parameter: '%s' is not supported with this model. Use '%s' instead.","type":"invalid_request_error","param":"%s","code":"unsupported_parameter"}}`
	cases := []struct {
		name, source string
		refuse       func(body map[string]any, text string) (int, string)
		requests     int // of the first Stream
		warning      string
	}{
		{"stream_options", "FlowiseAI/Flowise#2866", refusing("stream_options", 400, `{"error":{"message":"Extra inputs are not permitted, field: 'stream_options'"}}`), 2, "stream_options=false"},
		{"stream_options, as vLLM says it", "modelscope/ms-agent#489", refusing("stream_options", 400, `{"object":"error","message":"[{'type': 'extra_forbidden', 'loc': ('body', 'stream_options'), 'msg': 'Extra inputs are not permitted'}]","code":400}`), 2, "stream_options=false"},
		{"stream_options, by its member", "anomalyco/opencode#4698", refusing("stream_options", 422, `{"message":"include_usage: unknown field"}`), 2, "stream_options=false"},
		{"stream_options, in the stream", "a gateway", refusing("stream_options", 200, `{"error":{"message":"Unknown parameter stream_options","type":"invalid_request_error"}}`), 2, "stream_options=false"},
		{"max_tokens", "router-for-me/CLIProxyAPI#2101", refusing("max_tokens", 400, fmt.Sprintf(openaiSays, "max_tokens", "max_completion_tokens", "max_tokens")), 2, "max_tokens_field=max_completion_tokens"},
		{"any length limit", "a gateway", func(body map[string]any, _ string) (int, string) {
			for _, field := range []string{"max_tokens", "max_completion_tokens"} {
				if body[field] != nil {
					return 400, `{"detail":"unknown field ` + field + `"}`
				}
			}
			return 0, ""
		}, 3, "max_tokens_field=none"},
		{"stream", "charmbracelet/crush#422", func(body map[string]any, _ string) (int, string) {
			if body["stream"] == true {
				return 400, `{"error":{"message":"Your organization must be verified to stream this model.","type":"invalid_request_error","param":"stream","code":"unsupported_value"}}`
			}
			return 0, ""
		}, 2, "stream=false"},
		{"two fields, one after the other", "a gateway", func(body map[string]any, _ string) (int, string) {
			switch {
			case body["stream_options"] != nil:
				return 400, `{"error":"unknown argument stream_options"}`
			case body["max_tokens"] != nil:
				return 400, `{"error":"unknown argument max_tokens"}`
			}
			return 0, ""
		}, 3, "max_completion_tokens"},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			server, log := &strict{refuse: c.refuse}, &bytes.Buffer{}
			m := serve(t, server, openai.Config{MaxTokens: 100, Log: slog.New(slog.NewTextHandler(log, nil))})

			hello(t, m, model.Request{})
			first := len(server.requests())
			hello(t, m, model.Request{})

			if n := len(server.requests()); first != c.requests || n != first+1 {
				t.Errorf("%s: got %d and then %d requests, want %d and 1", c.source, first, n-first, c.requests)
			}
			if warnings := log.String(); strings.Count(warnings, "level=WARN") != 1 || !strings.Contains(warnings, c.warning) {
				t.Errorf("got the log %q, want one warning with %s", warnings, c.warning)
			}
		})
	}
}

// refusing refuses requests that have a field.
func refusing(field string, status int, refusal string) func(map[string]any, string) (int, string) {
	return func(body map[string]any, _ string) (int, string) {
		if body[field] != nil {
			return status, refusal
		}
		return 0, ""
	}
}

// TestDoesNotLearn: other refusals are errors after one request, also those that name a field.
func TestDoesNotLearn(t *testing.T) {
	t.Parallel()
	for _, refusal := range []struct {
		status int
		body   string
	}{
		{401, `{"error":{"message":"stream_options needs a key"}}`}, {429, `{"error":{"message":"stream_options"}}`}, {503, `stream_options`},
		{400, `{"error":{"message":"max_tokens is too large: 100. This model supports at most 50 completion tokens.","param":"max_tokens"}}`},
		{400, `{"error":{"message":"no image here"}}`}, {400, `{"error":{"message":"temperature"}}`},
	} {
		server := &strict{refuse: func(map[string]any, string) (int, string) { return refusal.status, refusal.body }}
		got := ask(t, serve(t, server, openai.Config{MaxTokens: 100}))
		if n := len(server.requests()); n != 1 {
			t.Errorf("%d %s: got %d requests and %v, want 1", refusal.status, refusal.body, n, got)
		}
	}
}

// TestFieldSettings: what can be learnt can also be said from the start.
func TestFieldSettings(t *testing.T) {
	t.Parallel()
	server := &strict{refuse: func(map[string]any, string) (int, string) { return 0, "" }}
	for want, cfg := range map[string]openai.Config{
		`"stream":false}`:                                 {WholeAnswers: true},
		`"stream":true}`:                                  {OmitUsage: true},
		`"max_completion_tokens":100,`:                    {MaxTokens: 100, MaxTokensName: "max_completion_tokens"},
		`"max_tokens":100,`:                               {MaxTokens: 100},
		`[{"role":"user","content":"go"}],"stream":true,`: {MaxTokens: 100, MaxTokensName: "none"},
	} {
		hello(t, serve(t, server, cfg), model.Request{Messages: []perdure.Message{perdure.Text("go")}})
		if all := server.requests(); !strings.Contains(all[len(all)-1], want) {
			t.Errorf("got %s, want %s", all[len(all)-1], want)
		}
	}
	if _, err := openai.New(openai.Config{MaxTokensName: "tokens"}); err == nil {
		t.Error("a field that no server has is accepted")
	}
	if _, err := openai.New(openai.Config{FirstToken: -time.Second}); err == nil {
		t.Error("a negative time is accepted")
	}
}

// gray returns a PNG of these pixels a side, with a shade in a corner that others do not have.
func gray(t *testing.T, edge int, shade uint8) perdure.Image {
	t.Helper()
	in := image.NewGray(image.Rect(0, 0, edge, edge))
	in.SetGray(0, 0, color.Gray{Y: shade})
	var out bytes.Buffer
	if err := png.Encode(&out, in); err != nil {
		t.Fatal(err)
	}
	return perdure.Image{MediaType: "image/png", Base64: base64.StdEncoding.EncodeToString(out.Bytes())}
}

func shown(text string, images ...perdure.Image) perdure.Message {
	m := perdure.Text(text)
	for _, image := range images {
		m.Parts = append(m.Parts, perdure.Part{Type: perdure.PartImage, Image: &image})
	}
	return m
}

// TestRefusedPictures: a picture that the provider refuses costs itself. The request is sent again
// with words in its place, and so are later ones, without another refusal.
func TestRefusedPictures(t *testing.T) {
	t.Parallel()
	good, bad := gray(t, 8, 1), gray(t, 8, 2)
	if good.Base64 == bad.Base64 {
		t.Fatal("the pictures are equal")
	}
	cases := []struct {
		name, source string
		status       int
		body         string
	}{
		{"a model without vision", "HKUDS/OpenHarness#225", 404, `{"error":{"message":"No endpoints found that support image input","code":404}}`},
		{"llama.cpp without a projector", "ggml-org/llama.cpp", 500, `{"error":{"code":500,"message":"image input is not supported - hint: if this is unexpected, you may need to provide the mmproj","type":"server_error"}}`},
		{"DeepSeek", "DeepSeek's API", 400, "Failed to deserialize the JSON body into the target type: messages[0]: unknown variant `image_url`, expected `text` at line 1 column 90"},
		{"an image that does not parse", "anthropics/claude-code#46127", 400, `{"error":{"message":"Could not process image"}}`},
		{"a body that is too large", "code-yeongyu/senpi#302", 413, `<html><head><title>413 Request Entity Too Large</title></head></html>`},
		{"content that must be text", "a gateway", 422, `{"detail":[{"loc":["body","messages",0,"content"],"msg":"Input should be a valid string"}]}`},
		{"without a reason", "a gateway", 400, `{"error":{"message":"invalid request"}}`},
		{"in the stream", "a gateway", 200, `{"error":{"message":"this picture is not taken"}}`},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			server := &strict{refuse: func(_ map[string]any, text string) (int, string) {
				if strings.Contains(text, bad.Base64) {
					return c.status, c.body
				}
				return 0, ""
			}}
			m := serve(t, server, openai.Config{})
			history := []perdure.Message{shown("a", good)}
			hello(t, m, model.Request{Messages: history}) // this one is known to be accepted from here on
			history = append(history, perdure.Message{Role: perdure.RoleAgent, Parts: perdure.Text("Hello").Parts}, shown("b", bad))

			hello(t, m, model.Request{Messages: history})
			hello(t, m, model.Request{Messages: append(history, perdure.Text("c"))})

			seen := server.requests()
			if len(seen) != 4 {
				t.Fatalf("%s: got %d requests, want 4", c.source, len(seen))
			}
			for _, request := range seen[2:] {
				if !strings.Contains(request, good.Base64) || strings.Contains(request, bad.Base64) || !strings.Contains(request, "refused it") {
					t.Errorf("got %s", request)
				}
			}
			if history[2].Parts[1].Image == nil || history[2].Parts[1].Image.Base64 != bad.Base64 {
				t.Error("the conversation has lost its picture")
			}
		})
	}
}

// TestPictureOfResult: the words for a picture of a tool's result follow the results, and the
// result itself stays.
func TestPictureOfResult(t *testing.T) {
	t.Parallel()
	bad := gray(t, 8, 3)
	server := &strict{refuse: func(_ map[string]any, text string) (int, string) {
		if strings.Contains(text, "image_url") {
			return 400, `{"error":"images are not supported"}`
		}
		return 0, ""
	}}
	call := perdure.ToolCall{ID: "a", Name: "shot", Arguments: []byte(`{}`)}
	result := perdure.ToolResult{CallID: "a", Result: []byte(`"done"`), Images: []perdure.Image{bad}}

	hello(t, serve(t, server, openai.Config{}), model.Request{Messages: []perdure.Message{
		perdure.Text("go"), {Role: perdure.RoleAgent, Parts: []perdure.Part{{Type: perdure.PartToolCall, Call: &call}}},
		{Role: perdure.RoleToolResult, Parts: []perdure.Part{{Type: perdure.PartToolResult, Result: &result}}},
	}})

	seen := server.requests()
	if last := seen[len(seen)-1]; len(seen) != 2 || !strings.Contains(last, `"tool_call_id":"a"`) || !strings.Contains(last, "refused it") {
		t.Errorf("got %d requests, the last one %s", len(seen), last)
	}
}

// waiting is a transport whose answer begins late: first come signs of life, one a second, or
// silence, and then the answer.
type waiting struct {
	signs string // empty: silence
	wait  time.Duration
}

func (w waiting) RoundTrip(r *http.Request) (*http.Response, error) {
	out, in := io.Pipe()
	go func() {
		for passed := time.Duration(0); passed < w.wait; passed += time.Second {
			select {
			case <-time.After(time.Second):
			case <-r.Context().Done():
				in.CloseWithError(r.Context().Err())
				return
			}
			if w.signs == "" {
				continue
			}
			if _, err := io.WriteString(in, w.signs); err != nil {
				return // the reader is gone
			}
		}
		in.Write(stream(delta(`{"content":"Hello"}`), finish("stop"), "[DONE]"))
		in.Close()
	}()
	return &http.Response{StatusCode: http.StatusOK, Header: http.Header{"Content-Type": {"text/event-stream"}}, Body: out, Request: r}, nil
}

// TestFirstToken: signs of life of any kind let a stream wait for its first content, up to a
// limit. With a limit of its own, silence is waited for as well.
func TestFirstToken(t *testing.T) {
	t.Parallel()
	const minutes = time.Minute
	cases := []struct {
		name  string
		signs string
		wait  time.Duration
		limit time.Duration // Config.FirstToken
		want  model.Code
		quiet time.Duration // the longest time without a delta
	}{
		{"comments", ": busy\n\n", 9 * minutes, 0, "", time.Second},
		{"empty lines", "\n", 9 * minutes, 0, "", time.Second},
		{"chunks without content", "data: " + delta(`{"role":"assistant","content":""}`) + "\n\n", 9 * minutes, 0, "", time.Second},
		{"comments without end", ": busy\n\n", time.Hour, 0, model.Stalled, time.Second},
		{"comments, with a limit", ": busy\n\n", 3 * minutes, 2 * minutes, model.Stalled, time.Second},
		{"silence", "", 9 * minutes, 0, "", 9 * minutes}, // the engine's stall timeout would end it
		{"silence, of a whole answer", "whole", 9 * minutes, 0, "", 21 * time.Second},
		{"silence, with a limit", "", 29 * minutes, 30 * minutes, "", 21 * time.Second},
		{"silence, longer than a limit", "", 31 * minutes, 30 * minutes, model.Stalled, 21 * time.Second},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				cfg := openai.Config{BaseURL: "http://waiting.test", FirstToken: c.limit}
				if c.signs == "whole" {
					c.signs, cfg.WholeAnswers = "", true
				}
				cfg.HTTP = &http.Client{Transport: waiting{c.signs, c.wait}}
				m := newModel(t, cfg)
				last, quiet := time.Now(), time.Duration(0)

				a, err := model.Collect(m.Stream(t.Context(), model.Request{}), func(model.Delta) {
					quiet = max(quiet, time.Since(last))
					last = time.Now()
				})

				if code(err) != c.want || c.want == "" && a.Message.Text() != "Hello" || quiet > c.quiet {
					t.Errorf("got %q, %v, and %s without a delta; want code %q, and at most %s", a.Message.Text(), err, quiet, c.want, c.quiet)
				}
				if c.want != "" && !strings.Contains(err.Error(), "first_token_timeout") {
					t.Errorf("the error has no advice: %v", err)
				}
			})
		})
	}
}

// TestLeavingEarly: a reader that leaves while a stream waits leaves nothing behind.
func TestLeavingEarly(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		m := newModel(t, openai.Config{BaseURL: "http://waiting.test", FirstToken: time.Hour, HTTP: &http.Client{Transport: waiting{"", time.Hour}}})
		for d, err := range m.Stream(t.Context(), model.Request{}) {
			if d.Text != "" || err != nil {
				t.Errorf("got %+v, %v", d, err)
			}
			break
		}
	}) // it waits for all goroutines
}

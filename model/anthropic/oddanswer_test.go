package anthropic_test

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"image"
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
	"github.com/perdure/perdure/model/anthropic"
)

// The events of an answer, in pieces.
const (
	startEvent = `{"type":"message_start","message":{"id":"m","type":"message","role":"assistant","model":"x","content":[],"usage":{"input_tokens":3,"output_tokens":1}}}`
	openEvent  = `{"type":"content_block_start","index":0,"content_block":{"type":"text","text":""}}`
	textEvent  = `{"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"Hello"}}`
	closeEvent = `{"type":"content_block_stop","index":0}`
	endEvent   = `{"type":"message_delta","delta":{"stop_reason":"end_turn"},"usage":{"output_tokens":2}}`
	stopEvent  = `{"type":"message_stop"}`
	payEvents  = `{"type":"content_block_start","index":0,"content_block":{"type":"tool_use","id":"a","name":"pay","input":{}}}` + "\n" +
		`{"type":"content_block_delta","index":0,"delta":{"type":"input_json_delta","partial_json":"{\"euro\":5}"}}`
)

func answerOf(reason string) string {
	return strings.Join([]string{startEvent, openEvent, textEvent, closeEvent, strings.Replace(endEvent, "end_turn", reason, 1), stopEvent}, "\n")
}

// TestOddStreams: answers that servers of this protocol really send, and what is made of them.
func TestOddStreams(t *testing.T) {
	t.Parallel()
	whole := answerOf("end_turn")
	without := func(event string) string { return strings.Replace(whole, event+"\n", "", 1) }
	paid := startEvent + "\n" + payEvents + "\n" + closeEvent + "\n"
	useEnd := strings.Replace(endEvent, "end_turn", "tool_use", 1) + "\n" + stopEvent
	cases := []struct {
		name, source string
		body         string // of events
		text, calls  string
		finish       model.Finish
		code         model.Code
	}{
		{"as documented", "Anthropic's documentation", sse(whole), "Hello", "", model.FinishStop, ""},
		{"no message_stop", "tombii/better-ccflare#307", sse(strings.TrimSuffix(whole, "\n"+stopEvent)), "Hello", "", model.FinishStop, ""},
		{"no message_start", "katanemo/plano#898", sse(without(startEvent)), "Hello", "", model.FinishStop, ""},
		{"no stop reason", "looplj/axonhub#2000", sse(without(endEvent)), "Hello", "", model.FinishStop, ""},
		{"no stop reason behind a call", "looplj/axonhub#2000", sse(paid + stopEvent), "", "pay", model.FinishCalls, ""},
		{"no end at all", "BerriAI/litellm#20361", sse(startEvent + "\n" + openEvent + "\n" + textEvent), "Hello", "", "", model.Unavailable},
		{"done instead of message_stop", "katanemo/plano#898", strings.TrimSuffix(sse(whole), "event: message_stop\ndata: "+stopEvent+"\n\n") + "data: [DONE]\n\n", "Hello", "", model.FinishStop, ""},
		{"done instead of every end", "katanemo/plano#898", sse(startEvent+"\n"+openEvent+"\n"+textEvent) + "data: [DONE]\n\n", "Hello", "", model.FinishStop, ""},
		{"events without names", "a gateway", dataOnly(whole), "Hello", "", model.FinishStop, ""},
		{"names without types", "a gateway", strings.NewReplacer(`"type":"content_block_delta",`, "", `"type":"message_stop"`, "").Replace(sse(whole)), "Hello", "", model.FinishStop, ""},
		{"events without empty lines", "a gateway", strings.ReplaceAll(dataOnly(whole), "\n\n", "\n"), "Hello", "", model.FinishStop, ""},
		{"pings, comments and events of later versions", "Anthropic's documentation",
			": hi\n\n" + sse(`{"type":"ping"}`+"\n"+startEvent+"\n"+`{"type":"weather","wind":7}`+"\n"+openEvent+"\n"+textEvent+"\n"+`{"type":"ping"}`+"\n"+closeEvent+"\n"+endEvent+"\n"+stopEvent), "Hello", "", model.FinishStop, ""},
		{"a block of a later version", "Anthropic's documentation", sse(startEvent + "\n" + `{"type":"content_block_start","index":0,"content_block":{"type":"hologram","depth":3}}` + "\n" +
			`{"type":"content_block_delta","index":0,"delta":{"type":"hologram_delta","depth":4}}` + "\n" + closeEvent + "\n" +
			strings.ReplaceAll(openEvent+"\n"+textEvent+"\n"+closeEvent, `"index":0`, `"index":1`) + "\n" + endEvent + "\n" + stopEvent), "Hello", "", model.FinishStop, ""},
		{"text for a block that never started", "a gateway", sse(without(openEvent)), "Hello", "", model.FinishStop, ""},
		{"a block that never ends", "looplj/axonhub#2000", sse(without(closeEvent)), "Hello", "", model.FinishStop, ""},
		{"a call that never ends", "looplj/axonhub#2000", sse(startEvent + "\n" + payEvents + "\n" + useEnd), "", "pay", model.FinishCalls, ""},
		{"a delta without a type", "a gateway", sse(strings.Replace(whole, `"type":"text_delta",`, "", 1)), "Hello", "", model.FinishStop, ""},
		{"arguments as an object", "a gateway", sse(strings.Replace(paid, `"{\"euro\":5}"`, `{"euro":5}`, 1) + useEnd), "", "pay", model.FinishCalls, ""},
		{"all blocks with one index", "a gateway", sse(startEvent + "\n" + openEvent + "\n" + textEvent + "\n" + closeEvent + "\n" + payEvents + "\n" + closeEvent + "\n" + useEnd), "Hello", "pay", model.FinishCalls, ""},
		{"end_turn with a call", "a gateway", sse(paid + endEvent + "\n" + stopEvent), "", "pay", model.FinishCalls, ""},
		{"a stop reason that nobody knows", "earendil-works/pi#2352", sse(answerOf("tired")), "Hello", "", model.FinishStop, ""},
		{"the stop reason of another protocol", "a gateway", sse(answerOf("length")), "Hello", "", model.FinishLength, ""},
		{"content_filter", "a gateway", sse(answerOf("content_filter")), "Hello", "", model.FinishRefusal, ""},
		{"network_error", "earendil-works/pi#2313", sse(answerOf("network_error")), "Hello", "", "", model.Unavailable},
		{"malformed_function_call", "Wei-Shaw/sub2api#7098", sse(answerOf("malformed_function_call")), "Hello", "", "", model.Unavailable},
		{"an error in an event without a name", "BerriAI/litellm#41826", dataOnly(startEvent + "\n" + `{"type":"error","error":{"type":"overloaded_error","message":"Overloaded"}}`), "", "", "", model.Unavailable},
		{"an error that is a text", "a gateway", dataOnly(`{"error":"rate limit reached"}`), "", "", "", model.RateLimited},
		{"an error in another form", "a gateway", sse(startEvent) + "event: error\ndata: {\"detail\":\"model is loading\"}\n\n", "", "", "", model.Unavailable},
		{"data that is no JSON", "a gateway", "data: hello\n\n" + sse(whole), "Hello", "", model.FinishStop, ""},
		{"a whole message", "tinyhumansai/tinyagents#56", `{"type":"message","role":"assistant","model":"x","content":[{"type":"text","text":"Hello"},{"type":"tool_use","id":"a","name":"pay","input":{"euro":5}}],"stop_reason":"tool_use","usage":{"input_tokens":3,"output_tokens":2}}`, "Hello", "pay", model.FinishCalls, ""},
		{"lines of JSON", "a gateway", whole + "\n", "Hello", "", model.FinishStop, ""},
		{"a page", "a gateway", "<html><title>Sign in</title></html>", "", "", "", model.Misconfigured},
		{"a busy page", "a gateway", "<html><title>503 Service Temporarily Unavailable</title></html>", "", "", "", model.Unavailable},
	}
	for _, c := range cases {
		for _, kind := range []string{"text/event-stream", "application/json", ""} {
			t.Run(c.name+" as "+kind, func(t *testing.T) {
				t.Parallel()
				h := listen(t, ask(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
					w.Header()["Content-Type"] = []string{kind}
					io.WriteString(w, c.body)
				})), hello)

				var calls []string
				for _, call := range h.answer.Message.Calls() {
					calls = append(calls, call.Name)
					if string(call.Arguments) != `{"euro":5}` {
						t.Errorf("got the arguments %s", call.Arguments)
					}
				}
				code := model.Code("")
				if h.err != nil {
					code = codeOf(h.err)
				}
				if h.answer.Message.Text() != c.text || strings.Join(calls, " ") != c.calls || h.answer.Finish != c.finish || code != c.code {
					t.Errorf("%s: got %v; want %q, calls %q, finish %q, code %q", c.source, h, c.text, c.calls, c.finish, c.code)
				}
			})
		}
	}
}

// dataOnly writes events without their names.
func dataOnly(lines string) string {
	return "data: " + strings.ReplaceAll(lines, "\n", "\n\ndata: ") + "\n\n"
}

// TestPassingErrors: "overloaded" and the like are asked again under any status.
func TestPassingErrors(t *testing.T) {
	t.Parallel()
	for body, want := range map[string]model.Code{
		envelope("invalid_request_error", "The server is overloaded, try again later"): model.Unavailable,
		`{"detail":"Prefill server is overloaded"}`:                                    model.Unavailable,
		`{"error":"Model x is currently loading"}`:                                     model.Unavailable,
		`too many requests`: model.RateLimited,
		envelope("invalid_request_error", "tools: Extra inputs are not permitted"): model.Misconfigured,
	} {
		for _, status := range []int{400, 404} {
			got := codeOf(listen(t, fails(t, status, body, nil), hello).err)
			if got != want && (want != model.Misconfigured || status != 404) {
				t.Errorf("%d %s: got %s, want %s", status, body, got, want)
			}
		}
	}
}

// refuser is a server that refuses requests; refuse returns status and message, or 0.
type refuser struct {
	refuse func(text string) (int, string)

	mu   sync.Mutex
	seen []string // guarded by mu
}

func (s *refuser) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	text, err := io.ReadAll(r.Body)
	if err != nil {
		panic(err)
	}
	s.mu.Lock()
	s.seen = append(s.seen, string(text))
	s.mu.Unlock()
	if status, message := s.refuse(string(text)); status != 0 {
		w.WriteHeader(status)
		fmt.Fprint(w, envelope("invalid_request_error", message))
		return
	}
	w.Header().Set("Content-Type", "text/event-stream")
	fmt.Fprint(w, sse(answerOf("end_turn")))
}

func (s *refuser) requests() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]string(nil), s.seen...)
}

// TestLearnsMaxTokens: the limit of a model that the API names is kept from then on.
func TestLearnsMaxTokens(t *testing.T) {
	t.Parallel()
	server, log := &refuser{refuse: func(text string) (int, string) {
		var body struct {
			MaxTokens int `json:"max_tokens"`
		}
		if json.Unmarshal([]byte(text), &body) == nil && body.MaxTokens > 4096 {
			return 400, fmt.Sprintf("max_tokens: %d > 4096, which is the maximum allowed number of output tokens for claude-3-opus", body.MaxTokens)
		}
		return 0, ""
	}}, &bytes.Buffer{}
	m := adapterFor(t, server, slog.New(slog.NewTextHandler(log, nil)))

	for range 2 {
		if h := listen(t, m, hello); h.err != nil || h.answer.Message.Text() != "Hello" {
			t.Errorf("got %v", h)
		}
	}

	if n := len(server.requests()); n != 3 || strings.Count(log.String(), "max_tokens=4096") != 1 {
		t.Errorf("got %d requests, want 3; log %q", n, log)
	}
}

// TestLearnsCache: a server of this protocol that refuses cache_control is asked without it.
func TestLearnsCache(t *testing.T) {
	t.Parallel()
	server := &refuser{refuse: func(text string) (int, string) {
		if strings.Contains(text, "cache_control") {
			return 400, "system.0.cache_control: Extra inputs are not permitted"
		}
		return 0, ""
	}}
	m := adapterFor(t, server, nil)
	req := model.Request{System: "Be brief.", Messages: hello.Messages, Tools: []model.Tool{{Name: "f"}}}

	for range 2 {
		if h := listen(t, m, req); h.err != nil || h.answer.Message.Text() != "Hello" {
			t.Errorf("got %v", h)
		}
	}

	if seen := server.requests(); len(seen) != 3 || !strings.Contains(seen[2], "Be brief.") || !strings.Contains(seen[2], `"name":"f"`) {
		t.Errorf("got %d requests, the last one %s", len(seen), seen[len(seen)-1])
	}
}

// adapterFor is the adapter in front of a handler of this process.
func adapterFor(t *testing.T, h http.Handler, log *slog.Logger) *anthropic.Model {
	t.Helper()
	return adapter(t, anthropic.Config{Name: "m", BaseURL: "http://127.0.0.1:1", Log: log, HTTP: &http.Client{Transport: inProcess{h}}})
}

// TestPictures: the limits of the API are kept before a request is sent, and what it refuses
// nevertheless costs the picture only.
func TestPictures(t *testing.T) {
	t.Parallel()
	var small bytes.Buffer
	if err := png.Encode(&small, image.NewGray(image.Rect(0, 0, 9, 9))); err != nil {
		t.Fatal(err)
	}
	var wide bytes.Buffer
	if err := png.Encode(&wide, image.NewGray(image.Rect(0, 0, 8001, 3))); err != nil {
		t.Fatal(err)
	}
	cases := []struct {
		name, source string
		raw          []byte
		mediaType    string
		refuses      string // a message of the API for every picture; empty: none
		want         string // in the last request
		requests     int
	}{
		{"a good one", "", small.Bytes(), "image/png", "", `"media_type":"image/png"`, 1},
		{"of another type than stated", "home-assistant/core#167208", small.Bytes(), "image/jpeg", "", `"media_type":"image/png"`, 1},
		{"too wide", "anthropics/claude-code#24630", wide.Bytes(), "image/png", "", `"media_type":"image/jpeg"`, 1},
		{"too large and no picture", "aws/amazon-q-developer-cli#3912", append([]byte("\x89PNG\r\n\x1a\n"), make([]byte, 6<<20)...), "image/png", "", "could not be scaled down", 1},
		{"that cannot be processed", "anthropics/claude-code#46127", small.Bytes(), "image/png", "Could not process image", "refused it", 2},
		{"too large for the server", "earendil-works/pi#401", small.Bytes(), "image/png", "Request exceeds the maximum size of an image", "refused it", 2},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			server := &refuser{refuse: func(text string) (int, string) {
				if c.refuses != "" && strings.Contains(text, `"type":"image"`) {
					return 400, c.refuses
				}
				return 0, ""
			}}
			m := adapterFor(t, server, nil)
			picture := perdure.Image{MediaType: c.mediaType, Base64: base64.StdEncoding.EncodeToString(c.raw)}
			look := perdure.Text("look")
			look.Parts = append(look.Parts, perdure.Part{Type: perdure.PartImage, Image: &picture})

			for range 2 {
				if h := listen(t, m, model.Request{Messages: []perdure.Message{look}}); h.err != nil {
					t.Errorf("%s: got %v", c.source, h.err)
				}
			}

			seen := server.requests()
			if len(seen) != c.requests+1 || !strings.Contains(seen[len(seen)-1], c.want) {
				t.Errorf("%s: got %d requests: %.300q; want %d and %s", c.source, len(seen), seen, c.requests+1, c.want)
			}
		})
	}
}

// slow is a transport whose answer begins late: first pings, one a second.
type slow struct {
	wait time.Duration
	then string
}

func (s slow) RoundTrip(r *http.Request) (*http.Response, error) {
	out, in := io.Pipe()
	go func() {
		for passed := time.Duration(0); passed < s.wait; passed += time.Second {
			select {
			case <-time.After(time.Second):
			case <-r.Context().Done():
				in.CloseWithError(r.Context().Err())
				return
			}
			if _, err := io.WriteString(in, "event: ping\ndata: {\"type\": \"ping\"}\n\n"); err != nil {
				return // the reader is gone
			}
		}
		if _, err := io.WriteString(in, s.then); err != nil {
			return
		}
		<-r.Context().Done() // the connection stays open
		in.CloseWithError(r.Context().Err())
	}()
	return &http.Response{StatusCode: http.StatusOK, Header: http.Header{"Content-Type": {"text/event-stream"}}, Body: out, Request: r}, nil
}

// TestPings: before the first content pings are signs of life, up to the limit; and an answer with
// a stop reason is complete although pings are all that follows it.
func TestPings(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		wait, limit time.Duration
		want        model.Code
	}{
		"nine minutes": {9 * time.Minute, 0, ""}, "an hour": {time.Hour, 0, model.Stalled}, "an hour, as configured": {time.Hour, 2 * time.Hour, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				m := adapter(t, anthropic.Config{Name: "m", BaseURL: "http://127.0.0.1:1", FirstToken: c.limit,
					HTTP: &http.Client{Transport: slow{c.wait, strings.TrimSuffix(sse(answerOf("end_turn")), "event: message_stop\ndata: "+stopEvent+"\n\n")}}})
				begun := time.Now()

				h := listen(t, m, hello)

				code := model.Code("")
				if h.err != nil {
					code = codeOf(h.err)
				}
				if code != c.want || c.want == "" && (h.answer.Message.Text() != "Hello" || time.Since(begun) != c.wait+10*time.Second) {
					t.Errorf("got %v after %s, want %q", h.err, time.Since(begun), c.want)
				}
				if n := len(h.deltas); n < 500 {
					t.Errorf("got %d signs of life, want one for each ping", n)
				}
			})
		})
	}
}

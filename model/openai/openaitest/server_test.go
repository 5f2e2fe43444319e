package openaitest_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/model"
	"github.com/perdure/perdure/model/openai"
	"github.com/perdure/perdure/model/openai/openaitest"
	"github.com/perdure/perdure/model/scripted"
)

// conversation answers a question with a call, and its result with a text.
var conversation = []scripted.Step{
	{Reply: scripted.Reply{Text: "I look at Görlitz.", Usage: &perdure.Usage{InputTokens: 10, OutputTokens: 5}, Calls: []scripted.Call{
		{ID: "call_a", Name: "look", Args: map[string]any{"at": "Görlitz an der Neiße"}}, {ID: "call_b", Name: "look"},
	}}},
	{Reply: scripted.Reply{Text: "A town on the Neiße.", Usage: &perdure.Usage{InputTokens: 30, OutputTokens: 8, CachedTokens: 10}}},
}

// start starts a server of a script, and makes a model that asks it.
func start(t *testing.T, steps []scripted.Step, cfg openaitest.Config) (*openaitest.Server, *openai.Model) {
	t.Helper()
	m, err := scripted.New(scripted.Script{Name: "story", Steps: steps})
	if err != nil {
		t.Fatal(err)
	}
	server := openaitest.New(m, cfg)
	listening := httptest.NewServer(server)
	t.Cleanup(listening.Close)
	client, err := openai.New(openai.Config{Name: "some-model", Key: cfg.Key, BaseURL: listening.URL + "/v1", HTTP: listening.Client()})
	if err != nil {
		t.Fatal(err)
	}
	return server, client
}

// otherServer compares messages of two servers.
func otherServer() cmp.Option { return cmpopts.IgnoreFields(perdure.ProviderState{}, "Family") }

func ask(t *testing.T, m model.Model, messages ...perdure.Message) (model.Answer, error) {
	t.Helper()
	return model.Collect(m.Stream(t.Context(), model.Request{System: "Be brief.", Messages: messages}), nil)
}

// result is the message that answers a call.
func result(id perdure.CallID, text string) perdure.Message {
	return perdure.Message{Role: perdure.RoleToolResult, Parts: []perdure.Part{
		{Type: perdure.PartToolResult, Result: &perdure.ToolResult{CallID: id, Result: json.RawMessage(text)}},
	}}
}

// session plays the conversation, each step asked again while its stream is cut.
func session(t *testing.T, m model.Model) ([]perdure.Message, []error) {
	t.Helper()
	var cuts []error
	transcript := []perdure.Message{perdure.Text("Where is Görlitz?")}
	for len(cuts) < 10 {
		a, err := ask(t, m, transcript...)
		if err != nil {
			var e *model.Error
			if !errors.As(err, &e) || e.Code != model.Unavailable {
				t.Fatalf("got %v, want %s", err, model.Unavailable)
			}
			if n := len(a.Message.Calls()); n == 2 {
				t.Errorf("got %d calls of a stream that was cut", n)
			}
			cuts = append(cuts, err)
			continue
		}
		transcript = append(transcript, a.Message)
		if len(a.Message.Calls()) == 0 {
			return transcript, cuts
		}
		for _, c := range a.Message.Calls() {
			transcript = append(transcript, result(c.ID, `{"seen":true}`))
		}
	}
	t.Fatal("the session does not end")
	return nil, nil
}

// TestR19CutAtEveryEvent cuts each stream of a session at every event, on real connections: with a
// second attempt the transcript is the one without cuts.
func TestR19CutAtEveryEvent(t *testing.T) {
	t.Parallel()
	server, m := start(t, conversation, openaitest.Config{})
	want, _ := session(t, m)
	events := server.Events()
	if len(events) != 2 || events[0] < 10 || events[1] < 6 {
		t.Fatalf("got %v events, want some of each request", events)
	}
	for request, count := range events {
		for n := range count + 1 {
			for _, half := range []bool{false, true} {
				t.Run(fmt.Sprintf("request %d, event %d, half %v", request+1, n, half), func(t *testing.T) {
					t.Parallel()
					cut := func(number int) (int, bool, bool) { return n, half, number == request+1 }
					server, m := start(t, conversation, openaitest.Config{Cut: cut})

					got, cuts := session(t, m)

					if diff := cmp.Diff(got, want, otherServer()); diff != "" {
						t.Errorf("got -, want +:\n%s", diff)
					}
					wholeAnyway := n >= count-2 // the finish had come
					if (len(cuts) == 0) != wholeAnyway {
						t.Errorf("got %d errors after %d of %d events", len(cuts), n, count)
					}
					if sent := server.Events(); sent[request] != n || len(server.Requests()) != 2+len(cuts) {
						t.Errorf("got %v events and %d requests, want %d events of the one that was cut", sent, len(server.Requests()), n)
					}
				})
			}
		}
	}
}

// TestHalf: with half, half of an event's bytes stands after the complete ones, and without it
// nothing does.
func TestHalf(t *testing.T) {
	t.Parallel()
	for _, half := range []bool{false, true} {
		m, err := scripted.New(scripted.Script{Steps: conversation})
		if err != nil {
			t.Fatal(err)
		}
		listening := httptest.NewServer(openaitest.New(m, openaitest.Config{Cut: func(int) (int, bool, bool) { return 2, half, true }}))
		t.Cleanup(listening.Close)
		res, err := listening.Client().Post(listening.URL+"/chat/completions", "application/json",
			strings.NewReader(`{"model":"m","stream":true,"messages":[{"role":"user","content":"x"}]}`))
		if err != nil {
			t.Fatal(err)
		}

		text, err := io.ReadAll(res.Body)

		res.Body.Close()
		events := strings.Split(string(text), "\n\n")
		if err == nil || len(events) != 3 || strings.HasPrefix(events[2], "data: {") != half {
			t.Errorf("half %v: got %q, %v", half, events, err)
		}
	}
}

// TestDuplicate: what opens a call or finishes an answer comes twice, and the answer is the same.
func TestDuplicate(t *testing.T) {
	t.Parallel()
	once, m := start(t, conversation, openaitest.Config{})
	want, _ := session(t, m)
	twice, m := start(t, conversation, openaitest.Config{Duplicate: true})

	got, cuts := session(t, m)

	if diff := cmp.Diff(got, want, otherServer()); diff != "" || len(cuts) > 0 {
		t.Errorf("got -, want +:\n%s%v", diff, cuts)
	}
	if a, b := once.Events(), twice.Events(); a[0]+3 != b[0] || a[1]+1 != b[1] {
		t.Errorf("got %v events, and %v with duplicates; want 3 and 1 more", a, b)
	}
}

// TestRebuilt: the model behind the server gets the request that the adapter got, but for what the
// wire lacks.
func TestRebuilt(t *testing.T) {
	t.Parallel()
	image := perdure.Image{MediaType: "image/png", Base64: "cmVk"}
	a := perdure.ToolCall{ID: "call_a", Name: "look", Arguments: json.RawMessage(`{"at":1}`)}
	seen := result("call_a", `{"seen":true}`)
	seen.Parts[0].Result.Images = []perdure.Image{image, image}
	note := perdure.Text("Background run completed.")
	note.Role = perdure.RoleNotification
	req := model.Request{
		Model: "other-model", System: "Be brief.", MaxTokens: 9, Attempt: 1,
		Tools: []model.Tool{{Name: "look", Description: "Looks.", Parameters: json.RawMessage(`{"properties":{},"type":"object"}`)}},
		Messages: []perdure.Message{
			{Role: perdure.RoleUser, Parts: []perdure.Part{{Type: perdure.PartText, Text: "What?"}, {Type: perdure.PartImage, Image: &image}}},
			{Role: perdure.RoleAgent, Parts: []perdure.Part{{Type: perdure.PartText, Text: "I look."}, {Type: perdure.PartToolCall, Call: &a}}},
			seen, perdure.Text("And?"), note,
		},
	}
	server, m := start(t, conversation, openaitest.Config{Key: "sk-test"})

	for range 2 {
		if _, err := model.Collect(m.Stream(t.Context(), req), nil); err != nil {
			t.Fatal(err)
		}
	}

	again := req
	again.Attempt = 2
	if diff := cmp.Diff(server.Requests(), []model.Request{req, again}); diff != "" {
		t.Errorf("got -, want +:\n%s", diff)
	}
}

// TestErrors: an error of the model reaches the client, before a stream and inside of one.
func TestErrors(t *testing.T) {
	t.Parallel()
	for _, c := range model.Codes() {
		if c == model.Stalled {
			continue
		}
		for _, after := range []*int{nil, new(3)} {
			reply := scripted.Reply{Error: &scripted.Failure{Code: c, Text: "no", AfterBytes: after}}
			if after != nil {
				reply.Text = "Some words"
			}
			_, m := start(t, []scripted.Step{{Reply: reply}}, openaitest.Config{})

			a, err := ask(t, m, perdure.Text("go"))

			var e *model.Error
			if !errors.As(err, &e) || e.Code != c || e.Text != "no" || (a.Message.Text() == "Som") != (after != nil) {
				t.Errorf("%s: got %q, then %v", c, a.Message.Text(), err)
			}
		}
	}
}

// TestStalled: a stall is a silence, which ends with the client.
func TestStalled(t *testing.T) {
	t.Parallel()
	_, m := start(t, []scripted.Step{{Reply: scripted.Reply{Error: &scripted.Failure{Code: model.Stalled}}}}, openaitest.Config{})
	ctx, cancel := context.WithTimeoutCause(t.Context(), 20*time.Millisecond, perdure.CauseStall)
	defer cancel()
	if _, err := model.Collect(m.Stream(ctx, model.Request{Messages: []perdure.Message{perdure.Text("go")}}), nil); !errors.Is(err, perdure.CauseStall) {
		t.Errorf("got %v", err)
	}
}

// TestConcurrent: requests at the same time do not mix, and each is counted.
func TestConcurrent(t *testing.T) {
	t.Parallel()
	var mu sync.Mutex
	var numbers []int
	server, m := start(t, conversation, openaitest.Config{Cut: func(n int) (int, bool, bool) {
		mu.Lock()
		defer mu.Unlock()
		numbers = append(numbers, n)
		return 0, false, false
	}})
	var all sync.WaitGroup
	for range 16 {
		all.Go(func() {
			if a, err := ask(t, m, perdure.Text("go")); err != nil || len(a.Message.Calls()) != 2 {
				t.Errorf("got %+v, %v", a, err)
			}
		})
	}
	all.Wait()
	slices.Sort(numbers)
	if len(numbers) != 16 || numbers[0] != 1 || numbers[15] != 16 || len(server.Requests()) != 16 {
		t.Errorf("got numbers %v", numbers)
	}
}

// TestRefused: the server refuses what the real ones refuse.
func TestRefused(t *testing.T) {
	t.Parallel()
	const user, calls = `{"role":"user","content":"x"}`, `{"role":"assistant","content":"","tool_calls":[{"id":"a","type":"function","function":{"name":"f","arguments":"{}"}}]}`
	const answered = `{"role":"tool","tool_call_id":"a","content":"1"}`
	cases := []struct{ name, body, want string }{
		{"no JSON", `{`, "could not parse"},
		{"a key twice", `{"model":"m","model":"m"}`, "could not parse"},
		{"no model", `{"stream":true,"messages":[` + user + `]}`, "model"},
		{"no stream", `{"model":"m","messages":[` + user + `]}`, "stream"},
		{"no messages", `{"model":"m","stream":true,"messages":[]}`, "empty array"},
		{"both limits", `{"model":"m","stream":true,"max_tokens":1,"max_completion_tokens":1,"messages":[` + user + `]}`, "same time"},
		{"a limit of nothing", `{"model":"m","stream":true,"max_tokens":0,"messages":[` + user + `]}`, "minimum"},
		{"a role that is none", `{"role":"robot","content":"x"}`, "robot"},
		{"empty content", `{"role":"user","content":""}`, "messages[0].content"},
		{"an assistant without anything", user + `,{"role":"assistant"}`, "messages[1].content"},
		{"an empty part", `{"role":"user","content":[{"type":"text","text":""}]}`, "empty"},
		{"an image of nowhere", `{"role":"user","content":[{"type":"image_url","image_url":{"url":"http://x"}}]}`, "image_url"},
		{"a result without a call", user + `,` + answered, "must be a response"},
		{"a result twice", user + `,` + calls + `,` + answered + `,` + answered, "must be a response"},
		{"a call without a result", user + `,` + calls, "did not have response messages: a"},
		{"a result too late", user + `,` + calls + `,` + user + `,` + answered, "did not have response messages: a"},
		{"no content beside calls", `{"role":"assistant","tool_calls":[{"id":"a","type":"function","function":{"name":"f","arguments":"{}"}}]}`, "Field required"},
		{"two messages of the user", user + `,` + user, "must alternate"},
		{"a user after a result", user + `,` + calls + `,` + answered + `,` + user, "Unexpected role 'user' after role 'tool'"},
		{"a late system message", user + `,{"role":"system","content":"x"}`, "at the beginning"},
		{"a call without an id", `{"role":"assistant","content":"","tool_calls":[{"type":"function","function":{"name":"f","arguments":"{}"}}]}`, ".id"},
		{"an id that is too long", strings.ReplaceAll(calls, `"a"`, `"`+strings.Repeat("a", 41)+`"`), ".id"},
		{"a name that is none", strings.ReplaceAll(calls, `"f"`, `"f f"`), "pattern"},
		{"arguments that are no JSON", strings.ReplaceAll(calls, `"{}"`, `""`), "arguments"},
		{"arguments that are null", strings.ReplaceAll(calls, `"{}"`, `"null"`), "JSON object"},
		{"arguments that are an object", strings.ReplaceAll(calls, `"{}"`, `{}`), "could not parse"},
		{"a schema of another type", `{"model":"m","stream":true,"tools":[{"type":"function","function":{"name":"f","parameters":{"type":"string"}}}],"messages":[` + user + `]}`, "Invalid schema"},
	}
	server, _ := start(t, conversation, openaitest.Config{})
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			if strings.HasPrefix(c.body, `{"role"`) {
				c.body = `{"model":"m","stream":true,"messages":[` + c.body + `]}`
			}
			w := httptest.NewRecorder()
			server.ServeHTTP(w, httptest.NewRequest(http.MethodPost, "/v1/chat/completions", strings.NewReader(c.body)))
			if w.Code != http.StatusBadRequest || !strings.Contains(w.Body.String(), c.want) {
				t.Errorf("got %d %s, want one that says %q", w.Code, w.Body, c.want)
			}
		})
	}
}

// TestDoor: another path, method or key is refused before the model is asked.
func TestDoor(t *testing.T) {
	t.Parallel()
	server, _ := start(t, conversation, openaitest.Config{Key: "sk-test"})
	cases := []struct {
		method, path, key string
		want              int
	}{
		{"POST", "/v1/responses", "sk-test", 404}, {"GET", "/v1/chat/completions", "sk-test", 405},
		{"POST", "/v1/chat/completions", "sk-other", 401}, {"POST", "/v1/chat/completions", "", 401},
	}
	for _, c := range cases {
		r := httptest.NewRequest(c.method, c.path, strings.NewReader(`{}`))
		r.Header.Set("Authorization", "Bearer "+c.key)
		w := httptest.NewRecorder()
		server.ServeHTTP(w, r)
		if body, err := io.ReadAll(w.Body); w.Code != c.want || err != nil || !strings.Contains(string(body), `"error"`) {
			t.Errorf("%s %s: got %d %s, want %d", c.method, c.path, w.Code, body, c.want)
		}
	}
	if n := len(server.Requests()); n != 0 {
		t.Errorf("the model was asked %d times", n)
	}
}

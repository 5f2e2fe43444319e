package anthropic_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/model"
	"github.com/perdure/perdure/model/anthropic/anthropictest"
	"github.com/perdure/perdure/model/scripted"
)

// checkStream checks what holds of every stream.
func checkStream(t *testing.T, deltas iter.Seq2[model.Delta, error]) {
	t.Helper()
	ended := false
	var usage perdure.Usage
	for d, err := range deltas {
		if ended {
			t.Errorf("%+v and %v came after the end", d, err)
		}
		ended = err != nil || d.Finish != ""
		if !utf8.ValidString(d.Text) || !utf8.ValidString(d.Thinking) || !utf8.ValidString(d.Signature) || !utf8.ValidString(d.Model) {
			t.Errorf("%+v is no UTF-8", d)
		}
		if c := d.Call; c != nil {
			if c.Name == "" || len(c.Arguments) == 0 || !utf8.Valid(c.Arguments) {
				t.Errorf("the call %q(%q) is not complete", c.Name, c.Arguments)
			}
		}
		if u := d.Usage; u != nil {
			if u.InputTokens < usage.InputTokens || u.OutputTokens < usage.OutputTokens || u.CachedTokens < usage.CachedTokens {
				t.Errorf("got usage %+v after %+v", *u, usage)
			}
			usage = *u
		}
		var failure *model.Error
		if err != nil && (!errors.As(err, &failure) || failure.Code == "") {
			t.Errorf("got %v, want a *model.Error", err)
		}
	}
	if !ended {
		t.Error("the stream ended without an end and without an error")
	}
}

// talk is a reply with everything in it.
func talk() scripted.Reply {
	return scripted.Reply{
		Thinking: "What does she want to know?", Signature: "c2lnbmVk", Text: "Grüß Gott, 你好 🙂. I look both of them up.",
		Calls: []scripted.Call{
			{ID: "toolu_1", Name: "lookup", RawArgs: `{"word":"Neiße"}`},
			{ID: "toolu_2", Name: "lookup", RawArgs: `{"word":"Oder","deep":{"x":[1,null,"two"]}}`},
			{ID: "toolu_3", Name: "list", RawArgs: `{}`},
		},
		Usage: &perdure.Usage{InputTokens: 120, OutputTokens: 30, CachedTokens: 100},
	}
}

var hello = model.Request{Messages: []perdure.Message{perdure.Text("Hello")}}

// TestCutAtEveryEvent: the same over real connections, between all events and inside of each
// (R19).
func TestCutAtEveryEvent(t *testing.T) {
	t.Parallel()
	model := script(t, talk())
	plain := anthropictest.New(model, anthropictest.Config{})
	whole := listen(t, ask(t, plain), hello)
	if whole.err != nil || len(whole.answer.Message.Calls()) != 3 {
		t.Fatalf("got %s", whole)
	}
	events := plain.Events()[0]
	for _, duplicate := range []bool{false, true} {
		for _, half := range []bool{false, true} {
			t.Run(fmt.Sprintf("duplicate %v half %v", duplicate, half), func(t *testing.T) {
				t.Parallel()
				server := anthropictest.New(model, anthropictest.Config{Duplicate: duplicate, Cut: func(request int) (int, bool, bool) {
					return request - 1, half, true
				}})
				m := ask(t, server)
				n := 0
				for ; ; n++ {
					part := listen(t, m, hello)
					checkPart(t, part, whole)
					if t.Failed() {
						t.Fatalf("cut after %d events", n)
					}
					if part.err == nil {
						break
					}
				}
				// The answer is whole when its stop reason was sent; message_stop may be missing.
				if want := server.Events()[n]; n != want || n < events-1 {
					t.Errorf("the answer was whole after %d events, want %d", n, want)
				}
			})
		}
	}
}

// TestDuplicates: a server that sends events twice is heard once.
func TestDuplicates(t *testing.T) {
	t.Parallel()
	once := listen(t, ask(t, anthropictest.New(script(t, talk()), anthropictest.Config{})), hello)

	twice := listen(t, ask(t, anthropictest.New(script(t, talk()), anthropictest.Config{Duplicate: true})), hello)

	if diff := cmp.Diff(once.String(), twice.String()); diff != "" {
		t.Errorf("(-once +twice):\n%s", diff)
	}
}

// TestLargeEvents: pieces of 2 MB, far more than a line of the SDK's first buffer, arrive whole.
func TestLargeEvents(t *testing.T) {
	t.Parallel()
	text := strings.Repeat("Görlitz ", 1<<18)
	args, err := json.Marshal(map[string]string{"content": text})
	if err != nil {
		t.Fatal(err)
	}

	h := listen(t, ask(t, events(
		event{"message_start", map[string]any{"message": map[string]any{"model": "claude-test"}}},
		event{"content_block_start", map[string]any{"index": 0, "content_block": map[string]any{"type": "text", "text": ""}}},
		event{"content_block_delta", map[string]any{"index": 0, "delta": map[string]any{"type": "text_delta", "text": text}}},
		event{"content_block_stop", map[string]any{"index": 0}},
		event{"content_block_start", map[string]any{"index": 1, "content_block": map[string]any{"type": "tool_use", "id": "toolu_1", "name": "write", "input": map[string]any{}}}},
		event{"content_block_delta", map[string]any{"index": 1, "delta": map[string]any{"type": "input_json_delta", "partial_json": string(args)}}},
		event{"content_block_stop", map[string]any{"index": 1}},
		event{"message_delta", map[string]any{"delta": map[string]any{"stop_reason": "tool_use"}}},
		event{"message_stop", map[string]any{}},
	)), hello)

	if h.err != nil || h.answer.Message.Text() != text || len(h.answer.Message.Calls()) != 1 || string(h.answer.Message.Calls()[0].Arguments) != string(args) {
		t.Errorf("got %d bytes of text, %d calls, error %v", len(h.answer.Message.Text()), len(h.answer.Message.Calls()), h.err)
	}
}

type event struct {
	name   string
	fields map[string]any
}

// events is a server that always streams these.
func events(all ...event) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream")
		for _, e := range all {
			e.fields["type"] = e.name
			data, err := json.Marshal(e.fields)
			if err != nil {
				panic(err)
			}
			fmt.Fprintf(w, "event: %s\ndata: %s\n\n", e.name, data)
		}
	}
}

// TestBrokenStreams: streams that end or contradict themselves are errors that may be tried again,
// with no call.
func TestBrokenStreams(t *testing.T) {
	t.Parallel()
	const begin = `{"type":"content_block_start","index":0,"content_block":{"type":"tool_use","id":"a","name":"pay","input":{}}}`
	const rest = `{"type":"content_block_delta","index":0,"delta":{"type":"input_json_delta","partial_json":"{\"euro\":5}"}}
{"type":"content_block_stop","index":0}
{"type":"message_delta","delta":{"stop_reason":"tool_use"}}
{"type":"message_stop"}`
	lines := strings.Split(rest, "\n")
	tests := map[string]struct {
		events string // data lines; each event's name is its type
		broken int
		code   model.Code
	}{
		"nothing":                                 {"", 0, model.Unavailable},
		"no JSON":                                 {`{"type":"message_start"`, 0, model.Unavailable},
		"no reason":                               {`{"type":"message_stop"}`, 0, model.Unavailable},
		"no reason behind a call":                 {begin + "\n" + `{"type":"content_block_stop","index":0}` + "\n" + `{"type":"message_stop"}`, 1, model.Unavailable},
		"a piece without a block":                 {`{"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"x"}}`, 0, model.Unavailable},
		"an end without a block":                  {`{"type":"content_block_stop","index":0}`, 0, model.Unavailable},
		"two blocks of one index":                 {begin + "\n" + strings.Replace(begin, `"pay"`, `"take"`, 1) + "\n" + rest, 1, model.Unavailable},
		"the end of a call and nothing behind it": {begin + "\n" + `{"type":"content_block_stop","index":0}`, 1, model.Unavailable},
		"a closed call that does not parse, and another": {begin + "\n" + strings.Replace(lines[0], `5}`, `5`, 1) + "\n" + lines[1] + "\n" + strings.Replace(begin, `"index":0`, `"index":1`, 1), 2, model.Unavailable},
		"an error event":                 {`{"type":"error","error":{"type":"rate_limit_error","message":"slow down"}}`, 0, model.RateLimited},
		"an error event that is no JSON": {`{"type":"error",`, 0, model.Processing},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h := hear(t, replay{bytes: []byte(sse(test.events))})

			var failure *model.Error
			if !errors.As(h.err, &failure) || failure.Code != test.code {
				t.Errorf("got %v, want %s", h.err, test.code)
			}
			if len(h.answer.Message.Calls()) != 0 || h.answer.Discarded != test.broken {
				t.Errorf("got calls %v, %d discarded; want none, %d", h.answer.Message.Calls(), h.answer.Discarded, test.broken)
			}
		})
	}
}

// sse makes events of lines of data.
func sse(lines string) string {
	var b strings.Builder
	for line := range strings.Lines(lines) {
		_, rest, _ := strings.Cut(line, `"type":"`)
		name, _, _ := strings.Cut(rest, `"`)
		fmt.Fprintf(&b, "event: %s\ndata: %s\n\n", name, strings.TrimSuffix(line, "\n"))
	}
	return b.String()
}

// TestOddAnswers: whole answers in which something is odd.
func TestOddAnswers(t *testing.T) {
	t.Parallel()
	const end = `{"type":"message_delta","delta":{"stop_reason":"tool_use"},"usage":{"output_tokens":3}}` + "\n" + `{"type":"message_stop"}`
	const said = "usage in 0 out 3 cached 0\n"
	call := func(start, args string) string {
		return `{"type":"content_block_start","index":0,"content_block":{"type":"tool_use","id":"a",` + start + `}}` + "\n" +
			`{"type":"content_block_delta","index":0,"delta":{"type":"input_json_delta","partial_json":` + args + `}}` + "\n" +
			`{"type":"content_block_stop","index":0}` + "\n" + end
	}
	tests := map[string]struct{ events, want string }{
		"usage that shrinks": {`{"type":"message_start","message":{"usage":{"input_tokens":9,"output_tokens":7}}}` + "\n" + end,
			"usage in 9 out 7 cached 0\nfinish tool_calls\n"},
		"a key twice":                   {call(`"name":"pay","input":{}`, `"{\"euro\":5,\"euro\":6}"`), said + "call a pay {\"euro\":5,\"euro\":6}\nfinish tool_calls\n"},
		"half of a pair":                {call(`"name":"pay","input":{}`, `"{\"to\":\"\\ud83d\"}"`), said + "call a pay {\"to\":\"\\ud83d\"}\nfinish tool_calls\n"},
		"half of a pair on the wire":    {call(`"name":"pay","input":{}`, `"{\"to\":\"\ud83d\"}"`), said + "broken 1\nfinish tool_calls\n"},
		"half of a character":           {call(`"name":"pay","input":{}`, "\"{\\\"to\\\":\\\"\xf0\x9f\\\"}\""), said + "call a pay {\"to\":\"\\xf0\\x9f\"}\nfinish tool_calls\n"},
		"a character for none":          {call(`"name":"pay","input":{}`, `"{\"to\":\"\ufffd\"}"`), said + "call a pay {\"to\":\"\uFFFD\"}\nfinish tool_calls\n"},
		"half an object":                {call(`"name":"pay","input":{}`, `"{\"euro\":"`), said + "call a pay {\"euro\":\nfinish tool_calls\n"},
		"half an object, at the length": {strings.Replace(call(`"name":"pay","input":{}`, `"{\"euro\":"`), "tool_use\"}", "max_tokens\"}", 1), said + "broken 1\nfinish length\n"},
		"a call without a name":         {call(`"name":"","input":{}`, `"{}"`), said + "broken 1\nfinish tool_calls\n"},
		"arguments with the start":      {call(`"name":"pay","input":{"euro":5}`, `""`), said + "call a pay {\"euro\":5}\nfinish tool_calls\n"},
		"usage that is no number":       {`{"type":"message_start","message":{"usage":{"input_tokens":"9","output_tokens":null}}}` + "\n" + strings.Replace(end, `"output_tokens":3`, `"output_tokens":1.5,"input_tokens":4`, 1), "usage in 9 out 0 cached 0\nusage in 9 out 1 cached 0\nfinish tool_calls\n"},
		"usage that is a text":          {`{"type":"message_start","message":{"usage":"none"}}` + "\n" + end, said + "finish tool_calls\n"},
		"usage that is a list":          {strings.Replace(end, `{"output_tokens":3}`, `[7]`, 1), "finish tool_calls\n"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if diff := cmp.Diff(test.want, hear(t, replay{bytes: []byte(sse(test.events))}).String()); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

// TestSplitCharacters: a provider that splits characters between its pieces is put together again.
func TestSplitCharacters(t *testing.T) {
	t.Parallel()
	text := "ö🙂\xff!"
	lines := []string{`{"type":"content_block_start","index":0,"content_block":{"type":"text","text":""}}`}
	for i := range len(text) {
		lines = append(lines, `{"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"`+text[i:i+1]+`"}}`)
	}
	lines = append(lines, `{"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"`+"\xc3"+`"}}`,
		`{"type":"content_block_stop","index":0}`, `{"type":"message_delta","delta":{"stop_reason":"end_turn"}}`, `{"type":"message_stop"}`)

	h := hear(t, replay{bytes: []byte(sse(strings.Join(lines, "\n")))})

	if got, want := h.answer.Message.Text(), "ö🙂\uFFFD!\uFFFD"; got != want || h.err != nil {
		t.Errorf("got %q and %v, want %q", got, h.err, want)
	}
	for _, d := range h.deltas {
		if !utf8.ValidString(d.Text) {
			t.Errorf("the delta %q ends inside of a character", d.Text)
		}
	}
}

// TestOneRequest: a request that fails is not sent again, whatever the provider says about that
// (TN21).
func TestOneRequest(t *testing.T) {
	t.Parallel()
	var asked atomic.Int32
	m := ask(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked.Add(1)
		w.Header().Set("X-Should-Retry", "true")
		w.WriteHeader(http.StatusServiceUnavailable)
	}))

	h := listen(t, m, hello)

	if n := asked.Load(); h.err == nil || n != 1 {
		t.Errorf("got %d requests and %v, want one and an error", n, h.err)
	}
}

package openai_test

import (
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/model"
	"github.com/perdure/perdure/model/openai"
)

// playback is a transport that plays one stream for each request, the last one again, and keeps
// what is sent.
type playback struct {
	streams [][]byte

	mu   sync.Mutex
	sent [][]byte // guarded by mu
}

func (p *playback) RoundTrip(r *http.Request) (*http.Response, error) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return nil, err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	at := min(len(p.sent), len(p.streams)-1)
	p.sent = append(p.sent, body)
	return tape{bytes: p.streams[at]}.RoundTrip(r)
}

// wireMessage is a message of a request, as far as these tests look at it.
type wireMessage map[string]json.RawMessage

// messagesIn returns the messages of a request.
func messagesIn(t *testing.T, body []byte) []wireMessage {
	t.Helper()
	var b struct {
		Messages []wireMessage `json:"messages"`
	}
	if err := perdure.DecodeKnownJSON(body, &b); err != nil {
		t.Fatal(err)
	}
	return b.Messages
}

// sentBack asks a model whose answer is a stream, and returns the message of that answer as the
// next request contains it, before the results of its calls.
func sentBack(t *testing.T, first openai.Config, second openai.Config, chunks ...string) wireMessage {
	t.Helper()
	p := &playback{streams: [][]byte{stream(chunks...), stream(delta(`{"content":"x"}`), finish("stop"))}}
	first.HTTP, second.HTTP = &http.Client{Transport: p}, &http.Client{Transport: p}
	messages := []perdure.Message{perdure.Text("Go")}
	answer, err := model.Collect(newModel(t, first).Stream(t.Context(), model.Request{Messages: messages}), nil)
	if err != nil {
		t.Fatal(err)
	}
	messages = append(messages, stored(t, answer.Message))
	for _, c := range answer.Message.Calls() {
		messages = append(messages, result(c.ID, `1`))
	}
	messages = append(messages, perdure.Text("On"))

	if _, err := model.Collect(newModel(t, second).Stream(t.Context(), model.Request{Messages: messages}), nil); err != nil {
		t.Fatal(err)
	}

	for _, m := range messagesIn(t, p.sent[1]) {
		if string(m["role"]) == `"assistant"` {
			return m
		}
	}
	t.Fatalf("the answer is not in %s", p.sent[1])
	return nil
}

// stored is a message after it was in the journal.
func stored(t *testing.T, m perdure.Message) perdure.Message {
	t.Helper()
	text, err := json.Marshal(m)
	if err != nil {
		t.Fatal(err)
	}
	var read perdure.Message
	if err := perdure.DecodeJSON(text, &read); err != nil {
		t.Fatal(err)
	}
	return read
}

// TestStateComesBack: fields that the protocol does not have go back to their provider as they
// came, whatever they are called and however they were split. Each row is what a provider or a
// gateway is reported to send.
func TestStateComesBack(t *testing.T) {
	t.Parallel()
	use := calling(`{"index":0,"id":"a","type":"function","function":{"name":"f","arguments":"{}"}}`)
	end := finish("tool_calls")
	for _, c := range []struct {
		name, source string
		chunks       []string
		field        string // of the message; empty: of its call
		want         string
	}{
		{"Gemini, a signature of a call", "Gitlawb/openclaude#67", []string{
			calling(`{"index":0,"id":"a","type":"function","function":{"name":"f","arguments":"{}"},"extra_content":{"google":{"thought_signature":"c2ln"}}}`), end,
		}, "", `{"extra_content":{"google":{"thought_signature":"c2ln"}},"function":{"name":"f","arguments":"{}"},"id":"a","type":"function"}`},
		{"a signature of a call in two pieces", "vertesia/llumiverse#470", []string{
			calling(`{"index":0,"id":"a","type":"function","function":{"name":"f","arguments":"{}"},"extra_content":{"google":{"thought_signature":"c2"}}}`),
			calling(`{"index":0,"extra_content":{"google":{"thought_signature":"ln"}}}`), end,
		}, "", `{"extra_content":{"google":{"thought_signature":"c2ln"}},"function":{"name":"f","arguments":"{}"},"id":"a","type":"function"}`},
		{"LiteLLM, a signature of a function", "langbot-app/LangBot#2265", []string{
			calling(`{"index":0,"id":"a","type":"function","function":{"name":"f","arguments":"{}","provider_specific_fields":{"thought_signature":"c2ln"}}}`), end,
		}, "", `{"function":{"arguments":"{}","name":"f","provider_specific_fields":{"thought_signature":"c2ln"}},"id":"a","type":"function"}`},
		{"DeepSeek, thinking", "continuedev/continue#10193", []string{
			delta(`{"role":"assistant","content":null,"reasoning_content":""}`), delta(`{"reasoning_content":"I "}`), delta(`{"reasoning_content":"think."}`), use, end,
		}, "reasoning_content", `"I think."`},
		{"DeepSeek, no thinking this time", "claude-code-best/claude-code#403", []string{
			delta(`{"role":"assistant","content":null,"reasoning_content":""}`), use, end,
		}, "reasoning_content", `""`},
		{"Cerebras, thinking under another name", "QwenLM/qwen-code#11045", []string{delta(`{"reasoning":"Hm."}`), use, end}, "reasoning", `"Hm."`},
		{"Copilot, an opaque text", "earendil-works/pi#1502", []string{
			delta(`{"reasoning_text":"I "}`), delta(`{"reasoning_text":"think."}`), delta(`{"reasoning_opaque":"b3BhcXVl"}`), use, end,
		}, "reasoning_opaque", `"b3BhcXVl"`},
		{"OpenRouter, pieces of one block, signed at the end", "agno-agi/agno#8861", []string{
			delta(`{"reasoning_details":[{"type":"reasoning.text","text":"I ","format":"anthropic-claude-v1","index":0}]}`),
			delta(`{"reasoning_details":[{"type":"reasoning.text","text":"think.","format":"anthropic-claude-v1","index":0}]}`),
			delta(`{"reasoning_details":[{"type":"reasoning.text","signature":"c2ln","format":"anthropic-claude-v1","index":0}]}`), use, end,
		}, "reasoning_details", `[{"format":"anthropic-claude-v1","index":0,"signature":"c2ln","text":"I think.","type":"reasoning.text"}]`},
		{"OpenRouter, two kinds with one index", "agentjido/req_llm#300", []string{
			delta(`{"reasoning_details":[{"type":"reasoning.text","text":"I ","index":0}]}`),
			delta(`{"reasoning_details":[{"type":"reasoning.text","text":"think.","index":0},{"type":"reasoning.encrypted","data":"ZGF0YQ","id":"a","index":0}]}`), use, end,
		}, "reasoning_details", `[{"index":0,"text":"I think.","type":"reasoning.text"},{"data":"ZGF0YQ","id":"a","index":0,"type":"reasoning.encrypted"}]`},
		{"LiteLLM, blocks without an index, the text again with the signature", "BerriAI/litellm#29428", []string{
			delta(`{"thinking_blocks":[{"type":"thinking","thinking":"First I think. ","signature":""}]}`),
			delta(`{"thinking_blocks":[{"type":"thinking","thinking":"Then I act.","signature":null}]}`),
			delta(`{"thinking_blocks":[{"type":"thinking","thinking":"First I think. Then I act.","signature":"c2ln"}]}`),
			delta(`{"thinking_blocks":[{"type":"redacted_thinking","data":"ZGF0YQ"}]}`), use, end,
		}, "thinking_blocks", `[{"signature":"c2ln","thinking":"First I think. Then I act.","type":"thinking"},{"data":"ZGF0YQ","type":"redacted_thinking"}]`},
		{"a number, a truth and a list of texts", "", []string{
			delta(`{"vendor":{"n":1,"ok":true,"list":["a"],"none":null}}`), delta(`{"vendor":{"n":2,"list":["b"]}}`), use, end,
		}, "vendor", `{"list":["a","b"],"n":2,"none":null,"ok":true}`},
		{"a character in two pieces", "", []string{delta(`{"vendor":"\ud83d"}`), delta(`{"vendor":"\ude42"}`), use, end}, "vendor", `"🙂"`},
		{"what describes the answer does not go back", "", []string{
			delta(`{"role":"assistant","name":"MiniMax AI","annotations":[],"logprobs":{"a":1},"vendor":null,"empty":""}`), use, end,
		}, "name", ``},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			m := sentBack(t, openai.Config{}, openai.Config{}, c.chunks...)
			got := m[c.field]
			if c.field == "" {
				var calls []json.RawMessage
				if err := perdure.DecodeKnownJSON(m["tool_calls"], &calls); err != nil || len(calls) != 1 {
					t.Fatalf("got calls %s, %v", m["tool_calls"], err)
				}
				got = calls[0]
			}
			if diff := cmp.Diff(canonical(t, []byte(c.want)), canonical(t, got)); diff != "" {
				t.Errorf("%s (-want +got):\n%s", c.source, diff)
			}
		})
	}
}

// canonical writes JSON with sorted keys; nothing stays nothing.
func canonical(t *testing.T, text []byte) string {
	t.Helper()
	if len(bytes.TrimSpace(text)) == 0 {
		return ""
	}
	var v any
	if err := perdure.DecodeKnownJSON(text, &v); err != nil {
		t.Fatalf("%v: %s", err, text)
	}
	sorted, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return string(sorted)
}

// TestStateStaysAway: another server, and a model of another vendor on the same one, get nothing of
// it, nor the id, which may contain some (BerriAI/litellm#18160, tashfeenahmed/freellmapi#1070).
func TestStateStaysAway(t *testing.T) {
	t.Parallel()
	for name, second := range map[string]openai.Config{
		"another server": {Name: "gemini-3", BaseURL: "https://other.test/v1"},
		"another vendor": {Name: "anthropic/claude-4", BaseURL: "https://one.test/v1"},
	} {
		m := sentBack(t, openai.Config{Name: "google/gemini-3", BaseURL: "https://one.test/v1"}, second,
			delta(`{"reasoning_content":"Hm.","vendor":"c2ln"}`),
			calling(`{"index":0,"id":"call_1__thought__c2ln","type":"function","function":{"name":"f","arguments":"{}","sig":"c2ln"},"extra_content":{"s":"c2ln"}}`), finish("tool_calls"))

		text, err := json.Marshal(m)
		if err != nil || bytes.Contains(text, []byte("c2ln")) || bytes.Contains(text, []byte("Hm.")) || string(m["content"]) != `""` {
			t.Errorf("%s: got %s, %v", name, text, err)
		}
	}
}

// TestEndlessState: state counts into the size of an answer, and a list of endless entries is no
// state.
func TestEndlessState(t *testing.T) {
	t.Parallel()
	big := delta(`{"vendor":"` + strings.Repeat("a", 5<<20) + `"}`)
	_, err := play(t, t.Context(), tape{bytes: stream(big, strings.Replace(big, "aa", "ab", 1), finish("stop"))})
	if code(err) != model.Processing {
		t.Errorf("10 MiB of state: got %v", err)
	}
	many := make([]string, 1500)
	for i := range many {
		many[i] = delta(`{"vendor":[{"data":"x"}]}`)
	}
	a, err := play(t, t.Context(), tape{bytes: stream(append(many, delta(`{"content":"x"}`), finish("stop"))...)})
	if err != nil || len(a.Message.State.Fields) > 0 {
		t.Errorf("1,500 entries: got %d bytes, %v", len(a.Message.State.Fields["vendor"]), err)
	}
}

// FuzzState: no chunks make the adapter panic, or store state that is not JSON or that does not
// come back.
func FuzzState(f *testing.F) {
	f.Add(`{"vendor":"a"}`, `{"vendor":"b","reasoning":"x"}`)
	f.Add(`{"v":[{"index":0,"type":"t","text":"a"}]}`, `{"v":[{"index":0,"text":"b","signature":"s"}]}`)
	f.Add(`{"v":{"a":[1,[2]],"type":"x"}}`, `{"v":{"a":[3],"type":"x"}}`)
	f.Add(`{"tool_calls":[{"index":0,"id":"a","function":{"name":"f","x":1},"y":{"z":"\ud83d"}}]}`, `{"tool_calls":[{"index":0,"y":{"z":"\ude42"}}]}`)
	f.Fuzz(func(t *testing.T, one, two string) {
		a, err := play(t, t.Context(), tape{bytes: stream(delta(one), delta(two), finish("stop"))})
		if err != nil {
			return
		}
		text, err := json.Marshal(a.Message)
		if err != nil {
			t.Fatalf("the answer cannot be stored: %v", err)
		}
		var read perdure.Message
		if err := perdure.DecodeJSON(text, &read); err != nil {
			t.Fatalf("the answer cannot be read again: %v\n%s", err, text)
		}
	})
}

package anthropic_test

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
	"github.com/perdure/perdure/model/anthropic"
)

// blockStream is an answer whose blocks arrive in two pieces where they can.
func blockStream(blocks ...string) []byte {
	var b strings.Builder
	event := func(kind, rest string) {
		b.WriteString("event: " + kind + "\ndata: {\"type\":\"" + kind + "\"" + rest + "}\n\n")
	}
	event("message_start", `,"message":{"id":"m","type":"message","role":"assistant","model":"x","content":[],"usage":{"input_tokens":1,"output_tokens":1}}`)
	for i, block := range blocks {
		at := `,"index":` + string(rune('0'+i))
		start, pieces, _ := strings.Cut(block, " + ")
		event("content_block_start", at+`,"content_block":`+start)
		for piece := range strings.SplitSeq(pieces, " + ") {
			if piece != "" {
				event("content_block_delta", at+`,"delta":`+piece)
			}
		}
		event("content_block_stop", at)
	}
	event("message_delta", `,"delta":{"stop_reason":"tool_use","stop_sequence":null},"usage":{"output_tokens":9}`)
	event("message_stop", "")
	return []byte(b.String())
}

// hearsAll is a transport that plays a stream and keeps the last request.
type hearsAll struct {
	stream []byte

	mu   sync.Mutex
	last []byte // guarded by mu
}

func (h *hearsAll) RoundTrip(r *http.Request) (*http.Response, error) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return nil, err
	}
	h.mu.Lock()
	h.last = body
	h.mu.Unlock()
	return replay{bytes: h.stream}.RoundTrip(r)
}

// sentBack asks the model with a name, and returns the answer's content as the next request to
// another one contains it.
func sentBack(t *testing.T, first, second anthropic.Config, blocks ...string) json.RawMessage {
	t.Helper()
	h := &hearsAll{stream: blockStream(blocks...)}
	first.HTTP, second.HTTP = &http.Client{Transport: h}, &http.Client{Transport: h}
	messages := []perdure.Message{perdure.Text("Go")}
	answer := listen(t, adapter(t, first), model.Request{Messages: messages})
	if answer.err != nil {
		t.Fatal(answer.err)
	}
	text, err := json.Marshal(answer.answer.Message) // as the journal stores it
	if err != nil {
		t.Fatal(err)
	}
	var read perdure.Message
	if err := perdure.DecodeJSON(text, &read); err != nil {
		t.Fatal(err)
	}
	messages = append(messages, read)
	for _, c := range read.Calls() {
		messages = append(messages, say(perdure.RoleToolResult, resultOf(string(c.ID), `1`)))
	}

	listen(t, adapter(t, second), model.Request{Messages: messages})

	var q struct {
		Messages []struct {
			Content json.RawMessage `json:"content"`
		} `json:"messages"`
	}
	if err := perdure.DecodeKnownJSON(h.last, &q); err != nil || len(q.Messages) < 2 {
		t.Fatalf("%v: %s", err, h.last)
	}
	return q.Messages[1].Content
}

// TestStateComesBack: thinking blocks go back to their provider unchanged and in their places.
func TestStateComesBack(t *testing.T) {
	t.Parallel()
	const (
		thinking = `{"type":"thinking","thinking":"","signature":""} + {"type":"thinking_delta","thinking":"I "} + {"type":"thinking_delta","thinking":"think."} + {"type":"signature_delta","signature":"c2ln"}`
		redacted = `{"type":"redacted_thinking","data":"ZGF0YQ"}`
		text     = `{"type":"text","text":""} + {"type":"text_delta","text":"Well, 你"} + {"type":"text_delta","text":"好."}`
		use      = `{"type":"tool_use","id":"a","name":"f","input":{},"caller":{"type":"direct"}} + {"type":"input_json_delta","partial_json":"{}"}`
	)
	const signed, called, said = `{"signature":"c2ln","thinking":"I think.","type":"thinking"}`, `{"id":"a","input":{},"name":"f","type":"tool_use"}`, `{"text":"Well, 你好.","type":"text"}`
	for _, c := range []struct {
		name, source, model string
		blocks              []string
		want                string
	}{
		{"one block", "NousResearch/hermes-agent#22313", "claude-x", []string{thinking, text, use}, `[` + signed + `,` + said + `,` + called + `]`},
		{"redacted only", "anomalyco/opencode#38614", "claude-x", []string{redacted, use}, `[{"data":"ZGF0YQ","type":"redacted_thinking"},` + called + `]`},
		{"several, with text between", "anthropics/claude-code#63267", "claude-x", []string{thinking, text, redacted, thinking, use},
			`[` + signed + `,` + said + `,{"data":"ZGF0YQ","type":"redacted_thinking"},` + signed + `,` + called + `]`},
		{"after the text", "openai/openai-agents-python#4155", "claude-x", []string{text, thinking, use}, `[` + said + `,` + signed + `,` + called + `]`},
		{"a signature without text", "openai/openai-agents-python#4155", "claude-x", []string{
			`{"type":"thinking","thinking":"","signature":""} + {"type":"signature_delta","signature":"c2ln"}`, use,
		}, `[{"signature":"c2ln","thinking":"","type":"thinking"},` + called + `]`},
		{"not signed, by another vendor", "omnimind-ai/OmniBot#307", "deepseek-x", []string{
			`{"type":"thinking","thinking":""} + {"type":"thinking_delta","thinking":"Hm."}`, use,
		}, `[{"thinking":"Hm.","type":"thinking"},` + called + `]`},
		{"not signed, by the provider", "ayunis-core/ayunis-core#813", "claude-x", []string{
			`{"type":"thinking","thinking":""} + {"type":"thinking_delta","thinking":"Hm."}`, text, use,
		}, `[` + said + `,` + called + `]`},
		{"a field of a block and of a call", "badrisnarayanan/antigravity-claude-proxy#14", "gemini-x", []string{
			`{"type":"thinking","thinking":"Hm.","signature":"c2ln","vendor":{"a":1}}`, `{"type":"tool_use","id":"a","name":"f","input":{},"signature":"ZGF0YQ"}`,
		}, `[{"signature":"c2ln","thinking":"Hm.","type":"thinking","vendor":{"a":1}},{"id":"a","input":{},"name":"f","signature":"ZGF0YQ","type":"tool_use"}]`},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			cfg := anthropic.Config{Name: c.model, BaseURL: "http://127.0.0.1:1"}
			got := sentBack(t, cfg, cfg, c.blocks...)
			if diff := cmp.Diff(sorted(t, []byte(c.want)), sorted(t, got)); diff != "" {
				t.Errorf("%s (-want +got):\n%s", c.source, diff)
			}
		})
	}
	for name, cfg := range map[string]anthropic.Config{
		"another server": {Name: "claude-x", BaseURL: "http://127.0.0.1:2"},
		"another vendor": {Name: "deepseek-x", BaseURL: "http://127.0.0.1:1"},
	} {
		got := sentBack(t, anthropic.Config{Name: "claude-x", BaseURL: "http://127.0.0.1:1"}, cfg, thinking, redacted, use)
		if bytes.Contains(got, []byte("c2ln")) || bytes.Contains(got, []byte("ZGF0YQ")) || bytes.Contains(got, []byte("think")) {
			t.Errorf("%s: got %s", name, got)
		}
	}
}

// sorted writes JSON with sorted keys.
func sorted(t *testing.T, text []byte) string {
	t.Helper()
	var v any
	if err := perdure.DecodeKnownJSON(text, &v); err != nil {
		t.Fatalf("%v: %s", err, text)
	}
	all, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return string(all)
}

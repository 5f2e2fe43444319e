package openai_test

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/model"
	"github.com/perdure/perdure/model/openai"
)

// vendor is a server that is strict in the way of one vendor: refuses returns its error for the
// messages of a request, or "".
type vendor struct {
	name, source string
	status       int
	refuses      func(messages []wireMessage) string
	calls        string // a chunk of its answers with a call; empty: a plain one
}

func roleOf(m wireMessage) string { return strings.Trim(string(m["role"]), `"`) }

// assistants returns the messages of the model.
func assistants(messages []wireMessage) []wireMessage {
	return slices.DeleteFunc(slices.Clone(messages), func(m wireMessage) bool { return roleOf(m) != "assistant" })
}

// callsOf returns the calls of all messages.
func callsOf(messages []wireMessage) (all []map[string]json.RawMessage) {
	for _, m := range messages {
		var calls []map[string]json.RawMessage
		_ = perdure.DecodeKnownJSON(m["tool_calls"], &calls) // a message without calls has none
		all = append(all, calls...)
	}
	return all
}

// lacks returns the error if a message of the model lacks a field.
func lacks(messages []wireMessage, field, text string) string {
	for _, m := range assistants(messages) {
		if len(m[field]) == 0 || string(m[field]) == `""` && field != "content" {
			return text
		}
	}
	return ""
}

// has returns the error if a message of the model has a field.
func has(messages []wireMessage, field, text string) string {
	for _, m := range assistants(messages) {
		if _, ok := m[field]; ok {
			return text
		}
	}
	return ""
}

var nineCharacters = regexp.MustCompile(`^"[a-zA-Z0-9]{9}"$`)

// refusesIDs is what a server of a Mistral model says about ids.
func refusesIDs(messages []wireMessage) string {
	for _, c := range callsOf(messages) {
		if !nineCharacters.Match(c["id"]) {
			return fmt.Sprintf("Tool call id was %s but must be a-z, A-Z, 0-9, with a length of 9.", c["id"])
		}
	}
	return ""
}

// refusesOrder is what a server of a Mistral model says about the order of roles.
func refusesOrder(messages []wireMessage) string {
	last := ""
	for i, m := range messages {
		role := roleOf(m)
		switch {
		case role == "system" && i > 0:
			return "Unexpected role 'system' after role '" + last + "'"
		case role == "user" && (last == "tool" || last == "user"), role == "assistant" && last == "assistant", role == "tool" && (last == "user" || last == ""):
			return "Unexpected role '" + role + "' after role '" + last + "'"
		}
		last = role
	}
	if last == "assistant" {
		return "Expected last role User or Tool for serving but got assistant"
	}
	return ""
}

func vendors() []vendor {
	thinking := delta(`{"reasoning_content":"I think."}`)
	return []vendor{
		{name: "DeepSeek", source: "Zoo-Code-Org/Zoo-Code#201", status: 400, calls: thinking, refuses: func(all []wireMessage) string {
			return lacks(all, "reasoning_content", "The `reasoning_content` in the thinking mode must be passed back to the API.")
		}},
		{name: "Moonshot", source: "continuedev/continue#11711", status: 400, calls: thinking, refuses: func(all []wireMessage) string {
			return lacks(all, "reasoning_content", "thinking is enabled but reasoning_content is missing in assistant tool call message at index 2")
		}},
		{name: "DeepSeek, without thinking so far", source: "NousResearch/hermes-agent#15353", status: 400, refuses: func(all []wireMessage) string {
			return lacks(all, "reasoning_content", "The `reasoning_content` in the thinking mode must be passed back to the API.")
		}},
		{name: "Gemini", source: "vercel/ai#15550", status: 400, refuses: func(all []wireMessage) string {
			for _, m := range assistants(all) {
				if calls := callsOf([]wireMessage{m}); len(calls) > 0 && !strings.Contains(string(calls[0]["extra_content"]), "thought_signature") {
					return "Function call is missing a thought_signature in functionCall parts."
				}
			}
			return ""
		}},
		{name: "Mistral", source: "zed-industries/zed#31736", status: 400, refuses: refusesOrder},
		{name: "a Mistral model whose server makes other ids", source: "jundot/omlx#1997", status: 500, refuses: refusesIDs},
		{name: "a Mistral template", source: "ml-explore/mlx-lm#1375", status: 404, refuses: func(all []wireMessage) string {
			if refusesIDs(all) == "" {
				return ""
			}
			return "Tool call IDs should be alphanumeric strings with length 9!"
		}},
		{name: "vLLM", source: "vllm-project/vllm#50861", status: 400, refuses: func(all []wireMessage) string {
			for _, c := range callsOf(all) {
				var f struct {
					Arguments string `json:"arguments"`
				}
				var object map[string]any
				if perdure.DecodeKnownJSON(c["function"], &f) != nil || perdure.DecodeJSON([]byte(f.Arguments), &object) != nil || object == nil {
					return "Can only get item pairs from a mapping."
				}
			}
			return refusesOrder(all)
		}},
		{name: "llama.cpp", source: "abetlen/llama-cpp-python#1805", status: 500, refuses: func(all []wireMessage) string {
			for i, m := range all {
				if _, ok := m["content"]; !ok {
					return fmt.Sprintf("[{'type': 'missing', 'loc': ('body', 'messages', %d, 'content'), 'msg': 'Field required'}]", i)
				}
			}
			return ""
		}},
		{name: "Ollama", source: "SAIL-Research-Lab/cheetahclaws#72", status: 400, refuses: func(all []wireMessage) string {
			for _, m := range all {
				if string(m["content"]) == "null" {
					return "invalid message content type: <nil>"
				}
			}
			return ""
		}},
		{name: "Bedrock", source: "vercel/ai#14618", status: 400, refuses: func(all []wireMessage) string {
			for _, m := range all {
				if string(m["content"]) == `""` {
					return "ValidationException: messages: text content blocks must be non-empty"
				}
			}
			return ""
		}},
		{name: "Groq", source: "agentjido/req_llm#772", status: 400, calls: delta(`{"reasoning":"Hm."}`), refuses: func(all []wireMessage) string {
			return has(all, "reasoning", "'messages.2' : for 'role:assistant' the following must be satisfied[('messages.2' : property 'reasoning' is unsupported)]")
		}},
		{name: "Cerebras", source: "Kilo-Org/kilocode#10375", status: 400, calls: thinking, refuses: func(all []wireMessage) string {
			return has(all, "reasoning_content", "messages.2.assistant.reasoning_content: property 'messages.2.assistant.reasoning_content' is unsupported")
		}},
	}
}

// ServeHTTP plays a tool loop: two calls, one after the other, and then a text.
func (v vendor) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	var q struct {
		Messages []wireMessage `json:"messages"`
	}
	if err != nil || perdure.DecodeKnownJSON(body, &q) != nil {
		panic(http.ErrAbortHandler)
	}
	if why := v.refuses(q.Messages); why != "" {
		answering(v.status, nil, `{"error":{"message":`+quote(why)+`}}`).ServeHTTP(w, r)
		return
	}
	w.Header().Set("Content-Type", "text/event-stream")
	done := len(callsOf(q.Messages))
	if done >= 2 {
		_, _ = w.Write(stream(delta(`{"content":"Done."}`), finish("stop")))
		return
	}
	chunks := []string{calling(fmt.Sprintf(`{"index":0,"id":"call_49c89af%d","type":"function","function":{"name":"f","arguments":"null"}}`, done)), finish("tool_calls")}
	if v.calls != "" {
		chunks = append([]string{v.calls}, chunks...)
	}
	_, _ = w.Write(stream(chunks...))
}

func quote(text string) string {
	quoted, err := json.Marshal(text)
	if err != nil {
		panic(err) // strings always encode
	}
	return string(quoted)
}

// TestVendors: a tool loop of two steps ends with each strict server, also when the user steers
// between the steps, when a result has a picture, and when the history comes from elsewhere. A
// server may say once what it demands; the adapter then follows it.
func TestVendors(t *testing.T) {
	t.Parallel()
	foreign := agent("I am another model.", perdure.ToolCall{ID: "call_other_server_1", Name: "odd.name", Arguments: json.RawMessage(`null`)})
	foreign.State = &perdure.ProviderState{Family: "elsewhere", Fields: map[string]json.RawMessage{"vendor": json.RawMessage(`1`)}}
	histories := map[string][]perdure.Message{
		"a new session": {perdure.Text("Go")},
		"another model's": {perdure.Text("Hello"), foreign, result("call_other_server_1", `1`, picture("cmVk")),
			note("It has ended."), perdure.Text("Go")},
		"cut off": {perdure.Text("Hello"), {Role: perdure.RoleAgent, Interrupted: true, Parts: perdure.Text("I wan").Parts}, note("It was cut off."), perdure.Text("Go"), perdure.Text("On")},
	}
	for _, v := range vendors() {
		for name, history := range histories {
			t.Run(v.name+"/"+name, func(t *testing.T) {
				t.Parallel()
				m := serve(t, v, openai.Config{})
				messages := slices.Clone(history)
				errors := 0
				for step := range 20 {
					answer, err := model.Collect(m.Stream(t.Context(), model.Request{System: "Be brief.", Messages: messages}), nil)
					if err != nil {
						if errors++; code(err) != model.Unavailable || errors > 2 {
							t.Fatalf("%s, step %d: %v", v.source, step, err)
						}
						continue
					}
					messages = append(messages, stored(t, answer.Message))
					calls := answer.Message.Calls()
					if len(calls) == 0 {
						return
					}
					for _, c := range calls {
						messages = append(messages, result(c.ID, `1`, picture("cmVk")))
					}
					messages = append(messages, perdure.Text("Faster"), note("Something ended."))
				}
				t.Fatal("the loop does not end")
			})
		}
	}
}

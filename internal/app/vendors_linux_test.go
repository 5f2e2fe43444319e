package app

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
)

// chatMessage is a message of a Chat Completions request, as far as the servers below check it.
type chatMessage struct {
	Role      string
	Content   *json.RawMessage
	Reasoning *string `json:"reasoning_content"`
	ToolCalls []struct {
		ID           string
		ExtraContent json.RawMessage `json:"extra_content"`
		Function     struct{ Name, Arguments string }
	} `json:"tool_calls"`
	keys []string
}

// UnmarshalJSON also notes the keys.
func (m *chatMessage) UnmarshalJSON(text []byte) error {
	type plain chatMessage
	var keys map[string]json.RawMessage
	if err := json.Unmarshal(text, &keys); err != nil {
		return err
	}
	if err := json.Unmarshal(text, (*plain)(m)); err != nil {
		return err
	}
	for key := range keys {
		m.keys = append(m.keys, key)
	}
	return nil
}

// strictVendor is a server that is known to be strict. It plays a conversation of two turns with
// calls, and does not answer the first request after the second call.
type strictVendor struct {
	name    string
	model   string
	refuses func(all []chatMessage) string
	call    func(n int) string // the delta of the n-th call

	silent chan struct{} // receives when the server is asked and stays silent; capacity 1
	once   sync.Once

	mu      sync.Mutex
	refused []string // guarded by mu: why requests were refused
}

// ServeHTTP answers a request.
func (v *strictVendor) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	text, err := io.ReadAll(r.Body)
	var q struct{ Messages []chatMessage }
	if err != nil || json.Unmarshal(text, &q) != nil {
		panic(http.ErrAbortHandler)
	}
	if why := v.refuses(q.Messages); why != "" {
		v.mu.Lock()
		v.refused = append(v.refused, why)
		v.mu.Unlock()
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(http.StatusBadRequest)
		fmt.Fprintf(w, `{"error":{"message":%q}}`, why)
		return
	}
	calls := 0
	for _, m := range q.Messages {
		calls += len(m.ToolCalls)
	}
	last := q.Messages[len(q.Messages)-1].Role
	say := `{"content":"The first turn is done."}`
	switch {
	case calls < 2, calls == 2 && last == "user":
		say = v.call(calls)
	case calls == 2:
		first := false
		v.once.Do(func() { first = true })
		if first {
			v.silent <- struct{}{}
			<-r.Context().Done() // the client is killed
			return
		}
	default:
		say = `{"content":"The second turn is done."}`
	}
	w.Header().Set("Content-Type", "text/event-stream")
	fmt.Fprintf(w, "data: {\"choices\":[{\"index\":0,\"delta\":%s}]}\n\n", say)
	fmt.Fprintf(w, "data: {\"choices\":[{\"index\":0,\"delta\":{},\"finish_reason\":\"stop\"}]}\n\ndata: [DONE]\n\n")
}

// echoCall is the delta of a call of echo, with other fields of the call.
func echoCall(id, more string) string {
	return fmt.Sprintf(`{"tool_calls":[{"index":0,"id":%q,"type":"function","function":{"name":"echo","arguments":"{\"message\":\"x\"}"}%s}]}`, id, more)
}

// outOfOrder is the error of the servers that want alternating roles.
func outOfOrder(all []chatMessage) string {
	last := ""
	for i, m := range all {
		if m.Role == "user" && (last == "user" || last == "tool") || m.Role == "assistant" && last == "assistant" || m.Role == "system" && i > 0 {
			return "Unexpected role '" + m.Role + "' after role '" + last + "'"
		}
		last = m.Role
	}
	return ""
}

func strictVendors() []*strictVendor {
	nine := regexp.MustCompile(`^[a-zA-Z0-9]{9}$`)
	return []*strictVendor{
		{
			name: "DeepSeek", model: "deepseek-v4",
			call: func(n int) string {
				return strings.Replace(echoCall(fmt.Sprint("call_00_x", n), ""), "{", `{"reasoning_content":"I think.",`, 1)
			},
			refuses: func(all []chatMessage) string {
				for _, m := range all {
					if m.Role == "assistant" && (m.Reasoning == nil || len(m.ToolCalls) > 0 && *m.Reasoning != "I think.") {
						return "The `reasoning_content` in the thinking mode must be passed back to the API."
					}
				}
				return ""
			},
		},
		{
			name: "Gemini", model: "gemini-3-pro",
			call: func(n int) string {
				return echoCall(fmt.Sprint("function-call-", n), fmt.Sprintf(`,"extra_content":{"google":{"thought_signature":"sig%d"}}`, n))
			},
			refuses: func(all []chatMessage) string {
				n := 0
				for _, m := range all {
					for _, c := range m.ToolCalls {
						var extra struct {
							Google struct {
								Signature string `json:"thought_signature"`
							}
						}
						_ = json.Unmarshal(c.ExtraContent, &extra) // without it the signature is missing
						if extra.Google.Signature != fmt.Sprint("sig", n) {
							return "Function call is missing a thought_signature in functionCall parts."
						}
						n++
					}
				}
				return ""
			},
		},
		{
			name: "Mistral", model: "mistral-large",
			call: func(n int) string { return echoCall(fmt.Sprint("UByW1YDu", n), "") },
			refuses: func(all []chatMessage) string {
				for _, m := range all {
					for _, key := range m.keys {
						if !slices.Contains([]string{"role", "content", "tool_calls", "tool_call_id"}, key) {
							return "Extra inputs are not permitted: " + key
						}
					}
					for _, c := range m.ToolCalls {
						if !nine.MatchString(c.ID) {
							return "Tool call id was " + c.ID + " but must be a-z, A-Z, 0-9, with a length of 9."
						}
					}
				}
				return outOfOrder(all)
			},
		},
		{
			name: "vLLM", model: "qwen3",
			call: func(n int) string { return echoCall(fmt.Sprint("chatcmpl-tool-", n), "") },
			refuses: func(all []chatMessage) string {
				for _, m := range all {
					if m.Content == nil {
						return "content: Field required"
					}
					for _, c := range m.ToolCalls {
						var object map[string]any
						if json.Unmarshal([]byte(c.Function.Arguments), &object) != nil || object == nil {
							return "Can only get item pairs from a mapping."
						}
					}
				}
				return outOfOrder(all)
			},
		},
	}
}

// TestStrictVendors: the program ends a tool loop of two steps with servers that are strict in the
// way of their vendors, although it is killed between the steps, and talks on in a later turn. No
// request is refused.
func TestStrictVendors(t *testing.T) {
	t.Parallel()
	for _, v := range strictVendors() {
		t.Run(v.name, func(t *testing.T) {
			t.Parallel()
			v.silent = make(chan struct{}, 1)
			server := httptest.NewServer(v)
			t.Cleanup(server.Close)
			p := newPlace(t, nil)
			r := p.begin("run", "--model", "openai:"+v.model, "--base-url", server.URL+"/v1", "go")
			select {
			case <-v.silent:
				r.killed()
			case err := <-r.ended:
				t.Fatalf("the run ended early: %v\n%s", err, r.said)
			}

			resumed := p.output("run", "--last")
			later := p.output("run", "--last", "again")

			if !strings.Contains(resumed, "The first turn is done.") || !strings.Contains(later, "The second turn is done.") {
				t.Errorf("got %q, then %q", resumed, later)
			}
			v.mu.Lock()
			defer v.mu.Unlock()
			if len(v.refused) > 0 {
				t.Errorf("the server refused %d requests: %q", len(v.refused), v.refused)
			}
		})
	}
}

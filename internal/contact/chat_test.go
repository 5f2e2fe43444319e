//go:build contact

package contact

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
)

// call is a tool call that the scripted server asks for.
type call struct {
	tool string
	args any
}

// chatServer is a Chat Completions server that asks for calls one after another, and then says that
// it is done. Which call is next follows from the messages of the request. Before all others it
// loads the schemas of those tools that the first request describes without one.
type chatServer struct {
	url    string
	calls  []call
	before func(step int) // runs before a reply; nil: nothing does

	mu       sync.Mutex
	loads    []call        // guarded by mu
	requests []chatRequest // guarded by mu
}

// loadTool is the tool that returns schemas.
const loadTool = "load_tool"

// chatRequest is a request, with what these tests read of it.
type chatRequest struct {
	Messages []chatMessage `json:"messages"`
	Tools    []struct {
		Function struct {
			Name        string `json:"name"`
			Description string `json:"description"`
			Parameters  struct {
				Properties map[string]json.RawMessage `json:"properties"`
			} `json:"parameters"`
		} `json:"function"`
	} `json:"tools"`
}

// chatMessage is a message; its content is a text, or a list of parts.
type chatMessage struct {
	Role    string            `json:"role"`
	Content json.RawMessage   `json:"content"`
	Calls   []json.RawMessage `json:"tool_calls"`
}

// asks reports whether a message has the calls of a reply. Other messages of the assistant stand
// between results and what a user's message says of them, where servers want the roles to
// alternate.
func (m chatMessage) asks() bool { return m.Role == "assistant" && len(m.Calls) > 0 }

// picture is a picture that the model sees.
type picture struct {
	kind  string // media type
	bytes []byte
}

func newChatServer(t *testing.T, before func(step int), calls ...call) *chatServer {
	t.Helper()
	s := &chatServer{calls: calls, before: before}
	server := httptest.NewServer(s)
	t.Cleanup(server.Close)
	s.url = server.URL + "/v1"
	return s
}

// ServeHTTP answers a request.
func (s *chatServer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	var asked chatRequest
	if err == nil {
		err = json.Unmarshal(body, &asked)
	}
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	step := 0
	for _, m := range asked.Messages {
		if m.asks() {
			step++
		}
	}
	calls := s.plan(asked)
	if s.before != nil {
		s.before(step)
	}
	w.Header().Set("Content-Type", "text/event-stream")
	send := func(delta map[string]any, finish any) {
		text, _ := json.Marshal(map[string]any{"id": "chatcmpl-1", "object": "chat.completion.chunk", "created": 1767225600, "model": "m",
			"choices": []any{map[string]any{"index": 0, "delta": delta, "finish_reason": finish}}}) // these values always encode
		fmt.Fprintf(w, "data: %s\n\n", text)
	}
	if step < len(calls) {
		next := calls[step]
		args, _ := json.Marshal(next.args) // likewise
		send(map[string]any{"role": "assistant", "content": nil, "tool_calls": []any{map[string]any{"index": 0, "id": fmt.Sprintf("call_%d", step),
			"type": "function", "function": map[string]any{"name": next.tool, "arguments": string(args)}}}}, nil)
		send(map[string]any{}, "tool_calls")
	} else {
		send(map[string]any{"role": "assistant", "content": "All is done."}, nil)
		send(map[string]any{}, "stop")
	}
	fmt.Fprint(w, "data: [DONE]\n\n")
}

// plan notes a request, and returns all calls in their order.
func (s *chatServer) plan(asked chatRequest) []call {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.requests) == 0 {
		for _, c := range s.calls {
			load := call{loadTool, map[string]string{"name": c.tool}}
			if asked.deferred(c.tool) && !slices.ContainsFunc(s.loads, func(l call) bool { return maps.Equal(l.args.(map[string]string), load.args.(map[string]string)) }) {
				s.loads = append(s.loads, load)
			}
		}
	}
	s.requests = append(s.requests, asked)
	return append(slices.Clone(s.loads), s.calls...)
}

// deferred reports whether a tool is described without its schema, which the model loads first.
func (r chatRequest) deferred(name string) bool {
	for _, tool := range r.Tools {
		if tool.Function.Name == name {
			return len(tool.Function.Parameters.Properties) == 0 && strings.Contains(tool.Function.Description, loadTool)
		}
	}
	return false
}

// last returns the last request.
func (s *chatServer) last(t *testing.T) chatRequest {
	t.Helper()
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.requests) == 0 {
		t.Fatal("the model was not asked")
	}
	return s.requests[len(s.requests)-1]
}

// answer returns what the model reads after its nth call, from 0: texts, and pictures, which may
// stand in a message of their own behind the result.
func (r chatRequest) answer(n int) (text string, pictures []picture) {
	results := -1
	for _, m := range r.Messages {
		switch {
		case m.Role == "tool":
			results++
		case m.asks() && results >= n:
			return text, pictures
		case m.Role == "assistant":
			continue
		}
		if results != n {
			continue
		}
		more, shown := m.content()
		text, pictures = text+more, append(pictures, shown...)
	}
	return text, pictures
}

// content returns texts and pictures of a message.
func (m chatMessage) content() (text string, pictures []picture) {
	if json.Unmarshal(m.Content, &text) == nil {
		return text, nil
	}
	var parts []struct {
		Text     string `json:"text"`
		ImageURL struct {
			URL string `json:"url"`
		} `json:"image_url"`
	}
	if json.Unmarshal(m.Content, &parts) != nil {
		return string(m.Content), nil
	}
	for _, part := range parts {
		text += part.Text
		head, data, ok := strings.Cut(part.ImageURL.URL, ";base64,")
		if decoded, err := base64.StdEncoding.DecodeString(data); ok && err == nil {
			pictures = append(pictures, picture{strings.TrimPrefix(head, "data:"), decoded})
		}
	}
	return text, pictures
}

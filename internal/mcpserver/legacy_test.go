package mcpserver_test

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/internal/mcpserver"
)

// event is one of a stream of the older wire.
type event struct {
	id      string
	message object // nil: it only says where the stream stands
}

// streamed is a stream of the older wire.
type streamed struct {
	t  *testing.T
	in *bufio.Reader
}

// next is the next event.
func (s *streamed) next() (e event) {
	s.t.Helper()
	for {
		line, err := s.in.ReadString('\n')
		if err != nil {
			s.t.Fatalf("the stream ended: %v", err)
		}
		name, value, _ := strings.Cut(strings.TrimSpace(line), ": ")
		switch {
		case line == "\n" && e.id != "":
			return e
		case name == "id":
			e.id = value
		case name == "data" && value != "":
			if err := json.Unmarshal([]byte(value), &e.message); err != nil {
				s.t.Fatal(err)
			}
		}
	}
}

// message is the next one.
func (s *streamed) message() object {
	s.t.Helper()
	for {
		if e := s.next(); e.message != nil {
			return e.message
		}
	}
}

// streams sends a request of the legacy wire, or resumes a stream after an event; frames arrive as
// they are sent.
func (r *rig) streams(ctx context.Context, a questionPart, after string, body object) *streamed {
	r.t.Helper()
	for {
		resp := r.opens(ctx, a, after, body)
		r.t.Cleanup(func() { _ = resp.Body.Close() }) // it was read
		switch {
		case resp.StatusCode == http.StatusOK:
			return &streamed{r.t, bufio.NewReader(resp.Body)}
		case after == "" || resp.StatusCode != http.StatusConflict: // that it broke may not be known yet
			r.t.Fatalf("got %s", resp.Status)
		}
		<-time.After(time.Millisecond)
	}
}

func (r *rig) opens(ctx context.Context, a questionPart, after string, body object) *http.Response {
	r.t.Helper()
	method, text := http.MethodPost, ""
	if after != "" {
		method = http.MethodGet
	} else {
		text = jsonOf(r.t, body)
	}
	req, err := http.NewRequestWithContext(ctx, method, r.web.URL+"/mcp", strings.NewReader(text))
	if err != nil {
		r.t.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer somebody")
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Accept", "application/json, text/event-stream")
	req.Header.Set("Mcp-Session-Id", a.session)
	req.Header.Set("Mcp-Protocol-Version", "2025-11-25")
	if after != "" {
		req.Header.Set("Accept", "text/event-stream")
		req.Header.Set("Last-Event-ID", after)
	}
	resp, err := r.web.Client().Do(req)
	if err != nil {
		r.t.Fatal(err)
	}
	return resp
}

func jsonOf(t *testing.T, v any) string {
	t.Helper()
	text, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// TestLegacyResumes: on the legacy wire a broken stream is no cancel, and a client that reconnects
// with Last-Event-ID gets the answer, once.
func TestLegacyResumes(t *testing.T) {
	t.Parallel()
	r := newRig(t, mcpserver.Config{})
	a, _ := r.legacy(questionPart{})
	for i, name := range []string{"hold", "hold_charge"} { // one that may be stopped, and one that may not be repeated
		broken, breaks := context.WithCancel(t.Context())
		stream := r.streams(broken, a, "", object{"jsonrpc": "2.0", "id": 100 + i, "method": "tools/call", "params": object{"name": name, "arguments": text}})
		last := stream.next()
		if last.id == "" || last.message != nil {
			t.Fatalf("%s: got %+v, want where the stream begins", name, last)
		}
		r.Entered(t, name, 1)
		breaks()

		if name == "hold" {
			time.AfterFunc(50*time.Millisecond, func() { r.Release(name) }) // usually after a client listens again
		} else {
			r.Release(name)
		}
		got := r.streams(t.Context(), a, last.id, nil).message()
		result, _ := got["result"].(object)
		if fmt.Sprint(got["id"]) != fmt.Sprint(100+i) || result == nil || result["isError"] == true || !strings.Contains(textOf(result), `"a"`) {
			t.Errorf("%s: got %v", name, got)
		}
	}
	for _, task := range r.all() {
		if task.State != perdure.TaskSucceeded || task.Executions != 1 {
			t.Errorf("%s is %s after %d runs", task.Tool, task.State, task.Executions)
		}
	}
	if n := len(r.Effects("hold_charge")); n != 1 || len(r.all()) != 2 {
		t.Errorf("%d effects, %d tasks", n, len(r.all()))
	}
}

// TestLegacyElicits: on the older wire what a task asks comes on the stream of tasks/result, and
// says of which task it is; its answer lets the task go on, and the same stream has the result.
func TestLegacyElicits(t *testing.T) {
	t.Parallel()
	r := newRig(t, mcpserver.Config{})
	r.Release("ask_number_after")
	a, _ := r.legacy(questionPart{elicits: true})
	made := r.older(a, "tools/call", object{"name": "ask_number", "arguments": text, "task": object{"ttl": 60000}}).Result
	of := object{"taskId": made["task"].(object)["taskId"]}
	related := func(m object) string {
		meta, _ := m["_meta"].(object)
		return fmt.Sprint(meta["io.modelcontextprotocol/related-task"])
	}

	stream := r.streams(t.Context(), a, "", object{"jsonrpc": "2.0", "id": 100, "method": "tasks/result", "params": of})
	asks := stream.message()
	params, _ := asks["params"].(object)
	if asks["method"] != "elicitation/create" || asks["id"] == nil || related(params) != fmt.Sprint(of) || params["requestedSchema"] == nil {
		t.Fatalf("got %v", asks)
	}
	if got := r.older(a, "tasks/get", of).Result; got["status"] != "input_required" {
		t.Errorf("got %v", got)
	}
	said, err := r.post(t.Context(), a, object{"jsonrpc": "2.0", "id": asks["id"], "result": object{"action": "accept", "content": object{"n": 7}}})
	if err != nil || said.status != http.StatusAccepted {
		t.Fatalf("got %d, %v", said.status, err)
	}
	got := stream.message()
	result, _ := got["result"].(object)
	if fmt.Sprint(got["id"]) != "100" || !strings.Contains(textOf(result), "7") || related(result) != fmt.Sprint(of) {
		t.Errorf("got %v", got)
	}
	if got := r.older(a, "tasks/get", of).Result; got["status"] != "completed" {
		t.Errorf("got %v", got)
	}
}

// TestSilentStreams: a stream that says nothing shows that it is there, and that is nothing to the
// official client.
func TestSilentStreams(t *testing.T) {
	t.Parallel()
	r := newRig(t, mcpserver.Config{Ping: 2 * time.Millisecond})
	a, _ := r.legacy(questionPart{})
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	stream := r.streams(ctx, a, "", object{"jsonrpc": "2.0", "id": 100, "method": "tools/call", "params": object{"name": "hold_note", "arguments": text}})
	for pings := 0; pings < 3; {
		line, err := stream.in.ReadString('\n')
		if err != nil {
			t.Fatal(err)
		}
		if line == ": ping\n" {
			pings++
		}
	}
	r.Release("hold_note")
	if got := stream.message(); fmt.Sprint(got["id"]) != "100" || got["result"] == nil {
		t.Errorf("got %v", got)
	}
	for _, version := range []string{"2026-07-28", "2025-11-25"} {
		client := mcp.NewClient(&mcp.Implementation{Name: "test", Version: "1"}, nil)
		session, err := client.Connect(t.Context(), r.overHTTP(t), &mcp.ClientSessionOptions{ProtocolVersion: version})
		if err != nil {
			t.Fatal(err)
		}
		time.AfterFunc(50*time.Millisecond, func() { r.Release("hold_charge") })
		got, err := session.CallTool(t.Context(), &mcp.CallToolParams{Name: "hold_charge", Arguments: text})
		if err != nil || got.IsError {
			t.Errorf("%s: got %+v, %v", version, got, err)
		}
		if err := session.Close(); err != nil {
			t.Error(err)
		}
	}
}

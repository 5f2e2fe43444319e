package mcpserver_test

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/perdure/perdure/internal/mcpserver"
	"github.com/perdure/perdure/tool"

	"github.com/perdure/perdure"
)

// teller reports progress each time that it is released.
func teller(steps <-chan string) tool.Tool {
	type none struct{}
	return tool.New(tool.Spec{Name: "teller", Description: "Tells.", Class: perdure.AtMostOnce}, func(ctx context.Context, _ none, env tool.Env) (string, error) {
		for {
			select {
			case text, ok := <-steps:
				if !ok {
					return "told", nil
				}
				env.Report().Status(text)
			case <-ctx.Done():
				return "", context.Cause(ctx)
			}
		}
	})
}

// subscribed is a subscription that is open.
type subscribed struct {
	t      *testing.T
	id     int64
	events chan object // closed when the stream ends
	end    func()
}

// subscribe opens one over HTTP, on the wire of 2026-07-28.
func (r *rig) subscribe(a questionPart, ids ...string) *subscribed {
	r.t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	s := &subscribed{t: r.t, id: lastID.Add(1), events: make(chan object, 100), end: cancel}
	meta := object{
		"io.modelcontextprotocol/protocolVersion": "2026-07-28", "io.modelcontextprotocol/clientInfo": object{"name": "test", "version": "1"},
		"io.modelcontextprotocol/clientCapabilities": object{"extensions": object{"io.modelcontextprotocol/tasks": object{}}},
	}
	text, _ := json.Marshal(object{"jsonrpc": "2.0", "id": s.id, "method": "subscriptions/listen", "params": object{"_meta": meta, "notifications": object{"taskIds": ids}}})
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, r.web.URL+"/mcp", strings.NewReader(string(text)))
	if err != nil {
		r.t.Fatal(err)
	}
	who := a.as
	if who == "" {
		who = "somebody"
	}
	for k, v := range map[string]string{
		"Authorization": "Bearer " + who, "Content-Type": "application/json", "Accept": "application/json, text/event-stream",
		"Mcp-Protocol-Version": "2026-07-28", "Mcp-Method": "subscriptions/listen",
	} {
		req.Header.Set(k, v)
	}
	resp, err := r.web.Client().Do(req)
	if err != nil {
		r.t.Fatal(err)
	}
	go pour(resp.Body, s.events)
	r.t.Cleanup(cancel)
	return s
}

// pour hands over the messages of a stream.
func pour(body io.ReadCloser, into chan<- object) {
	defer close(into)
	defer body.Close()
	lines := bufio.NewScanner(body)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		var m object
		if text, ok := strings.CutPrefix(lines.Text(), "data: "); ok && json.Unmarshal([]byte(text), &m) == nil {
			into <- m
		}
	}
}

// next is the next message; nil: the stream ended.
func (s *subscribed) next() object {
	s.t.Helper()
	select {
	case m := <-s.events:
		return m
	case <-time.After(patience):
		s.t.Fatal("nothing was pushed")
		return nil
	}
}

// agreed is the tasks of the first message.
func (s *subscribed) agreed() []any {
	s.t.Helper()
	m := s.next()
	params, _ := m["params"].(object)
	wants, _ := params["notifications"].(object)
	meta, _ := params["_meta"].(object)
	if m["method"] != "notifications/subscriptions/acknowledged" || meta["io.modelcontextprotocol/subscriptionId"] != float64(s.id) {
		s.t.Fatalf("got %v, want the acknowledgement first", m)
	}
	ids, _ := wants["taskIds"].([]any)
	return ids
}

// told returns the next notification of a task.
func (s *subscribed) told() object {
	s.t.Helper()
	m := s.next()
	params, _ := m["params"].(object)
	meta, _ := params["_meta"].(object)
	if m["method"] != "notifications/tasks" || meta["io.modelcontextprotocol/subscriptionId"] != float64(s.id) || params["resultType"] != nil {
		s.t.Fatalf("got %v, want a notice of a task", m)
	}
	return params
}

func TestPushedTasks(t *testing.T) {
	t.Parallel()
	steps := make(chan string)
	r := newRig(t, mcpserver.Config{}, teller(steps))
	id := r.call(withTasks, "teller", object{}, nil)["taskId"].(string)
	foreign := r.call(questionPart{as: "other", tasks: true}, "charge", text, nil)["taskId"].(string)
	s := r.subscribe(withTasks, id, foreign, "task_"+strings.Repeat("0", 32), id)
	if got := s.agreed(); fmt.Sprint(got) != fmt.Sprint([]any{id}) { // M5
		t.Fatalf("agreed %v, want one's own task alone", got)
	}
	if got := s.told(); got["taskId"] != id || got["status"] != "working" {
		t.Errorf("got %v, want the present state", got)
	}
	for _, line := range []string{"half", "nearly"} {
		steps <- line
		if got := s.told(); got["status"] != "working" || got["statusMessage"] != line {
			t.Errorf("got %v, want the last line %s", got, line)
		}
	}
	close(steps)
	done := s.told()
	result, _ := done["result"].(object)
	if done["status"] != "completed" || textOf(result) != "told" || done["ttlMs"] == nil {
		t.Errorf("got %v", done)
	}
	if end := s.next(); end["result"] == nil || end["id"] != float64(s.id) { // nothing more can come
		t.Errorf("got %v, want the end", end)
	}
	got := r.want(withTasks, "tasks/get", object{"taskId": id})
	for _, field := range []string{"taskId", "status", "createdAt", "lastUpdatedAt", "ttlMs", "result"} {
		if fmt.Sprint(got[field]) != fmt.Sprint(done[field]) {
			t.Errorf("%s: pushed %v, read %v", field, done[field], got[field])
		}
	}
}

// TestPushedAgain: subscriptions are not stored; a client that subscribes after a restart receives
// the current state.
func TestPushedAgain(t *testing.T) {
	t.Parallel()
	r := newRig(t, mcpserver.Config{})
	id := r.call(withTasks, "ask", object{}, nil)["taskId"].(string)
	r.until(withTasks, id, "input_required")
	r.restart()
	s := r.subscribe(withTasks, id)
	s.agreed()
	got := s.told()
	requests, _ := got["inputRequests"].(object)
	if got["status"] != "input_required" || len(requests) != 1 {
		t.Fatalf("got %v", got)
	}
	r.want(withTasks, "tasks/cancel", object{"taskId": id})
	for got["status"] != "cancelled" {
		got = s.told()
	}
}

func TestPushedBounds(t *testing.T) {
	t.Parallel()
	r := newRig(t, mcpserver.Config{})
	id := r.call(withTasks, "hold_note", text, nil)["taskId"].(string)
	wants := func(ids []string) object { return object{"notifications": object{"taskIds": ids}} }
	r.refused(questionPart{}, "subscriptions/listen", wants([]string{id}), refusal{400, -32021})
	r.refused(withTasks, "subscriptions/listen", wants(make([]string, 65)), refusal{0, -32602})
	var all []*subscribed
	for range 16 {
		s := r.subscribe(withTasks, id)
		s.agreed()
		all = append(all, s)
	}
	r.refused(withTasks, "subscriptions/listen", wants([]string{id}), refusal{0, -32600})
	other := r.subscribe(questionPart{as: "other"}, id) // has places of its own, and nothing to hear
	if got := other.agreed(); len(got) != 0 {
		t.Errorf("agreed %v", got)
	}
	all[0].end()
	for end := time.Now().Add(patience); ; { // the place is free once the server has seen that the client is gone
		s := r.subscribe(withTasks, id)
		if m := s.next(); m["method"] != nil {
			break
		}
		if time.Now().After(end) {
			t.Fatal("the place of a client that left is not free")
		}
	}
}

// TestPushedLegacy: the legacy wire receives only the state, on the stream that its session listens
// on.
func TestPushedLegacy(t *testing.T) {
	t.Parallel()
	steps := make(chan string)
	r := newRig(t, mcpserver.Config{}, teller(steps))
	a, _ := r.legacy(questionPart{})
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, r.web.URL+"/mcp", nil)
	if err != nil {
		t.Fatal(err)
	}
	for k, v := range map[string]string{"Authorization": "Bearer somebody", "Accept": "text/event-stream", "Mcp-Session-Id": a.session, "Mcp-Protocol-Version": "2025-11-25"} {
		req.Header.Set(k, v)
	}
	resp, err := r.web.Client().Do(req)
	if err != nil {
		t.Fatal(err)
	}
	s := &subscribed{t: t, events: make(chan object, 100)}
	go pour(resp.Body, s.events)
	made := r.older(a, "tools/call", object{"name": "teller", "arguments": object{}, "task": object{}}).Result["task"].(object)
	until := func(field, want string) {
		t.Helper()
		for {
			m := s.next()
			params, _ := m["params"].(object)
			if m["method"] != "notifications/tasks/status" || params["taskId"] != made["taskId"] || params["result"] != nil {
				t.Fatalf("got %v, want a notice of the task's state", m)
			}
			if params[field] == want {
				return
			}
		}
	}
	until("status", "working")
	steps <- "half"
	until("statusMessage", "half")
	close(steps)
	until("status", "completed")
}

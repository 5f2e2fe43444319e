package mcpserver_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/internal/mcpserver"
	"github.com/perdure/perdure/tool"
)

// TestTraps are the mistakes that are easy to make between the two wires.
func TestTraps(t *testing.T) {
	t.Parallel()
	spec := tool.Spec{Name: "bad", Description: "A fixture.", Class: perdure.AtMostOnce}
	r := newRig(t, mcpserver.Config{}, tool.New(spec, func(context.Context, struct{}, tool.Env) (string, error) { return "", errors.New("secret cause") }))
	has := func(what string, got object, wanted, banned []string) {
		t.Helper()
		for _, key := range wanted {
			if _, ok := got[key]; !ok {
				t.Errorf("%s: no %s in %v", what, key, got)
			}
		}
		for _, key := range banned {
			if _, ok := got[key]; ok {
				t.Errorf("%s: %s in %v", what, key, got)
			}
		}
	}
	state := []string{"taskId", "status", "createdAt", "lastUpdatedAt", "ttlMs", "resultType"}
	old := []string{"task", "ttl", "pollInterval", "requestState"}

	made := r.call(withTasks, "hold_note", text, nil)
	has("created", made, append(state, "pollIntervalMs"), append(old, "result", "error", "inputRequests"))
	id := object{"taskId": made["taskId"]}
	working := r.want(withTasks, "tasks/get", id)
	has("working", working, state, append(old, "result", "error", "inputRequests"))
	if working["resultType"] != "complete" || made["resultType"] != "task" {
		t.Errorf("got %v and %v", made["resultType"], working["resultType"])
	}
	for range 2 { // also on a task that has ended
		ack := r.want(withTasks, "tasks/cancel", id)
		has("cancel", ack, []string{"resultType"}, append(append(old, state[:5]...), "result", "error"))
		r.until(withTasks, made["taskId"].(string), "cancelled")
	}
	cancelled := r.want(withTasks, "tasks/get", id)
	has("cancelled", cancelled, state, append(old, "result", "error"))

	failed := r.until(withTasks, r.call(withTasks, "bad", object{}, nil)["taskId"].(string), "failed")
	has("failed", failed, append(state, "error"), append(old, "result"))
	if code := failed["error"].(object)["code"]; code != float64(-32603) || strings.Contains(fmt.Sprint(failed), "secret cause") {
		t.Errorf("got %v", failed)
	}
	if got := r.refused(withTasks, "tools/call", object{"name": "break", "arguments": text}, refusal{0, -32603}); strings.Contains(fmt.Sprint(got), "secret cause") {
		t.Errorf("got %+v", got.Error)
	}
	wrong := r.call(withTasks, "fail", text, nil)
	if wrong["resultType"] != "complete" || wrong["isError"] != true { // the pure tool answers at once
		t.Errorf("got %v", wrong)
	}
}

// TestToolErrorIsCompleted: failed is for JSON-RPC errors only.
func TestToolErrorIsCompleted(t *testing.T) {
	t.Parallel()
	r := newRig(t, mcpserver.Config{PureBudget: time.Nanosecond})
	made := r.call(withTasks, "fail", object{}, nil)
	if made["resultType"] == "task" {
		made = r.until(withTasks, made["taskId"].(string), "completed")["result"].(object)
	}
	if made["isError"] != true || textOf(made) != "boom" {
		t.Errorf("got %v", made)
	}
}

// TestNoProgressOnATask: a task's last line is its statusMessage, and its stream says nothing else.
func TestNoProgressOnATask(t *testing.T) {
	t.Parallel()
	r := newRig(t, mcpserver.Config{})
	got := r.ask(withTasks, "tools/call", object{"name": "hold_note", "arguments": text, "_meta": object{"progressToken": "p"}})
	if len(got.before) != 0 || got.Result["resultType"] != "task" {
		t.Errorf("got %v, then %v", got.before, got.Result)
	}
	r.Release("hold_note")
}

// TestMRTRThenTask: the questions before a call are asked by MRTR, and then the task is created.
func TestMRTRThenTask(t *testing.T) {
	t.Parallel()
	question := mcpserver.Question{Key: "text", Prompt: "Which?", Schema: []byte(`{"type":"object","properties":{"text":{"type":"string"}}}`)}
	r := newRig(t, mcpserver.Config{Tools: []mcpserver.Exposed{{Name: "charge", InputFirst: []mcpserver.Question{question}}, {Name: "note", InputFirst: []mcpserver.Question{question}}}})
	asks := r.call(withTasks, "charge", object{}, nil)
	state, _ := asks["requestState"].(string)
	if asks["resultType"] != "input_required" || asks["taskId"] != nil || state == "" || len(r.all()) != 0 {
		t.Fatalf("got %v", asks)
	}
	said := object{"text": object{"action": "accept", "content": object{"text": "b"}}}
	again := func(by questionPart, tool, state string) object {
		return object{"name": tool, "arguments": object{}, "inputResponses": said, "requestState": state}
	}
	other := withTasks
	other.as = "other"
	r.refused(other, "tools/call", again(other, "charge", state), refusal{0, -32602})          // another principal
	r.refused(withTasks, "tools/call", again(withTasks, "note", state), refusal{0, -32602})    // another tool
	r.refused(withTasks, "tools/call", again(withTasks, "charge", "AAAA"), refusal{0, -32602}) // forged
	r.refused(withTasks, "tools/call", object{"name": "charge", "arguments": object{"more": 1}, "inputResponses": said, "requestState": state}, refusal{0, -32602})
	made := r.want(withTasks, "tools/call", again(withTasks, "charge", state))
	if made["resultType"] != "task" || made["requestState"] != nil {
		t.Fatalf("got %v", made)
	}
	if done := r.until(withTasks, made["taskId"].(string), "completed"); textOf(done["result"].(object)) != `{"charged":"b"}` {
		t.Errorf("got %v", done)
	}
	said["text"] = object{"action": "decline"}
	if refused := r.want(withTasks, "tools/call", again(withTasks, "charge", state)); refused["isError"] != true || len(r.all()) != 1 {
		t.Errorf("got %v", refused)
	}
}

// TestPlainQuestion: a call without a task asks by MRTR, and the client continues the same call.
func TestPlainQuestion(t *testing.T) {
	t.Parallel()
	r := newRig(t, mcpserver.Config{})
	r.Release("ask_number_after")
	plain := questionPart{elicits: true}
	asks := r.call(plain, "ask_number", text, nil)
	if asks["resultType"] != "input_required" {
		t.Fatalf("got %v", asks)
	}
	responses := object{}
	for key := range asks["inputRequests"].(object) {
		responses[key] = object{"action": "accept", "content": object{"n": 7}}
	}
	done := r.want(plain, "tools/call", object{"name": "ask_number", "arguments": text, "inputResponses": responses, "requestState": asks["requestState"]})
	if !strings.Contains(textOf(done), "7") || len(r.all()) != 1 {
		t.Errorf("got %v, %d tasks", done, len(r.all()))
	}
}

func TestM09ClientsWithoutTasks(t *testing.T) {
	t.Parallel()
	r := newRig(t, mcpserver.Config{SoftBudget: 50 * time.Millisecond})
	plain := questionPart{}
	still := r.call(plain, "hold_charge", text, nil)
	structured, _ := still["structuredContent"].(object)
	id, _ := structured["task_id"].(string)
	early := structured["state"] == "queued" // the soft budget ended before the call began
	if still["isError"] == true || id == "" || !early && structured["state"] != "running" || !strings.Contains(textOf(still), "Still running") {
		t.Fatalf("got %v", still)
	}
	r.Entered(t, "hold_charge", 1)
	if got := r.call(plain, "task_status", object{"task_id": id}, nil)["structuredContent"].(object); got["state"] != "running" || got["tool"] != "hold_charge" {
		t.Errorf("got %v", got)
	}
	if got := r.call(plain, "task_result", object{"task_id": id, "wait_s": 0.01}, nil); got["structuredContent"].(object)["state"] != "running" {
		t.Errorf("got %v", got)
	}
	if got := r.call(plain, "task_list", object{}, nil)["structuredContent"].(object); len(got["tasks"].([]any)) != 1 {
		t.Errorf("got %v", got)
	}
	r.Release("hold_charge")
	if got := r.call(plain, "task_result", object{"task_id": id, "wait_s": 20}, nil); textOf(got) != `{"held":"a"}` {
		t.Errorf("got %v", got)
	}
	if got := r.call(plain, "task_result", object{"task_id": "task_0"}, nil); got["isError"] != true {
		t.Errorf("got %v", got)
	}
	other := r.call(plain, "hold_note", text, nil)["structuredContent"].(object)["task_id"].(string)
	r.call(plain, "task_cancel", object{"task_id": other}, nil)
	if got := r.call(plain, "task_result", object{"task_id": other, "wait_s": 20}, nil); got["isError"] != true {
		t.Errorf("got %v", got)
	}
	names := func(a questionPart) (list []string) {
		for _, entry := range r.want(a, "tools/list", object{})["tools"].([]any) {
			list = append(list, entry.(object)["name"].(string))
		}
		return list
	}
	for _, name := range []string{"task_status", "task_result", "task_cancel", "task_list"} {
		if !slices.Contains(names(plain), name) || slices.Contains(names(withTasks), name) {
			t.Errorf("%s: %v without Tasks, %v with them", name, names(plain), names(withTasks))
		}
		r.refused(withTasks, "tools/call", object{"name": name, "arguments": object{"task_id": id}}, refusal{0, -32602})
	}
}

// legacy begins a session of the older wire.
func (r *rig) legacy(a questionPart) (questionPart, object) {
	r.t.Helper()
	caps := object{}
	if a.elicits {
		caps["elicitation"] = object{}
	}
	begun, err := r.post(r.t.Context(), a, object{"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": object{
		"protocolVersion": "2025-11-25", "capabilities": caps, "clientInfo": object{"name": "test", "version": "1"}}})
	if err != nil || begun.Result == nil {
		r.t.Fatalf("initialize: %v %+v", err, begun)
	}
	a.session = begun.header.Get("Mcp-Session-Id")
	if _, err := r.post(r.t.Context(), a, object{"jsonrpc": "2.0", "method": "notifications/initialized"}); err != nil {
		r.t.Fatal(err)
	}
	return a, begun.Result
}

// older asks on the older wire.
func (r *rig) older(a questionPart, method string, params object) answer {
	r.t.Helper()
	ctx, cancel := context.WithTimeout(r.t.Context(), patience)
	defer cancel()
	got, err := r.post(ctx, a, object{"jsonrpc": "2.0", "id": lastID.Add(1), "method": method, "params": params})
	if err != nil {
		r.t.Fatalf("%s: %v", method, err)
	}
	return got
}

func TestLegacyTasks(t *testing.T) {
	t.Parallel()
	r := newRig(t, mcpserver.Config{Tools: []mcpserver.Exposed{
		{Name: "echo", Task: mcpserver.TaskForbidden}, {Name: "charge"}, {Name: "hold_note"}, {Name: "fail", Task: mcpserver.TaskRequired},
	}})
	a, begun := r.legacy(questionPart{})
	caps := begun["capabilities"].(object)
	if tasks, _ := caps["tasks"].(object); tasks["list"] == nil || tasks["cancel"] == nil || caps["extensions"] != nil {
		t.Errorf("got %v", caps)
	}
	for _, entry := range r.older(a, "tools/list", object{}).Result["tools"].([]any) {
		shown := entry.(object)
		support := fmt.Sprint(shown["execution"])
		if want := map[any]string{"echo": "forbidden", "charge": "optional", "fail": "required"}[shown["name"]]; !strings.Contains(support, want) {
			t.Errorf("%s: %s, want %s", shown["name"], support, want)
		}
	}
	task := func(name string, with bool) answer {
		params := object{"name": name, "arguments": text}
		if name == "fail" {
			params["arguments"] = object{}
		}
		if with {
			params["task"] = object{"ttl": 60000}
		}
		return r.older(a, "tools/call", params)
	}
	for name, with := range map[string]bool{"echo": true, "fail": false} {
		if got := task(name, with); got.Error == nil || got.Error.Code != -32601 {
			t.Errorf("%s: got %+v %v", name, got.Error, got.Result)
		}
	}
	made := task("charge", true).Result
	nested, _ := made["task"].(object)
	if nested["status"] != "working" || nested["taskId"] == nil || made["taskId"] != nil || made["resultType"] != nil {
		t.Fatalf("got %v", made)
	}
	if _, ok := nested["ttl"]; !ok || nested["ttlMs"] != nil || nested["pollInterval"] == nil {
		t.Errorf("got %v", nested)
	}
	id := object{"taskId": nested["taskId"]}
	result := r.older(a, "tasks/result", id).Result
	meta, _ := result["_meta"].(object)
	if textOf(result) != `{"charged":"a"}` || fmt.Sprint(meta["io.modelcontextprotocol/related-task"]) != fmt.Sprint(id) {
		t.Errorf("got %v", result)
	}
	if got := r.older(a, "tasks/get", id).Result; got["status"] != "completed" || got["result"] != nil {
		t.Errorf("got %v", got)
	}
	if got := r.older(a, "tasks/cancel", id); got.Error == nil || got.Error.Code != -32602 {
		t.Errorf("cancel of an ended task: got %+v %v", got.Error, got.Result)
	}
	failed := object{"taskId": task("fail", true).Result["task"].(object)["taskId"]}
	if got := r.older(a, "tasks/result", failed).Result; got["isError"] != true {
		t.Errorf("got %v", got)
	}
	if got := r.older(a, "tasks/get", failed).Result; got["status"] != "failed" {
		t.Errorf("got %v", got)
	}
	held := object{"taskId": task("hold_note", true).Result["task"].(object)["taskId"]}
	if got := r.older(a, "tasks/cancel", held).Result; got["status"] != "cancelled" {
		t.Errorf("got %v", got)
	}
	if got := r.older(a, "tasks/list", object{}).Result["tasks"].([]any); len(got) != 3 {
		t.Errorf("%d tasks, want 3", len(got))
	}
	b, _ := r.legacy(questionPart{as: "other"})
	if got := r.older(b, "tasks/list", object{}).Result["tasks"].([]any); len(got) != 0 {
		t.Errorf("another principal sees %v", got)
	}
	if got := r.older(b, "tasks/get", id); got.Error == nil || got.Error.Code != -32602 {
		t.Errorf("another principal got %+v", got)
	}
	// The newer wire shows the same records.
	if got := r.want(withTasks, "tasks/get", id); got["status"] != "completed" {
		t.Errorf("got %v", got)
	}
}

// TestOfficialClient drives both eras with the SDK's own client: over HTTP by the newest, on stdio
// by both.
func TestOfficialClient(t *testing.T) {
	t.Parallel()
	r := newRig(t, mcpserver.Config{Local: &mcpserver.Principal{ID: "local"}})
	for _, version := range []string{"2026-07-28", "2025-11-25"} {
		t.Run(version, func(t *testing.T) {
			theirIn, ourOut := io.Pipe()
			ourIn, theirOut := io.Pipe()
			ctx, cancel := context.WithTimeout(t.Context(), patience)
			defer cancel()
			served := make(chan error, 1) // of one client
			go func() { served <- r.server.ServeStdio(ctx, ourIn, ourOut) }()
			progress := make(chan string, 100)
			client := mcp.NewClient(&mcp.Implementation{Name: "test", Version: "1"}, &mcp.ClientOptions{
				ElicitationHandler: func(context.Context, *mcp.ElicitRequest) (*mcp.ElicitResult, error) {
					return &mcp.ElicitResult{Action: "accept", Content: map[string]any{"n": 3}}, nil
				},
				ProgressNotificationHandler: func(_ context.Context, p *mcp.ProgressNotificationClientRequest) { progress <- p.Params.Message },
			})
			session, err := client.Connect(ctx, &mcp.IOTransport{Reader: theirIn, Writer: theirOut}, &mcp.ClientSessionOptions{ProtocolVersion: version})
			if err != nil {
				t.Fatal(err)
			}
			listed, err := session.ListTools(ctx, nil)
			if err != nil || len(listed.Tools) < 10 {
				t.Fatalf("%v, %v", listed, err)
			}
			for _, tool := range listed.Tools {
				pure := tool.Name == "echo"
				if h := tool.Annotations; (pure || tool.Name == "charge") && (h == nil || h.ReadOnlyHint != pure || h.IdempotentHint != pure || *h.DestructiveHint == pure) {
					t.Errorf("%s: %+v", tool.Name, h)
				}
			}
			got, err := session.CallTool(ctx, &mcp.CallToolParams{Name: "charge", Arguments: text})
			if err != nil || got.IsError || fmt.Sprint(got.StructuredContent) != "map[charged:a]" {
				t.Errorf("got %+v, %v", got, err)
			}
			r.Release("ask_number_after")
			got, err = session.CallTool(ctx, &mcp.CallToolParams{Name: "ask_number", Arguments: text})
			if said, _ := json.Marshal(got); err != nil || !strings.Contains(string(said), "3") {
				t.Errorf("got %s, %v", said, err)
			}
			if err := session.Close(); err != nil {
				t.Error(err)
			}
			if err := <-served; err != nil {
				t.Error(err)
			}
		})
	}
	for _, task := range r.all() {
		if task.RepliedAt.IsZero() {
			t.Errorf("the reply to %s was written, but not recorded", task.Tool)
		}
	}
}

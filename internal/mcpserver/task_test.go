package mcpserver_test

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/engine"
	"github.com/perdure/perdure/internal/mcpserver"
	"github.com/perdure/perdure/tool"
)

func TestM01CommittedBeforeTheReply(t *testing.T) {
	t.Parallel()
	r := newRig(t, mcpserver.Config{})
	id := r.call(withTasks, "hold_note", text, nil)["taskId"].(string)
	if got := r.want(withTasks, "tasks/get", object{"taskId": id}); got["status"] != "working" {
		t.Errorf("got %v", got)
	}
	r.Entered(t, "hold_note", 1)
	r.restart()
	r.until(withTasks, id, "working")
	r.Entered(t, "hold_note", 2)
	r.Release("hold_note")
	done := r.until(withTasks, id, "completed")
	if said := textOf(done["result"].(object)); said != `{"held":"a"}` {
		t.Errorf("got %s", said)
	}
	if keys := r.Effects("hold_note"); len(keys) != 2 || keys[0] != keys[1] {
		t.Errorf("effects under %v, want one key", keys)
	}
}

func TestM02WhoGetsATask(t *testing.T) {
	t.Parallel()
	r := newRig(t, mcpserver.Config{})
	for name, want := range map[string]string{"echo": "complete", "charge": "task", "note": "task"} {
		if got := r.call(withTasks, name, text, nil); got["resultType"] != want {
			t.Errorf("%s: got %v, want %s", name, got, want)
		}
	}
	// A pure call that takes longer than it is waited for.
	soon := newRig(t, mcpserver.Config{PureBudget: 30 * time.Millisecond})
	if got := soon.call(withTasks, "hold", text, nil); got["resultType"] != "task" {
		t.Errorf("hold: got %v, want a task", got)
	}
	// The parameter of the older wire is no wish here.
	got := r.want(withTasks, "tools/call", object{"name": "echo", "arguments": text, "task": object{"ttl": 1}})
	if got["resultType"] != "complete" || textOf(got) != `{"said":"a"}` {
		t.Errorf("got %v", got)
	}
	// Who did not declare Tasks on this request gets none, whatever was declared before.
	if got := r.call(questionPart{}, "charge", text, nil); got["resultType"] != "complete" || got["taskId"] != nil || textOf(got) != `{"charged":"a"}` {
		t.Errorf("got %v", got)
	}
	for _, method := range []string{"tasks/get", "tasks/update", "tasks/cancel"} {
		got := r.refused(questionPart{}, method, object{"taskId": "x"}, refusal{400, -32021})
		if got.Error != nil && fmt.Sprint(got.Error.Data["requiredCapabilities"]) != "map[extensions:map[io.modelcontextprotocol/tasks:map[]]]" {
			t.Errorf("%s: got %v", method, got.Error.Data)
		}
	}
	for _, method := range []string{"tasks/result", "tasks/list"} {
		r.refused(withTasks, method, object{"taskId": "x"}, refusal{404, -32601})
	}
}

func TestM03ClosedStream(t *testing.T) {
	t.Parallel()
	r := newRig(t, mcpserver.Config{})
	leave := func(name string) {
		t.Helper()
		ctx, cancel := context.WithCancel(t.Context())
		left := make(chan error, 1) // of one request
		go func() {
			_, err := r.modern(ctx, questionPart{}, "tools/call", object{"name": name, "arguments": text})
			left <- err
		}()
		r.Entered(t, name, 1)
		cancel()
		if err := <-left; err == nil {
			t.Errorf("%s: it was answered", name)
		}
	}
	leave("hold")
	leave("hold_note")

	byTool := func(name string) (found perdure.Task) {
		t.Helper()
		for _, task := range r.all() {
			if task.Tool == name {
				found = task
			}
		}
		return found
	}
	ended, err := r.eng.Tasks().Wait(t.Context(), byTool("hold").ID)
	if err != nil || ended.State != perdure.TaskCanceled {
		t.Errorf("the pure call is %s, %v, want canceled", ended.State, err)
	}
	if goes := byTool("hold_note"); goes.State != perdure.TaskRunning || goes.CancelRequested() {
		t.Errorf("the idempotent call is %s, want running", goes.State)
	}
	r.Release("hold_note")
}

// all is every task there is.
func (r *rig) all() []perdure.Task {
	r.t.Helper()
	tasks, err := r.eng.Tasks().List(context.Background(), "")
	if err != nil {
		r.t.Fatal(err)
	}
	return tasks
}

func TestM04Reissue(t *testing.T) {
	t.Parallel()
	r := newRig(t, mcpserver.Config{})
	keyed := func(key string) object { return object{"io.github.perdure/key": key} }
	first := r.call(withTasks, "charge", text, keyed("k"))["taskId"]
	r.until(withTasks, first.(string), "completed")
	if again := r.call(withTasks, "charge", text, keyed("k"))["taskId"]; again != first {
		t.Errorf("the same key is %v, want %v", again, first)
	}
	r.restart()
	if again := r.call(withTasks, "charge", text, keyed("k"))["taskId"]; again != first {
		t.Errorf("after a restart the same key is %v, want %v", again, first)
	}
	r.refused(withTasks, "tools/call", object{"name": "charge", "arguments": object{"text": "b"}, "_meta": keyed("k")}, refusal{0, -32602})
	r.refused(withTasks, "tools/call", object{"name": "charge", "arguments": text, "_meta": object{"io.github.perdure/key": 5}}, refusal{0, -32602})
	if n := len(r.Effects("charge")); n != 1 {
		t.Errorf("%d effects, want 1", n)
	}
	// Whose reply was written whole is another call.
	one, two := r.call(withTasks, "note", text, nil)["taskId"], r.call(withTasks, "note", text, nil)["taskId"]
	if one == two {
		t.Error("a new call joined one whose reply was written")
	}
	// Another principal's key is another key.
	if other := r.call(questionPart{as: "other", tasks: true}, "charge", text, keyed("k"))["taskId"]; other == first {
		t.Error("a key was shared")
	}
}

func TestM04ReissueAfterABrokenStream(t *testing.T) {
	t.Parallel()
	r := newRig(t, mcpserver.Config{})
	ctx, cancel := context.WithCancel(t.Context())
	left := make(chan struct{})
	go func() {
		defer close(left)
		// it is given up
		_, _ = r.modern(ctx, questionPart{}, "tools/call", object{"name": "hold_charge", "arguments": text})
	}()
	r.Entered(t, "hold_charge", 1)
	cancel()
	<-left
	again := r.call(withTasks, "hold_charge", text, nil)
	if n := len(r.all()); n != 1 || again["resultType"] != "task" {
		t.Errorf("%d tasks, want the one whose reply was never written; got %v", n, again)
	}
	r.Release("hold_charge")
	r.until(withTasks, again["taskId"].(string), "completed")
	if n := len(r.Effects("hold_charge")); n != 1 {
		t.Errorf("%d effects, want 1", n)
	}
}

// TestM04Window: after its own window, or for a tool that is never joined, a call whose reply was
// not written is a new call when it is sent again.
func TestM04Window(t *testing.T) {
	t.Parallel()
	for name, rejoin := range map[string]time.Duration{"is_over": time.Nanosecond, "never": -1} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRig(t, mcpserver.Config{Tools: []mcpserver.Exposed{{Name: "hold_note", RejoinWindow: rejoin}}})
			ctx, cancel := context.WithCancel(t.Context())
			left := make(chan struct{})
			go func() {
				defer close(left)
				// it is given up
				_, _ = r.modern(ctx, questionPart{}, "tools/call", object{"name": "hold_note", "arguments": text})
			}()
			r.Entered(t, "hold_note", 1)
			cancel()
			<-left
			r.call(withTasks, "hold_note", text, nil)
			if n := len(r.all()); n != 2 {
				t.Errorf("%d tasks, want two", n)
			}
		})
	}
}

// TestTaskRequired: a tool that only runs as a task is refused to clients without tasks, and says
// what it needs.
func TestTaskRequired(t *testing.T) {
	t.Parallel()
	r := newRig(t, mcpserver.Config{Tools: []mcpserver.Exposed{{Name: "charge", Task: mcpserver.TaskRequired}}})
	got := r.refused(questionPart{}, "tools/call", object{"name": "charge", "arguments": text}, refusal{400, -32021})
	if got.Error != nil && fmt.Sprint(got.Error.Data["requiredCapabilities"]) != "map[extensions:map[io.modelcontextprotocol/tasks:map[]]]" {
		t.Errorf("it says %v", got.Error.Data)
	}
	if n := len(r.all()); n != 0 {
		t.Errorf("%d tasks of a refused call", n)
	}
	if made := r.call(withTasks, "charge", text, nil); made["resultType"] != "task" {
		t.Errorf("got %v", made)
	}
}

// TestR15Reissues: the same call, many times at once and over restarts, is one call.
func TestR15Reissues(t *testing.T) {
	t.Parallel()
	reissues(t, 75)
}

func reissues(t *testing.T, times int) {
	t.Helper()
	rounds := max(3, times/100)
	r := newRig(t, mcpserver.Config{})
	for round := range rounds {
		var group sync.WaitGroup
		for n := range times / rounds {
			group.Go(func() {
				if n%5 == 4 { // one that breaks off, at any moment of it
					ctx, cancel := context.WithTimeout(t.Context(), time.Duration(n%100)*100*time.Microsecond)
					defer cancel()
					_, _ = r.modern(ctx, withTasks, "tools/call", object{"name": "charge", "arguments": text, "_meta": object{"io.github.perdure/key": "once"}})
					return
				}
				got := r.call(withTasks, "charge", text, object{"io.github.perdure/key": "once"})
				if got["resultType"] != "task" {
					t.Errorf("round %d: got %v", round, got)
				}
			})
		}
		group.Wait()
		r.restart()
	}
	tasks, effects := r.all(), len(r.Effects("charge"))
	if len(tasks) != 1 || effects > 1 || tasks[0].State == perdure.TaskSucceeded && effects != 1 {
		t.Errorf("%d tasks, %d effects, want one", len(tasks), effects)
	}
	t.Logf("%d re-issues over %d deaths: 1 task, %d effects", times, rounds, len(r.Effects("charge")))
}

func TestM05Handles(t *testing.T) {
	t.Parallel()
	r := newRig(t, mcpserver.Config{})
	id := r.call(withTasks, "charge", text, nil)["taskId"].(string)
	r.until(withTasks, id, "completed")
	if len(id) != len("task_")+32 {
		t.Errorf("the handle %s is not of 128 bits", id)
	}
	texts := map[string]bool{}
	for _, c := range []struct {
		by questionPart
		id string
	}{{questionPart{as: "other", tasks: true}, id}, {withTasks, "task_" + strings.Repeat("0", 32)}, {withTasks, ""}, {withTasks, "call_" + id[5:]}, {withTasks, string(r.all()[0].ID)}} {
		for _, method := range []string{"tasks/get", "tasks/update", "tasks/cancel"} {
			got := r.refused(c.by, method, object{"taskId": c.id, "inputResponses": object{}}, refusal{0, -32602})
			if got.Error != nil {
				texts[got.Error.Message] = true
			}
		}
	}
	if len(texts) != 1 {
		t.Errorf("the refusals differ: %v", texts)
	}
}

func TestM05ExpiredHandle(t *testing.T) {
	t.Parallel()
	r := newRig(t, mcpserver.Config{ResultTTL: time.Nanosecond})
	id := r.call(withTasks, "charge", text, nil)["taskId"].(string)
	if _, err := r.eng.Tasks().Wait(t.Context(), r.all()[0].ID); err != nil {
		t.Fatal(err)
	}
	r.refused(withTasks, "tasks/get", object{"taskId": id}, refusal{0, -32602})
}

// both asks two questions at once.
func both() tool.Tool {
	spec := tool.Spec{Name: "both", Description: "A fixture.", Class: perdure.AtMostOnce}
	return tool.New(spec, func(ctx context.Context, _ struct{}, env tool.Env) (string, error) {
		reply, err := env.Dialog.Ask(ctx, tool.Question{Prompt: "two", Expected: []byte(`{"type":"object","` + mcpserver.SeparateQuestions + `":true,
			"properties":{"one":{"type":"object"},"two":{"type":"object","title":"The second"}}}`)})
		return string(reply.Data), err
	})
}

func TestM06InputKeys(t *testing.T) {
	t.Parallel()
	r := newRig(t, mcpserver.Config{}, both())
	id := r.call(withTasks, "both", object{}, nil)["taskId"].(string)
	open := r.until(withTasks, id, "input_required")["inputRequests"].(object)
	var one, two string
	for key, q := range open {
		if request := q.(object); request["method"] != "elicitation/create" {
			t.Errorf("got %v", request)
		}
		if strings.HasSuffix(key, ".one") {
			one = key
		} else {
			two = key
		}
	}
	if len(open) != 2 || one == "" || two == "" {
		t.Fatalf("got %v, want two keys", open)
	}
	say := func(key string, action string) {
		t.Helper()
		got := r.want(withTasks, "tasks/update", object{"taskId": id, "inputResponses": object{key: object{"action": action, "content": object{"n": 1}}}})
		if len(got) > 2 || got["resultType"] != "complete" { // and _meta
			t.Errorf("the acknowledgement has more: %v", got)
		}
	}
	say("nobody-asked-this", "accept")
	r.refused(withTasks, "tasks/update", object{"taskId": id, "inputResponses": object{one: 5}}, refusal{0, -32602})
	say(one, "accept")
	left := r.want(withTasks, "tasks/get", object{"taskId": id})
	if requests := left["inputRequests"].(object); left["status"] != "input_required" || len(requests) != 1 || requests[two] == nil {
		t.Errorf("got %v, want %s alone", left, two)
	}
	say(one, "accept") // answered before
	r.restart()        // answered replies are stored
	left = r.want(withTasks, "tasks/get", object{"taskId": id})
	if requests := left["inputRequests"].(object); len(requests) != 1 {
		t.Errorf("after a restart: got %v", left)
	}
	say(two, "accept")
	done := r.until(withTasks, id, "completed")["result"].(object)
	if structured := fmt.Sprint(done["structuredContent"]); done["isError"] == true && !strings.Contains(structured, "unknown") {
		t.Errorf("got %v", done)
	}
	// nothing is asked any more
	r.want(withTasks, "tasks/update", object{"taskId": id, "inputResponses": object{"x": 5}})
}

func TestM06OneQuestion(t *testing.T) {
	t.Parallel()
	r := newRig(t, mcpserver.Config{})
	r.Release("ask_number_after")
	for action, want := range map[string]string{"accept": "completed", "decline": "cancelled"} {
		id := r.call(withTasks, "ask_number", text, object{"io.github.perdure/key": action})["taskId"].(string)
		open := r.until(withTasks, id, "input_required")
		for key, q := range open["inputRequests"].(object) {
			params := q.(object)["params"].(object)
			if params["requestedSchema"] == nil || params["message"] == "" || open["requestState"] != nil {
				t.Errorf("got %v", open)
			}
			// of any shape
			said := object{key: object{"action": action, "content": object{"n": 5}}, "nobody-asked-this": 5, "nor-this": []any{nil}, "or-this": nil}
			r.want(withTasks, "tasks/update", object{"taskId": id, "inputResponses": said})
		}
		done := r.until(withTasks, id, want)
		if action == "accept" && !strings.Contains(textOf(done["result"].(object)), "5") {
			t.Errorf("got %v", done)
		}
	}
}

func TestM07Headers(t *testing.T) {
	t.Parallel()
	r := newRig(t, mcpserver.Config{})
	id := r.call(withTasks, "charge", text, nil)["taskId"].(string)
	for _, header := range []map[string]string{{"Mcp-Name": "other"}, {"Mcp-Name": ""}, {"Mcp-Method": "tasks/cancel"}} {
		a := withTasks
		a.header = header
		r.refused(a, "tasks/get", object{"taskId": id}, refusal{400, -32020})
	}
	r.refused(withTasks, "no/such", object{}, refusal{404, -32601})
	future := withTasks
	future.header = map[string]string{"Mcp-Protocol-Version": "2099-01-01"}
	got := r.refused(future, "tools/list", object{"_meta": object{"io.modelcontextprotocol/protocolVersion": "2099-01-01"}}, refusal{400, -32022})
	if got.Error == nil || !strings.Contains(fmt.Sprint(got.Error.Data), "2026-07-28") {
		t.Errorf("got %+v", got.Error)
	}
}

// TestM07TwoReadings: a body that can be read in two ways, or not at all, is refused: the header is
// compared with what is executed.
func TestM07TwoReadings(t *testing.T) {
	t.Parallel()
	r := newRig(t, mcpserver.Config{})
	id := r.call(withTasks, "charge", text, nil)["taskId"].(string)
	meta := `"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientInfo":{"name":"t","version":"1"},` +
		`"io.modelcontextprotocol/clientCapabilities":{"extensions":{"io.modelcontextprotocol/tasks":{}}}}`
	other := "task_" + strings.Repeat("0", 32)
	get := func(members string) string {
		return `{"jsonrpc":"2.0","id":1,"method":"tasks/get","params":{` + members + meta + `}}`
	}
	for name, body := range map[string]string{
		"the task twice":    get(fmt.Sprintf(`"taskId":%q,"taskId":%q,`, other, id)),
		"the params twice":  strings.Replace(get(fmt.Sprintf(`"taskId":%q,`, id)), `"params"`, fmt.Sprintf(`"params":{"taskId":%q},"params"`, other), 1),
		"the method twice":  strings.Replace(get(fmt.Sprintf(`"taskId":%q,`, id)), `"method"`, `"method":"tools/list","method"`, 1),
		"in another case":   get(fmt.Sprintf(`"TaskId":%q,`, id)),
		"in a batch":        "[" + get(fmt.Sprintf(`"taskId":%q,`, id)) + "]",
		"no text":           get(`"taskId":5,`),
		"no end":            `{"jsonrpc":"2.0","id":1,"method":"tasks/get","params":{`,
		"no valid encoding": get("\"taskId\":\"" + other + "\",\"x\":\"\xff\","),
	} {
		for _, version := range []string{"2026-07-28", ""} {
			a := withTasks
			a.header = map[string]string{"Mcp-Protocol-Version": version, "Mcp-Method": "tasks/get", "Mcp-Name": other}
			got, err := r.send(t.Context(), a, []byte(body))
			if err != nil || got.status != http.StatusBadRequest || got.Result != nil {
				t.Errorf("%s, version %q: got %d %v, %v", name, version, got.status, got.Result, err)
			}
		}
	}
}

func TestM08TTL(t *testing.T) {
	t.Parallel()
	r := newRig(t, mcpserver.Config{ResultTTL: time.Hour})
	made := r.call(withTasks, "hold_note", text, nil)
	for _, got := range []object{made, r.want(withTasks, "tasks/get", object{"taskId": made["taskId"]})} {
		ttl, there := got["ttlMs"]
		if poll, ok := got["pollIntervalMs"].(float64); !there || ttl != nil || !ok || poll < 1000 || poll > 5000 {
			t.Errorf("while it runs: %v", got)
		}
	}
	r.Release("hold_note")
	done := r.until(withTasks, made["taskId"].(string), "completed")
	if ttl, ok := done["ttlMs"].(float64); !ok || ttl < time.Hour.Seconds()*1000 || ttl > time.Hour.Seconds()*1000+60_000 {
		t.Errorf("when it has ended: %v", done)
	}
}

// TestM08Polling: a client that polls too fast is answered nevertheless, and receives the end at
// once.
func TestM08Polling(t *testing.T) {
	t.Parallel()
	r := newRig(t, mcpserver.Config{})
	id := r.call(withTasks, "hold_note", text, nil)["taskId"].(string)
	var group sync.WaitGroup
	for range 40 {
		group.Go(func() {
			if got := r.want(withTasks, "tasks/get", object{"taskId": id}); got["status"] != "working" {
				t.Errorf("got %v", got)
			}
		})
	}
	group.Wait()
	r.Release("hold_note")
	r.until(withTasks, id, "completed")
}

func TestM10Approval(t *testing.T) {
	t.Parallel()
	r := newRig(t, mcpserver.Config{})
	id := r.call(withTasks, "needs", text, nil)["taskId"].(string)
	waits := r.want(withTasks, "tasks/get", object{"taskId": id})
	if waits["status"] != "working" || !strings.Contains(fmt.Sprint(waits["statusMessage"]), "approval") || waits["inputRequests"] != nil {
		t.Errorf("a principal that may not approve sees %v", waits)
	}
	open, err := r.eng.Approvals().List(t.Context(), engine.ApprovalFilter{State: perdure.ApprovalOpen})
	if err != nil || len(open) != 1 {
		t.Fatalf("%d approvals, %v", len(open), err)
	}
	if _, err := r.eng.Approvals().Decide(t.Context(), open[0].ID, perdure.Verdict{Approve: true, By: "a person"}); err != nil {
		t.Fatal(err)
	}
	r.until(withTasks, id, "completed")

	boss := questionPart{as: "boss", tasks: true}
	for i, approve := range []bool{true, false} {
		id = r.call(boss, "needs", text, object{"io.github.perdure/key": fmt.Sprint(approve)})["taskId"].(string)
		for key := range r.until(boss, id, "input_required")["inputRequests"].(object) {
			r.want(boss, "tasks/update", object{"taskId": id, "inputResponses": object{key: object{"action": "accept", "content": object{"approve": approve}}}})
		}
		done := r.until(boss, id, "completed")["result"].(object)
		if (done["isError"] == true) == approve || len(r.Effects("needs")) != 2 {
			t.Errorf("%d: got %v, %d effects", i, done, len(r.Effects("needs")))
		}
	}
}

func TestOutcomeUnknown(t *testing.T) {
	t.Parallel()
	r := newRig(t, mcpserver.Config{})
	id := r.call(withTasks, "hold_charge", text, nil)["taskId"].(string)
	r.Entered(t, "hold_charge", 1)
	r.restart()
	done := r.until(withTasks, id, "completed")["result"].(object)
	said, _ := done["structuredContent"].(object)
	resolve := "task resolve " + fmt.Sprint(said["task_id"])
	if done["isError"] != true || said["outcome"] != "unknown" || said["call_id"] == "" || !strings.HasSuffix(fmt.Sprint(said["resolve_command"]), resolve) ||
		!strings.Contains(textOf(done), "Do not repeat it") || !strings.HasSuffix(textOf(done), resolve) {
		t.Errorf("got %v", done)
	}
	if url, ok := said["resolve_url"]; ok {
		t.Errorf("got resolve_url %v, which is none", url)
	}
	if n := len(r.Effects("hold_charge")); n != 1 {
		t.Errorf("%d effects, want 1", n)
	}
}

// TestUnknownIsNotRepeated: the same call under a new request has the unknown outcome of the first,
// of clients with and without Tasks, until a person said what happened. A new key is a new call.
func TestUnknownIsNotRepeated(t *testing.T) {
	t.Parallel()
	r := newRig(t, mcpserver.Config{})
	id := r.call(withTasks, "hold_charge", text, nil)["taskId"].(string)
	r.Entered(t, "hold_charge", 1)
	r.restart()
	first := r.until(withTasks, id, "completed")["result"].(object)
	task := first["structuredContent"].(object)["task_id"]

	if again := r.call(withTasks, "hold_charge", text, nil); again["taskId"] != id {
		t.Errorf("with Tasks: got %v, want task %s", again, id)
	}
	again := r.call(questionPart{}, "hold_charge", text, nil)
	if said, _ := again["structuredContent"].(object); again["isError"] != true || said["outcome"] != "unknown" || said["task_id"] != task {
		t.Errorf("without Tasks: got %v, want the unknown outcome of %v", again, task)
	}
	r.Release("hold_charge")
	if made := r.call(questionPart{}, "hold_charge", text, object{"io.github.perdure/key": "another"}); made["isError"] == true {
		t.Errorf("under a new key: got %v", made)
	}
	if n := len(r.Effects("hold_charge")); n != 2 {
		t.Errorf("%d effects, want 2", n)
	}
}

// TestS15Origin: pages of other origins, and tokens of other servers, are refused.
func TestS15Origin(t *testing.T) {
	t.Parallel()
	r := newRig(t, mcpserver.Config{Resource: "https://here/mcp", Origins: []string{"https://friend.example"},
		Verify: func(_ context.Context, token string) (mcpserver.Principal, error) {
			return mcpserver.Principal{ID: "p", Audience: strings.Split(token, ",")}, nil
		}})
	own := strings.TrimPrefix(r.web.URL, "http://")
	for _, c := range []struct {
		as     string
		header map[string]string
		status int
	}{
		{"https://here/mcp", nil, 200},
		{"https://other/mcp,https://here/mcp", nil, 200},
		{"https://other/mcp", nil, 401},
		{"https://here/mcp", map[string]string{"Origin": "https://evil.example"}, 403},
		{"https://here/mcp", map[string]string{"Origin": "null"}, 403},
		{"https://here/mcp", map[string]string{"Origin": "http://" + own}, 200},
		{"https://here/mcp", map[string]string{"Origin": "https://friend.example"}, 200},
		{"https://here/mcp", map[string]string{"Sec-Fetch-Site": "cross-site"}, 403},
	} {
		if got := r.ask(questionPart{as: c.as, header: c.header}, "tools/list", object{}); got.status != c.status {
			t.Errorf("%s %v: got %d, want %d", c.as, c.header, got.status, c.status)
		}
	}
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, r.web.URL, strings.NewReader("{}"))
	if err != nil {
		t.Fatal(err)
	}
	resp, err := r.web.Client().Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if resp.StatusCode != 401 {
		t.Errorf("without a token: got %d", resp.StatusCode)
	}
}

// TestRequestMetadata: what a client says about a call is kept with its task; anything else than an
// object of strings is refused.
func TestRequestMetadata(t *testing.T) {
	t.Parallel()
	r := newRig(t, mcpserver.Config{})
	with := func(metadata any) object { return object{"io.github.perdure/metadata": metadata} }
	made := r.call(withTasks, "charge", text, with(object{"ticket": "42"}))["taskId"]
	r.until(withTasks, made.(string), "completed")
	if tasks := r.all(); len(tasks) != 1 || tasks[0].Metadata["ticket"] != "42" {
		t.Errorf("the tasks are %+v", tasks)
	}
	for _, bad := range []any{"text", []any{"a"}, object{"a": 1}, object{"a": strings.Repeat("x", perdure.MaxMessageMetadataBytes)}} {
		r.refused(withTasks, "tools/call", object{"name": "charge", "arguments": text, "_meta": with(bad)}, refusal{0, -32602})
	}
}

package api_test

import (
	"fmt"
	"maps"
	"net/http"
	"strings"
	"sync"
	"testing"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/budget"
	"github.com/perdure/perdure/engine"
	"github.com/perdure/perdure/internal/api"
)

// keyed gives a request an idempotency key.
func keyed(q ask, key string) ask {
	header := map[string]string{"Idempotency-Key": key}
	maps.Copy(header, q.header)
	q.header = header
	return q
}

// posts are all POSTs, each with a request that succeeds on a world with a conversation.
func (r *rig) posts() map[string]ask {
	r.t.Helper()
	r.connectTo("github")
	s := r.session()
	r.say(s, "charge")
	r.entered("charge")
	other := r.session()
	r.say(other, "spawn once")
	r.entered("once")
	r.restart()
	r.rest(s)
	r.rest(other)
	holding := r.session()
	r.say(holding, "spawn hold")
	r.entered("hold")
	call := want[taskInList[perdure.Call]](r, 200, get(s+"/calls")).Items[0]
	asking, drained, manual := r.asking("asking"), r.asking("asking"), r.asking("asking")
	want[perdure.Task](r, 200, post(manual.path()+"/delivery", `{"delivery":"manual","wake":"none"}`))
	want[sentToTask](r, 200, post(manual.path()+"/input", `{"id":"`+manual.request+`","answer":"a"}`))
	want[perdure.Task](r, 200, get(manual.path()+"?wait=20s"))
	slow := r.session()
	r.say(slow, "slow")
	r.entered("slow")
	stopped := r.session()
	want[budget.Standing](r, 200, put("/v1/budgets/session/"+strings.TrimPrefix(stopped, "/v1/sessions/"), `{"currency":"model_calls","limit":"0","action":"pause"}`))
	r.say(stopped, "hi")
	r.seen(stopped, "budget.paused")
	r.rest(stopped)
	client := r.client()
	r.say(client, "locate")
	donor := newRig(r.t, nil)
	donated := donor.do(get(donor.session() + "/export"))
	located := r.seen(client, "tool.call_requested").Call
	// of the example
	want[engine.Session](r, 201, post("/v1/sessions", `{"agent":{},"id":"session_019aa0000000700080000000000000aa"}`))
	paused := r.hourly()
	want[shownSchedule](r, 200, post(paused+"/pause", `{}`))
	hook := r.hook()
	return map[string]ask{
		"verify-storage":       post("/v1/storage/verify", `{}`),
		"test-webhook":         post(hook+"/test", `{}`),
		"redeliver-webhook":    post(r.pinged(hook)+"/redeliver", `{}`),
		"create-schedule":      post("/v1/schedules", `{"session_id":"session_019aa0000000700080000000000000aa","cron_expression":"@daily","action":{"message":"look"}}`),
		"trigger-schedule":     post(r.hourly()+"/trigger", `{}`),
		"pause-schedule":       post(r.hourly()+"/pause", `{"reason":"r"}`),
		"resume-schedule":      post(r.hourly()+"/resume", `{}`),
		"backfill-schedule":    post(r.hourly()+"/backfill", `{"from":"2025-03-28T11:00:00Z","to":"2025-03-28T12:00:00Z"}`),
		"approve":              post("/v1/approvals/"+string(r.pay().ID)+"/approve", `{"note":"n"}`),
		"deny":                 post("/v1/approvals/"+string(r.pay().ID)+"/deny", `{"note":"n"}`),
		"detach-call":          post(slow+"/calls/"+string(want[taskInList[perdure.Call]](r, 200, get(slow+"/calls")).Items[0].Key.Call)+"/detach", `{}`),
		"start-call":           post(s+"/calls", `{"tool":"echo","args":{"text":"a"}}`),
		"told-call":            post(s+"/calls/"+string(call.Key.Call)+"/told", `{}`),
		"answer-call":          post(client+"/calls/"+string(located)+"/result", `{"result":{"city":"Lisbon"}}`),
		"send-task-message":    post(asking.path()+"/messages", `{"text":"a"}`),
		"set-task-delivery":    post(asking.path()+"/delivery", `{"delivery":"manual"}`),
		"answer-task":          post(drained.path()+"/input", `{"id":"`+drained.request+`","answer":"a"}`),
		"drain-tasks":          post(manual.session+"/tasks/drain", `{}`),
		"cancel-tasks":         post(r.asking("asking").session+"/tasks/cancel", `{"reason":"r"}`),
		"create-session":       post("/v1/sessions", `{"agent":{"name":"b"}}`),
		"send-message":         post(s+"/messages", `{"content":[{"type":"text","text":"hi"}]}`),
		"interrupt-session":    post(s+"/interrupt", `{"reason":"r"}`),
		"pause-session":        post(r.session()+"/pause", `{"reason":"r"}`),
		"resolve-call":         post(fmt.Sprintf("%s/calls/%s/resolve", s, call.Key.Call), `{"outcome":"did_not_happen"}`),
		"resolve-task":         post("/v1/tasks/"+string(r.task(other).ID)+"/resolve", `{"outcome":"did_not_happen"}`),
		"cancel-task":          post("/v1/tasks/"+string(r.task(holding).ID)+"/cancel", `{"reason":"r"}`),
		"resume-session":       post(stopped+"/resume", `{}`),
		"move-session":         post(s+"/move", `{}`),
		"fork-session":         post(s+"/fork", `{"effects":"dry_run"}`),
		"import-session":       importing(donated.body),
		"call-tool":            post("/v1/tools/echo/call", `{"args":{"text":"a"}}`),
		"test-connection":      post("/v1/connections/github/test", `{}`),
		"authorize-connection": post("/v1/connections/hub/authorize", `{}`),
		"move-file":            post(r.filed("/notes/today.md")+"/files:move", `{"from":"/notes/today.md","to":"/notes/old.md"}`),
		"cancel-many-tasks":    post("/v1/tasks:cancel", `{"filter":{"session_id":"`+strings.TrimPrefix(r.asking("asking").session, "/v1/sessions/")+`"}}`),
		"retry-task":           post(r.canceled()+"/retry", `{}`),
		"put-image":            r.upload(s, "a.png", onePixel),
		"query-database":       post(r.database()+"/databases/main/query", readTable),
		"resolve-payment":      post(r.unknownPayment()+"/resolve", `{"outcome":"did_not_happen","note":"n"}`),
	}
}

// writes are posts, and all else that changes something.
func (r *rig) writes() map[string]ask {
	r.t.Helper()
	all := r.posts()
	r.connectTo("gone")
	s, kept := r.filed("/a"), r.filed("/b")
	erase := func(path string) ask { return ask{method: http.MethodDelete, path: path} }
	file := put(s+"/files/{new", "{raw}")
	file.header = map[string]string{"Content-Type": "text/plain"}
	set := want[budget.Standing](r, 200, put("/v1/budgets/agent/erased", `{"currency":"calls","limit":"1"}`))
	r.do(put(s+"/values/gone", `{"value":"a"}`))
	r.do(put(s+"/secrets/gone", `{"value":"a"}`))
	maps.Copy(all, map[string]ask{
		"update-webhook":  {method: http.MethodPatch, path: r.hook(), body: `{"enabled":true}`},
		"delete-webhook":  erase(r.hook()),
		"update-session":  {method: http.MethodPatch, path: s, body: `{"title":"new"}`},
		"write-file":      file,
		"delete-file":     erase(kept + "/files/b"),
		"set-value":       put(s+"/values/k", `{"value":"v"}`),
		"delete-value":    erase(s + "/values/gone"),
		"set-secret":      put(s+"/secrets/k", `{"value":"v"}`),
		"delete-secret":   erase(s + "/secrets/gone"),
		"set-budget":      put("/v1/budgets/agent/b", `{"currency":"calls","limit":"1"}`),
		"remove-budget":   erase("/v1/budgets/" + string(set.ID)),
		"delete-schedule": erase(r.hourly()),
		"delete-session":  erase(r.session()),
		"put-connection":  put("/v1/connections/gitlab", `{"token":"x"}`), "delete-connection": erase("/v1/connections/gone"),
		"put-agent":       put("/v1/agents/made", `{"tools":["echo"]}`),
		"delete-agent":    erase(r.kept("gone")),
		"put-harness":     put("/v1/harnesses/made", `{"tools":["echo"]}`),
		"delete-harness":  erase(r.layer("gone")),
		"put-provider":    put("/v1/providers/made", `{"kind":"openai","base_url":"https://models.test/v1","key":"k-of-the-rig"}`),
		"delete-provider": erase(r.provider("gone")),
		"test-provider":   post(r.provider("tested")+"/test", `{"model":"m"}`),

		"set-default-model": put("/v1/models/default", `{"name":"rig/m"}`), "clear-default-model": erase("/v1/models/default?org=default"),
		"release-resource": erase(r.beside(s, "gone")),
		"delete-image":     erase(r.image(s)),
		"revoke-token":     erase("/v1/tokens/" + string(r.let(`{"name":"gone"}`).ID)),
	})
	return all
}

// filed makes a session with a file in it.
func (r *rig) filed(path string) string {
	r.t.Helper()
	s := r.session()
	q := put(s+"/files"+path, "what is in it")
	q.header = map[string]string{"Content-Type": "application/octet-stream"}
	want[engine.File](r, 200, q)
	return s
}

// canceled makes a session with a task that was canceled, and returns the path of the task.
func (r *rig) canceled() string {
	r.t.Helper()
	s := r.session()
	r.say(s, "spawn hold")
	r.entered("hold")
	path := "/v1/tasks/" + string(r.task(s).ID)
	want[perdure.CancelReceipt](r, 202, post(path+"/cancel", `{}`))
	if t := want[perdure.Task](r, 200, get(path+"?wait=20s")); t.State != perdure.TaskCanceled {
		r.t.Fatalf("the task is %s", t.State)
	}
	return path
}

// shownSchedule is a schedule as it is answered.
type shownSchedule struct {
	perdure.Schedule
	Type  string `json:"schedule_type"`
	Words string `json:"in_words"`
}

// hourly makes a schedule in a session of its own, and returns its path.
func (r *rig) hourly() string {
	r.t.Helper()
	body := `{"session_id":"` + strings.TrimPrefix(r.session(), "/v1/sessions/") + `","cron_expression":"@hourly","action":{"message":"look"}}`
	return "/v1/schedules/" + string(want[shownSchedule](r, 201, post("/v1/schedules", body)).ID)
}

// task is the one task of a session.
func (r *rig) task(session string) perdure.Task {
	r.t.Helper()
	tasks := want[taskInList[perdure.Task]](r, 200, get("/v1/tasks?session="+strings.TrimPrefix(session, "/v1/sessions/"))).Items
	if len(tasks) != 1 {
		r.t.Fatalf("%s has %d tasks", session, len(tasks))
	}
	return tasks[0]
}

// count counts what POSTs make.
func (r *rig) count() string {
	r.t.Helper()
	sessions, err := r.eng.Sessions().List(r.t.Context(), 0)
	if err != nil {
		r.t.Fatal(err)
	}
	received := 0
	schedules, err := r.eng.Schedules().List(r.t.Context(), "")
	if err != nil {
		r.t.Fatal(err)
	}
	fires := 0
	for _, s := range schedules {
		of, err := r.eng.Schedules().Fires(r.t.Context(), s.ID, 0)
		if err != nil {
			r.t.Fatal(err)
		}
		fires += len(of)
	}
	for _, s := range sessions {
		for _, e := range r.journal("/v1/sessions/" + string(s.ID)) {
			if strings.Contains(e, `message.received"`) || strings.Contains(e, `.resolved"`) {
				received++
			}
		}
	}
	return fmt.Sprintf("%d sessions, %d messages and resolves, %d schedules, %d fires", len(sessions), received, len(schedules), fires)
}

// TestR15 sends every write twice, after a restart too, at once, and with another body.
func TestR15(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil)
	posts := r.writes()
	delete(posts, "authorize-connection") // its responses are not stored
	first := map[string]reply{}
	for name, q := range posts {
		first[name] = r.do(keyed(q, "key-"+name))
		if got := first[name]; got.status >= 300 || got.header.Get("Idempotency-Replayed") != "" {
			t.Errorf("%s: got %d %s", name, got.status, got.body)
		}
	}
	doc, _ := r.document()
	doc.each(func(method, _ string, op operation) {
		// Whose responses are not stored: TestWebhookSecretOnce, TestR15Rotate.
		// finish-connection asks another service: TestConnectionOverHTTP in internal/app.
		if _, ok := posts[op.ID]; method != "get" && !ok && op.ID != "finish-connection" && op.ID != "authorize-connection" && op.ID != "create-token" && op.ID != "create-webhook" && op.ID != "rotate-webhook" {
			t.Errorf("%s is not sent twice", op.ID)
		}
	})
	before := r.count()
	for _, when := range []string{"again", "after a restart"} {
		for name, q := range posts {
			got := r.do(keyed(q, "key-"+name))
			one := first[name]
			if got.status != one.status || string(got.body) != string(one.body) || got.header.Get("Content-Type") != one.header.Get("Content-Type") ||
				got.header.Get("Location") != one.header.Get("Location") || got.header.Get("Idempotency-Replayed") != "true" {
				t.Errorf("%s %s: got %d %v %s, want %d %v %s", name, when, got.status, got.header, got.body, one.status, one.header, one.body)
			}
			if q.body == "" {
				continue
			}
			other := strings.Replace(q.body, "{", "{ ", 1)
			if other == q.body { // the bytes of an image
				other += " "
			}
			q.body = other
			r.refusal(r.do(keyed(q, "key-"+name)), 422, "key_reused")
		}
		r.restart()
	}
	if after := r.count(); after != before {
		t.Errorf("before %s, after %s", before, after)
	}
}

// TestR15Unanswered: the server died after the effect and before the answer was kept. Sent again,
// each request has its effect once, under the ids of the first time.
func TestR15Unanswered(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil)
	posts := r.writes()
	r.keys.hear(false)
	first := map[string]reply{}
	for name, q := range posts {
		first[name] = r.do(keyed(q, "key-"+name))
	}
	before := r.count()
	r.restart()
	r.keys.hear(true)
	for name, q := range posts {
		got := r.do(keyed(q, "key-"+name))
		if got.status != first[name].status || got.header.Get("Location") != first[name].header.Get("Location") || got.header.Get("Idempotency-Replayed") != "" {
			t.Errorf("%s: got %d %s, want %d %s", name, got.status, got.body, first[name].status, first[name].body)
		}
		if name == "send-message" && string(got.body)[:55] != string(first[name].body)[:55] {
			t.Errorf("got %s, want %s", got.body, first[name].body)
		}
	}
	if after := r.count(); after != before {
		t.Errorf("before %s, after %s", before, after)
	}
}

func TestR15AtOnce(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil)
	var group sync.WaitGroup
	replies := make(chan reply, 40)
	for range cap(replies) {
		group.Go(func() { replies <- r.do(keyed(post("/v1/sessions", `{"agent":{}}`), "one")) })
	}
	group.Wait()
	close(replies)
	var created reply
	for got := range replies {
		if got.status == http.StatusConflict {
			if p := r.refusal(got, 409, "in_flight"); !p.Retryable || got.header.Get("Retry-After") == "" {
				t.Errorf("got %+v", p)
			}
			continue
		}
		if created.body != nil && string(created.body) != string(got.body) {
			t.Errorf("got %s and %s", created.body, got.body)
		}
		created = got
	}
	if sessions := want[taskInList[engine.Session]](r, 200, get("/v1/sessions")).Items; len(sessions) != 1 || created.status != 201 {
		t.Errorf("%d sessions, %d", len(sessions), created.status)
	}
}

// TestInFlight holds a request in progress.
func TestInFlight(t *testing.T) {
	t.Parallel()
	r := newRig(t, func(c *api.Config) {
		c.Engine = &slowEngine{Engine: c.Engine, in: make(chan struct{}), out: make(chan struct{})}
	})
	slow := r.cfg.Engine.(*slowEngine)
	first := make(chan reply, 1)
	go func() { first <- r.do(keyed(post("/v1/sessions", `{"agent":{}}`), "one")) }()
	<-slow.in
	r.refusal(r.do(keyed(post("/v1/sessions", `{"agent":{}}`), "one")), 409, "in_flight")
	close(slow.out)
	one := <-first
	if again := r.do(keyed(post("/v1/sessions", `{"agent":{}}`), "one")); string(again.body) != string(one.body) || one.status != 201 {
		t.Errorf("got %s, want %s", again.body, one.body)
	}
}

func TestIdempotencyKeys(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil)
	for _, key := range []string{" x y", "a b", strings.Repeat("a", 256), "ä", "a\tb"} {
		r.refusal(r.do(keyed(post("/v1/sessions", `{"agent":{}}`), key)), 400, "invalid")
	}
	refused := r.do(keyed(post("/v1/sessions", `{"agnet":{}}`), "k"))
	r.refusal(refused, 400, "invalid")
	if again := r.do(keyed(post("/v1/sessions", `{"agnet":{}}`), "k")); string(again.body) != string(refused.body) {
		t.Errorf("got %s, want %s", again.body, refused.body)
	}
	// Another path is another scope.
	s := r.session()
	for _, path := range []string{s, r.session()} {
		want[struct{}](r, 202, keyed(post(path+"/interrupt", ""), "k"))
	}

	none := newRig(t, func(c *api.Config) { c.Keys = nil })
	none.refusal(none.do(keyed(post("/v1/sessions", `{"agent":{}}`), "k")), 501, "not_implemented")
}

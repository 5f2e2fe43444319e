package api_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/engine"
)

// pay creates a session whose call waits for an approval, and returns the approval.
func (r *rig) pay() perdure.Approval {
	r.t.Helper()
	s := r.session()
	r.say(s, "pay")
	return r.seen(s, "approval.requested").Fact.(perdure.ApprovalRequested).Approval
}

// client starts a session whose client answers tools.
func (r *rig) client() string {
	r.t.Helper()
	s := want[engine.Session](r, http.StatusCreated, post("/v1/sessions", `{"agent":{"name":"a","client_tools":true}}`))
	return "/v1/sessions/" + string(s.ID)
}

// seen waits for the first event of a type in a session.
func (r *rig) seen(session string, kind perdure.EventType) perdure.Event {
	r.t.Helper()
	return r.seenNth(session, kind, 1)
}

// seenNth waits for the nth event of a type in a session.
func (r *rig) seenNth(session string, kind perdure.EventType, n int) (event perdure.Event) {
	r.t.Helper()
	ctx, cancel := context.WithTimeout(r.t.Context(), 20*time.Second)
	defer cancel()
	enough := errors.New("enough")
	err := r.eng.Follow(ctx, sessionID(session), 0, func(f engine.Frame) error {
		if f.Event == nil || f.Event.Type() != kind {
			return nil
		}
		event = *f.Event
		if n--; n > 0 {
			return nil
		}
		return enough
	})
	if !errors.Is(err, enough) {
		r.t.Fatalf("no %s in %s: %v", kind, session, err)
	}
	return event
}

func sessionID(path string) perdure.SessionID {
	return perdure.SessionID(strings.TrimPrefix(path, "/v1/sessions/"))
}

func TestApprovals(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil)
	var asked []perdure.Approval
	for range 5 {
		asked = append(asked, r.pay())
	}
	path := func(i int) string { return "/v1/approvals/" + string(asked[i].ID) }
	list := func(query string) (ids []perdure.ApprovalID) {
		for cursor := ""; ; {
			page := want[taskInList[perdure.Approval]](r, 200, get("/v1/approvals?limit=2&cursor="+cursor+query))
			for _, a := range page.Items {
				ids = append(ids, a.ID)
			}
			if cursor = page.Next; cursor == "" {
				return ids
			}
		}
	}
	wantList := func(query string, of ...int) {
		t.Helper()
		var ids []perdure.ApprovalID
		for _, i := range of {
			ids = append(ids, asked[i].ID)
		}
		if got := list(query); fmt.Sprint(got) != fmt.Sprint(ids) {
			t.Errorf("%q: got %v, want %v", query, got, ids)
		}
	}
	wantNeeds := func(i, n int) {
		t.Helper()
		if got := want[engine.Session](r, 200, get("/v1/sessions/"+string(asked[i].Session))).NeedsYou; got != n {
			t.Errorf("needs_you is %d, want %d", got, n)
		}
	}

	wantList("", 0, 1, 2, 3, 4)
	wantList("&state=pending", 0, 1, 2, 3, 4)
	wantList("&order=newest", 4, 3, 2, 1, 0)
	wantNeeds(1, 1)
	one := want[perdure.Approval](r, 200, get(path(0)))
	if one.State != perdure.ApprovalOpen || one.Tool != "pay" || string(one.Args) != `{"password":"canary","text":"a"}` || one.ArgsHash == "" {
		t.Errorf("got %+v", one)
	}
	if items := want[taskInList[perdure.Approval]](r, 200, get("/v1/approvals")).Items; strings.Contains(string(items[0].Args), "canary") {
		t.Errorf("the list shows %s", items[0].Args) // RD6
	}

	got := want[perdure.Approval](r, 200, post(path(1)+"/approve", `{"args_digest":"`+one.ArgsHash+`","note":"fine"}`))
	if got.State != perdure.ApprovalApproved || got.DecidedBy != "api" || got.Note != "fine" || got.DecidedAt.IsZero() {
		t.Errorf("got %+v", got)
	}
	if done := r.seen("/v1/sessions/"+string(got.Session), "tool.completed").Fact.(perdure.ToolCompleted).Result; !strings.Contains(string(done.Result), "paid a") {
		t.Errorf("got %s", done.Result)
	}
	got = want[perdure.Approval](r, 200, post(path(2)+"/deny", `{"note":"too much"}`))
	if done := r.seen("/v1/sessions/"+string(got.Session), "tool.completed").Fact.(perdure.ToolCompleted).Result; done.Error != "too much" || got.State != perdure.ApprovalDenied {
		t.Errorf("got %+v", done)
	}
	got = want[perdure.Approval](r, 200, post(path(3)+"/approve", `{"args":{"text":"b"}}`))
	if done := r.seen("/v1/sessions/"+string(got.Session), "tool.completed").Fact.(perdure.ToolCompleted).Result; !strings.Contains(string(done.Result), "paid b") {
		t.Errorf("got %s", done.Result)
	}
	wantNeeds(1, 0)
	wantList("&state=open", 0, 4)
	wantList("&state=open&order=newest", 4, 0)
	wantList("&state=approved", 1, 3)
	wantList("&state=denied", 2)
	wantList("&session="+string(asked[2].Session), 2)
	wantList("&state=expired")
	wantList("&state=decided", 1, 2, 3)
	wantList("&state=decided&order=newest", 3, 2, 1)
}

func TestApprovalRefusals(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil)
	path := "/v1/approvals/" + string(r.pay().ID)

	for _, way := range []string{"/approve", "/deny"} {
		if p := r.refusal(r.do(post(path+way, `{"args_digest":"other"}`)), 409, "conflict"); !strings.Contains(p.Detail, perdure.TextNotMatching) {
			t.Errorf("got %s", p.Detail)
		}
		r.refusal(r.do(post("/v1/approvals/appr_"+strings.Repeat("99", 16)+way, "")), 404, "not_found")
		r.refusal(r.do(post(path+way, `{"by":"me"}`)), 400, "invalid")
	}
	r.refusal(r.do(post(path+"/deny", `{"args":{}}`)), 400, "invalid")
	for _, args := range []string{"null", "1", `"{}"`, "[]"} {
		if p := r.refusal(r.do(post(path+"/approve", `{"args": `+args+`}`)), 400, "invalid"); p.FieldErrors[0].Field != "/args" {
			t.Errorf("%s: got %+v", args, p)
		}
	}
	r.refusal(r.do(get("/v1/approvals/none")), 404, "not_found")
	r.refusal(r.do(get("/v1/approvals?state=done")), 400, "invalid")
	if a := want[perdure.Approval](r, 200, get(path)); a.State != perdure.ApprovalOpen {
		t.Fatalf("a refusal left it %s", a.State)
	}
	want[perdure.Approval](r, 200, post(path+"/deny", ""))
	for _, way := range []string{"/approve", "/deny"} {
		if p := r.refusal(r.do(post(path+way, "")), 409, "conflict"); !strings.Contains(p.Detail, "already closed: denied") {
			t.Errorf("got %s", p.Detail)
		}
	}
}

// TestApprovalAgain: the server died before it stored its response. The same verdict sent again is
// answered; the idempotency key gives no access to the verdict of another request.
func TestApprovalAgain(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil)
	path := "/v1/approvals/" + string(r.pay().ID)
	r.keys.hear(false)

	r.refusal(r.do(keyed(post(path+"/approve", `{"args_digest":"other"}`), "a")), 409, "conflict")
	want[perdure.Approval](r, 200, keyed(post(path+"/deny", `{}`), "b"))
	if a := want[perdure.Approval](r, 200, keyed(post(path+"/deny", `{}`), "b")); a.State != perdure.ApprovalDenied {
		t.Errorf("got %+v", a)
	}
	r.refusal(r.do(keyed(post(path+"/approve", `{"args_digest":"other"}`), "a")), 409, "conflict")
}

// TestLocalApproval: on the socket the person that a header names decides.
func TestLocalApproval(t *testing.T) {
	t.Parallel()
	r := newRig(t, onSocket)
	q := post("/v1/approvals/"+string(r.pay().ID)+"/approve", "")
	q.header = map[string]string{"Perdure-Actor": "operator"}
	if a := want[perdure.Approval](r, 200, q); a.DecidedBy != "operator" {
		t.Errorf("got %s", a.DecidedBy)
	}
}

func TestDetach(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil)
	s := r.session()
	r.say(s, "slow")
	r.entered("slow")
	calls := s + "/calls/"
	id := string(want[taskInList[perdure.Call]](r, 200, get(s+"/calls")).Items[0].Key.Call)
	r.keys.hear(false)

	task := want[perdure.Task](r, 200, keyed(post(calls+id+"/detach", ""), "k"))
	if string(task.Call) != id || task.Origin != perdure.OriginDetached || task.State != perdure.TaskRunning || task.Worker != "" {
		t.Errorf("got %+v", task)
	}
	// its answer was lost
	if again := want[perdure.Task](r, 200, keyed(post(calls+id+"/detach", ""), "k")); again.ID != task.ID {
		t.Errorf("got %s, want %s", again.ID, task.ID)
	}
	r.release()
	if done := want[perdure.Task](r, 200, get("/v1/tasks/"+string(task.ID)+"?wait=20s")); done.State != perdure.TaskSucceeded {
		t.Errorf("got %+v", done)
	}
	r.rest(s)
	r.refusal(r.do(post(calls+id+"/detach", "")), 404, "not_found") // it does not run any more
	r.refusal(r.do(post(calls+"none/detach", "")), 404, "not_found")
	r.refusal(r.do(post("/v1/sessions/none/calls/c/detach", "")), 404, "not_found")
	r.refusal(r.do(post(calls+id+"/detach", `{"why":"a"}`)), 400, "invalid")
}

func TestCallResult(t *testing.T) {
	t.Parallel()
	for body, wanted := range map[string]string{
		`{"result": {"city" : "<Lisbon>"}}`: `{"city":"<Lisbon>"}`,
		`{"result":null}`:                   `null`,
		`{"error":"no GPS"}`:                `{"error":"no GPS"}`,
	} {
		t.Run(body, func(t *testing.T) {
			t.Parallel()
			r := newRig(t, nil)
			s := r.client()
			r.say(s, "locate")
			id := string(r.seen(s, "tool.call_requested").Call)
			path := s + "/calls/" + id + "/result"
			for _, wrong := range []string{`{}`, `{"result":1,"error":"a"}`, `{"error":""}`, `{"result":1,"note":"a"}`, ``} {
				r.refusal(r.do(post(path, wrong)), 400, "invalid")
			}

			// the same again is the same answer
			for _, again := range []string{body, body, strings.Replace(body, ":", ":  ", 1)} {
				got := want[perdure.ToolResult](r, 200, post(path, again))
				if string(got.Result) != wanted || string(got.CallID) != id || got.IsError() != strings.Contains(body, "error") {
					t.Errorf("got %+v, want %s", got, wanted)
				}
			}
			if done := r.seen(s, "tool.completed").Fact.(perdure.ToolCompleted).Result; string(done.Result) != wanted {
				t.Errorf("got %s, want %s", done.Result, wanted)
			}
			r.refusal(r.do(post(path, `{"result":"another"}`)), 409, "conflict")
			r.refusal(r.do(post(s+"/calls/none/result", body)), 404, "not_found")
			r.refusal(r.do(post("/v1/sessions/none/calls/c/result", body)), 404, "not_found")
			r.rest(s)
			r.refusal(r.do(post(path, `{"result":"another"}`)), 409, "conflict")
		})
	}
}

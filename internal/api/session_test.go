package api_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/engine"
	"github.com/perdure/perdure/internal/api"
)

// shownMessage is a message of the list.
type shownMessage struct {
	ID      perdure.MessageID `json:"id"`
	Role    perdure.Role      `json:"role"`
	Content []perdure.Part    `json:"content"`
	Seq     int64             `json:"seq"`
	Status  string            `json:"status"`
}

// TestUntrustedPart: the sender of a message marks the part of it that comes from elsewhere, and
// gets the mark back when reading (S3).
func TestUntrustedPart(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil)
	s := r.talk("echo")

	want[map[string]any](r, 202, post(s+"/messages", `{"content":[{"type":"text","text":"look"},{"type":"text","text":"a mail","untrusted":true}]}`))

	for _, m := range want[taskInList[shownMessage]](r, 200, get(s+"/messages")).Items {
		for _, p := range m.Content {
			switch {
			case p.Text == "a mail" && p.Untrusted:
				return
			case p.Text == "look" && p.Untrusted:
				t.Error("the words of the sender are marked")
			}
		}
	}
	journal := strings.Join(r.journal(s), "\n")
	if !strings.Contains(journal, `{"type":"text","text":"a mail","untrusted":true}`) || strings.Contains(journal, `"text":"look","untrusted"`) {
		t.Errorf("the part is not marked in %s", journal)
	}
}

func TestSessions(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil)

	t.Run("starts_one_under_an_id_of_the_callers", func(t *testing.T) {
		id := "session_" + strings.Repeat("ab", 16)
		for range 2 {
			got := r.do(post("/v1/sessions", `{"agent":{"name":"a"},"id":"`+id+`"}`))
			if s := read[engine.Session](t, got.body); got.status != 201 || string(s.ID) != id || got.header.Get("Location") != "/v1/sessions/"+id {
				t.Errorf("got %d %v %s", got.status, got.header, got.body)
			}
		}
		r.refusal(r.do(post("/v1/sessions", `{"agent":{"name":"b"},"id":"`+id+`"}`)), 409, "conflict")
		r.refusal(r.do(post("/v1/sessions", `{"agent":{},"id":"no id"}`)), 400, "invalid")
		r.refusal(r.do(post("/v1/sessions", `{}`)), 400, "invalid")
	})
	t.Run("answers_not_found_for_what_is_unknown", func(t *testing.T) {
		for _, path := range []string{"", "?wait=1s", "/messages", "/calls", "/calls/c", "/events"} {
			r.refusal(r.do(get("/v1/sessions/session_"+strings.Repeat("99", 16)+path)), 404, "not_found")
			r.refusal(r.do(get("/v1/sessions/nonsense"+path)), 404, "not_found")
		}
		r.refusal(r.do(post("/v1/sessions/nonsense/interrupt", "")), 404, "not_found")
	})
	t.Run("takes_only_waits_that_are_times", func(t *testing.T) {
		s := r.session()
		for _, wait := range []string{"-1s", "x", "1e9", "NaN"} {
			r.refusal(r.do(get(s+"?wait="+wait)), 400, "invalid")
		}
		for _, prefer := range []string{"respond-async, wait=5", "wait=5; x=y", `wait="5"`, `respond-async; a="b, c", Wait = "5"`} {
			if got := r.do(given(get(s), "Prefer", prefer)); got.header.Get("Perdure-Idle") != "true" {
				t.Errorf("%s: got %d %v", prefer, got.status, got.header)
			}
		}
	})
}

func TestSessionList(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil)
	var made []string
	for range 7 {
		made = append(made, strings.TrimPrefix(r.session(), "/v1/sessions/"))
	}
	slices.Reverse(made)

	var seen []string
	for cursor := ""; ; {
		page := want[taskInList[engine.Session]](r, 200, get("/v1/sessions?limit=2&cursor="+cursor))
		for _, s := range page.Items {
			seen = append(seen, string(s.ID))
		}
		for range 3 {
			r.session() // inserts do not move the pages
		}
		if cursor = page.Next; cursor == "" {
			break
		}
	}

	if !slices.Equal(seen, made) {
		t.Errorf("got %v, want %v", seen, made)
	}
	r.refusal(r.do(get("/v1/sessions?cursor=AAAA")), 400, "invalid")
	for _, limit := range []string{"0", "-1", "201", "x", "1.5"} {
		r.refusal(r.do(get("/v1/sessions?limit="+limit)), 400, "invalid")
	}
	if p := r.refusal(r.do(get("/v1/sessions?limt=1")), 400, "invalid"); len(p.FieldErrors) != 1 || p.FieldErrors[0].Field != "query.limt" {
		t.Errorf("got %+v", p)
	}
}

func TestSessionWait(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil)
	s := r.session()
	r.say(s, "charge")
	r.entered("charge")

	began := time.Now()
	got := r.do(get(s + "?wait=100ms"))
	if got.status != 200 || got.header.Get("Perdure-Idle") != "false" || time.Since(began) < 100*time.Millisecond {
		t.Errorf("got %d %v after %s", got.status, got.header, time.Since(began))
	}
	if state := read[engine.Session](t, got.body).Status; state != perdure.SessionActive {
		t.Errorf("got %s", state)
	}
	r.release()
	r.rest(s)
}

func TestMessages(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil)
	s := r.session()

	body := `{"content":[{"type":"text","text":"echo"},{"type":"image","image":{"media_type":"image/png","base64":"AAAA"}}],"mode":"queue"}`
	sent := want[struct {
		MessageID perdure.MessageID `json:"message_id"`
		Seq       int64             `json:"seq"`
	}](r, 202, post(s+"/messages", body))
	if _, err := perdure.ParseID[perdure.MessageID](string(sent.MessageID)); err != nil || sent.Seq < 2 {
		t.Errorf("got %+v", sent)
	}
	r.rest(s)

	var all []shownMessage
	for cursor := ""; ; {
		page := want[taskInList[shownMessage]](r, 200, get(s+"/messages?limit=1&cursor="+cursor))
		all = append(all, page.Items...)
		if cursor = page.Next; cursor == "" {
			break
		}
	}
	if whole := want[taskInList[shownMessage]](r, 200, get(s+"/messages")); string(raw(whole.Items)) != string(raw(all)) {
		t.Errorf("in pages %s, at once %s", raw(all), raw(whole.Items))
	}
	var roles []string
	for _, m := range all {
		roles = append(roles, string(m.Role)+" "+m.Status)
	}
	if got, want := strings.Join(roles, ", "), "user complete, agent complete, tool_result complete, agent complete"; got != want {
		t.Fatalf("got %s", got)
	}
	if all[0].ID != sent.MessageID || len(all[0].Content) != 2 || all[0].Content[1].Image.Base64 != "AAAA" || all[3].Content[0].Text != "done" {
		t.Errorf("got %s", raw(all))
	}
	if result := all[2].Content[0].Result; result == nil || !strings.Contains(string(result.Result), "a <b> & c") {
		t.Errorf("got %s", raw(all[2]))
	}
}

func TestMessagesRefused(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil)
	s := r.session()
	for body, field := range map[string]string{
		`{"content":[]}`:                                "/content",
		`{"content":[{"type":"text"}]}`:                 "/content/0",
		`{"content":[{"type":"text","text":7}]}`:        "/content/0/text",
		`{"content":[{"type":"tool_call","text":"a"}]}`: "/content/0/type",
		`{"content":[{"type":"image"}]}`:                "/content/0",
		`{"content":[{"type":"image","image":{"media_type":"image/png","base64":"?"}}]}`: "/content/0/image/base64",
		`{"content":[{"type":"image","image":{"media_type":"a/b","base64":"AAAA"}}]}`:    "/content/0/image/media_type",
		`{"content":[{"type":"text","text":"a"}],"id":"task_1"}`:                         "/id",
	} {
		p := r.refusal(r.do(post(s+"/messages", body)), 400, "invalid")
		if len(p.FieldErrors) != 1 || p.FieldErrors[0].Field != field {
			t.Errorf("%s: got %+v, want %s", body, p, field)
		}
	}
	for body, m := range map[string]perdure.Message{ // the reason is the root's, and names the field of the body
		`{"content":[{"type":"text","text":"a"}],"mode":"now"}`: {Mode: "now", Parts: perdure.Text("a").Parts},
		`{"content":[]}`: {},
		`{"content":[{"type":"image","image":{"media_type":"image/png","base64":"?"}}]}`: {Parts: []perdure.Part{{Type: perdure.PartImage, Image: &perdure.Image{MediaType: "image/png", Base64: "?"}}}},
	} {
		var reason *perdure.MessageError
		p := r.refusal(r.do(post(s+"/messages", body)), 400, "invalid")
		if !errors.As(m.CheckInput(), &reason) || len(p.FieldErrors) != 1 || p.FieldErrors[0].Message != reason.Text ||
			p.FieldErrors[0].Field != "/"+strings.Replace(reason.Field, "parts", "content", 1) || !strings.Contains(p.Detail, reason.Text) {
			t.Errorf("%s: got %+v, want %v", body, p, reason)
		}
	}
	if n := len(want[taskInList[shownMessage]](r, 200, get(s+"/messages")).Items); n != 0 {
		t.Errorf("%d messages came of refused ones", n)
	}

	id := "message_" + strings.Repeat("cd", 16)
	for range 2 {
		want[map[string]any](r, 202, post(s+"/messages", `{"content":[{"type":"text","text":"hi"}],"id":"`+id+`"}`))
	}
	r.refusal(r.do(post(s+"/messages", `{"content":[{"type":"text","text":"ho"}],"id":"`+id+`"}`)), 409, "conflict")
	r.rest(s)
	if n := len(want[taskInList[shownMessage]](r, 200, get(s+"/messages")).Items); n != 2 {
		t.Errorf("got %d messages, want one and its answer", n)
	}
}

// sessionReads is an engine that counts the reads of a session.
type sessionReads struct {
	engine.Engine
	n atomic.Int64
}

// sessionReadsSessions are its sessions.
type sessionReadsSessions struct {
	engine.Sessions
	n *atomic.Int64
}

func (e *sessionReads) Sessions() engine.Sessions {
	return sessionReadsSessions{e.Engine.Sessions(), &e.n}
}

func (e sessionReadsSessions) Get(ctx context.Context, id perdure.SessionID) (engine.Session, error) {
	e.n.Add(1)
	return e.Sessions.Get(ctx, id)
}

// TestSendMessageSeq: the answer names the event of the message, and of the first one if it is
// repeated. The session is not read for it.
func TestSendMessageSeq(t *testing.T) {
	t.Parallel()
	reads := &sessionReads{}
	r := newRig(t, func(c *api.Config) { reads.Engine, c.Engine = c.Engine, reads })
	s := r.session()
	body := `{"content":[{"type":"text","text":"hi"}],"id":"message_` + strings.Repeat("cd", 16) + `"}`
	for range 2 {
		before := reads.n.Load()
		sent := want[struct {
			MessageID perdure.MessageID `json:"message_id"`
			Seq       int64             `json:"seq"`
		}](r, 202, post(s+"/messages", body))
		if after := reads.n.Load(); after != before || sent.Seq != 2 || sent.MessageID != perdure.MessageID("message_"+strings.Repeat("cd", 16)) {
			t.Errorf("got %+v with %d reads of the session, want event 2 and none", sent, after-before)
		}
		r.rest(s)
	}
}

func TestInterrupt(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil)
	s := r.session()
	if got := r.do(post(s+"/interrupt", "")); got.status != 202 || strings.TrimSpace(string(got.body)) != "{}" {
		t.Errorf("at rest: got %d %s", got.status, got.body)
	}
	r.say(s, "charge")
	r.entered("charge")
	want[struct{}](r, 202, post(s+"/interrupt", `{"reason":"enough"}`))
	r.rest(s)

	page := want[eventPage](r, 200, get(s+"/events?types=turn.interrupt_requested"))
	if len(page.Items) != 1 || page.Items[0].Fact.(perdure.InterruptRequested).By != "api" {
		t.Errorf("got %s", raw(page))
	}
}

func TestPause(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil)
	s := r.session()
	r.say(s, "charge")
	r.entered("charge")

	now := want[engine.Session](r, 200, post(s+"/pause", `{"reason":"let me look"}`))
	if now.Status != perdure.SessionPaused || now.Paused == nil || now.Paused.By != "api" || now.Paused.Reason != "let me look" || now.Paused.At.IsZero() {
		t.Errorf("got %+v", now)
	}
	if again := want[engine.Session](r, 200, post(s+"/pause", "")); string(raw(again.Paused)) != string(raw(now.Paused)) || again.LastSeq < now.LastSeq {
		t.Errorf("paused again it is %+v, want the same", again)
	}
	page := want[eventPage](r, 200, get(s+"/events?types=session.paused"))
	if len(page.Items) != 1 {
		t.Errorf("got %s", raw(page))
	}
	want[struct{}](r, 202, post(s+"/interrupt", ""))
	r.rest(s)
	want[struct{}](r, 200, post(s+"/resume", ""))
	r.refusal(r.do(post(s+"/resume", "")), 409, "conflict")
	if then := want[engine.Session](r, 200, get(s)); then.Status != perdure.SessionIdle || then.Paused != nil {
		t.Errorf("after it: %+v", then)
	}
	r.refusal(r.do(post("/v1/sessions/nonsense/pause", "")), 404, "not_found")
}

// TestCalls also shows that no answer carries a fence.
func TestCalls(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil)
	s := r.session()
	r.say(s, "charge")
	r.entered("charge")
	r.restart()
	r.rest(s)

	got := r.do(get(s + "/calls"))
	calls := read[taskInList[perdure.Call]](t, got.body).Items
	if len(calls) != 1 || calls[0].State != perdure.CallUnknown || calls[0].Tool != "charge" {
		t.Fatalf("got %s", got.body)
	}
	for _, fence := range []string{"worker", "epoch", "token", "<secret>"} {
		if strings.Contains(strings.ToLower(string(got.body)), fence) {
			t.Errorf("the answer has %s: %s", fence, got.body)
		}
	}
	path := fmt.Sprintf("%s/calls/%s", s, calls[0].Key.Call)
	if one := want[perdure.Call](r, 200, get(path)); string(raw(one)) != string(raw(calls[0])) {
		t.Errorf("got %s", raw(one))
	}
	r.refusal(r.do(get(s+"/calls/other")), 404, "not_found")

	r.refusal(r.do(post(path+"/resolve", `{"outcome":"perhaps"}`)), 400, "invalid")
	r.refusal(r.do(post(path+"/resolve", "")), 400, "invalid")
	resolved := want[perdure.Call](r, 200, post(path+"/resolve", `{"outcome":"happened","result":{"charged":1},"note":"seen"}`))
	if resolved.State != perdure.CallSettled || resolved.ResolvedBy != "api" {
		t.Errorf("got %s", raw(resolved))
	}
	r.refusal(r.do(post(path+"/resolve", `{"outcome":"happened"}`)), 409, "conflict")
	r.refusal(r.do(post(s+"/calls/other/resolve", `{"outcome":"happened"}`)), 404, "not_found")
}

func TestTools(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil)
	tools := want[taskInList[engine.Tool]](r, 200, get("/v1/tools")).Items
	i := slices.IndexFunc(tools, func(t engine.Tool) bool { return t.Name == "echo" })
	if i < 0 || tools[i].Class != perdure.Pure || len(tools[i].Parameters) == 0 {
		t.Fatalf("got %s", raw(tools))
	}
	if one := want[engine.Tool](r, 200, get("/v1/tools/echo")); string(raw(one)) != string(raw(tools[i])) {
		t.Errorf("got %s", raw(one))
	}
	r.refusal(r.do(get("/v1/tools/none")), 404, "not_found")

	said := want[perdure.ToolResult](r, 200, post("/v1/tools/echo/call", `{"args":{"text":"a"}}`))
	if string(said.Result) != `{"text":"a"}` {
		t.Errorf("got %s", raw(said))
	}
	for _, q := range []ask{post("/v1/tools/fail/call", `{"args":{}}`), post("/v1/tools/echo/call", `{"args":{"txt":1}}`)} {
		if result := want[perdure.ToolResult](r, 200, q); !result.IsError() {
			t.Errorf("%s: got %s", q.path, raw(result))
		}
	}
	r.refusal(r.do(post("/v1/tools/charge/call", `{"args":{}}`)), 400, "invalid")
	r.refusal(r.do(post("/v1/tools/none/call", `{"args":{}}`)), 404, "not_found")
	r.refusal(r.do(post("/v1/tools/echo/call", `{}`)), 400, "invalid")
}

func TestHealth(t *testing.T) {
	t.Parallel()
	ok := true
	r := newRig(t, func(c *api.Config) {
		c.Ready = func(context.Context) []api.Check { return []api.Check{{Name: "store", OK: ok}} }
	})
	bare := func(path string) reply {
		q := get(path)
		q.header = map[string]string{"Authorization": ""}
		return r.do(q)
	}
	if got := bare("/healthz"); got.status != 200 || strings.TrimSpace(string(got.body)) != `{"status":"ok"}` {
		t.Errorf("got %d %s", got.status, got.body)
	}
	if got := bare("/readyz"); got.status != 200 || strings.TrimSpace(string(got.body)) != `{"status":"ok","checks":[{"name":"store","ok":true,"detail":""}]}` {
		t.Errorf("got %d %s", got.status, got.body)
	}
	ok = false
	if got := bare("/readyz"); got.status != 503 || !strings.Contains(string(got.body), `"failed"`) {
		t.Errorf("got %d %s", got.status, got.body)
	}
	if got := bare("/openapi.json"); got.status != 200 || !json.Valid(got.body) {
		t.Errorf("got %d", got.status)
	}
	r.api.Drain()
	if got := bare("/readyz"); got.status != 503 || !strings.Contains(string(got.body), `"draining"`) {
		t.Errorf("got %d %s", got.status, got.body)
	}
	if got := bare("/healthz"); got.status != http.StatusOK {
		t.Errorf("got %d", got.status)
	}
}

// TestSessionCosts: a list has the costs of its sessions. A single session has none, so that its
// ETag does not change without an event.
func TestSessionCosts(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil)
	first, second := r.session(), r.session()
	r.say(first, "hello")
	want[engine.Session](r, 200, get(first+"?wait=20s"))
	cost := func(query string) (all []engine.Session) {
		return want[taskInList[engine.Session]](r, 200, get("/v1/sessions?"+query)).Items
	}
	all := cost("limit=5")
	if len(all) != 2 || all[0].Cost == nil || all[1].Cost == nil || all[1].Cost.Unpriced != 1 || all[0].Cost.Unpriced != 0 {
		t.Errorf("got %+v", all)
	}
	one := cost("id=" + string(sessionID(second)) + "&id=session_" + strings.Repeat("99", 16))
	if len(one) != 1 || one[0].ID != sessionID(second) {
		t.Errorf("got %+v", one)
	}
	if both := cost("id=" + string(sessionID(second)) + "&id=" + string(sessionID(first)) + "&limit=1"); len(both) != 1 || both[0].ID != sessionID(second) {
		t.Errorf("got %+v", both)
	}
	if got := want[engine.Session](r, 200, get(first)); got.Cost != nil {
		t.Errorf("got %+v", got.Cost)
	}
	for _, costs := range []bool{false, true} { // counts and checks list sessions, and read no journal
		if got, err := r.eng.Sessions().ListWhere(t.Context(), engine.SessionFilter{Limit: 1, Costs: costs}); err != nil || len(got) != 1 || (got[0].Cost != nil) != costs {
			t.Errorf("with costs %t: got %+v, %v", costs, got, err)
		}
	}
}

package api_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/engine"
)

// sentToTask is the answer to a message to a task.
type sentToTask struct {
	ID perdure.TaskMessageID `json:"message_id"`
}

type canceled struct {
	Canceled int `json:"canceled"`
}

// questioned is a task that waits for an answer.
type questioned struct {
	session string // its path
	id      perdure.TaskID
	request string
}

func (q questioned) path() string { return "/v1/tasks/" + string(q.id) }

// asking makes a session with a task of a tool that asks.
func (r *rig) asking(name string) questioned {
	r.t.Helper()
	s := r.session()
	r.say(s, "spawn "+name)
	q := questioned{session: s, id: r.seen(s, "task.created").Task}
	task := want[perdure.Task](r, 200, get(q.path()+"?wait=20s"))
	if task.State != perdure.TaskAwaitingInput || task.InputRequest == nil {
		r.t.Fatalf("got %+v", task)
	}
	q.request = string(task.InputRequest.ID)
	return q
}

func TestTaskInput(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ tool, answer, text, data string }{
		{"asking", `"the first"`, "the first", ""},
		{"asking", ` {"n" : 1}`, "", `{"n":1}`},
		{"asking", `null`, "", `null`},
		{"counting", `3`, "", `3`},
		{"counting", `"three"`, "three", `"three"`},
	} {
		t.Run(c.tool+c.answer, func(t *testing.T) {
			t.Parallel()
			r := newRig(t, nil)
			q := r.asking(c.tool)
			body := fmt.Sprintf(`{"id":%q,"answer":%s}`, q.request, c.answer)
			if n := want[engine.Session](r, 200, get(q.session)).NeedsYou; n != 1 {
				t.Errorf("needs_you is %d", n)
			}
			for _, wrong := range []string{`{}`, `{"answer":1}`, `{"id":"` + q.request + `"}`, ``} {
				r.refusal(r.do(post(q.path()+"/input", wrong)), 400, "invalid")
			}
			if p := r.refusal(r.do(post(q.path()+"/input", `{"id":"req_`+strings.Repeat("99", 16)+`","answer":1}`)), 409, "conflict"); !strings.Contains(p.Detail, "already answered") {
				t.Errorf("got %s", p.Detail)
			}
			if c.tool == "counting" {
				// and still asks
				r.refusal(r.do(post(q.path()+"/input", `{"id":"`+q.request+`","answer":[]}`)), 400, "invalid")
			}

			sent := want[sentToTask](r, 200, post(q.path()+"/input", body))
			if task := want[perdure.Task](r, 200, get(q.path()+"?wait=20s")); task.State != perdure.TaskSucceeded {
				t.Fatalf("got %+v", task)
			}

			items := want[taskInList[perdure.TaskMessage]](r, 200, get(q.path()+"/messages")).Items
			m := items[len(items)-1]
			if m.ID != sent.ID || m.Text != c.text || string(m.Data) != c.data || m.By != "api" || string(m.InReplyTo) != q.request || m.Direction != perdure.Inbound {
				t.Errorf("got %+v", m)
			}
			r.refusal(r.do(post(q.path()+"/input", body)), 409, "conflict")
			if n := want[engine.Session](r, 200, get(q.session)).NeedsYou; n != 0 {
				t.Errorf("needs_you is %d", n)
			}
			r.refusal(r.do(post("/v1/tasks/none/input", body)), 404, "not_found")
		})
	}
}

func TestTaskMessages(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil)
	q := r.asking("asking")
	path := q.path() + "/messages"
	own := perdure.TaskMessageID("tmsg_019aa0000000700080000000000000aa")

	var sent []perdure.TaskMessageID
	for i := range 5 {
		sent = append(sent, want[sentToTask](r, 200, post(path, fmt.Sprintf(`{"text":"no. %d","data":{"n":%d}}`, i, i))).ID)
	}
	for range 2 { // one message
		if got := want[sentToTask](r, 200, post(path, `{"data":[],"id":"`+string(own)+`"}`)).ID; got != own {
			t.Errorf("got %s", got)
		}
	}
	sent = append(sent, own)
	var read []perdure.TaskMessageID
	for after := ""; ; {
		page := want[taskInList[perdure.TaskMessage]](r, 200, get(path+"?limit=2&after="+after))
		for _, m := range page.Items {
			if m.Direction == perdure.Inbound {
				read = append(read, m.ID)
			}
		}
		if after = page.Next; after == "" {
			break
		}
	}
	if fmt.Sprint(read) != fmt.Sprint(sent) {
		t.Errorf("got %v, want %v", read, sent)
	}

	for _, wrong := range []string{`{}`, `{"text":""}`, `{"text":1}`, `{"text":"a","by":"me"}`, `{"text":"a","id":"none"}`, ``} {
		r.refusal(r.do(post(path, wrong)), 400, "invalid")
	}
	for _, query := range []string{"after=none", "limit=0", "limit=201", "cursor=a"} {
		r.refusal(r.do(get(path+"?"+query)), 400, "invalid")
	}
	r.refusal(r.do(get("/v1/tasks/none/messages")), 404, "not_found")
	r.refusal(r.do(post("/v1/tasks/none/messages", `{"text":"a"}`)), 404, "not_found")
	want[sentToTask](r, 200, post(path, `{"text":"a","in_reply_to":"`+q.request+`"}`)) // an answer, too
	want[perdure.Task](r, 200, get(q.path()+"?wait=20s"))
	r.refusal(r.do(post(path, `{"text":"late"}`)), 409, "conflict")
}

func TestTaskDelivery(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil)
	q := r.asking("asking")
	path, drain := q.path()+"/delivery", q.session+"/tasks/drain"

	if task := want[perdure.Task](r, 200, post(path, `{"wake":"notify"}`)); task.Wake != perdure.WakeNotify || task.Delivery != perdure.ToLoop || task.Worker != "" {
		t.Errorf("got %+v", task)
	}
	if task := want[perdure.Task](r, 200, post(path, `{"delivery":"manual"}`)); task.Wake != perdure.WakeNotify || task.Delivery != perdure.Manual {
		t.Errorf("got %+v", task)
	}
	for _, wrong := range []string{`{"delivery":"post"}`, `{"wake":"loudly"}`, `{"deliver":"manual"}`, ``} {
		r.refusal(r.do(post(path, wrong)), 400, "invalid")
	}
	r.refusal(r.do(post("/v1/tasks/none/delivery", `{"wake":"none"}`)), 404, "not_found")
	if items := want[taskInList[perdure.Task]](r, 200, post(drain, "")).Items; len(items) != 0 {
		t.Errorf("drained %+v", items)
	}
	want[sentToTask](r, 200, post(q.path()+"/input", `{"id":"`+q.request+`","answer":"a"}`))
	want[perdure.Task](r, 200, get(q.path()+"?wait=20s"))
	r.refusal(r.do(post(path, `{"delivery":"to_loop"}`)), 409, "conflict")

	r.keys.hear(false)
	for _, when := range []string{"first", "again, since the answer was lost"} {
		items := want[taskInList[perdure.Task]](r, 200, keyed(post(drain, ""), "k")).Items
		if len(items) != 1 || items[0].ID != q.id || items[0].Delivered != perdure.DeliveredDrained || items[0].Worker != "" {
			t.Errorf("%s: got %+v", when, items)
		}
	}
	for range 2 { // each exactly once, and a message taken before is not delivered to another request
		if items := want[taskInList[perdure.Task]](r, 200, keyed(post(drain, ""), "l")).Items; len(items) != 0 {
			t.Errorf("drained %+v", items)
		}
	}
	r.refusal(r.do(post("/v1/sessions/none/tasks/drain", "")), 404, "not_found")
	r.refusal(r.do(post(drain, `{"session":"a"}`)), 400, "invalid")
}

func TestTasksCancel(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil)
	q, other := r.asking("asking"), r.asking("asking")
	r.say(q.session, "spawn asking")
	r.seenNth(q.session, "task.created", 2)
	path := q.session + "/tasks/cancel"
	r.keys.hear(false)

	tasks := want[taskInList[perdure.Task]](r, 200, get("/v1/tasks?session="+string(sessionID(q.session)))).Items
	for range 2 { // the answer of the first was lost
		if got := want[canceled](r, 202, keyed(post(path, `{"reason":"enough"}`), "k")); got.Canceled != len(tasks) {
			t.Errorf("got %d, want %d", got.Canceled, len(tasks))
		}
	}
	if got := want[canceled](r, 202, post(path, "")); got.Canceled != 0 {
		t.Errorf("got %d more", got.Canceled)
	}
	task := want[perdure.Task](r, 200, get(q.path()+"?wait=20s"))
	if task.State != perdure.TaskCanceled || task.CancelBy != "api" || task.CancelWhy != "enough" {
		t.Errorf("got %+v", task)
	}
	if task := want[perdure.Task](r, 200, get(other.path())); task.State != perdure.TaskAwaitingInput {
		t.Errorf("the task of another session is %s", task.State)
	}
	r.refusal(r.do(post("/v1/sessions/none/tasks/cancel", "")), 404, "not_found")
	r.refusal(r.do(post(path, `{"why":"a"}`)), 400, "invalid")
}

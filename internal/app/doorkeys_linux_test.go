//go:build soak

package app

import (
	"fmt"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/engine"
	"github.com/perdure/perdure/internal/soak"
)

// keyed is one POST of a caller, with its response.
type keyed struct {
	post
	kind   string // session, message or cancel
	text   string // of a message
	status int    // expected status
	answer reply
}

// keyedCaller sends requests of all kinds with keys, in batches, and repeats each of them.
type keyedCaller struct {
	d       *doorway
	name    string
	agent   string            // body of a new session
	session perdure.SessionID // session of its next message
	task    perdure.TaskID    // task to cancel
	done    []keyed           // all requests
	began   *atomic.Int64     // started requests of all callers
	lost    *atomic.Int64     // attempts without a response
	replays *atomic.Int64     // second responses that were replayed
	kill    chan<- struct{}   // asks for a kill; full: one is already pending
	each    int64             // number of requests between two kills
}

// send sends a request until it is answered.
func (c *keyedCaller) send(p post) reply {
	if c.began.Add(1)%c.each == 0 {
		select {
		case c.kill <- struct{}{}:
		default:
		}
	}
	r, lost := c.d.insist(p)
	c.lost.Add(int64(lost))
	return r
}

// batch sends n requests, then repeats each, then some of them with another body.
func (c *keyedCaller) batch(n int) {
	t, first := c.d.t, len(c.done)
	for i := range n {
		k := keyed{kind: "message", status: http.StatusAccepted}
		k.key = fmt.Sprintf("%s-%d", c.name, len(c.done))
		switch {
		case i%5 == 0:
			k.kind, k.path, k.body, k.status = "session", "/v1/sessions", c.agent, http.StatusCreated
		case i%5 == 4:
			k.kind, k.path, k.body = "cancel", "/v1/tasks/"+string(c.task)+"/cancel", `{"reason":"`+c.name+`"}`
		default:
			k.text = k.key
			k.post = say(c.session, k.key, k.text)
		}
		if k.answer = c.send(k.post); k.answer.status != k.status {
			t.Errorf("%s %s: %d %s", k.kind, k.key, k.answer.status, k.answer.body)
			return
		}
		if k.kind == "session" {
			var s engine.Session
			k.answer.into(t, &s)
			c.session = s.ID
		}
		c.done = append(c.done, k)
	}
	for i, k := range c.done[first:] {
		again := c.send(k.post)
		if !again.same(k.answer) {
			t.Errorf("%s %s: %+v, then %+v", k.kind, k.key, k.answer, again)
		}
		if again.replayed {
			c.replays.Add(1)
		}
		if i%7 == 0 {
			other := k.post
			other.body = strings.Replace(other.body, "{", "{ ", 1)
			if r := c.send(other); r.status != http.StatusUnprocessableEntity || !strings.Contains(r.body, `"key_reused"`) {
				t.Errorf("%s %s with another body: %d %s", k.kind, k.key, r.status, r.body)
			}
		}
	}
}

// TestR15KeysSurviveKills sends requests with idempotency keys, each twice, while the server is
// killed repeatedly: many first responses are lost. Each request has one effect and one response.
func TestR15KeysSurviveKills(t *testing.T) {
	t.Parallel()
	const callers, batch = 8, 25
	kills := soak.Count(t, "PERDURE_KEY_KILLS", 10, 100)
	batches := kills
	d := newDoorway(t, nil)
	d.start()
	model := d.script(`
rules:
  - when: {user_contains: begin, not_called: spawn_background}
    calls: [{name: spawn_background, args: {tool: bash, args: {command: sleep 600}}}]
steps:
  - text: well
    repeat: true
`)
	var began, lost, replays atomic.Int64
	asked := make(chan struct{}, 1) // one pending kill is enough
	all := make([]*keyedCaller, callers)
	for i := range all {
		name := fmt.Sprintf("caller-%d", i)
		id := d.begin(model, name)
		d.insist(say(id, name+"-begin", "begin"))
		all[i] = &keyedCaller{
			d: d, name: name, agent: fmt.Sprintf(`{"agent":{"model":%q}}`, model), session: id, task: d.taskOf(id),
			began: &began, lost: &lost, replays: &replays, kill: asked, each: int64(2 * callers * batch * batches / kills),
		}
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		concurrently(callers, func(i int) {
			for range batches {
				all[i].batch(batch)
			}
		})
	}()
	killed := d.killOn(asked, done)

	sent, sessions := 0, callers
	received, canceled := d.effects()
	for _, c := range all {
		sent += len(c.done)
		for _, k := range c.done {
			switch k.kind {
			case "session":
				sessions++
			case "message":
				var answer struct {
					ID perdure.MessageID `json:"message_id"`
				}
				k.answer.into(t, &answer)
				if ids := received[k.text]; len(ids) != 1 || ids[0] != answer.ID {
					t.Errorf("message %s was received as %v, answered as %s", k.text, ids, answer.ID)
				}
			case "cancel":
				if canceled[c.task] != 1 {
					t.Errorf("%s: %d wishes to cancel it", c.task, canceled[c.task])
				}
			}
		}
	}
	if got := len(d.sessions()); got != sessions {
		t.Errorf("%d sessions, want %d", got, sessions)
	}
	if sent != callers*batch*batches || killed < kills || lost.Load() == 0 || replays.Load() != int64(sent) {
		t.Errorf("%d requests, %d kills, %d answers lost, %d replays: not what was meant", sent, killed, lost.Load(), replays.Load())
	}
	t.Logf("%d requests, each twice; %d kills, %d answers lost on their way, %d sessions", sent, killed, lost.Load(), sessions)
}

// killOn kills the server on request until done, and returns the number of kills.
func (d *doorway) killOn(asked, done <-chan struct{}) (killed int) {
	for {
		select {
		case <-asked:
			d.kill()
			d.start()
			killed++
		case <-done:
			return killed
		}
	}
}

// sessions lists all sessions.
func (d *doorway) sessions() (all []engine.Session) {
	for next := ""; ; {
		var page struct {
			Items []engine.Session `json:"items"`
			Next  string           `json:"next"`
		}
		d.get("/v1/sessions?limit=200"+next).into(d.t, &page)
		all = append(all, page.Items...)
		if page.Next == "" {
			return all
		}
		next = "&cursor=" + page.Next
	}
}

// effects reads all journals: the messages by text, and how often each task was canceled.
func (d *doorway) effects() (received map[string][]perdure.MessageID, canceled map[perdure.TaskID]int) {
	received, canceled = map[string][]perdure.MessageID{}, map[perdure.TaskID]int{}
	for _, s := range d.sessions() {
		for _, e := range d.events(s.ID) {
			switch f := e.Fact.(type) {
			case perdure.MessageReceived:
				text := f.Message.Parts[0].Text
				received[text] = append(received[text], f.Message.ID)
			case perdure.TaskCancelRequested:
				canceled[e.Task]++
			}
		}
	}
	return received, canceled
}

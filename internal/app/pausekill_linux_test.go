//go:build soak

package app

import (
	"fmt"
	"net/http"
	"slices"
	"testing"
	"time"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/engine"
	"github.com/perdure/perdure/internal/soak"
)

// begins are the events that start work which a pause prevents. Planned calls are a fact of the
// model's response.
var begins = []perdure.EventType{"turn.started", "reason.started", "tool.started", "task.delivered"}

// heldBack checks that a journal has no new work between each pause and its end, and returns the
// number of pauses, and how often a turn continued after one.
func heldBack(t *testing.T, journal []perdure.Event) (paused, goneOn int) {
	t.Helper()
	var since int64 // the current pause; 0: none
	turn := false   // a turn is open
	for _, e := range journal {
		switch e.Type() {
		case "session.paused":
			since, paused = e.Seq, paused+1
		case "session.resumed":
			if since > 0 && turn {
				goneOn++
			}
			since = 0
		case "turn.started":
			turn = true
		case "turn.completed", "turn.failed", "turn.canceled", "turn.sealed":
			turn = false
		}
		if since > 0 && slices.Contains(begins, e.Type()) {
			t.Errorf("event %d: %s, though it is paused since event %d", e.Seq, e.Type(), since)
		}
	}
	return paused, goneOn
}

// whole checks that every message was received once, and every turn completed.
func whole(t *testing.T, journal []perdure.Event, messages int) {
	t.Helper()
	received, open := 0, 0
	for _, e := range journal {
		switch e.Type() {
		case "message.received":
			received++
		case "turn.started":
			open++
		case "turn.completed":
			open--
		case "turn.failed", "turn.canceled", "turn.sealed", "tool.unknown":
			t.Errorf("event %d: %s %+v", e.Seq, e.Type(), e.Fact)
		}
	}
	if received != messages || open != 0 {
		t.Errorf("%d messages came, want %d; %d turns were not completed", received, messages, open)
	}
}

// cameToEnd is whether a model call was completed. The kills wait for one between a resume and the
// next pause: a step that is interrupted as often as a model is called fails, as it should (TN21),
// and on a slow machine none would be completed otherwise.
func cameToEnd(journal []perdure.Event) bool {
	return slices.ContainsFunc(journal, func(e perdure.Event) bool {
		fact, ok := e.Fact.(perdure.ReasonCompleted)
		return ok && fact.Success
	})
}

// TestPauseSurvivesKills repeatedly pauses and resumes a working session, and kills the server
// during each request and after it. An acknowledged pause also holds for the next server; a request
// with a lost response is repeated. Nothing starts during a pause, and in the end every message was
// received once, and every turn completed. PERDURE_PAUSE_KILLS is the number of pauses.
func TestPauseSurvivesKills(t *testing.T) {
	t.Parallel()
	pauses := soak.Count(t, "PERDURE_PAUSE_KILLS", 6, 100)
	d := newDoorway(t, nil)
	d.start()
	id := d.begin(d.script(`
rules:
  - when: {last_role: tool_result}
    text: 'answer to {{user}}'
    delay: 20ms
steps:
  - calls:
      - {name: add, args: {a: 1, b: 2}}
      - {name: echo, args: {message: hello}}
    delay: 10ms
    repeat: true
`), "begin")
	path := "/v1/sessions/" + string(id)
	messages := 3 * pauses
	said := d.chatter(id, messages)
	lost := 0
	word := func(i int, verb string) {
		t.Helper()
		late := make(chan struct{})
		if i%2 == 0 { // it dies during the request, otherwise after it
			go func() {
				defer close(late)
				d.pause(0, 12*time.Millisecond)
				d.kill()
				d.start()
			}()
		} else {
			close(late)
		}
		r, n := d.insist(post{path + "/" + verb, fmt.Sprintf("%s-%d", verb, i), "{}"})
		if r.status != http.StatusOK && r.status != http.StatusAccepted && r.status != http.StatusNoContent {
			t.Fatalf("%s %d: %d %s", verb, i, r.status, r.body)
		}
		lost += n
		<-late
		if i%2 == 1 {
			d.kill()
			d.start()
		}
	}
	for i := range pauses {
		d.pause(0, 60*time.Millisecond)
		word(i, "pause")
		d.pause(0, 60*time.Millisecond)
		var now engine.Session
		if d.get(path).into(t, &now); now.Status != perdure.SessionPaused {
			t.Errorf("pause %d: it is %s", i, now.Status)
		}
		since := len(d.events(id))
		word(i+1, "resume")
		d.until("a step of the model is heard to its end, or there is none", func() bool {
			d.get(path).into(t, &now)
			return now.Status == perdure.SessionIdle || cameToEnd(d.events(id)[since:])
		})
	}
	<-said
	d.rest(id)
	journal := d.events(id)
	paused, goneOn := heldBack(t, journal)
	if paused != pauses || goneOn == 0 {
		t.Errorf("it was paused %d times, want %d; a turn went on after %d of them", paused, pauses, goneOn)
	}
	whole(t, journal, messages)
	t.Logf("%d pauses and %d kills; a turn went on after %d; %d answers were lost; %d events", paused, 2*pauses, goneOn, lost, len(journal))
}

package app

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/internal/pgtest"
)

// Flags of servers: a lease that does not expire during a test, and that either server reaches the
// workspaces of the other one.
const (
	longLease   = "--limits.lease=1h"
	sharedFiles = "--shared-files"
)

// seenAfter is when a server has seen the other one connected: it looks twice a second.
const seenAfter = 3 * time.Second

// answers starts a session at the first server, whose model answers slowly, and starts the second
// server once the answer has begun.
func (w shared) answers(pieces int) perdure.SessionID {
	w.one.t.Helper()
	id := w.one.begin(w.one.script(fmt.Sprintf("prefix: true\nsteps:\n  - text: %q\n    chunk: 10\n    pace: 100ms\n",
		strings.Repeat("ten bytes ", pieces))), "new")
	w.one.insist(say(id, "go", "go"))
	w.one.until("the answer", func() bool { return countOf[perdure.OutputStarted](w.one.events(id)) > 0 })
	w.two.start()
	return id
}

func countOf[F perdure.Fact](events []perdure.Event) (n int) {
	for _, e := range events {
		if _, is := e.Fact.(F); is {
			n++
		}
	}
	return n
}

// TestEndedServer: the server that drives a session is killed, and another one continues the answer
// although the lease has not expired (RC31).
func TestEndedServer(t *testing.T) {
	t.Parallel()
	w := newShared(t, "", longLease, sharedFiles)
	id := w.answers(120)
	w.two.pause(seenAfter, seenAfter)

	w.one.kill()

	w.two.until("the end of the turn", func() bool { return countOf[perdure.TurnCompleted](w.two.events(id)) == 1 })
	if n := countOf[perdure.ReasonRecovered](w.two.events(id)); n != 1 {
		t.Errorf("%d recoveries, want 1", n)
	}
}

// TestDisconnectedServer: the database ends all connections of the server that drives a session,
// again and again. The server connects again, and no other one takes over its work (RC31).
func TestDisconnectedServer(t *testing.T) {
	t.Parallel()
	w := newShared(t, "", longLease, sharedFiles)
	id := w.answers(100)

	w.two.until("the end of the turn", func() bool {
		if err := pgtest.Shared(t).KillBackendsOf(t.Context(), w.role); err != nil {
			t.Fatal(err)
		}
		w.one.pause(200*time.Millisecond, 300*time.Millisecond)
		return countOf[perdure.TurnCompleted](w.one.events(id)) == 1
	})

	if n := countOf[perdure.ReasonRecovered](w.two.events(id)); n != 0 {
		t.Errorf("%d recoveries, want none", n)
	}
}

// watched is a stream of a session's events from a server.
type watched struct {
	mu   sync.Mutex
	text bytes.Buffer // guarded by mu
	done chan error   // capacity 1: the result
}

func (w *watched) Write(text []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.text.Write(text)
}

func (w *watched) count(word string) int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return strings.Count(w.text.String(), word)
}

// watch opens a stream at a server with a token, and reads it in the background.
func (d *doorway) watch(id perdure.SessionID, secret string) *watched {
	d.t.Helper()
	ctx, stop := context.WithCancel(d.t.Context())
	d.t.Cleanup(stop)
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, d.url+"/v1/sessions/"+string(id)+"/events", nil)
	if err != nil {
		panic(err) // the paths of a test are valid
	}
	req.Header.Set("Accept", "text/event-stream")
	req.Header.Set("Authorization", "Bearer "+secret)
	resp, err := (&http.Client{Transport: d.http.Transport}).Do(req)
	if err != nil {
		d.t.Fatal(err)
	}
	if resp.StatusCode != http.StatusOK {
		d.t.Fatalf("a stream for the token: %d", resp.StatusCode)
	}
	w := &watched{done: make(chan error, 1)}
	go func() {
		_, err := io.Copy(w, resp.Body)
		_ = resp.Body.Close()
		w.done <- err
	}()
	return w
}

// TestTextAtAnotherServer: the text of an answer that one server streams is shown at the other
// while it grows (EV11).
func TestTextAtAnotherServer(t *testing.T) {
	t.Parallel()
	w := newShared(t, "")
	id := w.one.begin(w.one.script(fmt.Sprintf(`
steps:
  - text: %q
    chunk: 1
    pace: 50ms
`, strings.Repeat("long answer ", 500))), "begin")
	w.two.start()
	stream := w.two.watch(id, w.two.token)

	w.one.insist(say(id, "ask", "go"))

	w.two.until("the other server shows text", func() bool { return stream.count("event: output.message.delta") >= 5 })
	if stream.count("event: output.message.completed") > 0 {
		t.Error("the answer was complete before five pieces of it were shown")
	}
}

// TestOneServerWorks sends messages to both of two servers. The one that leads does the work of
// both, and begins with that of the other one without waiting for a heartbeat (RC12).
func TestOneServerWorks(t *testing.T) {
	t.Parallel()
	w := newShared(t, "", longLease, "--limits.beat=20m", sharedFiles)
	model := w.one.script(`
rules:
  - when: {not_called: spawn_background}
    calls: [{name: spawn_background, args: {tool: bash, args: {command: "true"}}}]
steps: [{text: done, repeat: true}]
`)
	worked := func(d *doorway, key string) perdure.WorkerID {
		t.Helper()
		id := d.begin(model, key)
		d.insist(say(id, "go", "go"))
		var task perdure.Task
		d.until("the end of the task", func() bool {
			for _, e := range d.events(id) {
				if made, is := e.Fact.(perdure.TaskCreated); is {
					task = d.task(made.Task.ID)
				}
			}
			return task.State.Terminal()
		})
		return task.Worker
	}
	leader := worked(w.one, "one")
	w.two.start()

	if got := worked(w.two, "two"); got != leader {
		t.Errorf("%s did the work of the second server, want the leader %s", got, leader)
	}
}

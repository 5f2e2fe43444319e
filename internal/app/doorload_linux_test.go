//go:build soak

package app

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/internal/soak"
)

// visitor is a client that starts sessions, sends a message, and waits for the answer.
type visitor struct {
	d       *doorway
	name    string
	model   string
	later   *atomic.Int64 // responses of all visitors with Retry-After
	heard   chan<- struct{}
	mu      sync.Mutex
	spoken  map[string]perdure.SessionID // guarded by mu; sent messages and their sessions
	current perdure.SessionID            // only touched by the visitor
}

// ask sends a POST like a good client: once, and again when the server says so. Any other failure
// is an error.
func (v *visitor) ask(p post, want int) reply {
	t := v.d.t
	for began := time.Now(); time.Since(began) < waitTime; {
		r, err := v.d.do(v.d.request(p)) // the transport repeats requests that a closed connection has not started
		if err != nil {
			t.Errorf("%s: POST %s: %v", v.name, p.path, err)
			return r
		}
		if r.status == want {
			return r
		}
		seconds, err := strconv.Atoi(r.retry)
		if r.status != http.StatusServiceUnavailable || err != nil {
			t.Errorf("%s: POST %s: %d %s, Retry-After %q", v.name, p.path, r.status, r.body, r.retry)
			return r
		}
		v.later.Add(1)
		v.d.pause(time.Duration(seconds)*time.Second, time.Duration(seconds)*time.Second)
	}
	t.Errorf("%s: POST %s: it is always too early", v.name, p.path)
	return reply{}
}

// visit sends one message and waits for the answer.
func (v *visitor) visit(i int) {
	if i%3 == 0 {
		agent := fmt.Sprintf(`{"agent":{"model":%q,"capabilities":["bashkit_shell"],"metadata":{"workspace":%q}}}`, v.model, v.d.work)
		r := v.ask(post{"/v1/sessions", fmt.Sprintf("%s-%d", v.name, i), agent}, http.StatusCreated)
		v.current = perdure.SessionID(strings.TrimPrefix(r.location, "/v1/sessions/"))
	}
	text := fmt.Sprintf("%s-says-%d", v.name, i)
	v.ask(say(v.current, text, text), http.StatusAccepted)
	v.mu.Lock()
	v.spoken[text] = v.current
	v.mu.Unlock()
	v.d.rest(v.current)
	select {
	case v.heard <- struct{}{}:
	default:
	}
}

// TestR03RestartsUnderLoad repeatedly stops the server and starts another one, while clients start
// sessions and send messages to an agent with a slow tool. No client is rejected, nothing is done
// twice, nothing is in doubt.
func TestR03RestartsUnderLoad(t *testing.T) {
	t.Parallel()
	const visitors = 8
	restarts := soak.Count(t, "PERDURE_RESTARTS", 20, 200)
	d := newDoorway(t, nil)
	model := d.script(`
rules:
  - when: {last_role: user}
    calls: [{name: bash, args: '{"command": {{json (printf "echo %s >> done; sleep 0.1" user)}}}'}]
  - when: {last_role: tool_result}
    text: 'answer to {{user}}'
`)
	d.start()
	var later atomic.Int64
	heard := make(chan struct{}, 1) // one signal is enough for several answers
	stop := make(chan struct{})
	all := make([]*visitor, visitors)
	for i := range all {
		all[i] = &visitor{d: d, name: fmt.Sprintf("visitor-%d", i), model: model, later: &later, heard: heard, spoken: map[string]perdure.SessionID{}}
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		concurrently(visitors, func(i int) {
			for n := 0; ; n++ {
				select {
				case <-stop:
					return
				default:
					all[i].visit(n)
				}
			}
		})
	}()
	for n := range restarts {
		select {
		case <-heard: // there is load
		case <-time.After(waitTime):
			t.Errorf("nobody heard an answer within %s", waitTime)
		}
		d.pause(0, 200*time.Millisecond)
		if n == 0 {
			d.stopBefore(t)
		} else {
			d.stop()
		}
		d.start()
	}
	close(stop)
	<-done

	if n := d.broken.Load(); n != 0 {
		t.Errorf("%d reads had no whole answer", n)
	}
	said := 0
	for _, v := range all {
		said += len(v.spoken)
		d.answered(v)
	}
	effects, err := os.ReadFile(filepath.Join(d.work, "done"))
	if lines := strings.Count(string(effects), "\n"); err != nil || lines != said {
		t.Errorf("the tool had its effect %d times (%v), want %d", lines, err, said)
	}
	if said < restarts { // other clients meet a stopping server only by chance
		t.Errorf("%d messages in %d restarts: that is no load", said, restarts)
	}
	t.Logf("%d restarts, %d clients, %d messages, %d answers of `later`", restarts, visitors, said, later.Load())
}

// stopBefore stops the server during an incomplete request: its client is told to retry later.
func (d *doorway) stopBefore(t *testing.T) {
	t.Helper()
	conn, err := net.Dial("tcp", strings.TrimPrefix(d.url, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if err := conn.SetDeadline(time.Now().Add(waitTime)); err != nil {
		t.Fatal(err)
	}
	fmt.Fprintf(conn, "POST /v1/sessions HTTP/1.1\r\nHost: door\r\nAuthorization: Bearer %s\r\nContent-Type: application/json\r\nContent-Length: 12\r\n", d.token)
	stream, err := http.NewRequestWithContext(t.Context(), http.MethodGet, d.url+"/v1/events?topics=tasks", http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	stream.Header.Set("Authorization", "Bearer "+d.token)
	stream.Header.Set("Accept", "text/event-stream")
	// this connection was accepted after conn, so conn is served, too
	followed, err := (&http.Client{Transport: &http.Transport{}}).Do(stream)
	if err != nil {
		t.Fatal(err)
	}
	left := make(chan struct{})
	go func() {
		defer close(left)
		d.stop()
	}()
	_, _ = io.Copy(io.Discard, followed.Body) // it ends when the server begins to stop
	_ = followed.Body.Close()

	fmt.Fprint(conn, "\r\n{\"agent\":{}}")
	said, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil {
		t.Fatal(err)
	}
	_ = said.Body.Close()
	if said.StatusCode != http.StatusServiceUnavailable || said.Header.Get("Retry-After") == "" {
		t.Errorf("who speaks to a server that leaves: %s, Retry-After %q", said.Status, said.Header.Get("Retry-After"))
	}
	<-left
}

// answered checks that each message of a visitor has one call and one answer, and that nothing is
// in doubt.
func (d *doorway) answered(v *visitor) {
	answers, calls := map[string]int{}, map[perdure.CallState]int{}
	sessions := map[perdure.SessionID]bool{}
	for _, id := range v.spoken {
		sessions[id] = true
	}
	for id := range sessions {
		for _, e := range d.events(id) {
			if f, ok := e.Fact.(perdure.OutputCompleted); ok && len(f.Message.Parts) > 0 && f.Message.Parts[0].Text != "" {
				answers[f.Message.Parts[0].Text]++
			}
		}
		var page struct {
			Items []perdure.Call `json:"items"`
		}
		d.get("/v1/sessions/"+string(id)+"/calls").into(d.t, &page)
		for _, c := range page.Items {
			calls[c.State]++ // a call that a stop prevented is started again: the effects count, not Executions
		}
	}
	for text := range v.spoken {
		if answers["answer to "+text] != 1 {
			d.t.Errorf("%s: answered %d times", text, answers["answer to "+text])
		}
	}
	if len(answers) != len(v.spoken) || len(calls) != 1 || calls[perdure.CallSettled] != len(v.spoken) {
		d.t.Errorf("%s: %d messages, %d answers, calls %v", v.name, len(v.spoken), len(answers), calls)
	}
}

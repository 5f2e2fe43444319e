//go:build soak

package app

import (
	"bytes"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/perdure/perdure/internal/egress"
	"github.com/perdure/perdure/internal/soak"
)

// unlucky is a proxy between commands and their server, which is killed during the first attempt of
// each create.
type unlucky struct {
	server  string
	client  http.Client
	armed   atomic.Bool
	late    atomic.Bool   // the server dies after its response, which is lost; false: during its work
	now     chan struct{} // asks for a kill of the server
	dead    chan struct{} // the server was killed
	tries   atomic.Int64  // of creates
	answers atomic.Int64  // lastError responses
}

func (u *unlucky) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		panic(http.ErrAbortHandler)
	}
	hit := false
	if r.Method == http.MethodPost {
		u.tries.Add(1)
		hit = u.armed.CompareAndSwap(true, false)
	}
	killed := make(chan struct{})
	if hit && !u.late.Load() {
		time.AfterFunc(rand.N(8*time.Millisecond), func() { u.now <- struct{}{}; <-u.dead; close(killed) })
	}
	asked, err := http.NewRequestWithContext(r.Context(), r.Method, u.server+r.URL.RequestURI(), bytes.NewReader(body))
	if err != nil {
		panic(http.ErrAbortHandler)
	}
	asked.Header, asked.GetBody = r.Header.Clone(), nil
	answer, err := u.client.Do(asked)
	var said []byte
	if err == nil {
		said, err = io.ReadAll(answer.Body)
		_ = answer.Body.Close() // it was read
	}
	if hit {
		if err == nil {
			u.answers.Add(1)
		}
		if u.late.Load() {
			u.now <- struct{}{}
			<-u.dead
		} else {
			<-killed
		}
		panic(http.ErrAbortHandler)
	}
	if err != nil {
		panic(http.ErrAbortHandler)
	}
	for name, values := range answer.Header {
		w.Header()[name] = values
	}
	w.WriteHeader(answer.StatusCode)
	_, _ = w.Write(said) // a client that is gone sends the request again
}

// TestC16CreatesSurviveKills kills the server during each create of a command, alternately during
// its work and after a response that is lost. The command succeeds, except when a secret was lost
// with the response, and each object exists once. PERDURE_CREATE_KILLS is the number of kills; the
// goal is 100.
func TestC16CreatesSurviveKills(t *testing.T) {
	t.Parallel()
	kills := soak.Count(t, "PERDURE_CREATE_KILLS", 8, 100)
	d := newDoorway(t, nil)
	d.start()
	if err := (egress.Rules{Webhooks: []string{"127.0.0.1:9"}}).Write(filepath.Join(d.data, egress.RulesFile)); err != nil {
		t.Fatal(err)
	}
	u := &unlucky{server: d.url, now: make(chan struct{}), dead: make(chan struct{})}
	u.client.Transport = &http.Transport{DisableKeepAlives: true} // a connection to a killed server cannot be reused
	between := httptest.NewServer(u)
	defer between.Close()
	defer u.client.CloseIdleConnections()
	model := d.script("steps: [{text: done, repeat: true}]")
	creates := [][]string{
		{"session", "new", "--model", model, "--title"}, {"schedule", "create", "@yearly", "--session", "last", "--message", "go", "--title"},
		{"token", "create"}, {"webhook", "create", "--type", "turn.completed"},
	}
	for i := range kills {
		name := fmt.Sprintf("made-%d-", i)
		if i%len(creates) == 3 {
			name = "http://127.0.0.1:9/" + name
		}
		u.late.Store(i/len(creates)%2 == 0)
		u.armed.Store(true)
		f := d.follow(name, append(append([]string{"--server", between.URL}, creates[i%len(creates)]...), name)...)
		select {
		case <-u.now:
			d.kill()
			u.dead <- struct{}{}
			d.start()
		case <-time.After(waitTime):
			t.Fatalf("%s: no request was sent", name)
		}
		if i%len(creates) == 2 { // the secret is shown once: a lost response cannot be repeated
			if f.ends(0, 5); f.cmd.ProcessState.ExitCode() == 5 && !(f.said("its secret cannot be shown again") && f.said("perdure token revoke")) {
				t.Errorf("%s: does not say what to do", name)
			}
			continue
		}
		f.ends(0)
	}
	lists := ""
	for _, list := range [][]string{{"session", "list", "--json", "title"}, {"schedule", "list", "--json", "title"}, {"token", "list", "--json", "name"}, {"webhook", "list", "--json", "url"}} {
		lists += d.output(list...)
	}
	for i := range kills {
		if n := strings.Count(lists, fmt.Sprintf("made-%d-", i)); n != 1 {
			t.Errorf("create %d: there are %d of it, want one", i, n)
		}
	}
	if u.tries.Load() < 2*int64(kills) || u.answers.Load() < int64(kills)/2 {
		t.Errorf("%d creates were tried %d times, and %d answers were lost", kills, u.tries.Load(), u.answers.Load())
	}
	t.Logf("%d kills under a create: tried %d times, %d of them made and the answer lost", kills, u.tries.Load(), u.answers.Load())
}

//go:build soak

package app

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/perdure/perdure/internal/egress"
	"github.com/perdure/perdure/internal/pgtest"
	"github.com/perdure/perdure/internal/soak"
	"github.com/perdure/perdure/webhook"
)

// twins are two servers, each with its own data directory, that share a database.
type twins struct {
	one, two *doorway
}

// newTwins starts both, with the same egress rules and the same keys: each must decrypt what the
// other encrypts.
func newTwins(t *testing.T, rules egress.Rules) twins {
	t.Helper()
	w := twins{newDoorway(t, nil), newDoorway(t, nil)}
	database := "PERDURE_DATABASE=" + pgtest.Database(t, nil)
	for _, d := range []*doorway{w.one, w.two} {
		d.env = append(d.env, database)
		if err := os.MkdirAll(d.data, 0o700); err != nil {
			t.Fatal(err)
		}
		if err := rules.Write(filepath.Join(d.data, egress.RulesFile)); err != nil {
			t.Fatal(err)
		}
	}
	shareKeyring(t, w.one, w.two)
	w.one.start()
	w.two.start()
	return w
}

// tally counts deliveries by their webhook-id.
type tally struct {
	mu   sync.Mutex
	came map[string]int // guarded by mu
}

func (r *tally) ServeHTTP(_ http.ResponseWriter, req *http.Request) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.came[req.Header.Get("Webhook-Id")]++
}

// status returns a server's status for the bearer of a secret.
func (d *doorway) status(path, secret string) int {
	d.t.Helper()
	req, err := http.NewRequestWithContext(d.t.Context(), http.MethodGet, d.url+path, nil)
	if err != nil {
		panic(err) // as above
	}
	req.Header.Set("Authorization", "Bearer "+secret)
	resp, err := d.http.Do(req)
	if err != nil {
		d.t.Fatal(err)
	}
	defer resp.Body.Close()
	return resp.StatusCode
}

// TestTwoServersOneDatabase: a session that one server drives can be followed at the other, each
// event is sent to a webhook once, and a token revoked at one server is refused by the other, which
// also ends its open streams (S20, S24).
func TestTwoServersOneDatabase(t *testing.T) {
	t.Parallel()
	rounds := soak.Count(t, "PERDURE_TWIN_ROUNDS", 20, 200)
	receiver := &tally{came: map[string]int{}}
	server := httptest.NewServer(receiver)
	t.Cleanup(server.Close)
	w := newTwins(t, egress.Rules{Webhooks: []string{strings.TrimPrefix(server.URL, "http://")}})
	made, _ := w.one.insist(post{"/v1/webhooks", "hook", fmt.Sprintf(`{"url":%q,"types":["turn.completed"]}`, server.URL)})
	let, _ := w.one.insist(post{"/v1/tokens", "guest", `{"name":"guest","scopes":["read","write"]}`})
	var hook webhook.Created
	var guest struct{ ID, Token string }
	made.into(t, &hook)
	if let.into(t, &guest); hook.ID == "" || guest.Token == "" {
		t.Fatalf("got %s and %s", made.body, let.body)
	}
	id := w.one.begin(w.one.script("steps: [{text: done, repeat: true}]"), "begin")
	stream := w.two.watch(id, guest.Token)

	for i := range rounds {
		d := []*doorway{w.one, w.two}[i%2]
		d.insist(say(id, fmt.Sprintf("say-%d", i), "go"))
		d.rest(id)
	}
	w.two.until("the stream at the other server has all turns", func() bool { return stream.count("event: turn.completed") >= rounds })
	w.two.until("all is delivered", func() bool {
		var page struct{ Items []webhook.Delivery }
		w.two.get("/v1/webhooks/"+string(hook.ID)+"/deliveries?limit=200").into(t, &page)
		sent := 0
		for _, d := range page.Items {
			if d.State == webhook.Delivered && d.Attempts == 1 {
				sent++
			}
		}
		return sent == rounds
	})
	receiver.mu.Lock()
	if len(receiver.came) != rounds {
		t.Errorf("%d events came, want %d", len(receiver.came), rounds)
	}
	for id, n := range receiver.came {
		if n != 1 {
			t.Errorf("%s came %d times", id, n)
		}
	}
	receiver.mu.Unlock()

	path := "/v1/sessions/" + string(id)
	if got := w.two.status(path, guest.Token); got != http.StatusOK {
		t.Errorf("before it is revoked: %d", got)
	}
	req := w.one.request(post{"/v1/tokens/" + guest.ID, "revoke", ""})
	req.Method = http.MethodDelete
	if r, err := w.one.do(req); err != nil || r.status != http.StatusOK {
		t.Fatalf("revoke: %d %s, %v", r.status, r.body, err)
	}
	revoked := time.Now()
	if got := w.two.status(path, guest.Token); got != http.StatusUnauthorized {
		t.Errorf("the other server answers a revoked token with %d", got)
	}
	select {
	case <-stream.done:
		t.Logf("the stream at the other server ended %d ms after the revocation", time.Since(revoked).Milliseconds())
	case <-time.After(waitTime):
		t.Error("the stream at the other server goes on")
	}
	if seen := stream.count("event: turn.completed"); seen != rounds {
		t.Errorf("the stream showed %d turns, want %d", seen, rounds)
	}
	w.two.get(path) // it serves others as before
}

//go:build soak

package app

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/perdure/perdure/internal/egress"
	"github.com/perdure/perdure/internal/soak"
	"github.com/perdure/perdure/webhook"
)

// hookReceiver is an endpoint that now and then does not respond: the server is killed meanwhile.
type hookReceiver struct {
	mu    sync.Mutex
	posts int                        // guarded by mu
	came  map[string]map[string]bool // guarded by mu: the events of each webhook-id
	taken map[string]int             // guarded by mu: number of responses by webhook-id
	held  chan struct{}              // one element for each post without a response
}

func (r *hookReceiver) ServeHTTP(w http.ResponseWriter, req *http.Request) {
	text, _ := io.ReadAll(req.Body)
	var m struct {
		Data struct {
			Event string `json:"event_id"`
		} `json:"data"`
	}
	_ = json.Unmarshal(text, &m) // an unreadable body has no event, which the test notices
	id := req.Header.Get("Webhook-Id")
	r.mu.Lock()
	r.posts++
	hold := r.posts%3 == 1
	if r.came[id] == nil {
		r.came[id] = map[string]bool{}
	}
	r.came[id][m.Data.Event] = true
	if !hold {
		r.taken[id]++
	}
	r.mu.Unlock()
	if hold {
		r.held <- struct{}{}
		<-req.Context().Done()
	}
}

// hooked is a doorway whose server has a webhook.
type hooked struct {
	*doorway
	*hookReceiver
	hook  webhook.Created
	kills int
}

// newHooked starts a server and creates a webhook at a receiver that the operator allows. Created
// again with the same key, it is the same webhook, and its first secret is not stored anywhere.
func newHooked(t *testing.T) *hooked {
	t.Helper()
	h := &hooked{doorway: newDoorway(t, nil), hookReceiver: &hookReceiver{came: map[string]map[string]bool{}, taken: map[string]int{}, held: make(chan struct{}, 1000)}}
	server := httptest.NewServer(h.hookReceiver)
	t.Cleanup(server.Close)
	h.start()
	rules := egress.Rules{Webhooks: []string{strings.TrimPrefix(server.URL, "http://")}}
	if err := rules.Write(filepath.Join(h.data, egress.RulesFile)); err != nil {
		t.Fatal(err)
	}
	order := post{"/v1/webhooks", "make", `{"url":"` + server.URL + `","types":["turn.completed"]}`}
	made, _ := h.insist(order)
	if made.into(t, &h.hook); made.status != http.StatusCreated || h.hook.Secret == "" {
		t.Fatalf("new webhook: %d %s", made.status, made.body)
	}
	if again, _ := h.insist(order); strings.Contains(again.body, h.hook.Secret) || !strings.Contains(again.body, string(h.hook.ID)) {
		t.Errorf("the request again shows the secret that nobody keeps, or makes another webhook: %s", again.body)
	}
	return h
}

// reborn kills the server and starts another.
func (h *hooked) reborn() {
	h.t.Helper()
	h.kill()
	h.start()
	h.kills++
}

// killHeld kills the server while the receiver has an unanswered request of it.
func (h *hooked) killHeld() {
	h.t.Helper()
	for len(h.held) > 0 {
		<-h.held
		h.reborn()
	}
}

// deliveries lists the deliveries of the webhook.
func (h *hooked) deliveries() []webhook.Delivery {
	h.t.Helper()
	var page struct {
		Items []webhook.Delivery `json:"items"`
	}
	h.get("/v1/webhooks/"+string(h.hook.ID)+"/deliveries?limit=200").into(h.t, &page)
	return page.Items
}

// TestR15WebhookSurvivesKills kills the server between an event and its delivery, and while a
// receiver has a delivery and has not responded: each event arrives, with one id, and has one row.
func TestR15WebhookSurvivesKills(t *testing.T) {
	t.Parallel()
	rounds := soak.Count(t, "PERDURE_WEBHOOK_KILLS", 12, 100)
	h := newHooked(t)
	id := h.begin(h.script("steps: [{text: done, repeat: true}]"), "begin")
	for i := range rounds {
		h.insist(say(id, fmt.Sprintf("say-%d", i), "go"))
		if h.rest(id); i%2 == 0 {
			h.pause(0, 100*time.Millisecond) // often before it is queued
			h.reborn()
		}
		h.killHeld()
	}

	h.until("all are delivered", func() bool {
		h.killHeld()
		open := slices.ContainsFunc(h.deliveries(), func(d webhook.Delivery) bool { return d.State != webhook.Delivered })
		return !open && len(h.deliveries()) >= rounds
	})

	if n := len(h.deliveries()); n != rounds {
		t.Errorf("%d rows, want %d", n, rounds)
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	seen := map[string]bool{}
	for id, events := range h.came {
		if len(events) != 1 || h.taken[id] == 0 {
			t.Errorf("under %s came %v, and it was taken %d times", id, events, h.taken[id])
		}
		for e := range events {
			if seen[e] {
				t.Errorf("%s came under two ids", e)
			}
			seen[e] = true
		}
	}
	if len(seen) != rounds {
		t.Errorf("%d events arrived, want %d", len(seen), rounds)
	}
	h.sealed()
	t.Logf("%d kills, %d posts of %d events", h.kills, h.posts, len(seen))
}

// sealed checks that no file of the data directory contains the secret of the webhook.
func (h *hooked) sealed() {
	h.t.Helper()
	bare := []byte(strings.TrimPrefix(h.hook.Secret, "whsec_"))
	looked := 0
	err := filepath.WalkDir(h.data, func(path string, entry os.DirEntry, err error) error {
		if err != nil || !entry.Type().IsRegular() {
			return err
		}
		text, err := os.ReadFile(path)
		if looked++; bytes.Contains(text, bare) {
			h.t.Errorf("%s holds the secret", path)
		}
		return err
	})
	if err != nil || looked == 0 {
		h.t.Errorf("looked at %d files: %v", looked, err)
	}
}

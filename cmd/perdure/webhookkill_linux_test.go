package main

import (
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/perdure/perdure/internal/egress"
	"github.com/perdure/perdure/webhook"
)

// hookReceiver is an endpoint that every so often is asked and does not answer: the server is killed meanwhile.
type hookReceiver struct {
	mu     sync.Mutex
	posts  int                        // guarded by mu
	events map[string]map[string]bool // guarded by mu: by webhook-id, the events that came under it
	taken  map[string]int             // guarded by mu: by webhook-id, how often it was answered
	held   chan struct{}              // one for each post that is not answered
}

func (r *hookReceiver) ServeHTTP(w http.ResponseWriter, req *http.Request) {
	text, _ := io.ReadAll(req.Body)
	var m struct {
		Data struct {
			Event string `json:"event_id"`
		} `json:"data"`
	}
	_ = json.Unmarshal(text, &m) // what cannot be read has no event, and is found by it
	id := req.Header.Get("Webhook-Id")
	r.mu.Lock()
	r.posts++
	hold := r.posts%3 == 1
	if r.events[id] == nil {
		r.events[id] = map[string]bool{}
	}
	r.events[id][m.Data.Event] = true
	if !hold {
		r.taken[id]++
	}
	r.mu.Unlock()
	if hold {
		r.held <- struct{}{}
		<-req.Context().Done()
	}
}

// TestR15WebhookSurvivesKills kills the server between an event and its delivery, and while a receiver has a delivery and has not
// answered: each event arrives, under one id, and has one row.
func TestR15WebhookSurvivesKills(t *testing.T) {
	t.Parallel()
	rounds := 12
	if testing.Short() {
		rounds = 4
	}
	d := newDoorway(t, nil)
	receiver := &hookReceiver{events: map[string]map[string]bool{}, taken: map[string]int{}, held: make(chan struct{}, 1000)}
	server := httptest.NewServer(receiver)
	defer server.Close()
	rules := egress.Rules{Webhooks: []string{strings.TrimPrefix(server.URL, "http://")}}
	d.start()
	if err := rules.Write(filepath.Join(d.data, egress.RulesFile)); err != nil {
		t.Fatal(err)
	}
	id := d.begin(d.script("steps: [{text: done, repeat: true}]"), "begin")
	made, _ := d.insist(post{"/v1/webhooks", "make", `{"url":"` + server.URL + `","types":["turn.completed"]}`})
	var hook webhook.Made
	if made.into(t, &hook); made.status != http.StatusCreated || hook.Secret == "" {
		t.Fatalf("new webhook: %d %s", made.status, made.body)
	}
	again, _ := d.insist(post{"/v1/webhooks", "make", `{"url":"` + server.URL + `","types":["turn.completed"]}`})
	if strings.Contains(again.body, hook.Secret) || !strings.Contains(again.body, string(hook.ID)) {
		t.Errorf("the request again shows the secret that nobody keeps, or makes another webhook: %s", again.body)
	}

	kills := 0
	for i := range rounds {
		d.insist(say(id, "say-"+string(rune('a'+i)), "go"))
		if d.rest(id); i%2 == 0 {
			d.pause(0, 100*time.Millisecond) // often before it is queued
			d.kill()
			d.start()
			kills++
		}
		for len(receiver.held) > 0 {
			<-receiver.held
			d.kill()
			d.start()
			kills++
		}
	}
	list := func() (page struct {
		Items []webhook.Delivery `json:"items"`
	}) {
		d.get("/v1/webhooks/"+string(hook.ID)+"/deliveries?limit=200").into(t, &page)
		return page
	}
	d.until("all are delivered", func() bool {
		if len(receiver.held) > 0 {
			<-receiver.held
			d.kill()
			d.start()
			kills++
		}
		n := 0
		for _, one := range list().Items {
			if one.State == webhook.Delivered {
				n++
			}
		}
		return n == rounds
	})

	if n := len(list().Items); n != rounds {
		t.Errorf("%d rows, want %d", n, rounds)
	}
	receiver.mu.Lock()
	defer receiver.mu.Unlock()
	seen := map[string]bool{}
	for id, events := range receiver.events {
		if len(events) != 1 || receiver.taken[id] == 0 {
			t.Errorf("under %s came %v, and it was taken %d times", id, events, receiver.taken[id])
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
	t.Logf("%d kills, %d posts of %d events", kills, receiver.posts, len(seen))
}

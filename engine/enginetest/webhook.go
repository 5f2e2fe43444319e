package enginetest

import (
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/webhook"
)

func webhookLaws() []law {
	return []law{
		{"WebhookIsToldOnce", webhookTold},
		{"WebhookIsToldAfterKill", webhookAfterKill},
		{"WebhookKept", webhookKept},
		{"WebhookRefused", webhookRefused},
	}
}

// webhookRequest is a request that a receiver got.
type webhookRequest struct {
	id   string
	body []byte
}

// receiver listens on the loopback interface. answer returns the status for the nth request,
// counted from 1; 0 means no response until the receiver is closed.
func (s *scene) receiver(answer func(n int) int) (url string, got <-chan webhookRequest) {
	s.t.Helper()
	all, closed := make(chan webhookRequest, 100), make(chan struct{}) // more than a law sends
	n := make(chan int, 1)                                             // the number of the last request
	n <- 0
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		mine := <-n + 1
		n <- mine
		all <- webhookRequest{r.Header.Get("Webhook-Id"), body}
		status := answer(mine)
		if status == 0 {
			select {
			case <-r.Context().Done():
			case <-closed:
			}
			return
		}
		w.WriteHeader(status)
	}))
	s.t.Cleanup(func() {
		close(closed)
		server.Close()
	})
	return server.URL, all
}

// await waits for a request.
func (s *scene) await(got <-chan webhookRequest) webhookRequest {
	s.t.Helper()
	select {
	case one := <-got:
		return one
	case <-s.ctx.Done():
		s.t.Fatal("no request arrived")
		return webhookRequest{}
	}
}

// settled waits until the newest delivery of a webhook is in a state.
func (s *scene) settled(id perdure.WebhookID, state webhook.State) webhook.Delivery {
	s.t.Helper()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for {
		all, err := s.eng.Webhooks().Deliveries(s.ctx, id, 1)
		if err == nil && len(all) == 1 && all[0].State == state {
			return all[0]
		}
		select {
		case <-tick.C:
		case <-s.ctx.Done():
			s.t.Fatalf("got %+v, %v, want one that is %s", all, err, state)
		}
	}
}

// hook creates a webhook.
func (s *scene) hook(w webhook.Webhook) webhook.Created {
	s.t.Helper()
	made, err := s.eng.Webhooks().Create(s.ctx, w)
	if err != nil {
		s.t.Fatalf("CreateWebhook: %v", err)
	}
	if !made.Enabled || !strings.HasPrefix(made.Secret, "whsec_") || made.CreatedAt.IsZero() {
		s.t.Errorf("made %+v", made.Webhook)
	}
	return made
}

func webhookTold(t *testing.T, open Harness) {
	s := begin(t, open, Setup{Script: "steps: [{text: hello, repeat: true}]", Webhooks: t.TempDir()})
	url, got := s.receiver(func(int) int { return http.StatusNoContent })
	made := s.hook(webhook.Webhook{
		URL: url, Types: []string{"turn.completed"}, Body: webhook.BodySnapshot, Session: s.id,
	})
	s.say("go")
	s.rest()

	one := s.await(got)
	var m struct {
		Type string          `json:"type"`
		Data json.RawMessage `json:"data"`
	}
	if err := perdure.DecodeKnownJSON(one.body, &m); err != nil || m.Type != "turn.completed" {
		t.Fatalf("got %s, %v", one.body, err)
	}
	if e, err := perdure.DecodeEvent(m.Data); err != nil || e.Session != s.id || e.Type() != "turn.completed" {
		t.Errorf("got %+v, %v, want the event", e, err)
	}
	d := s.settled(made.ID, webhook.Delivered)
	if string(d.ID) != one.id || d.Attempts != 1 || d.Session != s.id || len(d.AttemptLog) != 1 ||
		d.AttemptLog[0].Status != http.StatusNoContent {
		t.Errorf("got %+v, sent as %s", d, one.id)
	}
	if _, err := s.eng.Webhooks().Redeliver(s.ctx, made.ID, d.ID); err != nil {
		t.Fatalf("RedeliverWebhook: %v", err)
	}
	if again := s.await(got); again.id != one.id || string(again.body) != string(one.body) {
		t.Errorf("sent again as %s: %s", again.id, again.body)
	}
	ping, err := s.eng.Webhooks().Test(s.ctx, made.ID)
	if err != nil {
		t.Fatalf("TestWebhook: %v", err)
	}
	if one := s.await(got); one.id != string(ping.ID) || !strings.Contains(string(one.body), webhook.Ping) {
		t.Errorf("the test arrived as %s: %s", one.id, one.body)
	}
	if len(got) > 0 {
		t.Errorf("%d more arrived", len(got))
	}
}

// webhookAfterKill kills the engine while the receiver has the request and has not answered: the
// request is sent again under the same id.
func webhookAfterKill(t *testing.T, open Harness) {
	s := begin(t, open, Setup{Script: "steps: [{text: hello, repeat: true}]", Webhooks: t.TempDir()})
	url, got := s.receiver(func(n int) int {
		if n == 1 {
			return 0
		}
		return http.StatusOK
	})
	made := s.hook(webhook.Webhook{URL: url, Types: []string{"turn.*"}})
	s.say("go")
	s.rest()
	first := s.await(got)
	s.Kill(t)
	s.eng = s.Start(t)

	second := s.await(got)

	if first.id == "" || first.id != second.id || string(first.body) != string(second.body) {
		t.Errorf("got %s %s, then %s %s", first.id, first.body, second.id, second.body)
	}
	s.settled(made.ID, webhook.Delivered)
	if all, err := s.eng.Webhooks().Deliveries(s.ctx, made.ID, 0); err != nil || len(all) != 1 {
		t.Errorf("%d deliveries, %v, want the one", len(all), err)
	}
}

func webhookKept(t *testing.T, open Harness) {
	s := begin(t, open, Setup{Script: "steps: [{text: hello, repeat: true}]", Webhooks: t.TempDir()})
	one := s.hook(webhook.Webhook{
		URL: "http://127.0.0.1:64999/one", Types: []string{"turn.*", "task.updated"}, Body: webhook.BodySnapshot,
	})
	two := s.hook(webhook.Webhook{URL: "http://127.0.0.1:64999/two"})

	found, err := s.eng.Webhooks().Get(s.ctx, one.ID)
	if err != nil || found.URL != one.URL || len(found.Types) != 2 || found.Body != webhook.BodySnapshot ||
		found.Owner != one.Owner || two.Body != webhook.BodyID {
		t.Errorf("got %+v, %v, want %+v", found, err, one.Webhook)
	}
	if all, err := s.eng.Webhooks().List(s.ctx); err != nil || len(all) != 2 || all[0].ID != one.ID || all[1].ID != two.ID {
		t.Errorf("got %+v, %v", all, err)
	}
	off, types := false, []string{"approval.*"}
	changed, err := s.eng.Webhooks().Change(s.ctx, one.ID, webhook.Patch{Enabled: &off, Types: &types})
	if err != nil || changed.Enabled || len(changed.Types) != 1 || changed.URL != one.URL ||
		changed.Version <= found.Version {
		t.Errorf("got %+v, %v", changed, err)
	}
	if _, err := s.eng.Webhooks().Test(s.ctx, one.ID); !errors.Is(err, perdure.Conflict) {
		t.Errorf("a test of a disabled one: %v", err)
	}
	if again, err := s.eng.Webhooks().Rotate(s.ctx, two.ID); err != nil || again.Secret == two.Secret ||
		!strings.HasPrefix(again.Secret, "whsec_") {
		t.Errorf("rotated: %+v, %v", again.Webhook, err)
	}
	if err := s.eng.Webhooks().Delete(s.ctx, one.ID); err != nil {
		t.Errorf("DeleteWebhook: %v", err)
	}
	if all, err := s.eng.Webhooks().List(s.ctx); err != nil || len(all) != 1 || all[0].ID != two.ID {
		t.Errorf("left %+v, %v", all, err)
	}
}

func webhookRefused(t *testing.T, open Harness) {
	s := begin(t, open, Setup{Script: "steps: [{text: hello, repeat: true}]", Webhooks: t.TempDir()})
	for name, w := range map[string]webhook.Webhook{
		"metadata": {URL: "http://169.254.169.254/"}, "a private host": {URL: "https://10.0.0.1/"},
		"a scheme": {URL: "ftp://example.com"},
		"a type":   {URL: "http://127.0.0.1:64999/", Types: []string{"task.started"}},
		"a body":   {URL: "http://127.0.0.1:64999/", Body: "all"},
	} {
		if _, err := s.eng.Webhooks().Create(s.ctx, w); !errors.Is(err, perdure.Invalid) {
			t.Errorf("%s: got %v, want Invalid", name, err)
		}
	}
	const none = perdure.WebhookID("webhook_00000000000070008000000000000001")
	_, read := s.eng.Webhooks().Get(s.ctx, none)
	_, changed := s.eng.Webhooks().Change(s.ctx, none, webhook.Patch{})
	_, rotated := s.eng.Webhooks().Rotate(s.ctx, none)
	_, listed := s.eng.Webhooks().Deliveries(s.ctx, none, 0)
	_, tested := s.eng.Webhooks().Test(s.ctx, none)
	_, again := s.eng.Webhooks().Redeliver(s.ctx, none, "whd_00000000000070008000000000000001")
	for name, err := range map[string]error{
		"Webhook": read, "ChangeWebhook": changed, "RotateWebhook": rotated, "WebhookDeliveries": listed,
		"TestWebhook": tested, "RedeliverWebhook": again, "DeleteWebhook": s.eng.Webhooks().Delete(s.ctx, none),
	} {
		if !errors.Is(err, perdure.NotFound) {
			t.Errorf("%s: got %v, want NotFound", name, err)
		}
	}
}

package api_test

import (
	"bytes"
	"context"
	"errors"
	"net/netip"
	"strings"
	"testing"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/store"
	"github.com/perdure/perdure/webhook"
)

// nowhere is a way out on which nothing arrives.
type nowhere struct{}

func (nowhere) Do(context.Context, perdure.WebRequest) (perdure.WebResponse, error) {
	return perdure.WebResponse{}, errors.New("nothing leaves here")
}

func (nowhere) Resolve(context.Context, string, string, perdure.NetworkList) ([]netip.AddrPort, error) {
	return nil, nil
}

// hook makes a webhook, and returns its path.
func (r *rig) hook() string {
	r.t.Helper()
	return "/v1/webhooks/" + string(want[webhook.Created](r, 201, post("/v1/webhooks", `{"url":"https://example.com/x"}`)).ID)
}

// pinged queues a ping, and returns the path of the delivery.
func (r *rig) pinged(hook string) string {
	r.t.Helper()
	return hook + "/deliveries/" + string(want[webhook.Delivery](r, 202, post(hook+"/test", `{}`)).ID)
}

// withHooks adds the POSTs about webhooks whose responses are not stored.
func (r *rig) withHooks(posts map[string]ask) map[string]ask {
	posts["create-webhook"] = post("/v1/webhooks", "")
	posts["rotate-webhook"] = post(r.hook()+"/rotate", "")
	return posts
}

// ofWebhook puts a webhook of its own into a path that names one.
func (r *rig) ofWebhook(path string) string {
	if !strings.Contains(path, "/v1/webhooks/{id}") {
		return path
	}
	return strings.ReplaceAll(path, "/v1/webhooks/{id}", r.hook())
}

// TestWebhookSecretOnce: the secret of a webhook is in the answer that makes it, and nowhere else:
// the same key again finds the same webhook, with another secret while nothing became of it, and
// none afterwards.
func TestWebhookSecretOnce(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil)
	order := keyed(post("/v1/webhooks", `{"url":"https://example.com/x","types":["task.*"]}`), "one")
	first := want[webhook.Created](r, 201, order)
	again := r.do(order)
	if again.status != 201 || again.header.Get("Idempotency-Replayed") != "" || strings.Contains(string(again.body), first.Secret) || !strings.Contains(string(again.body), string(first.ID)) {
		t.Errorf("got %d %v %s", again.status, again.header, again.body)
	}
	path := "/v1/webhooks/" + string(first.ID)
	rotated := want[webhook.Created](r, 200, post(path+"/rotate", ""))
	third := r.do(order)
	if !strings.HasPrefix(rotated.Secret, "whsec_") || rotated.Secret == first.Secret || strings.Contains(string(third.body), "whsec_") {
		t.Errorf("rotated to %t, then %s", rotated.Secret != first.Secret, third.body)
	}
	for _, q := range []ask{get(path), get("/v1/webhooks"), get(path + "/deliveries")} {
		if got := r.do(q); got.status != 200 || strings.Contains(string(got.body), "secret") || strings.Contains(string(got.body), "sealed") {
			t.Errorf("%s: %d %s", q.path, got.status, got.body)
		}
	}
	if all := want[taskInList[webhook.Webhook]](r, 200, get("/v1/webhooks")).Items; len(all) != 1 {
		t.Errorf("%d webhooks", len(all))
	}
}

// TestR15Rotate rotates under one key, again and again: the secret that receivers have signs along,
// whatever was shown meanwhile.
func TestR15Rotate(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil)
	path := r.hook()
	row := func() (row store.Webhook) {
		err := r.store.View(t.Context(), func(tx store.Reader) (err error) {
			row, err = tx.Webhooks().Get(perdure.WebhookID(strings.TrimPrefix(path, "/v1/webhooks/")))
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
		return row
	}
	live := row().Sealed
	order := keyed(post(path+"/rotate", ""), "one")

	first, second := want[webhook.Created](r, 200, order), want[webhook.Created](r, 200, order)
	r.restart()
	third := want[webhook.Created](r, 200, order)

	if got := row(); !bytes.Equal(got.Former, live) {
		t.Error("the secret that receivers have is gone")
	}
	if first.Secret == second.Secret || second.Secret == third.Secret || !strings.HasPrefix(third.Secret, "whsec_") {
		t.Error("a secret is shown twice")
	}
}

// TestWebhookDeliveriesPaged walks the deliveries a page at a time, the newest first.
func TestWebhookDeliveriesPaged(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil)
	hook := r.hook()
	made := map[perdure.WebhookDeliveryID]bool{}
	for range 5 {
		made[perdure.WebhookDeliveryID(r.pinged(hook)[len(hook)+len("/deliveries/"):])] = true
	}
	last, seen := perdure.WebhookDeliveryID("~"), 0
	for next := ""; ; {
		page := want[taskInList[webhook.Delivery]](r, 200, get(hook+"/deliveries?limit=2"+next))
		for _, d := range page.Items {
			if seen++; !made[d.ID] || d.ID >= last {
				t.Errorf("got %s after %s", d.ID, last)
			}
			last = d.ID
		}
		if page.Next == "" {
			break
		}
		next = "&cursor=" + page.Next
	}
	if seen != 5 {
		t.Errorf("saw %d of 5", seen)
	}
	r.refusal(r.do(post("/v1/webhooks", `{"url":"ftp://example.com"}`)), 422, "invalid")
	r.refusal(r.do(post("/v1/webhooks", `{"url":"https://example.com","secret":"mine"}`)), 400, "invalid")
}

// hookSamples adds a request for each operation about webhooks.
func (r *rig) hookSamples(all map[string]ask) map[string]ask {
	r.t.Helper()
	hook := r.hook()
	all["create-webhook"] = post("/v1/webhooks", `{"url":"https://example.com/x"}`)
	all["rotate-webhook"] = post(hook+"/rotate", `{}`)
	all["list-webhooks"], all["get-webhook"], all["list-webhook-deliveries"] = get("/v1/webhooks"), get(hook), get(hook+"/deliveries")
	all["delete-webhook"] = ask{method: "DELETE", path: r.hook()}
	all["update-webhook"] = ask{method: "PATCH", path: hook, body: `{"enabled":true}`}
	return all
}

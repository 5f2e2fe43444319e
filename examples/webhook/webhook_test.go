package webhook_test

import (
	"errors"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"testing"
	"time"

	standard "github.com/standard-webhooks/standard-webhooks/libraries/go"

	"github.com/perdure/perdure/examples/webhook"
)

const (
	first  = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
	second = "whsec_AAECAwQFBgcICQoLDA0ODxAREhMUFRYX"
)

// delivery is one request to the receiver.
type delivery struct {
	id, secret, body, sent string
	at                     time.Time
}

// post signs d.body and sends d.sent, or d.body if d.sent is empty.
func post(t *testing.T, r http.Handler, d delivery) int {
	t.Helper()
	key, err := standard.NewWebhook(d.secret)
	if err != nil {
		t.Fatal(err)
	}
	signature, err := key.Sign(d.id, d.at, []byte(d.body))
	if err != nil {
		t.Fatal(err)
	}
	if d.sent == "" {
		d.sent = d.body
	}
	req := httptest.NewRequest(http.MethodPost, "/", strings.NewReader(d.sent))
	req.Header.Set("Webhook-Id", d.id)
	req.Header.Set("Webhook-Timestamp", strconv.FormatInt(d.at.Unix(), 10))
	req.Header.Set("Webhook-Signature", signature)
	out := httptest.NewRecorder()
	r.ServeHTTP(out, req)
	return out.Code
}

// TestS20Receiver: deliveries that were tampered with, are old or are signed with another key are
// refused, and a delivery that arrives twice is handled once.
func TestS20Receiver(t *testing.T) {
	t.Parallel()
	var taken []string
	fail := false
	receiver, err := webhook.New(func(body []byte) error {
		if fail {
			return errors.New("not now")
		}
		taken = append(taken, string(body))
		return nil
	}, first)
	if err != nil {
		t.Fatal(err)
	}
	now := time.Now()
	good := delivery{id: "whd_1", secret: first, body: `{"type":"turn.completed", "data":{}}`, at: now}
	for _, c := range []struct {
		name string
		d    delivery
		want int
	}{
		{"as it was signed", good, 204},
		{"the same id again", good, 204},
		{"the same JSON in other bytes", delivery{"whd_2", first, good.body, `{"type":"turn.completed","data":{}}`, now}, 401},
		{"six minutes old", delivery{"whd_3", first, good.body, "", now.Add(-6 * time.Minute)}, 401},
		{"six minutes ahead", delivery{"whd_4", first, good.body, "", now.Add(6 * time.Minute)}, 401},
		{"another key", delivery{"whd_5", second, good.body, "", now}, 401},
	} {
		if got := post(t, receiver, c.d); got != c.want {
			t.Errorf("%s: got %d, want %d", c.name, got, c.want)
		}
	}
	if len(taken) != 1 || taken[0] != good.body {
		t.Errorf("took %q", taken)
	}

	both, err := webhook.New(receiver.Take, first, second)
	if err != nil {
		t.Fatal(err)
	}
	for _, secret := range []string{first, second} {
		if got := post(t, both, delivery{"whd_" + secret, secret, good.body, "", now}); got != 204 {
			t.Errorf("while the key is rotated: %d", got)
		}
	}
	fail = true
	again := delivery{"whd_6", first, good.body, "", now}
	if got := post(t, both, again); got != 500 {
		t.Errorf("work that failed: %d", got)
	}
	fail = false
	if got := post(t, both, again); got != 204 || len(taken) != 4 {
		t.Errorf("the same again: %d, took %d", got, len(taken))
	}
	if _, err := webhook.New(receiver.Take, "whsec_!"); err == nil {
		t.Error("an invalid secret is accepted")
	}
}

package webhook_test

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	standard "github.com/standard-webhooks/standard-webhooks/libraries/go"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/internal/egress"
	"github.com/perdure/perdure/internal/webhook"
	"github.com/perdure/perdure/store/memory"
	hook "github.com/perdure/perdure/webhook"
)

// real is a bench whose sender uses the guard and real sockets.
func real(t *testing.T, listed ...egress.Listing) *bench {
	t.Helper()
	guard, err := egress.New(egress.Config{Listed: listed})
	if err != nil {
		t.Fatal(err)
	}
	b := &bench{t: t, st: memory.New(memory.Config{})}
	t.Cleanup(func() { b.st.Close() })
	b.Sender = webhook.New(webhook.Config{
		Store: b.st, Egress: guard, Poll: 5 * time.Millisecond, Timeout: 5 * time.Second,
		Seal: func(_ perdure.WebhookID, secret string) ([]byte, error) { return []byte(secret), nil },
		Open: func(_ perdure.WebhookID, sealed []byte) (string, error) { return string(sealed), nil },
	})
	return b
}

// loopback opens this machine to webhooks.
func loopback() egress.Listing { return egress.Listing{Purpose: hook.Purpose, Host: "127.0.0.1"} }

// tried waits until the only delivery of a webhook was tried.
func (b *bench) tried(id perdure.WebhookID) hook.Delivery {
	b.t.Helper()
	ctx, stop := context.WithTimeout(b.t.Context(), 30*time.Second)
	defer stop()
	tick := time.NewTicker(2 * time.Millisecond)
	defer tick.Stop()
	for {
		if all := b.deliveries(id); len(all) == 1 && len(all[0].AttemptLog) > 0 {
			return all[0]
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			b.t.Fatalf("not tried: %+v", b.deliveries(id))
		}
	}
}

// TestOverSockets: what arrives verifies with the library that receivers use, byte for byte, and a
// receiver that sends elsewhere is not followed there.
func TestOverSockets(t *testing.T) {
	t.Parallel()
	b := real(t, loopback())
	id := b.session()
	verified := make(chan error, 1)
	verifier := make(chan *standard.Webhook, 1)
	good := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		v := <-verifier
		verified <- errors.Join(err, v.Verify(body, r.Header))
		w.WriteHeader(http.StatusAccepted)
		_, _ = w.Write([]byte(strings.Repeat("ä", 1000)))
	}))
	defer good.Close()
	made, err := b.Create(t.Context(), hook.Webhook{URL: good.URL, Body: hook.BodySnapshot})
	if err != nil {
		t.Fatal(err)
	}
	v, err := standard.NewWebhook(made.Secret)
	if err != nil {
		t.Fatal(err)
	}
	verifier <- v
	stop := b.run(b.Sender)
	defer stop()
	b.happen(id, perdure.TurnFailed{Code: "boom", Error: "a <b> & c"})

	if err := <-verified; err != nil {
		t.Errorf("the official library refuses it: %v", err)
	}
	d := b.tried(made.ID)
	if d.State != hook.Delivered || d.AttemptLog[0].Status != http.StatusAccepted || len(d.AttemptLog[0].Answer) != hook.MaxAnswerBytes {
		t.Errorf("got %+v, with %d bytes of the answer", d, len(d.AttemptLog[0].Answer))
	}
}

// TestAnswerBreaksOff: a receiver that answers 2xx has the delivery, whatever happens to the rest
// of its response.
func TestAnswerBreaksOff(t *testing.T) {
	t.Parallel()
	b := real(t, loopback())
	id := b.session()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Length", "100")
		_, _ = w.Write([]byte("taken"))
		_ = http.NewResponseController(w).Flush()
		panic(http.ErrAbortHandler)
	}))
	defer server.Close()
	made, err := b.Create(t.Context(), hook.Webhook{URL: server.URL})
	if err != nil {
		t.Fatal(err)
	}
	stop := b.run(b.Sender)
	defer stop()
	b.happen(id, perdure.TurnCompleted{})

	if d := b.tried(made.ID); d.State != hook.Delivered || d.AttemptLog[0].Status != http.StatusOK || d.AttemptLog[0].Answer != "taken" || d.AttemptLog[0].Error != "" {
		t.Errorf("got %+v", d)
	}
}

func TestRedirectIsNotFollowed(t *testing.T) {
	t.Parallel()
	b := real(t, loopback())
	id := b.session()
	lure := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { t.Error("the redirect was followed") }))
	defer lure.Close()
	bad := httptest.NewServer(http.RedirectHandler(lure.URL, http.StatusTemporaryRedirect))
	defer bad.Close()
	made, err := b.Create(t.Context(), hook.Webhook{URL: bad.URL})
	if err != nil {
		t.Fatal(err)
	}
	stop := b.run(b.Sender)
	defer stop()
	b.happen(id, perdure.TurnCompleted{})

	if d := b.tried(made.ID); d.State != hook.Queued || d.AttemptLog[0].Status != http.StatusTemporaryRedirect {
		t.Errorf("got %+v", d)
	}
}

// TestS20Addresses: where nothing may be sent is refused when it is saved, and again with each try
// (EG5).
func TestS20Addresses(t *testing.T) {
	t.Parallel()
	b := real(t, egress.Listing{Host: "127.0.0.1"}) // for tools, which opens nothing to webhooks
	got := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { t.Error("it was sent") }))
	defer got.Close()
	for _, url := range []string{
		got.URL, "http://169.254.169.254/latest/meta-data", "http://[fd00:ec2::254]/", "http://[::1]/", "https://10.0.0.1/", "http://0x7f000001/", "http://localhost/",
	} {
		if _, err := b.Create(t.Context(), hook.Webhook{URL: url}); !errors.Is(err, perdure.Invalid) {
			t.Errorf("%s: got %v, want Invalid", url, err)
		}
	}

	open := real(t, loopback()) // saved while it was allowed
	closed := webhook.New(webhook.Config{
		Store: open.st, Egress: strict(t), Poll: 5 * time.Millisecond,
		Seal: func(perdure.WebhookID, string) ([]byte, error) { return nil, nil },
		Open: func(_ perdure.WebhookID, sealed []byte) (string, error) { return string(sealed), nil },
	})
	id := open.session()
	made, err := open.Create(t.Context(), hook.Webhook{URL: got.URL})
	if err != nil {
		t.Fatal(err)
	}
	stop := open.run(closed)
	defer stop()
	open.happen(id, perdure.TurnCompleted{})

	if d := open.tried(made.ID); d.State != hook.Queued || d.AttemptLog[0].Status != 0 || d.AttemptLog[0].Error == "" {
		t.Errorf("got %+v", d)
	}
}

func strict(t *testing.T) *egress.Guard {
	t.Helper()
	guard, err := egress.New(egress.Config{})
	if err != nil {
		t.Fatal(err)
	}
	return guard
}

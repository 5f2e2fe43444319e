package api_test

import (
	"context"
	"errors"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/engine"
	"github.com/perdure/perdure/internal/access"
	"github.com/perdure/perdure/internal/api"
	"github.com/perdure/perdure/store"
)

// let makes a token.
func (r *rig) let(order string) engine.IssuedToken {
	r.t.Helper()
	return want[engine.IssuedToken](r, 201, post("/v1/tokens", order))
}

// as is a request with a secret.
func (q ask) as(secret string) ask {
	header := map[string]string{"Authorization": "Bearer " + secret}
	for name, value := range q.header {
		if name != "Authorization" {
			header[name] = value
		}
	}
	q.header = header
	return q
}

// TestTokenOnce: the secret of a token is in one answer and nowhere else, neither in the store nor
// under an idempotency key.
func TestTokenOnce(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil)
	q := post("/v1/tokens", `{"name":"ci","scopes":["read"],"user":"ada"}`)
	q.header = map[string]string{"Idempotency-Key": "k"}
	made := want[engine.IssuedToken](r, 201, q)
	if !strings.HasPrefix(made.Secret, "perdure_") || len(made.Secret) < len("perdure_")+43 || made.State != engine.TokenLive || made.Org != "default" {
		t.Errorf("got %+v", made)
	}
	again := r.do(q)
	r.refusal(again, 409, "conflict")
	for _, known := range r.keys.rows {
		if strings.Contains(string(known.Body), made.Secret) {
			t.Error("the secret is kept under the idempotency key")
		}
	}
	err := r.store.View(t.Context(), func(v store.Reader) error {
		stored, err := v.Tokens().List("")
		if len(stored) != 1 || strings.Contains(string(raw(stored)), made.Secret) {
			t.Errorf("stored %+v", stored)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	shown := want[taskInList[engine.Token]](r, 200, get("/v1/tokens")).Items
	if len(shown) != 1 || strings.Contains(string(raw(shown)), made.Secret) || shown[0].UsedAt != (time.Time{}) {
		t.Errorf("got %+v", shown)
	}
	want[taskInList[engine.Session]](r, 200, get("/v1/sessions").as(made.Secret))
	if shown := want[taskInList[engine.Token]](r, 200, get("/v1/tokens")).Items; shown[0].UsedAt.IsZero() {
		t.Errorf("its use was not written: %+v", shown)
	}
}

// TestTokenOrders: an invalid token order is refused, and a token can only grant rights that its
// creator has.
func TestTokenOrders(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil)
	for _, bad := range []string{
		`{"name":""}`, `{"name":"a","scopes":["all"]}`, `{"name":"a","org":"A B"}`, `{"name":"a","org":"../x"}`, `{"name":"a\u0007"}`, `{"name":"a","agent":true,"scopes":["approve"]}`,
		`{"name":"a","expires_at":"2001-01-01T00:00:00Z"}`, `{"name":"a","secret":"mine"}`, `{"name":"` + strings.Repeat("n", 200) + `"}`,
	} {
		if got := r.do(post("/v1/tokens", bad)); got.status != 400 {
			t.Errorf("%s: got %d %s", bad, got.status, got.body)
		}
	}
	admin := r.let(`{"name":"admin","org":"acme","scopes":["read","admin"]}`)
	for order, status := range map[string]int{
		`{"name":"a","scopes":["read"]}`: 201, `{"name":"a","scopes":["read"],"org":"acme"}`: 201, `{"name":"a","scopes":["write"]}`: 403, `{"name":"a"}`: 403,
		`{"name":"a","scopes":["read"],"org":"default"}`: 403,
	} {
		if got := r.do(post("/v1/tokens", order).as(admin.Secret)); got.status != status {
			t.Errorf("%s: got %d %s, want %d", order, got.status, got.body, status)
		}
	}
	if own := want[taskInList[engine.Token]](r, 200, get("/v1/tokens").as(admin.Secret)).Items; len(own) != 3 || own[1].Org != "acme" {
		t.Errorf("got %+v", own)
	}
	foreign := r.let(`{"name":"ours"}`)
	r.refusal(r.do(ask{method: "DELETE", path: "/v1/tokens/" + string(foreign.ID)}.as(admin.Secret)), 404, "not_found")
}

// TestTokenCursorIsOfItsCaller: where the root stands in the list of all tokens is no place in that
// of an org, its own included.
func TestTokenCursorIsOfItsCaller(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil)
	for range 4 {
		r.let(`{"name":"theirs","org":"acme"}`)
	}
	admin := r.let(`{"name":"admin","scopes":["read","admin"]}`)
	next := want[taskInList[engine.Token]](r, 200, get("/v1/tokens?limit=1")).Next
	if got := r.do(get("/v1/tokens?limit=1&cursor=" + next).as(admin.Secret)); next == "" || got.status != 400 {
		t.Errorf("after %q got %d %s", next, got.status, got.body)
	}
	want[taskInList[engine.Token]](r, 200, get("/v1/tokens?limit=1&cursor="+next))
}

// TestS24RevokeEndsAStream: a revoked token gives no access, and its open streams end, even if it
// was revoked on another server.
func TestS24RevokeEndsAStream(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil)
	made := r.let(`{"name":"watcher"}`)
	session := want[engine.Session](r, 201, post("/v1/sessions", `{"agent":{"name":"a"}}`).as(made.Secret))
	path := "/v1/sessions/" + string(session.ID)
	want[map[string]any](r, 202, post(path+"/messages", `{"content":[{"type":"text","text":"charge"}]}`).as(made.Secret))
	r.entered("charge") // so that nothing else ends the wait

	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	q := get(path + "/events").as(made.Secret)
	q.header["Accept"] = "text/event-stream"
	res, err := r.server.Client().Do(r.request(ctx, q))
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	if _, err := io.ReadFull(res.Body, make([]byte, 10)); err != nil || res.StatusCode != 200 {
		t.Fatalf("got %d %v", res.StatusCode, err)
	}
	waited := make(chan reply, 1)
	go func() { waited <- r.do(get(path + "?wait=60s").as(made.Secret)) }()

	err = r.store.InTx(ctx, func(tx store.Tx) error { // as another server writes it
		t, err := tx.Tokens().Get(made.ID)
		if err != nil {
			return err
		}
		t.RevokedAt = tx.Now()
		return tx.Tokens().Put(t)
	})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := io.Copy(io.Discard, res.Body); err != nil || ctx.Err() != nil {
		t.Errorf("the stream did not end: %v", err)
	}
	r.refusal(<-waited, 401, "unauthorized")
	r.refusal(r.do(get(path).as(made.Secret)), 401, "unauthorized")
	want[engine.Session](r, 200, get(path))
}

// TestS24Failures: a client that guesses tokens has to wait; one with a token that was valid before
// does not.
func TestS24Failures(t *testing.T) {
	t.Parallel()
	r := newRig(t, func(cfg *api.Config) { cfg.Keyring = nil })
	good := r.let(`{"name":"good"}`)
	r.cfg.Keyring = access.NewKeyring(access.Config{Store: r.store, Root: token, FailureBurst: 3, FailureInterval: time.Hour})
	r.restart()
	want[taskInList[engine.Session]](r, 200, get("/v1/sessions").as(good.Secret))
	guess := get("/v1/sessions").as(good.Secret[:len(good.Secret)-1] + "!")
	for range 3 {
		r.refusal(r.do(guess), 401, "unauthorized")
	}
	got := r.do(guess)
	if r.refusal(got, 429, "limit"); got.header.Get("Retry-After") == "" || got.header.Get("Retry-After") == "1" {
		t.Errorf("got %v", got.header)
	}
	want[taskInList[engine.Session]](r, 200, get("/v1/sessions").as(good.Secret))
	want[taskInList[engine.Session]](r, 200, get("/v1/sessions"))
}

// TestDenied: an access error names the missing right.
func TestDenied(t *testing.T) {
	t.Parallel()
	p := access.Principal{ID: "token_1", Org: "acme", Scopes: access.All(), Agent: true}
	if err := p.Check(access.Approve); !errors.Is(err, perdure.Denied) || p.May(access.Admin) || !p.May(access.Write) {
		t.Errorf("an agent's token: %v", err)
	}
}

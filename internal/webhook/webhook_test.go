package webhook_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/netip"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	standard "github.com/standard-webhooks/standard-webhooks/libraries/go"
	"go.uber.org/goleak"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/internal/webhook"
	"github.com/perdure/perdure/store"
	"github.com/perdure/perdure/store/memory"
	hook "github.com/perdure/perdure/webhook"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// post is one request that arrived.
type post struct {
	url    string
	header http.Header
	body   []byte
	at     time.Time
}

// receivers are all endpoints of a test, in memory, by the host of their URL.
type receivers struct {
	mu     sync.Mutex
	posts  []post                          // guarded by mu
	answer func(host string, n int) answer // n counts the posts of a host, from 1; called without mu
	counts map[string]int                  // guarded by mu
}

// answer is what a receiver answers with; slow ones answer when the request's time is over, or
// never.
type answer struct {
	status int
	body   string
	hangs  bool
	wait   string // Retry-After
}

func (r *receivers) Do(ctx context.Context, req perdure.WebRequest) (perdure.WebResponse, error) {
	host := strings.Split(strings.TrimPrefix(req.URL, "https://"), "/")[0]
	r.mu.Lock()
	r.counts[host]++
	n := r.counts[host]
	r.posts = append(r.posts, post{req.URL, req.Header, req.Body, time.Now()})
	r.mu.Unlock()
	a := answer{status: 204}
	if r.answer != nil {
		a = r.answer(host, n)
	}
	if a.hangs {
		<-ctx.Done()
		return perdure.WebResponse{}, context.Cause(ctx)
	}
	return perdure.WebResponse{URL: req.URL, Status: a.status, Header: http.Header{"Retry-After": {a.wait}}, Body: []byte(a.body)}, nil
}

func (r *receivers) Resolve(_ context.Context, _, url string, _ perdure.NetworkList) ([]netip.AddrPort, error) {
	if strings.Contains(url, "169.254.169.254") {
		return nil, &perdure.EgressError{Code: perdure.EgressDenied, Text: "metadata"}
	}
	return nil, nil
}

// at returns the posts that a host got.
func (r *receivers) at(host string) (found []post) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, p := range r.posts {
		if strings.HasPrefix(p.url, "https://"+host) {
			found = append(found, p)
		}
	}
	return found
}

// bench is a sender over a store in memory, in a bubble.
type bench struct {
	*webhook.Sender
	t   *testing.T
	st  *memory.Store
	out *receivers
	n   int

	poll   time.Duration
	shared bool
	over   func(store.Store) store.Store // what stands between the sender and its store; nil: nothing
	log    *slog.Logger
	locked func() bool // whether secrets cannot be opened; nil: they can
}

func newBench(t *testing.T) *bench {
	t.Helper()
	b := &bench{t: t, st: memory.New(memory.Config{}), out: &receivers{counts: map[string]int{}}}
	t.Cleanup(func() { b.st.Close() })
	b.Sender = b.sender()
	return b
}

// slow makes a sender that looks seldom, for a test of days.
func (b *bench) slow() {
	b.poll = time.Minute
	b.Sender = b.sender()
}

func (b *bench) sender() *webhook.Sender {
	var st store.Store = b.st
	if b.over != nil {
		st = b.over(st)
	}
	return webhook.New(webhook.Config{
		Log: b.log, Store: st, Egress: b.out, Poll: b.poll, Shared: b.shared,
		Seal: func(_ perdure.WebhookID, secret string) ([]byte, error) { return []byte("sealed " + secret), nil },
		Open: func(_ perdure.WebhookID, sealed []byte) (string, error) {
			if b.locked != nil && b.locked() {
				return "", perdure.NotFound
			}
			return strings.TrimPrefix(string(sealed), "sealed "), nil
		},
		Mask: func(text string) string { return strings.ReplaceAll(text, "canary", "[gone]") },
	})
}

// run runs a sender until stop is called.
func (b *bench) run(s *webhook.Sender) (stop func()) {
	b.t.Helper()
	ctx, cancel := context.WithCancel(b.t.Context())
	ended := make(chan error, 1) // one result
	go func() { ended <- s.Run(ctx) }()
	return func() {
		b.t.Helper()
		cancel()
		if err := <-ended; err != nil {
			b.t.Errorf("Run: %v", err)
		}
	}
}

func (b *bench) mint() (uuid [16]byte) {
	b.n++
	uuid[15], uuid[14] = byte(b.n), byte(b.n>>8)
	return uuid
}

// session adds a session.
func (b *bench) session() perdure.SessionID {
	b.t.Helper()
	id := perdure.FormatID[perdure.SessionID](b.mint())
	b.write(func(tx store.Tx) error {
		return tx.Sessions().Create(store.Session{ID: id, Status: perdure.SessionStarted})
	})
	return id
}

// happen adds facts to a journal.
func (b *bench) happen(id perdure.SessionID, facts ...perdure.Fact) {
	b.t.Helper()
	var events []perdure.Event
	for _, f := range facts {
		events = append(events, perdure.Event{ID: perdure.FormatID[perdure.EventID](b.mint()), At: time.Now(), Actor: "runtime", Fact: f})
	}
	b.write(func(tx store.Tx) error { return tx.Journal().Append(id, events) })
}

func (b *bench) write(fn func(store.Tx) error) {
	b.t.Helper()
	if err := b.st.InTx(context.Background(), fn); err != nil {
		b.t.Fatal(err)
	}
}

// make makes a webhook at a host.
func (b *bench) make(host string, types ...string) hook.Created {
	b.t.Helper()
	made, err := b.Create(context.Background(), hook.Webhook{URL: "https://" + host + "/hook", Types: types, Owner: "user"})
	if err != nil {
		b.t.Fatal(err)
	}
	return made
}

// hook reads a webhook.
func (b *bench) hook(id perdure.WebhookID) hook.Webhook {
	b.t.Helper()
	w, err := b.Webhook(context.Background(), id)
	if err != nil {
		b.t.Fatal(err)
	}
	return w
}

// deliveries lists what a webhook was sent.
func (b *bench) deliveries(id perdure.WebhookID) []hook.Delivery {
	b.t.Helper()
	all, err := b.Deliveries(context.Background(), id, 0)
	if err != nil {
		b.t.Fatal(err)
	}
	return all
}

// settle lets a time of the bubble pass and everything that begins in it come to rest.
func settle(d time.Duration) {
	<-time.After(d)
	synctest.Wait()
}

func TestSends(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t)
		one, two := b.session(), b.session()
		b.happen(one, perdure.TurnFailed{Code: "before"})
		stop := b.run(b.Sender)
		defer stop()
		made := b.make("a.example", "turn.*")
		b.happen(one, perdure.TurnFailed{Code: "x"}, perdure.SessionUpdated{Title: "not sent"})
		b.happen(two, perdure.TurnCompleted{}, perdure.ApprovalRequested{})

		settle(3 * time.Second)

		posts := b.out.at("a.example")
		if len(posts) != 2 {
			t.Fatalf("got %d posts, want the two turns that ended after the webhook was made", len(posts))
		}
		verifier, err := standard.NewWebhook(made.Secret)
		if err != nil {
			t.Fatal(err)
		}
		seen := map[string]bool{}
		for _, p := range posts {
			if err := verifier.Verify(p.body, p.header); err != nil {
				t.Errorf("the official library refuses the signature: %v", err)
			}
			if verifier.Verify(append([]byte(" "), p.body...), p.header) == nil {
				t.Error("a body that was tampered with verifies")
			}
			var m struct {
				Type string `json:"type"`
				Data struct {
					Event   string `json:"event_id"`
					Session string `json:"session_id"`
					Code    string `json:"code"`
				} `json:"data"`
			}
			if err := json.Unmarshal(p.body, &m); err != nil || m.Data.Event == "" || strings.Contains(string(p.body), `"x"`) {
				t.Errorf("got %s, %v", p.body, err)
			}
			seen[m.Type+" "+m.Data.Session] = true
		}
		if !seen["turn.failed "+string(one)] || !seen["turn.completed "+string(two)] {
			t.Errorf("got %v", seen)
		}
		settle(6 * time.Minute)
		if p := posts[0]; verifier.Verify(p.body, p.header) == nil {
			t.Error("what was sent six minutes ago verifies still")
		}
		for _, d := range b.deliveries(made.ID) {
			if d.State != hook.Delivered || d.Attempts != 1 || len(d.AttemptLog) != 1 || d.AttemptLog[0].Status != 204 {
				t.Errorf("got %+v", d)
			}
		}
	})
}

// TestRetries: a delivery is retried under the same id for a day with the same body; then the
// webhook is disabled.
func TestRetries(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t)
		b.slow()
		b.out.answer = func(string, int) answer { return answer{status: 500, body: "token: canary"} }
		id := b.session()
		made := b.make("down.example")
		stop := b.run(b.Sender)
		defer stop()
		b.happen(id, perdure.TurnCompleted{})

		settle(23 * time.Hour / 2)
		if !b.hook(made.ID).Enabled {
			t.Error("it is switched off after half a day")
		}
		settle(14 * time.Hour)

		posts := b.out.at("down.example")
		if len(posts) != hook.MaxAttempts() {
			t.Fatalf("got %d tries, want %d", len(posts), hook.MaxAttempts())
		}
		for i, p := range posts {
			if p.header.Get("Webhook-Id") != posts[0].header.Get("Webhook-Id") || string(p.body) != string(posts[0].body) {
				t.Errorf("try %d is another message", i+1)
			}
		}
		if total := posts[len(posts)-1].at.Sub(posts[0].at); total < 19*time.Hour || total > 24*time.Hour+time.Minute {
			t.Errorf("the tries took %s", total)
		}
		d := b.deliveries(made.ID)[0]
		if d.State != hook.Failed || len(d.AttemptLog) != hook.MaxAttempts() || d.AttemptLog[0].Answer != "token: [gone]" {
			t.Errorf("got %+v", d)
		}
		w := b.hook(made.ID)
		if w.Enabled || w.Disabled == "" || w.Failures != hook.MaxAttempts() {
			t.Errorf("got %+v, want it to be switched off", w)
		}
		b.happen(id, perdure.TurnCompleted{})
		settle(time.Minute)
		if n := len(b.deliveries(made.ID)); n != 1 {
			t.Errorf("%d deliveries are queued for a webhook that is off", n)
		}
	})
}

// TestOneSuccessKeepsItOn: a webhook is not switched off for one delivery when another got through
// meanwhile.
func TestOneSuccessKeepsItOn(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t)
		b.slow()
		b.out.answer = func(host string, n int) answer {
			if posts := b.out.at(host); posts[n-1].header.Get("Webhook-Id") == posts[0].header.Get("Webhook-Id") {
				return answer{status: 500}
			}
			return answer{status: 200}
		}
		id := b.session()
		made := b.make("shaky.example")
		stop := b.run(b.Sender)
		defer stop()
		b.happen(id, perdure.TurnCompleted{})
		settle(14 * time.Hour)
		b.happen(id, perdure.TurnCompleted{})

		settle(12 * time.Hour)

		all := b.deliveries(made.ID)
		if len(all) != 2 || all[0].State != hook.Delivered || all[1].State != hook.Failed {
			t.Errorf("got %+v", all)
		}
		if w := b.hook(made.ID); !w.Enabled || w.Failures == 0 {
			t.Errorf("got %+v, want it to be on", w)
		}
	})
}

func TestGone(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t)
		b.out.answer = func(string, int) answer { return answer{status: http.StatusGone} }
		id := b.session()
		made := b.make("gone.example")
		stop := b.run(b.Sender)
		defer stop()
		b.happen(id, perdure.TurnCompleted{})

		settle(5 * time.Second)

		if w := b.hook(made.ID); w.Enabled || !strings.Contains(w.Disabled, "410") || len(b.out.at("gone.example")) != 1 {
			t.Errorf("got %+v after %d posts", w, len(b.out.at("gone.example")))
		}
		on := true
		if _, err := b.Test(t.Context(), made.ID); !errors.Is(err, perdure.Conflict) {
			t.Errorf("test of one that is off: %v", err)
		}
		b.happen(id, perdure.TurnFailed{})
		if w, err := b.Change(t.Context(), made.ID, hook.Patch{Enabled: &on}); err != nil || !w.Enabled || w.Failures != 0 {
			t.Errorf("got %+v, %v", w, err)
		}
		settle(5 * time.Second)
		if n := len(b.deliveries(made.ID)); n != 1 {
			t.Errorf("%d deliveries, want none of what happened while it was off", n)
		}
	})
}

// TestDeadEndpoints: many endpoints that never answer, more than there are slots, delay a working
// endpoint by seconds while they are new, and not at all once they are known to fail.
func TestDeadEndpoints(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t)
		b.out.answer = func(host string, _ int) answer { return answer{status: 200, hangs: strings.HasPrefix(host, "dead")} }
		id := b.session()
		for i := range 40 {
			b.make(fmt.Sprintf("dead%d.example", i))
		}
		b.make("alive.example")
		stop := b.run(b.Sender)
		defer stop()
		for _, within := range []time.Duration{15 * time.Second, 3 * time.Second} {
			before := len(b.out.at("alive.example"))
			for range 5 {
				b.happen(id, perdure.TurnCompleted{})
			}

			settle(within)

			if n := len(b.out.at("alive.example")) - before; n != 5 {
				t.Errorf("got %d posts within %s, want 5", n, within)
			}
		}
	})
}

// TestDeathBetween: a sender that dies after each of its steps loses nothing, and a repeated
// delivery has the same id.
func TestDeathBetween(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t)
		b.out.answer = func(_ string, n int) answer { return answer{status: 200, hangs: n == 1} }
		id := b.session()
		made := b.make("a.example")
		b.happen(id, perdure.TurnCompleted{}) // no sender runs
		stop := b.run(b.Sender)
		settle(2 * time.Second) // the first try is under way
		stop()
		if n := len(b.out.at("a.example")); n != 1 {
			t.Fatalf("got %d posts", n)
		}
		stop = b.run(b.sender())
		settle(time.Minute)
		stop()

		posts, all := b.out.at("a.example"), b.deliveries(made.ID)
		if len(posts) != 2 || posts[0].header.Get("Webhook-Id") != posts[1].header.Get("Webhook-Id") {
			t.Fatalf("got %d posts, want the same twice", len(posts))
		}
		if len(all) != 1 || all[0].State != hook.Delivered || all[0].Attempts != 1 {
			t.Errorf("got %+v", all)
		}
	})
}

// TestTwoSenders: of two that look at the same store, one queues an event and one sends it.
func TestTwoSenders(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t)
		b.shared = true
		b.Sender = b.sender()
		id := b.session()
		made := b.make("a.example")
		first, second := b.run(b.Sender), b.run(b.sender())
		defer first()
		defer second()
		for range 50 {
			b.happen(id, perdure.TurnCompleted{})
			settle(100 * time.Millisecond)
		}

		settle(10 * time.Second)

		if posts, all := b.out.at("a.example"), b.deliveries(made.ID); len(posts) != 50 || len(all) != 50 {
			t.Errorf("got %d posts of %d deliveries, want 50", len(posts), len(all))
		}
	})
}

// TestUnsigned: that a secret cannot be opened here is no fault of the receiver, which keeps its
// webhook and gets what waits once it can be.
func TestUnsigned(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t)
		b.slow()
		var locked atomic.Bool
		locked.Store(true)
		b.locked = locked.Load
		id := b.session()
		made := b.make("a.example")
		stop := b.run(b.Sender)
		defer stop()
		b.happen(id, perdure.TurnCompleted{})
		settle(30 * time.Hour) // all tries of the first
		b.happen(id, perdure.TurnCompleted{})
		settle(time.Hour)

		if w := b.hook(made.ID); !w.Enabled || w.Failures > 0 || len(b.out.at("a.example")) > 0 {
			t.Errorf("got %+v after %d posts", w, len(b.out.at("a.example")))
		}
		locked.Store(false)
		settle(24 * time.Hour)
		if n := len(b.out.at("a.example")); n != 1 {
			t.Errorf("%d arrived, want the one that still waited", n)
		}
		for _, d := range b.deliveries(made.ID) {
			if d.AttemptLog[0].Error == "" {
				t.Errorf("its log does not say why it was not sent: %+v", d)
			}
		}
	})
}

// TestLateWebhook: a webhook that is made while others are behind gets nothing of before.
func TestLateWebhook(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t)
		id, other := b.session(), b.session()
		first := b.make("first.example")
		b.happen(id, perdure.TurnCompleted{})
		b.happen(other, perdure.TurnCompleted{})
		second := b.make("second.example")
		b.happen(id, perdure.TurnCompleted{})

		stop := b.run(b.Sender)
		defer stop()
		settle(5 * time.Second)

		if one, two := len(b.deliveries(first.ID)), len(b.deliveries(second.ID)); one != 3 || two != 1 {
			t.Errorf("got %d and %d deliveries, want 3 and 1", one, two)
		}
	})
}

func TestRedeliverAndPing(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t)
		id := b.session()
		made := b.make("a.example")
		stop := b.run(b.Sender)
		defer stop()
		b.happen(id, perdure.TurnCompleted{})
		settle(2 * time.Second)
		sent := b.deliveries(made.ID)[0]

		if _, err := b.Redeliver(t.Context(), made.ID, sent.ID); err != nil {
			t.Fatal(err)
		}
		ping, err := b.Test(t.Context(), made.ID)
		if err != nil {
			t.Fatal(err)
		}
		settle(2 * time.Second)

		counts := map[string]int{}
		for _, p := range b.out.at("a.example") {
			counts[p.header.Get("Webhook-Id")]++
		}
		if counts[string(sent.ID)] != 2 || counts[string(ping.ID)] != 1 {
			t.Errorf("got %v", counts)
		}
		if _, err := b.Redeliver(t.Context(), "webhook_none", sent.ID); !errors.Is(err, perdure.NotFound) {
			t.Errorf("got %v", err)
		}
		b.out.answer = func(string, int) answer { return answer{status: 503} }
		if _, err := b.Test(t.Context(), made.ID); err != nil {
			t.Fatal(err)
		}
		settle(5 * time.Minute)
		if w := b.hook(made.ID); w.Failures != 0 || len(b.out.at("a.example")) != 4 {
			t.Errorf("a ping that failed: %+v, %d posts", w, len(b.out.at("a.example")))
		}
	})
}

// TestRotation: the former secret signs beside the new one for a day (S20).
func TestRotation(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t)
		b.slow()
		id := b.session()
		made := b.make("a.example")
		again, err := b.Rotate(t.Context(), made.ID, hook.Rotation{})
		if err != nil || again.Secret == made.Secret {
			t.Fatalf("got %v", err)
		}
		stop := b.run(b.Sender)
		defer stop()
		for _, c := range []struct {
			secret string
			wants  [2]bool // by the former, and after a day
		}{{made.Secret, [2]bool{true, false}}, {again.Secret, [2]bool{true, true}}} {
			verifier, err := standard.NewWebhook(c.secret)
			if err != nil {
				t.Fatal(err)
			}
			for i, want := range c.wants {
				if i == 1 && c.secret == made.Secret {
					settle(webhook.RotationTime)
				}
				b.happen(id, perdure.TurnCompleted{})
				settle(2 * time.Minute)
				posts := b.out.at("a.example")
				last := posts[len(posts)-1]
				if got := verifier.Verify(last.body, last.header) == nil; got != want {
					t.Errorf("verifies with the secret %d: got %t, want %t", i, got, want)
				}
			}
		}
	})
}

// TestRotationAgain: the same request again replaces the secret that its caller has not seen, and
// leaves the former secret, which receivers have, valid for its day. If another request has rotated
// meanwhile, it changes nothing (R15, H4).
func TestRotationAgain(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t)
		made := b.make("a.example")
		row := func() (row store.Webhook) {
			b.write(func(tx store.Tx) (err error) {
				row, err = tx.Webhooks().Get(made.ID)
				return err
			})
			return row
		}
		rotate := func(r hook.Rotation) hook.Created {
			settle(time.Minute)
			got, err := b.Rotate(t.Context(), made.ID, r)
			if err != nil {
				t.Fatal(err)
			}
			return got
		}
		live := row().Sealed
		one := hook.Rotation{Request: "one", At: time.Now()}

		first := rotate(one)
		before := row()
		one.Repeated = true
		second := rotate(one)
		after := row()
		other := rotate(hook.Rotation{Request: "two", At: time.Now()})
		late := rotate(one)
		last := row()
		// it came before, and its process died
		never := rotate(hook.Rotation{Request: "three", At: time.Now(), Repeated: true})

		if !bytes.Equal(before.Former, live) || !bytes.Equal(after.Former, live) || !after.FormerUntil.Equal(before.FormerUntil) || bytes.Equal(before.Sealed, after.Sealed) {
			t.Errorf("the secret that receivers have is gone: %+v, then %+v", before, after)
		}
		if first.Secret == "" || second.Secret == "" || first.Secret == second.Secret {
			t.Error("the same request again shows the same secret, or none")
		}
		if late.Secret != "" || !bytes.Equal(last.Former, after.Sealed) || late.Version != other.Version {
			t.Errorf("a request from before another rotation: %+v", last)
		}
		if never.Secret == "" {
			t.Error("what was never carried out is not when it comes again")
		}
	})
}

func TestRefused(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	for _, w := range []hook.Webhook{
		{URL: ""}, {URL: "ftp://a.example"}, {URL: "https://u:p@a.example"}, {URL: "https://169.254.169.254/latest"},
		{URL: "https://a.example", Types: []string{"task.created"}}, {URL: "https://a.example", Types: []string{"*"}},
		{URL: "https://a.example", Body: "everything"}, {URL: "https://a.example", Session: "session_x"},
	} {
		if _, err := b.Create(t.Context(), w); !errors.Is(err, perdure.Invalid) {
			t.Errorf("%+v: got %v, want Invalid", w, err)
		}
	}
	absent := perdure.FormatID[perdure.SessionID](b.mint())
	if _, err := b.Create(t.Context(), hook.Webhook{URL: "https://a.example", Session: absent}); !errors.Is(err, perdure.NotFound) {
		t.Errorf("of no session: %v", err)
	}
	made := b.make("a.example")
	bad := "https://169.254.169.254/"
	if _, err := b.Change(t.Context(), made.ID, hook.Patch{URL: &bad}); !errors.Is(err, perdure.Invalid) {
		t.Errorf("changed to the metadata: %v", err)
	}
	made.Webhook.URL = "https://b.example"
	if _, err := b.Create(t.Context(), made.Webhook); !errors.Is(err, perdure.Conflict) {
		t.Errorf("the id again: %v", err)
	}
	made.Webhook.URL = "https://a.example/hook"
	again, err := b.Create(t.Context(), made.Webhook)
	if err != nil || again.ID != made.ID || again.Secret == "" || again.Secret == made.Secret {
		t.Errorf("the same again: %+v, %v", again, err)
	}
}

// TestSessionGoes: deliveries of a session are deleted with it.
func TestSessionGoes(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t)
		b.out.answer = func(string, int) answer { return answer{status: 500} }
		id := b.session()
		made := b.make("a.example")
		stop := b.run(b.Sender)
		defer stop()
		b.happen(id, perdure.TurnCompleted{})
		settle(time.Second)
		b.write(func(tx store.Tx) error { return tx.Sessions().Remove(id) })
		before := len(b.out.at("a.example"))

		settle(10 * time.Minute)

		if n := len(b.out.at("a.example")); n > before || len(b.deliveries(made.ID)) != 0 {
			t.Errorf("%d posts after %d, deliveries %+v", n, before, b.deliveries(made.ID))
		}
	})
}

// TestOrgs: a webhook gets what happens in the sessions of its org, and can name no session of
// another.
func TestOrgs(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t)
		own := b.session()
		foreign := perdure.FormatID[perdure.SessionID](b.mint())
		b.write(func(tx store.Tx) error {
			return tx.Sessions().Create(store.Session{ID: foreign, Org: "acme", Status: perdure.SessionStarted})
		})
		made := b.make("own.example")
		theirs, err := b.Create(t.Context(), hook.Webhook{URL: "https://acme.example/", Org: "acme"})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := b.Create(t.Context(), hook.Webhook{URL: "https://own.example/", Session: foreign}); !errors.Is(err, perdure.NotFound) {
			t.Errorf("of another org's session: %v", err)
		}
		stop := b.run(b.Sender)
		defer stop()
		b.happen(own, perdure.TurnCompleted{})
		b.happen(foreign, perdure.TurnCompleted{})

		settle(3 * time.Second)

		for id, session := range map[perdure.WebhookID]perdure.SessionID{made.ID: own, theirs.ID: foreign} {
			if all := b.deliveries(id); len(all) != 1 || all[0].Session != session {
				t.Errorf("got %+v, want one of %s", all, session)
			}
		}
	})
}

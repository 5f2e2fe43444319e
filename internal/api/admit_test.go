package api

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/sync/semaphore"

	"github.com/perdure/perdure/engine"
	"github.com/perdure/perdure/internal/access"
)

func refusedBy(err error) bool {
	var p *Problem
	return errors.As(err, &p) && p.Status == http.StatusServiceUnavailable && p.Code == "overloaded" && p.Retryable
}

// TestGate: so many are in, so many wait in the order in which they came, and all others are
// refused at once.
func TestGate(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		g := newAdmissionQueue("writes", 2, 3, time.Second)
		began := time.Now()
		entered := make(chan int, 10)
		for range 2 {
			if err := g.acquire(t.Context(), "a"); err != nil {
				t.Fatal(err)
			}
		}
		for i := range 3 {
			go func() {
				if err := g.acquire(t.Context(), "a"); err == nil {
					entered <- i
				}
			}()
			synctest.Wait()
		}
		if !g.full("a") {
			t.Error("it takes more")
		}
		if err := g.acquire(t.Context(), "a"); !refusedBy(err) || time.Since(began) != 0 {
			t.Errorf("got %v after %s", err, time.Since(began))
		}
		for i := range 3 {
			g.release()
			synctest.Wait()
			if got := <-entered; got != i {
				t.Errorf("%d came in, want %d", got, i)
			}
		}
		g.release()
		if g.full("a") || g.waiting != 0 || g.running != 1 {
			t.Errorf("%d are in and %d wait", g.running, g.waiting)
		}
	})
}

// TestR22GateTurns: a principal with few requests is admitted although another one fills the queue;
// the other one's newest request is refused instead.
func TestR22GateTurns(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		g := newAdmissionQueue("writes", 1, 3, time.Hour)
		told := make(chan string, 10)
		ask := func(who, name string) {
			go func() {
				if err := g.acquire(t.Context(), who); err != nil {
					name += " refused"
				}
				told <- name
			}()
			synctest.Wait()
		}
		for _, name := range []string{"in", "first", "second", "third"} {
			ask("noisy", name)
		}
		if got := <-told; got != "in" || !g.full("noisy") || g.full("quiet") {
			t.Errorf("%s came in; full for the noisy one %v, for the quiet one %v", got, g.full("noisy"), g.full("quiet"))
		}
		ask("noisy", "fourth")
		ask("quiet", "quiet")
		for _, want := range []string{"fourth refused", "third refused", "first", "quiet", "second"} {
			select {
			case got := <-told:
				if got != want {
					t.Errorf("got %s, want %s", got, want)
				}
			default:
				g.release()
				synctest.Wait()
				if got := <-told; got != want {
					t.Errorf("got %s, want %s", got, want)
				}
			}
		}
		g.release()
		if g.running != 0 || g.waiting != 0 || len(g.lines) != 0 || len(g.order) != 0 {
			t.Errorf("left over: %+v", g)
		}
	})
}

// TestR23RefusalsThatWait: only a limited number of refused requests wait for their answer, however
// many there are; the others are answered at once.
func TestR23RefusalsThatWait(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		a := &API{refusalPace: newRefusalPace(), draining: make(chan struct{})}
		began, atOnce := time.Now(), make(chan bool, 2*refusalsWaiting)
		for range cap(atOnce) {
			go func() { a.delayRefusal(t.Context()); atOnce <- time.Since(began) == 0 }()
		}
		synctest.Wait()
		waiting, told := int(a.refusalsDelayed.Load()), len(atOnce)
		// Requests that need not wait may still be counted when the last ones arrive.
		least := refusalsWaiting - refusalsAtOnce
		if waiting < least || waiting > refusalsWaiting || told != cap(atOnce)-waiting {
			t.Errorf("%d wait and %d were answered at once, want %d to %d, and all others", waiting, told, least, refusalsWaiting)
		}
		for range cap(atOnce) {
			<-atOnce
		}
		if a.refusalsDelayed.Load() != 0 {
			t.Errorf("%d wait in the end", a.refusalsDelayed.Load())
		}
	})
}

// TestRefusalsAreSlow: the first refusals are answered at once, further ones at a limited rate, and
// each within a second.
func TestRefusalsAreSlow(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		a := &API{refusalPace: newRefusalPace(), draining: make(chan struct{})}
		began, told := time.Now(), make(chan time.Duration, 1000)
		for range cap(told) {
			go func() { a.delayRefusal(t.Context()); told <- time.Since(began) }()
		}
		within := map[time.Duration]int{}
		for range cap(told) {
			took := <-told
			within[took]++
			if took > refusalPatience {
				t.Fatalf("answered after %s", took)
			}
		}
		if within[0] != refusalsAtOnce || within[refusalEvery] != 1 {
			t.Errorf("%d were answered at once, want %d", within[0], refusalsAtOnce)
		}
		close(a.draining)
		began = time.Now()
		a.delayRefusal(t.Context())
		if time.Since(began) != 0 {
			t.Error("a server that ends waits")
		}
	})
}

// TestRate: so many at once, then one each while, and another caller's are not counted.
func TestRate(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		l, header := newRate(2), http.Header{}
		for left := 1; left >= 0; left-- {
			if err := l.allow("noisy", header); err != nil || header.Get("RateLimit") != fmt.Sprintf(`"caller";r=%d;t=1`, left) {
				t.Errorf("got %v %v, want %d left", err, header, left)
			}
		}
		err := l.allow("noisy", header)
		if p := (*Problem)(nil); !errors.As(err, &p) || p.Status != 429 || p.header.Get("Retry-After") != "1" || header.Get("RateLimit") != `"caller";r=0;t=1` {
			t.Errorf("got %v %v", err, header)
		}
		if err := l.allow("quiet", header); err != nil || header.Get("RateLimit-Policy") != `"caller";q=2;w=1` {
			t.Errorf("got %v %v", err, header)
		}
		<-time.After(time.Second / 2)
		if err := l.allow("noisy", header); err != nil {
			t.Error(err)
		}
		var none *rate
		if err := none.allow("noisy", nil); err != nil {
			t.Error(err)
		}
	})
}

// TestGatePatience: a request that waits in vain is refused in good time, and one whose client
// cleanups stops waiting.
func TestGatePatience(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		g := newAdmissionQueue("writes", 1, 5, time.Second)
		if err := g.acquire(t.Context(), "a"); err != nil {
			t.Fatal(err)
		}
		began := time.Now()
		if err := g.acquire(t.Context(), "a"); !refusedBy(err) || time.Since(began) != time.Second {
			t.Errorf("got %v after %s", err, time.Since(began))
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
		defer cancel()
		if err := g.acquire(ctx, "a"); !errors.Is(err, context.DeadlineExceeded) || g.waiting != 0 {
			t.Errorf("got %v, %d wait", err, g.waiting)
		}
		var none *admissionQueue
		if err := none.acquire(t.Context(), "a"); err != nil || none.full("a") {
			t.Errorf("a request that needs no slot got %v", err)
		}
		none.release()
	})
}

// TestR23GateHurry: after a refusal, new requests wait only for a fraction of the patience; after
// as long as the patience without a refusal, it is restored. A queue that moves without refusals is
// no overload.
func TestR23GateHurry(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		g := newAdmissionQueue("writes", 1, 5, time.Second)
		if err := g.acquire(t.Context(), "a"); err != nil {
			t.Fatal(err)
		}
		for range 10 { // each waits for 900 ms, the queue is never empty, and none is refused
			let := make(chan error)
			for range 2 {
				go func() { let <- g.acquire(t.Context(), "a") }()
			}
			<-time.After(900 * time.Millisecond)
			for range 2 {
				g.release()
				if err := <-let; err != nil {
					t.Fatal(err)
				}
			}
		}
		refused := func() time.Duration {
			began := time.Now()
			if err := g.acquire(t.Context(), "a"); !refusedBy(err) {
				t.Errorf("got %v", err)
			}
			return time.Since(began)
		}
		for i, want := range []time.Duration{time.Second, time.Second / overloadDivisor, time.Second / overloadDivisor} {
			if got := refused(); got != want {
				t.Errorf("%d: refused after %s, want %s", i, got, want)
			}
		}
		gone, cancel := context.WithTimeout(t.Context(), time.Second/overloadDivisor/2)
		defer cancel()
		<-time.After(time.Second - time.Second/overloadDivisor/2)
		if err := g.acquire(gone, "a"); refusedBy(err) { // a request whose client leaves is not refused
			t.Errorf("got %v", err)
		}
		<-time.After(time.Second / overloadDivisor / 2)
		if got := refused(); got != time.Second {
			t.Errorf("after that time without a refusal, it was refused after %s", got)
		}
	})
}

// TestR23GateLine: in an overload the queue is shortened like the patience. Requests that are
// queued stay, and after a while without refusals the queue has its full length again.
func TestR23GateLine(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		g := newAdmissionQueue("writes", 1, 2*overloadDivisor, time.Second)
		ctx, gone := context.WithCancel(t.Context())
		waiting := func() int {
			g.mu.Lock()
			defer g.mu.Unlock()
			return g.waiting
		}
		fill := func(want int) {
			t.Helper()
			for !g.full("a") && waiting() < 100 {
				go func() {
					if g.acquire(ctx, "a") == nil {
						g.release()
					}
				}()
				synctest.Wait()
			}
			if got := waiting(); got != want {
				t.Errorf("%d wait, want %d", got, want)
			}
		}
		if err := g.acquire(ctx, "a"); err != nil {
			t.Fatal(err)
		}
		fill(2 * overloadDivisor)
		<-time.After(time.Second / 2)
		if got := waiting(); got != 2*overloadDivisor {
			t.Errorf("%d of the earlier requests wait", got)
		}
		<-time.After(time.Second / 2)
		synctest.Wait()
		fill(2)
		<-time.After(2 * time.Second)
		synctest.Wait()
		fill(2 * overloadDivisor)
		gone()
		synctest.Wait()
	})
}

// TestGateKinds: the kind of an operation decides which slots it needs.
func TestGateKinds(t *testing.T) {
	t.Parallel()
	a, err := New(Config{Engine: struct{ engine.Engine }{}, Local: true})
	if err != nil {
		t.Fatal(err)
	}
	g := &a.queues
	queueOf := func(r *http.Request) *admissionQueue {
		_, pattern := a.mux.Handler(r)
		return a.queueOf(r, a.routes[pattern].class)
	}
	for line, want := range map[string]*admissionQueue{
		"GET /healthz": nil, "POST /healthz": nil, "GET /readyz": nil, "GET /openapi.json": nil, "GET /docs": g.pages, "GET /docs/{path...}": g.pages, "GET /llms.txt": g.pages,
		"GET /v1/tasks": g.reads, "GET /v1/tasks/{id}": g.reads, "HEAD /v1/tasks": g.reads, "GET /v1/tasks/{id}?wait=1s": g.open, "GET /v1/tasks/{id}/log?follow=true": g.open,
		"GET /v1/events?topics=tasks": g.open, "POST /v1/sessions": g.writes, "PUT /v1/budgets/{scope}/{subject}": g.writes, "DELETE /v1/sessions/{id}": g.writes,
		"POST /v1/tasks/{id}/cancel": g.urgent, "POST /v1/sessions/{id}/tasks/cancel": g.urgent, "POST /v1/sessions/{id}/interrupt": g.urgent,
		"POST /v1/sessions/{id}/pause": g.urgent, "POST /v1/sessions/{id}/resume": g.writes,
		"POST /v1/approvals/{id}/deny": g.urgent, "POST /v1/approvals/{id}/approve": g.writes, "POST /v1/schedules/{id}/pause": g.urgent,
		"POST /v1/tools/{name}/call": g.calls, "POST /v1/connections/{connection}/test": g.calls,
	} {
		method, target, _ := strings.Cut(line, " ")
		r, err := http.NewRequest(method, strings.ReplaceAll(strings.ReplaceAll(target, "{", ""), "}", ""), nil)
		if err != nil {
			t.Fatal(err)
		}
		if got := queueOf(r); got != want {
			t.Errorf("%s: got %+v", line, got)
		}
	}
	r, err := http.NewRequest(http.MethodGet, "/v1/sessions/a/events", nil)
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Accept", formEvents)
	if queueOf(r) != g.open {
		t.Error("a stream is no read")
	}
}

// TestMetered: bodies take room as they come, and no more than there is.
func TestMetered(t *testing.T) {
	t.Parallel()
	all := semaphore.NewWeighted(100)
	left := func() (n int64) {
		for all.TryAcquire(1) {
			n++
		}
		all.Release(n)
		return n
	}
	first, second := &meteredBody{body: strings.NewReader(strings.Repeat("a", 60)), budget: all}, &meteredBody{body: strings.NewReader(strings.Repeat("a", 60)), budget: all}
	if body, err := io.ReadAll(first); err != nil || len(body) != 60 || left() != 40 {
		t.Errorf("got %d bytes, %v, %d left", len(body), err, left())
	}
	if _, err := io.ReadAll(second); !errors.Is(err, errNoBudget) || !refusedBy(err) {
		t.Errorf("got %v", err)
	}
	all.Release(first.reserved)
	all.Release(second.reserved)
	if left() != 100 {
		t.Errorf("%d left", left())
	}
}

// TestOpenPagesQueueByAddress: requests that need no token wait and are counted by the address of
// their client, in the line of no principal.
func TestOpenPagesQueueByAddress(t *testing.T) {
	t.Parallel()
	a, err := New(Config{Engine: struct{ engine.Engine }{}, Token: "a token"})
	if err != nil {
		t.Fatal(err)
	}
	seen := map[string]bool{}
	for _, remote := range []string{"192.0.2.1:1", "192.0.2.1:2", "192.0.2.2:1"} {
		r := httptest.NewRequest(http.MethodGet, callbackPath+"?state=x", nil)
		r.RemoteAddr = remote
		_, pattern := a.mux.Handler(r)
		req := &request{}

		_, leave, err := a.identify(r.WithContext(context.WithValue(r.Context(), requestKey{}, req)), req, pattern)

		if leave(); err != nil || req.principal == access.Root {
			t.Errorf("%s: principal %q, %v", remote, req.principal, err)
		}
		seen[req.principal] = true
	}
	if len(seen) != 2 {
		t.Errorf("two clients are %v", seen)
	}
}

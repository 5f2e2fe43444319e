package api_test

import (
	"context"
	"net/http"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/perdure/perdure/engine"
	"github.com/perdure/perdure/internal/api"
)

// slowKeys are keys whose Begin waits.
type slowKeys struct {
	api.Keys
	begun chan struct{}
	gate  chan struct{}
}

func (k *slowKeys) Begin(ctx context.Context, r api.Request) (api.Request, error) {
	k.begun <- struct{}{}
	<-k.gate
	return k.Keys.Begin(ctx, r)
}

// TestR23Overload: while all slots for writes are taken, a further write is refused with what a
// client needs to know. Cancels, reads, health checks and requests that wait for other slots are
// not affected.
func TestR23Overload(t *testing.T) {
	t.Parallel()
	k := &slowKeys{begun: make(chan struct{}, 10), gate: make(chan struct{})}
	r := newRig(t, func(c *api.Config) {
		k.Keys, c.Keys = c.Keys, k
		c.Admission = api.Admission{Writes: 2, Waiting: 1, Patience: 1 << 40}
	})
	s := r.session()
	r.say(s, "spawn hold")
	r.entered("hold")
	task := r.task(s)
	answers := make(chan reply, 4)
	create := func(key string) {
		answers <- r.do(ask{method: http.MethodPost, path: "/v1/sessions", body: `{"agent":{}}`, header: map[string]string{"Idempotency-Key": key}})
	}
	go create("a")
	go create("b")
	<-k.begun
	<-k.begun
	go create("c") // one of these two waits, and the other one is refused
	go create("d")
	got := <-answers
	if p := r.refusal(got, 503, "overloaded"); !p.Retryable || got.header.Get("Retry-After") != "1" ||
		got.header.Get("RateLimit-Policy") != `"writes";q=2;qu="concurrent-requests"` || got.header.Get("RateLimit") != `"writes";r=0;t=1` {
		t.Errorf("got %+v %v", p, got.header)
	}
	for _, path := range []string{"/healthz", "/v1/tools", s} {
		if got := r.do(get(path)); got.status != 200 {
			t.Errorf("%s: got %d %s", path, got.status, got.body)
		}
	}
	if got := r.do(post("/v1/tasks/"+string(task.ID)+"/cancel", "")); got.status != 202 {
		t.Errorf("a cancel got %d %s", got.status, got.body)
	}
	close(k.gate)
	for range 3 {
		if got := <-answers; got.status != 201 {
			t.Errorf("got %d %s", got.status, got.body)
		}
	}
	want[engine.Session](r, 201, post("/v1/sessions", `{"agent":{}}`))
}

// TestR23Calls: tools that are called and servers that are tested over HTTP take as long as they
// take; they take no place from writes, and have places of their own.
func TestR23Calls(t *testing.T) {
	t.Parallel()
	r := newRig(t, func(c *api.Config) {
		c.Admission = api.Admission{Writes: 1, Waiting: 1, Calls: 1, Patience: time.Millisecond}
	})
	called := make(chan reply)
	go func() { called <- r.do(post("/v1/tools/slow/call", `{"args":{"text":"a"}}`)) }()
	r.entered("slow")
	want[engine.Session](r, 201, post("/v1/sessions", `{"agent":{}}`))
	got := r.do(post("/v1/tools/echo/call", `{"args":{"text":"a"}}`))
	if r.refusal(got, 503, "overloaded"); got.header.Get("RateLimit-Policy") != `"calls";q=1;qu="concurrent-requests"` {
		t.Errorf("got %v", got.header)
	}
	r.release()
	if got := <-called; got.status != 200 {
		t.Errorf("got %d %s", got.status, got.body)
	}
}

// recordedKeys are keys that record which requests stop work. Begin waits with the key "held".
type recordedKeys struct {
	slowKeys
	mu        sync.Mutex
	stopsWork map[string]bool // guarded by mu; by key
}

func (k *recordedKeys) Begin(ctx context.Context, r api.Request) (api.Request, error) {
	if r.Key == "held" {
		return k.slowKeys.Begin(ctx, r)
	}
	k.mu.Lock()
	k.stopsWork[r.Key] = r.StopsWork
	k.mu.Unlock()
	return k.Keys.Begin(ctx, r)
}

// TestStopsWork sends every operation that changes something to a server whose slots for writes are
// taken. What stops work gets through, and the record of its key says so, so that it works on a
// full disk, too.
func TestStopsWork(t *testing.T) {
	t.Parallel()
	k := &recordedKeys{slowKeys: slowKeys{begun: make(chan struct{}, 1), gate: make(chan struct{})}, stopsWork: map[string]bool{}}
	r := newRig(t, func(c *api.Config) {
		k.Keys, c.Keys = c.Keys, k
		c.Admission = api.Admission{Writes: 1, Waiting: 1, Patience: 1 << 40}
	})
	answers := make(chan reply, 3)
	create := func(key string) {
		answers <- r.do(given(post("/v1/sessions", `{"agent":{}}`), "Idempotency-Key", key))
	}
	go create("held")
	<-k.begun
	go create("a") // one of these two waits, and the other one is refused
	go create("b")
	r.refusal(<-answers, 503, "overloaded")
	wants := map[string]string{
		"cancel-task": "urgent", "cancel-tasks": "urgent", "cancel-many-tasks": "urgent", "interrupt-session": "urgent", "pause-session": "urgent",
		"deny": "urgent", "pause-schedule": "urgent", "revoke-token": "urgent",
		"call-tool": "calls", "test-connection": "calls", "test-provider": "calls", "test-webhook": "calls", "finish-connection": "calls",
	}

	s, _ := r.document()
	s.each(func(method, path string, op operation) {
		if method == "get" {
			return
		}
		q := ask{method: strings.ToUpper(method), path: regexp.MustCompile(`\{\w+\}`).ReplaceAllString(path, "x")}
		if op.RequestBody != nil {
			q.body = string(op.RequestBody.Content["application/json"].Example)
		}
		got := r.do(given(q, "Idempotency-Key", op.ID))
		k.mu.Lock()
		stopsWork, begun := k.stopsWork[op.ID]
		k.mu.Unlock()
		if queue := wants[op.ID]; begun != (queue != "") || stopsWork != (queue == "urgent") || (got.status == 503) != (queue == "") {
			t.Errorf("%s: got %d, begun %t, stops work %t, want the queue %q", op.ID, got.status, begun, stopsWork, queue)
		}
		delete(wants, op.ID)
	})

	if len(wants) > 0 {
		t.Errorf("the document lacks %v", wants)
	}
	close(k.gate)
	for range 2 {
		if got := <-answers; got.status != 201 {
			t.Errorf("got %d %s", got.status, got.body)
		}
	}
}

// TestH10RateOfCallers: a token that sends more than it may is refused with what it needs to know,
// and no other one is; what stops work gets through.
func TestH10RateOfCallers(t *testing.T) {
	t.Parallel()
	r := newRig(t, func(c *api.Config) { c.Admission.Rate = 1 })
	quiet := r.let(`{"name":"quiet"}`)
	var got reply
	for range 1000 { // the first are allowed, and how many depends on how long they take
		if got = r.do(get("/v1/tools")); got.status != 200 {
			break
		}
	}
	if p := r.refusal(got, 429, "rate_limited"); !p.Retryable || got.header.Get("Retry-After") != "1" ||
		got.header.Get("RateLimit-Policy") != `"caller";q=1;w=1` || got.header.Get("RateLimit") != `"caller";r=0;t=1` {
		t.Errorf("got %+v %v", p, got.header)
	}
	if got := r.do(get("/v1/tools").as(quiet.Secret)); got.status != 200 || got.header.Get("RateLimit") == "" {
		t.Errorf("the quiet one got %d %s %v", got.status, got.body, got.header)
	}
	for range 10 {
		if got := r.do(post("/v1/tasks:cancel", `{"filter":{},"dry_run":true}`)); got.status != 202 {
			t.Errorf("a cancel got %d %s", got.status, got.body)
		}
	}
	if got := r.do(get("/healthz")); got.status != 200 {
		t.Errorf("health got %d", got.status)
	}
}

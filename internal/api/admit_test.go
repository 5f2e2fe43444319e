package api

import (
	"context"
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

func refusedBy(err error) bool {
	var p *Problem
	return errors.As(err, &p) && p.Status == http.StatusServiceUnavailable && p.Code == "overloaded" && p.Retryable
}

// TestGate: so many are in, so many wait in the order in which they came, and all others are refused at once.
func TestGate(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		g := newGate("writes", 2, 3, time.Second)
		began := time.Now()
		entered := make(chan int, 10)
		for range 2 {
			if err := g.enter(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
		for i := range 3 {
			go func() {
				if err := g.enter(t.Context()); err == nil {
					entered <- i
				}
			}()
			synctest.Wait()
		}
		if !g.full() {
			t.Error("it takes more")
		}
		if err := g.enter(t.Context()); !refusedBy(err) || time.Since(began) != 0 {
			t.Errorf("got %v after %s", err, time.Since(began))
		}
		for i := range 3 {
			g.leave()
			synctest.Wait()
			if got := <-entered; got != i {
				t.Errorf("%d came in, want %d", got, i)
			}
		}
		g.leave()
		if g.full() || g.waiting.Load() != 0 || len(g.places) != 1 {
			t.Errorf("%d are in and %d wait", len(g.places), g.waiting.Load())
		}
	})
}

// TestGatePatience: who waits in vain is refused in good time, and who goes away waits no longer.
func TestGatePatience(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		g := newGate("writes", 1, 5, time.Second)
		if err := g.enter(t.Context()); err != nil {
			t.Fatal(err)
		}
		began := time.Now()
		if err := g.enter(t.Context()); !refusedBy(err) || time.Since(began) != time.Second {
			t.Errorf("got %v after %s", err, time.Since(began))
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
		defer cancel()
		if err := g.enter(ctx); !errors.Is(err, context.DeadlineExceeded) || g.waiting.Load() != 0 {
			t.Errorf("got %v, %d wait", err, g.waiting.Load())
		}
		var none *gate
		if err := none.enter(t.Context()); err != nil || none.full() {
			t.Errorf("who needs no place got %v", err)
		}
		none.leave()
	})
}

// TestGateKinds: what is asked for says which places it needs.
func TestGateKinds(t *testing.T) {
	t.Parallel()
	g := newGates(Admission{}.withDefaults())
	for line, want := range map[string]*gate{
		"GET /healthz": nil, "GET /readyz": nil, "GET /openapi.json": nil,
		"GET /v1/tasks": g.reads, "GET /v1/tasks/{id}": g.reads, "HEAD /v1/tasks": g.reads, "GET /v1/tasks/{id}?wait=1s": g.open, "GET /v1/tasks/{id}/log?follow=true": g.open,
		"GET /v1/events?topics=tasks": g.open, "POST /v1/sessions": g.writes, "PUT /v1/budgets/{scope}/{subject}": g.writes, "DELETE /v1/sessions/{id}": g.writes,
		"POST /v1/tasks/{id}/cancel": g.urgent, "POST /v1/sessions/{id}/tasks/cancel": g.urgent, "POST /v1/sessions/{id}/interrupt": g.urgent,
		"POST /v1/approvals/{id}/deny": g.urgent, "POST /v1/approvals/{id}/approve": g.writes, "POST /v1/schedules/{id}/pause": g.urgent,
	} {
		method, target, _ := strings.Cut(line, " ")
		r, err := http.NewRequest(method, strings.ReplaceAll(strings.ReplaceAll(target, "{", ""), "}", ""), nil)
		if err != nil {
			t.Fatal(err)
		}
		pattern, _, _ := strings.Cut(line, "?")
		if got := g.of(r, pattern); got != want {
			t.Errorf("%s: got %+v", line, got)
		}
	}
	r, err := http.NewRequest(http.MethodGet, "/v1/sessions/a/events", nil)
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Accept", formEvents)
	if g.of(r, "GET /v1/sessions/{id}/events") != g.open {
		t.Error("a stream is no read")
	}
}

// TestMetered: bodies take room as they come, and no more than there is.
func TestMetered(t *testing.T) {
	t.Parallel()
	all := &room{left: 100}
	first, second := &metered{in: strings.NewReader(strings.Repeat("a", 60)), room: all}, &metered{in: strings.NewReader(strings.Repeat("a", 60)), room: all}
	if body, err := io.ReadAll(first); err != nil || len(body) != 60 || all.left != 40 {
		t.Errorf("got %d bytes, %v, %d left", len(body), err, all.left)
	}
	if _, err := io.ReadAll(second); !errors.Is(err, errNoRoom) || !refusedBy(err) {
		t.Errorf("got %v", err)
	}
	all.giveBack(first.taken)
	all.giveBack(second.taken)
	if all.left != 100 {
		t.Errorf("%d left", all.left)
	}
}

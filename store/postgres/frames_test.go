package postgres_test

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/internal/pgtest"
	"github.com/perdure/perdure/store"
	"github.com/perdure/perdure/store/postgres"
)

// pair is two stores on one database, as two processes have them.
type pair struct {
	t                  *testing.T
	ctx                context.Context
	url                string
	publishes, watches *postgres.Store
	events             int
}

func newPair(t *testing.T) *pair {
	t.Helper()
	ctx, stop := context.WithTimeout(t.Context(), patience)
	t.Cleanup(stop)
	url := database(t)
	cfg := postgres.Config{URL: url, Poll: time.Hour}
	p := &pair{t: t, ctx: ctx, url: url, publishes: open(t, cfg), watches: open(t, cfg)}
	begun(t, p.publishes)
	p.append()
	return p
}

// append adds an event to theSession in the publishing store.
func (p *pair) append() {
	p.t.Helper()
	p.events++
	write(p.t, p.publishes, func(tx store.Tx) error {
		return tx.Journal().Append(theSession, []perdure.Event{titled(fmt.Sprint("event_", p.events))})
	})
}

// watch watches theSession in the other store. It returns when the store listens to the session.
func (p *pair) watch() <-chan store.Frame {
	p.t.Helper()
	seen, ended := make(chan store.Frame), make(chan struct{})
	ctx, stop := context.WithCancel(p.ctx)
	go func() {
		defer close(ended)
		_ = p.watches.Watch(ctx, theSession, 0, func(f store.Frame) error { // ends with ctx
			select {
			case seen <- f:
				return nil
			case <-ctx.Done():
				return ctx.Err()
			}
		})
	}()
	p.t.Cleanup(func() { stop(); <-ended })
	if f := p.next(seen); f.Event == nil {
		p.t.Fatalf("got %+v, want the first event", f)
	}
	if err := p.watches.AwaitListening(p.ctx, theSession); err != nil {
		p.t.Fatal(err)
	}
	return seen
}

func (p *pair) next(seen <-chan store.Frame) store.Frame {
	p.t.Helper()
	select {
	case f := <-seen:
		return f
	case <-p.ctx.Done():
		p.t.Fatal("no frame arrived")
		return store.Frame{}
	}
}

func (p *pair) publish(data any) {
	p.publishes.Publish(store.Frame{Session: theSession, Type: "task.live", Data: data})
}

func wantData(t *testing.T, f store.Frame, want any) {
	t.Helper()
	text, err := json.Marshal(want)
	if err != nil {
		t.Fatal(err)
	}
	got, _ := f.Data.(json.RawMessage)
	if f.Session != theSession || f.Type != "task.live" || string(got) != string(text) || f.Dropped != 0 {
		t.Fatalf("got %.200q with %d dropped, want %.200q", got, f.Dropped, text)
	}
}

// TestFramesOfAnotherProcess has one store watch what another one publishes. It gets every frame,
// large ones too, in order, and the events before it first.
func TestFramesOfAnotherProcess(t *testing.T) {
	t.Parallel()
	p := newPair(t)
	seen := p.watch()

	for i := range 50 {
		p.publish(i)
	}
	large := strings.Repeat("ä\x00\n\"", 5_000)
	p.publish(large)
	for i := range 50 {
		wantData(t, p.next(seen), i)
	}
	wantData(t, p.next(seen), large)

	for seq := 2; seq < 20; seq++ {
		p.append()
		p.publish(seq)
	}
	for shown, wanted := 1, 2; wanted < 20; {
		f := p.next(seen)
		if f.Event != nil {
			shown = int(f.Event.Seq)
			continue
		}
		wantData(t, f, wanted)
		if wanted > shown {
			t.Fatalf("the frame after event %d arrived when event %d was the last", wanted, shown)
		}
		wanted++
	}
}

// TestFramesOfALaterWatcher has a watcher in another process come when frames are published
// already.
func TestFramesOfALaterWatcher(t *testing.T) {
	t.Parallel()
	p := newPair(t)
	p.publish("nobody watches")

	seen := p.watch()

	wantData(t, p.frame(seen, "someone watches"), "someone watches")
}

// frame publishes frames with the same data until the watcher gets one.
func (p *pair) frame(seen <-chan store.Frame, data any) store.Frame {
	p.t.Helper()
	again := time.NewTicker(20 * time.Millisecond)
	defer again.Stop()
	for {
		p.publish(data)
		select {
		case f := <-seen:
			if text, _ := f.Data.(json.RawMessage); string(text) == fmt.Sprintf("%q", data) {
				return f
			}
		case <-again.C:
		case <-p.ctx.Done():
			p.t.Fatal("no frame arrived")
		}
	}
}

// TestFramesAfterABrokenListener ends the listening connections of both processes. Frames arrive
// over the next ones.
func TestFramesAfterABrokenListener(t *testing.T) {
	t.Parallel()
	p := newPair(t)
	seen := p.watch()
	wantData(t, p.frame(seen, "before"), "before")

	if n, err := pgtest.Shared(t).KillBackends(t.Context(), p.url, 10, "perdure listener"); err != nil || n != 2 {
		t.Fatalf("killed %d listeners: %v", n, err)
	}

	wantData(t, p.frame(seen, "after"), "after")
}

// TestNotificationsAreDirected has three processes share a database. The one that watches another
// session receives nothing, and the one that publishes sends no frames until another process
// watches.
func TestNotificationsAreDirected(t *testing.T) {
	t.Parallel()
	p := newPair(t)
	apart := open(t, postgres.Config{URL: p.url, Poll: time.Hour})
	ctx, stop := context.WithCancel(p.ctx)
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_ = apart.Watch(ctx, otherSession, 0, func(store.Frame) error { return nil }) // ends with ctx
	}()
	t.Cleanup(func() { stop(); <-ended })
	if err := apart.AwaitListening(p.ctx, otherSession); err != nil {
		t.Fatal(err)
	}
	if err := apart.AwaitReceived(p.ctx, 1); err != nil { // its own, which says that it watches
		t.Fatal(err)
	}

	seen := p.watch()
	p.publish("a frame")
	wantData(t, p.next(seen), "a frame")
	p.append()
	if f := p.next(seen); f.Event == nil {
		t.Fatalf("got %+v, want an event", f)
	}
	write(t, p.publishes, func(tx store.Tx) error {
		return tx.Sessions().Create(store.Session{ID: otherSession, CreatedAt: noon})
	})
	write(t, p.publishes, func(tx store.Tx) error {
		return tx.Journal().Append(otherSession, []perdure.Event{titled("event_of_the_other")})
	})
	if err := apart.AwaitReceived(p.ctx, 2); err != nil {
		t.Fatalf("the notification of its own session: %v", err)
	}

	if got := apart.Received(); got != 2 {
		t.Errorf("a process that watches another session received %d notifications, want 2", got)
	}
}

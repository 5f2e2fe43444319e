package remote_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/engine"
	"github.com/perdure/perdure/engine/enginetest"
	"github.com/perdure/perdure/engine/remote"
	"github.com/perdure/perdure/internal/egress"
)

// kills is how often a server dies while a client follows (C6).
const kills = 20

// say answers every message.
const say = "steps: [{text: hello, repeat: true}]"

// bounded is a context with a time limit that no test should reach.
func bounded(t *testing.T) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	t.Cleanup(cancel)
	return ctx
}

// begin starts a world and a session in it.
func begin(t *testing.T, ctx context.Context, w *world) (*remote.Engine, perdure.SessionID) {
	t.Helper()
	w.Start(t)
	s, err := w.client.Sessions().Create(ctx, perdure.Agent{})
	if err != nil {
		t.Fatal(err)
	}
	return w.client, s.ID
}

// received counts the messages of users by their text.
func received(t *testing.T, ctx context.Context, eng engine.Engine, id perdure.SessionID) map[string]int {
	t.Helper()
	events, err := eng.Events(ctx, id, 0, 0)
	if err != nil {
		t.Fatal(err)
	}
	seen := map[string]int{}
	for _, e := range events {
		if f, ok := e.Fact.(perdure.MessageReceived); ok {
			seen[f.Message.Text()]++
		}
	}
	return seen
}

// TestKillsWhileFollowing: a server is killed and started again 20 times while one client follows
// and another one writes. The follower sees every event once and in order, and every message exists
// once.
func TestKillsWhileFollowing(t *testing.T) {
	t.Parallel()
	ctx := bounded(t)
	w := newWorld(t, enginetest.Setup{Script: say}, "")
	eng, id := begin(t, ctx, w)

	var seen []int64
	fresh := make(chan int64, 1) // the newest seq
	followed := make(chan error, 1)
	follow, stop := context.WithCancelCause(ctx)
	go func() {
		followed <- eng.Follow(follow, id, 0, func(f engine.Frame) error {
			if f.Event == nil {
				return nil
			}
			seen = append(seen, f.Event.Seq)
			select {
			case <-fresh:
			default:
			}
			fresh <- f.Event.Seq
			return nil
		})
	}()
	written := make(chan error, 1)
	var enough atomic.Bool
	sent := 0
	go func() {
		for !enough.Load() || sent < kills {
			if _, err := eng.Send(ctx, id, perdure.Text(fmt.Sprint("message ", sent))); err != nil {
				written <- err
				return
			}
			sent++
		}
		written <- nil
	}()

	newest := int64(0)
	await := func(seq int64) {
		for newest < seq {
			select {
			case newest = <-fresh:
			case <-ctx.Done():
				t.Fatalf("seq %d does not come after %d", seq, newest)
			}
		}
	}
	for range kills {
		await(newest + 1 + rand.Int64N(10))
		w.Kill(t)
		w.start(t)
	}
	enough.Store(true)
	if err := <-written; err != nil {
		t.Fatal(err)
	}
	if err := eng.Sessions().WaitIdle(ctx, id); err != nil {
		t.Fatal(err)
	}
	session, err := eng.Sessions().Get(ctx, id)
	if err != nil {
		t.Fatal(err)
	}
	await(session.LastSeq)
	stop(errEnough)

	if err := <-followed; !errors.Is(err, errEnough) {
		t.Error(err)
	}
	for i, seq := range seen {
		if seq != int64(i+1) {
			t.Fatalf("seq %d at index %d", seq, i)
		}
	}
	if int64(len(seen)) != session.LastSeq || sent < kills {
		t.Errorf("%d events seen of %d, %d messages", len(seen), session.LastSeq, sent)
	}
	wantOnce(t, received(t, ctx, eng, id), sent)
}

// wantOnce wants n different texts, each once.
func wantOnce(t *testing.T, seen map[string]int, n int) {
	t.Helper()
	for text, times := range seen {
		if times != 1 {
			t.Errorf("%q came %d times", text, times)
		}
	}
	if len(seen) != n {
		t.Errorf("%d messages, want %d", len(seen), n)
	}
}

// TestKillsWhileFollowingALog: the pieces that a follower of a log received over many crashes are
// byte for byte the log (C6).
func TestKillsWhileFollowingALog(t *testing.T) {
	t.Parallel()
	ctx := bounded(t)
	w := newWorld(t, enginetest.Setup{MaxRuns: kills + 2, Script: `
rules:
  - when: {not_called: spawn_background}
    calls: [{name: spawn_background, args: {tool: bg_talk, args: {}}}]
steps: [{text: it runs, repeat: true}]
`}, "")
	eng, id := begin(t, ctx, w)
	if _, err := eng.Send(ctx, id, perdure.Text("go")); err != nil {
		t.Fatal(err)
	}
	w.Entered(t, "bg_talk", 1)
	tasks, err := eng.Tasks().List(ctx, id)
	if err != nil || len(tasks) != 1 {
		t.Fatalf("%d tasks, %v", len(tasks), err)
	}

	var got, late bytes.Buffer
	grown := make(chan struct{}, 1) // capacity 1: one signal stands for many
	followed, behind := make(chan error, 1), make(chan error, 1)
	go func() {
		followed <- eng.FollowLog(ctx, tasks[0].ID, 0, func(c engine.Chunk) error {
			if c.Offset != int64(got.Len()) {
				t.Errorf("offset %d after %d bytes", c.Offset, got.Len())
			}
			got.Write(c.Bytes)
			select {
			case grown <- struct{}{}:
			default:
			}
			return nil
		})
	}()
	go func() {
		behind <- eng.FollowLog(ctx, tasks[0].ID, 5, func(c engine.Chunk) error { late.Write(c.Bytes); return nil })
	}()
	for n := range kills {
		<-grown
		w.Kill(t)
		w.start(t)
		w.Entered(t, "bg_talk", n+2)
	}
	w.Release("bg_talk")

	if err := errors.Join(<-followed, <-behind); err != nil {
		t.Fatal(err)
	}
	log, err := eng.Tasks().Log(ctx, tasks[0].ID, 0, 10<<20)
	if err != nil {
		t.Fatal(err)
	}
	var want bytes.Buffer
	for _, c := range log.Chunks {
		want.Write(c.Bytes)
	}
	if log.End != int64(want.Len()) || want.Len() < kills*100 {
		t.Fatalf("the log has %d bytes and ends at %d", want.Len(), log.End)
	}
	if !bytes.Equal(got.Bytes(), want.Bytes()) || !bytes.Equal(late.Bytes(), want.Bytes()[5:]) {
		t.Errorf("got %d and %d bytes, want %d", got.Len(), late.Len(), want.Len())
	}
	tail := bytes.Buffer{}
	err = eng.FollowLog(ctx, tasks[0].ID, -7, func(c engine.Chunk) error { tail.Write(c.Bytes); return nil })
	if err != nil || tail.String() != want.String()[want.Len()-7:] {
		t.Errorf("the tail is %q, %v", tail.String(), err)
	}
}

// TestCutConnections: 200 writes go through a proxy that cuts connections after a random number of
// bytes, in either direction. Each has its effect once (C16).
func TestCutConnections(t *testing.T) {
	t.Parallel()
	const writers, each = 8, 25
	ctx := bounded(t)
	w := newWorld(t, enginetest.Setup{Script: say}, "secret")
	direct, id := begin(t, ctx, w)
	proxy := newCutter(t, w.addr)
	eng := w.connect(t, "http://"+proxy.addr)

	var group sync.WaitGroup
	created := make([]map[perdure.SessionID]bool, writers)
	for n := range writers {
		created[n] = map[perdure.SessionID]bool{}
		group.Go(func() {
			for i := range each {
				if i%5 == 0 {
					s, err := eng.Sessions().Create(ctx, perdure.Agent{Name: fmt.Sprint(n, " ", i)})
					created[n][s.ID] = err == nil
					if err != nil {
						t.Error(err)
					}
					continue
				}
				if _, err := eng.Send(ctx, id, perdure.Text(fmt.Sprint("message ", n, " ", i))); err != nil {
					t.Error(err)
				}
			}
		})
	}
	group.Wait()

	wantOnce(t, received(t, ctx, direct, id), writers*each*4/5)
	sessions, err := direct.Sessions().List(ctx, 0)
	if err != nil || len(sessions) != 1+writers*each/5 {
		t.Errorf("%d sessions, %v", len(sessions), err)
	}
	for _, s := range sessions {
		if s.ID != id && !slices.ContainsFunc(created, func(m map[perdure.SessionID]bool) bool { return m[s.ID] }) {
			t.Errorf("no client received %s", s.ID)
		}
	}
	for range 20 {
		if _, err := eng.Sessions().Get(ctx, id); err != nil {
			t.Error(err)
		}
	}
	if n := proxy.cuts.Load(); n < 30 {
		t.Errorf("only %d connections were cut", n)
	}
}

// spy reports responses with a status.
type spy struct {
	http.RoundTripper
	status int
	seen   chan struct{} // capacity 1: one signal stands for many
}

func (s *spy) RoundTrip(r *http.Request) (*http.Response, error) {
	resp, err := s.RoundTripper.RoundTrip(r)
	if err == nil && resp.StatusCode == s.status {
		select {
		case s.seen <- struct{}{}:
		default:
		}
	}
	return resp, err
}

// TestDrainingServer: writes wait for the next server, and followers and waiters continue there
// (R3).
func TestDrainingServer(t *testing.T) {
	t.Parallel()
	ctx := bounded(t)
	w := newWorld(t, enginetest.Setup{Script: say}, "")
	begin(t, ctx, w)
	socket := egress.Socket(w.socket)
	refused := &spy{RoundTripper: socket.Transport, status: http.StatusServiceUnavailable, seen: make(chan struct{}, 1)}
	eng, err := remote.New(remote.Config{URL: "unix://" + w.socket, HTTP: &http.Client{Transport: refused}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(socket.CloseIdleConnections)
	s, err := eng.Sessions().Create(ctx, perdure.Agent{})
	if err != nil {
		t.Fatal(err)
	}
	followed := make(chan []int64, 1)
	begun := make(chan struct{})
	go func() {
		var seen []int64
		err := eng.Follow(ctx, s.ID, 0, func(f engine.Frame) error {
			if f.Event == nil {
				return nil
			}
			if seen = append(seen, f.Event.Seq); len(seen) == 1 {
				close(begun)
			}
			if f.Event.Type() == "session.idled" || f.Event.Type() == "turn.completed" {
				return errEnough
			}
			return nil
		})
		if !errors.Is(err, errEnough) {
			t.Error(err)
		}
		followed <- seen
	}()
	<-begun

	w.api.Drain()
	sent := make(chan error, 1)
	go func() {
		_, err := eng.Send(ctx, s.ID, perdure.Text("one"))
		sent <- err
	}()
	<-refused.seen
	w.Kill(t)
	w.start(t)

	if err := <-sent; err != nil {
		t.Error(err)
	}
	seen := <-followed
	for i, seq := range seen {
		if seq != int64(i+1) {
			t.Errorf("saw %v", seen)
		}
	}
	if err := eng.Sessions().WaitIdle(ctx, s.ID); err != nil {
		t.Error(err)
	}
	wantOnce(t, received(t, ctx, eng, s.ID), 1)
}

// talk is the output of one run of bg_talk: lines of many lengths, some of them binary.
func talk(run int) [][]byte {
	var lines [][]byte
	for i := range 40 {
		lines = append(lines, []byte(fmt.Sprintf("run %d line %d %s\xff\x00\n", run, i, strings.Repeat("x", i*i%97))))
	}
	return lines
}

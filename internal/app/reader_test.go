//go:build unix

package app

import (
	"context"
	"errors"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/internal/cli"
)

// shortDir is a data directory with a path short enough for its socket: the limit is 107 bytes, and
// names of t.TempDir are long.
func shortDir(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "p")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	return dir
}

// hold holds a data directory and serves its socket, until the returned function is called.
func hold(t *testing.T, dir string) (eng *localEngine, end func()) {
	t.Helper()
	eng, err := Program{}.openHere(t.Context(), cli.OpenOptions{Access: cli.Writing, Dir: dir})
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.WithoutCancel(t.Context()))
	ran := make(chan error, 1) // capacity 1: the result may not be read
	go func() { ran <- eng.Run(ctx) }()
	ended := false
	end = func() {
		if ended {
			return
		}
		ended = true
		stop()
		if err := errors.Join(<-ran, eng.Close()); err != nil {
			t.Error(err)
		}
	}
	t.Cleanup(end)
	return eng, end
}

// readerOf is a reader of a data directory.
func readerOf(t *testing.T, dir string) *reader {
	t.Helper()
	r, err := newReader(t.Context(), cli.OpenOptions{Access: cli.ServerOrRead, Dir: dir})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := r.Close(); err != nil {
			t.Error(err)
		}
	})
	return r
}

// told is the journal of a session in the store.
type told struct {
	id     perdure.SessionID
	events []perdure.Event
}

// began starts a session, and returns its journal.
func began(t *testing.T, eng *localEngine) told {
	t.Helper()
	s, err := eng.Sessions().Create(t.Context(), perdure.Agent{Name: "agent", Model: "scripted:none"})
	if err != nil {
		t.Fatal(err)
	}
	events, err := eng.Events(t.Context(), s.ID, 0, 0)
	if err != nil || len(events) == 0 {
		t.Fatalf("%d events, %v", len(events), err)
	}
	return told{s.ID, events}
}

// wantEvents reads a journal and checks that it is complete, from the holder or from the store.
func wantEvents(t *testing.T, r *reader, want told, fromHolder bool) {
	t.Helper()
	got, err := r.Events(t.Context(), want.id, 0, 0)
	if diff := cmp.Diff(want.events, got); diff != "" || err != nil {
		t.Errorf("events: %v\n%s", err, diff)
	}
	if r.probed != fromHolder {
		t.Errorf("the holder answered: %t, want %t (it was lost to: %v)", r.probed, fromHolder, r.lastError)
	}
}

func TestReader(t *testing.T) {
	t.Parallel()
	for name, law := range map[string]func(*testing.T){
		"asks_whoever_holds_the_directory":                                       readerAsks,
		"reads_the_store_while_nobody_answers_and_asks_again_when_somebody_does": readerTurnsBack,
		"reads_again_from_the_store_what_was_cut":                                readerReadsAgain,
		"passes_on_what_the_holder_says_no_to":                                   readerPassesOn,
		"leaves_one_that_hangs_alone":                                            readerLeavesAlone,
		"ends_with_its_context":                                                  readerEnds,
		"says_what_is_not_there":                                                 readerFindsNothing,
		"lets_a_follower_try_again_when_the_store_cannot_be_read_either":         readerHopes,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			law(t)
		})
	}
}

func readerAsks(t *testing.T) {
	dir := shortDir(t)
	eng, _ := hold(t, dir)
	journal := began(t, eng)
	r := readerOf(t, dir)

	wantEvents(t, r, journal, true)

	if r.store != nil {
		t.Error("the store was opened")
	}
}

func readerTurnsBack(t *testing.T) {
	dir := shortDir(t)
	eng, end := hold(t, dir)
	journal := began(t, eng)
	r := readerOf(t, dir)
	wantEvents(t, r, journal, true)

	end()
	wantEvents(t, r, journal, false)
	wantEvents(t, r, journal, false)

	hold(t, dir)
	ctx, cancel := context.WithTimeout(t.Context(), waitTime)
	defer cancel()
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for !r.probed {
		if _, err := r.Sessions().Get(ctx, journal.id); err != nil {
			t.Fatal(err)
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			t.Fatal("the new holder is not asked")
		}
	}
	wantEvents(t, r, journal, true)
}

func readerReadsAgain(t *testing.T) {
	dir := shortDir(t)
	eng, end := hold(t, dir)
	journal := began(t, eng)
	end()
	cuts := make(chan string, 1) // the one request that is cut
	answering(t, dir, func(w http.ResponseWriter, req *http.Request) {
		if !strings.HasSuffix(req.URL.Path, "/events") {
			_, _ = w.Write([]byte(`{"items":[]}`))
			return
		}
		cuts <- req.URL.Path
		_, _ = w.Write([]byte(`{"items":[{"v":1,`))
		_ = http.NewResponseController(w).Flush()
		panic(http.ErrAbortHandler)
	})
	r := readerOf(t, dir)
	if !r.probed {
		t.Fatalf("nobody greets: %v", r.lastError)
	}

	wantEvents(t, r, journal, false)

	if len(cuts) != 1 {
		t.Error("nothing was cut")
	}
}

func readerPassesOn(t *testing.T) {
	dir := shortDir(t)
	hold(t, dir)
	r := readerOf(t, dir)

	_, err := r.Tasks().Get(t.Context(), "task_nobody")

	if !errors.Is(err, perdure.NotFound) || !r.probed || r.store != nil {
		t.Errorf("%v, met %t, store %v; want the holder's NotFound", err, r.probed, r.store)
	}
}

func readerLeavesAlone(t *testing.T) {
	dir := shortDir(t)
	eng, end := hold(t, dir)
	journal := began(t, eng)
	end()
	asked := make(chan string, 100) // capacity for all requests
	answering(t, dir, func(_ http.ResponseWriter, req *http.Request) {
		asked <- req.URL.Path
		<-req.Context().Done()
	})
	r := readerOf(t, dir)

	for range 5 {
		wantEvents(t, r, journal, false)
	}

	if len(asked) != 1 {
		t.Errorf("it was asked %d times, want once", len(asked))
	}
}

func readerEnds(t *testing.T) {
	dir := shortDir(t)
	hold(t, dir)
	r := readerOf(t, dir)
	ctx, cancel := context.WithCancelCause(t.Context())
	why := errors.New("told to")
	cancel(why)

	_, err := r.Sessions().List(ctx, 0)

	if !errors.Is(err, why) || r.lastError != nil {
		t.Errorf("%v; the holder was lost to %v", err, r.lastError)
	}
}

func readerFindsNothing(t *testing.T) {
	_, err := newReader(t.Context(), cli.OpenOptions{Access: cli.ServerOrRead, Dir: shortDir(t)})
	if !errors.Is(err, perdure.NotFound) {
		t.Errorf("%v, want NotFound", err)
	}
}

func readerHopes(t *testing.T) {
	dir := shortDir(t)
	_, end := hold(t, dir)
	r := readerOf(t, dir)
	end()
	if err := os.Rename(filepath.Join(dir, "perdure.db"), filepath.Join(dir, "away")); err != nil {
		t.Fatal(err)
	}

	_, err := r.Sessions().List(t.Context(), 0)

	if !errors.Is(err, perdure.Unavailable) || !errors.Is(err, perdure.NotFound) {
		t.Errorf("%v, want both: Unavailable of the holder, NotFound of the store", err)
	}
}

// answering serves the socket of a data directory instead of a holder.
func answering(t *testing.T, dir string, answer http.HandlerFunc) {
	t.Helper()
	listener, err := net.Listen("unix", filepath.Join(dir, socketFile))
	if err != nil {
		t.Fatal(err)
	}
	server := &http.Server{Handler: answer}
	served := make(chan error, 1)
	go func() { served <- server.Serve(listener) }()
	t.Cleanup(func() {
		_ = server.Close()
		if err := <-served; !errors.Is(err, http.ErrServerClosed) {
			t.Error(err)
		}
	})
}

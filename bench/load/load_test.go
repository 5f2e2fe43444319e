//go:build soak

package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// TestQuickRun runs a few clients on a real server: run fails unless each reading client gets every
// event once and in order. It asserts no times.
func TestQuickRun(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "load.json")
	var out, progress bytes.Buffer

	if err := run(t.Context(), []string{"-only", "clients", "-clients", "20", "-seconds", "2", "-reconnects", "20", "-reference", "0", "-json", path}, &out, &progress); err != nil {
		t.Fatalf("%v\n%s", err, progress.String())
	}

	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	var f figures
	if err := json.Unmarshal(text, &f); err != nil {
		t.Fatal(err)
	}
	if f.Clients != 20 || f.Stalled != 2 || f.Slow != 2 || f.Events == 0 || f.Received < int(f.Events) || f.LagP99 <= 0 || f.Reconnects == 0 || f.Lost != 0 || f.Twice != 0 {
		t.Errorf("got %+v", f)
	}
	if !strings.Contains(out.String(), "clients    20, of which 2 never read and 2 read a byte a second\n") {
		t.Errorf("got %s", out.String())
	}
}

// frame is an event as the server sends it.
func frame(seq int) string {
	return fmt.Sprintf("id: %d\nevent: turn.started\ndata: {\"v\":1,\"seq\":%d,\"at\":%q}\n\n", seq, seq, time.Now().Format(time.RFC3339Nano))
}

// TestReader checks that every event is read once and in order, and that the stream does not end.
func TestReader(t *testing.T) {
	t.Parallel()
	live := "event: output.message.delta\ndata: {}\n\n"
	for name, c := range map[string]struct{ sent, want string }{
		"a gap":        {frame(4) + frame(6), "event 6 came after 4"},
		"a repetition": {frame(4) + live + frame(5) + frame(5), "event 5 came after 5"},
		"from earlier": {frame(3), "event 3 came after 3"},
		"too slow":     {frame(4) + "event: slow\ndata: {}\n\n", "the stream was cut: slow"},
		"an end":       {frame(4) + ": ping\n\n" + frame(5), "the stream ended"},
		"no time":      {"id: 4\nevent: a\ndata: {}\n\n", "read the time of event 4"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server := serving(t, func(w http.ResponseWriter) { fmt.Fprint(w, "retry: 1000\n\n"+c.sent) })
			r := &reader{session: "session_1"}
			r.seen.Store(3)
			connected := false
			web := &http.Client{Transport: &http.Transport{}}
			defer web.CloseIdleConnections()

			err := r.follow(t.Context(), server, web, func() { connected = true })

			if err == nil || !strings.Contains(err.Error(), c.want) || !connected {
				t.Errorf("got %v, want %q", err, c.want)
			}
		})
	}
}

// TestStallHearsOfItsEnd: a client that never reads still notices when it was cut.
func TestStallHearsOfItsEnd(t *testing.T) {
	t.Parallel()
	server := serving(t, func(w http.ResponseWriter) {
		control := http.NewResponseController(w)
		if err := control.SetWriteDeadline(time.Now().Add(200 * time.Millisecond)); err != nil {
			t.Error(err)
		}
		for err := error(nil); err == nil; { // until the deadline
			_, err = w.Write(make([]byte, 1<<20))
		}
	})

	web := &http.Client{Transport: &http.Transport{}}
	defer web.CloseIdleConnections()

	after, err := stall(t.Context(), server, web, stalledClient{session: "session_1", connected: func() {}})

	if err != nil || after == 0 {
		t.Errorf("cut after %s, %v", after, err)
	}
}

// TestBehind: a reader that ended without the last event is not waited for, and is reported.
func TestBehind(t *testing.T) {
	t.Parallel()
	l, short, whole := &load{}, &reader{}, &reader{}
	short.seen.Store(6)
	short.ended.Store(true)
	whole.seen.Store(9)

	behind := l.caughtUp(t.Context(), []*reader{short, whole}, []int64{7, 9})
	got := complaints(make([]error, 3), behind)

	if len(got) != 1 || got[0].Error() != "client 0: it has 6 events of 7" {
		t.Errorf("got %v", got)
	}
}

// TestFlags checks that useless measurements are refused.
func TestFlags(t *testing.T) {
	t.Parallel()
	for _, args := range [][]string{{"-clients", "0"}, {"-clients", "3", "-stalled", "3"}, {"-seconds", "0"}, {"more"}, {"-only", "none"}, {"-gb", "0"}} {
		if _, err := parse(args, &bytes.Buffer{}); err == nil {
			t.Errorf("%q was taken", args)
		}
	}
	o, err := parse(nil, &bytes.Buffer{})
	if err != nil || o.clients != 1000 || o.stalled != 100 || o.slow != 100 || o.reconnects != 10_000 || o.length != 45*time.Second || len(o.only) != 4 {
		t.Errorf("got %+v, %v", o, err)
	}
}

// serving sends the same response to every request.
func serving(t *testing.T, answer func(http.ResponseWriter)) *server {
	t.Helper()
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { answer(w) }))
	t.Cleanup(s.Close)
	return &server{url: s.URL, token: "a"}
}

//go:build soak

package api_test

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/perdure/perdure/internal/api"
)

// TestR20SlowClient: a client that reads nothing is cut within the deadline, while another gets
// everything.
func TestR20SlowClient(t *testing.T) {
	t.Parallel()
	cut := make(chan string, 10)
	r := newRig(t, func(c *api.Config) {
		c.Timing.Write = 20 * time.Second // half of it is more than a busy machine lets a healthy client wait
		c.Log = slog.New(toldTo{slog.DiscardHandler, cut})
	})
	s := r.session()
	const size = 2_000_000
	for range 4 {
		r.say(s, strings.Repeat("long ", size/5)) // each more than the buffers of a socket
	}
	r.rest(s)

	slow := r.dial()
	if err := slow.(*net.TCPConn).SetReadBuffer(256 << 10); err != nil {
		t.Fatal(err)
	}
	fmt.Fprintf(slow, "GET %s/events?after=0 HTTP/1.1\r\nHost: a\r\nAuthorization: Bearer %s\r\nAccept: text/event-stream\r\n\r\n", s, token)
	began := time.Now()
	healthy, last := r.open(s+"/events?after=0", nil), fmt.Sprintf("id: %d\n", len(r.journal(s)))
	for {
		line, err := healthy.in.ReadSlice('\n') // the events are not read, so that the client is fast under -race too
		if err != nil && !errors.Is(err, bufio.ErrBufferFull) {
			t.Fatalf("the healthy client was cut: %v", err)
		}
		if string(line) == last {
			break
		}
	}

	select {
	case <-cut:
	case <-time.After(150 * time.Second):
		t.Fatal("the client that reads nothing was not cut")
	}
	if took := time.Since(began); took < 15*time.Second || took > 120*time.Second {
		t.Errorf("cut after %s", took)
	}
	if err := slow.SetReadDeadline(time.Now().Add(10 * time.Second)); err != nil {
		t.Fatal(err)
	}
	if n, _ := io.Copy(io.Discard, slow); n >= 4*size {
		t.Errorf("the client that reads nothing was sent %d bytes", n)
	}
}

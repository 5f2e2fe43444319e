package api_test

import (
	"fmt"
	"io"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/perdure/perdure/internal/api"
)

// TestSlowIsTold: a client that takes what it is sent, but too slowly, is told so and cut.
func TestSlowIsTold(t *testing.T) {
	t.Parallel()
	r := newRig(t, func(c *api.Config) { c.WriteTimeout = 10 * time.Second })
	s := r.session()
	for range 5 {
		r.say(s, strings.Repeat("long ", 400_000))
	}
	r.rest(s)
	c := r.dial()
	if err := c.(*net.TCPConn).SetReadBuffer(256 << 10); err != nil {
		t.Fatal(err)
	}
	fmt.Fprintf(c, "GET %s/events?after=0 HTTP/1.1\r\nHost: a\r\nConnection: close\r\nAuthorization: Bearer %s\r\nAccept: text/event-stream\r\n\r\n", s, token)

	if _, err := io.ReadFull(c, make([]byte, 15)); err != nil {
		t.Fatal(err)
	}
	<-time.After(7500 * time.Millisecond) // longer than half of the deadline: that is what slow means
	if err := c.SetReadDeadline(time.Now().Add(20 * time.Second)); err != nil {
		t.Fatal(err)
	}
	all, err := io.ReadAll(c)

	if err != nil || !strings.HasSuffix(string(all), "event: slow\ndata: {}\n\n\r\n0\r\n\r\n") || len(all) > 9_000_000 {
		t.Errorf("got %d bytes, the last are %q, %v", len(all), all[max(0, len(all)-60):], err)
	}
}

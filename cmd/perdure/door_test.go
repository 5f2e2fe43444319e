package main

import (
	"bufio"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"testing"
	"time"

	"github.com/perdure/perdure/internal/api"
)

// TestR03WhoWasLetInIsAnswered connects, says nothing, and asks when the server has begun to stop: it is answered, and the
// door waits for it (R3).
func TestR03WhoWasLetInIsAnswered(t *testing.T) {
	t.Parallel()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	in := &guests{gone: make(chan struct{})}
	inside := make(chan struct{})
	server := &http.Server{
		Handler: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "served") }),
		ConnState: func(c net.Conn, state http.ConnState) {
			in.note(c, state)
			if state == http.StateNew {
				close(inside)
			}
		},
	}
	noAPI := func() (*api.API, error) { return nil, errors.New("there is none to drain") }
	d := &door{ended: make(chan struct{}), open: []opening{{listener: listener, api: noAPI, server: server, guests: in}}}
	ctx, stop := context.WithCancelCause(t.Context())
	closed := make(chan error, 1)
	go func() { closed <- d.run(ctx, stop) }()
	guest, err := net.Dial("tcp", listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer guest.Close()
	<-inside
	stop(nil)
	close(d.ended)
	select { // the door has had time to throw it out
	case err := <-closed:
		t.Fatalf("closed with somebody inside: %v", err)
	case <-time.After(100 * time.Millisecond):
	}

	if _, err := io.WriteString(guest, "GET / HTTP/1.1\r\nHost: localhost\r\n\r\n"); err != nil {
		t.Fatal(err)
	}
	resp, err := http.ReadResponse(bufio.NewReader(guest), nil)
	if err != nil {
		t.Fatalf("no answer: %v", err)
	}
	body, err := io.ReadAll(resp.Body)
	if err != nil || string(body) != "served" || !resp.Close {
		t.Errorf("answered %q, close %t, %v", body, resp.Close, err)
	}
	if err := <-closed; err != nil {
		t.Error(err)
	}
}

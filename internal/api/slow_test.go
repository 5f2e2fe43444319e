package api_test

import (
	"bufio"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/internal/api"
	"github.com/perdure/perdure/store/memory"
)

// TestSlowIsTold: a client that reads its stream too slowly is notified and cut (ST5); one that is
// a little faster is not. The connection is a pipe without buffers under a fake clock, so that only
// the client is slow.
func TestSlowIsTold(t *testing.T) {
	t.Parallel()
	// half of the deadline lies between
	for pause, told := range map[time.Duration]bool{4 * time.Second: false, 6 * time.Second: true} {
		t.Run(pause.String(), func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				got := readSlowly(t, pause)

				want := "event: session.idled\n" // the last of the journal
				if told {
					want = "event: slow\ndata: {}\n\n"
				}
				if !strings.HasSuffix(got, want) {
					t.Errorf("the end is %q, want %q", got[max(0, len(got)-120):], want)
				}
			})
		})
	}
}

// TestR20StalledIsCut: a client that reads no more is cut when its write has had its time, and not
// when the end of its answer has had another one.
func TestR20StalledIsCut(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		here, id := connect(t)
		began := time.Now()
		res, err := askEvents(here, id)
		if err == nil {
			_, err = io.ReadFull(res.Body, make([]byte, 100)) // the rest of this piece is not taken
		}
		if err != nil {
			t.Fatal(err)
		}
		<-here.there.closed
		if took := time.Since(began); took != 10*time.Second {
			t.Errorf("it was cut after %s, want 10s", took)
		}
	})
}

// pipe is a client's end of a connection without buffers.
type pipe struct {
	net.Conn
	there *watched
}

// watched reports when the server has closed it.
type watched struct {
	net.Conn
	once   sync.Once
	closed chan struct{}
}

func (w *watched) Close() error {
	w.once.Do(func() { close(w.closed) })
	return w.Conn.Close()
}

// connect serves an engine with one session at rest to a client, until the test ends.
func connect(t *testing.T) (pipe, perdure.SessionID) {
	t.Helper()
	r := &rig{t: t, store: memory.New(memory.Config{}), gate: make(chan struct{}), in: make(chan string, 100)}
	r.startEngine()
	t.Cleanup(func() { r.stop(); r.store.Close() })
	s, err := r.eng.Sessions().Create(t.Context(), perdure.Agent{})
	if err == nil {
		_, err = r.eng.Send(t.Context(), s.ID, perdure.Text(strings.Repeat("hi ", 10_000))) // more than is sent at once
	}
	if err == nil {
		err = r.eng.Sessions().WaitIdle(t.Context(), s.ID)
	}
	if err != nil {
		t.Fatal(err)
	}
	a, err := api.New(api.Config{Engine: r.eng, Local: true, Timing: api.Timing{Write: 10 * time.Second}})
	if err != nil {
		t.Fatal(err)
	}
	here, there := net.Pipe()
	end := &watched{Conn: there, closed: make(chan struct{})}
	server := api.NewServer(a, slog.New(slog.DiscardHandler))
	line := &oneConn{conn: end, closed: make(chan struct{})}
	served := make(chan struct{})
	go func() { _ = server.Serve(line); close(served) }() // it ends with ErrServerClosed
	t.Cleanup(func() { here.Close(); server.Close(); <-served; <-end.closed })
	return pipe{here, end}, s.ID
}

// askEvents asks for a session's events and reads the head of the answer, and no more.
func askEvents(here net.Conn, id perdure.SessionID) (*http.Response, error) {
	fmt.Fprintf(here, "GET /v1/sessions/%s/events?after=0 HTTP/1.1\r\nHost: localhost\r\nAccept: text/event-stream\r\n\r\n", id)
	return http.ReadResponse(bufio.NewReaderSize(here, 16), nil)
}

// readSlowly follows a session's events and pauses once, in the middle of them. It reads up to the
// last event, or to the end of the stream.
func readSlowly(t *testing.T, pause time.Duration) string {
	t.Helper()
	here, id := connect(t)
	res, err := askEvents(here, id)
	if err != nil {
		t.Fatal(err)
	}
	begin := make([]byte, 200)
	if _, err := io.ReadFull(res.Body, begin); err != nil {
		t.Fatal(err)
	}
	<-time.After(pause)
	got, lines := string(begin), bufio.NewReader(res.Body)
	for {
		line, err := lines.ReadString('\n')
		got += line
		if err == io.EOF || line == "event: session.idled\n" {
			return got
		}
		if err != nil {
			t.Fatalf("after %q: %v", got, err)
		}
	}
}

// oneConn is a listener with one connection.
type oneConn struct {
	conn   net.Conn // nil: it was accepted
	closed chan struct{}
}

func (l *oneConn) Accept() (net.Conn, error) {
	if conn := l.conn; conn != nil {
		l.conn = nil
		return conn, nil
	}
	<-l.closed
	return nil, net.ErrClosed
}

func (l *oneConn) Close() error {
	select {
	case <-l.closed:
	default:
		close(l.closed)
	}
	return nil
}

func (l *oneConn) Addr() net.Addr { return &net.UnixAddr{Name: "pipe", Net: "unix"} }

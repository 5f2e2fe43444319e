package mcpserver

import (
	"errors"
	"net/http"
	"net/http/httptest"
	"testing"
	"testing/synctest"
	"time"
)

// TestPinged: a stream says something after each silence, counted from its last event, and nothing
// before its first one or after its end; an answer that is no stream never does.
func TestPinged(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		said := httptest.NewRecorder()
		p := &keepAliveWriter{ResponseWriter: said, every: 15 * time.Second}
		control := http.NewResponseController(&noticeWriter{p, nil})
		event := func(text string) {
			t.Helper()
			if _, err := p.Write([]byte(text)); err != nil || control.Flush() != nil {
				t.Fatal("it was not written")
			}
		}
		p.Header().Set("Content-Type", "text/event-stream")
		<-time.After(time.Minute) // nothing begins it but an event
		event("data: 1\n\n")
		<-time.After(20 * time.Second)
		event("data: 2\n\n")
		<-time.After(31 * time.Second)
		event("data: 3\n\n")
		<-time.After(14 * time.Second)
		p.end()
		<-time.After(time.Minute)
		want := "data: 1\n\n: ping\n\ndata: 2\n\n: ping\n\n: ping\n\ndata: 3\n\n"
		if got := said.Body.String(); got != want || !said.Flushed {
			t.Errorf("got %q, want %q", got, want)
		}
	})
	synctest.Test(t, func(t *testing.T) {
		gone := make(chan time.Time, 1)
		p := &keepAliveWriter{ResponseWriter: deaf{httptest.NewRecorder()}, every: time.Second, onGone: func() { gone <- time.Now() }}
		p.Header().Set("Content-Type", "text/event-stream")
		began := time.Now()
		_, _ = p.Write([]byte("data: 1\n\n")) // it returns an error, since there is no reader
		if at := <-gone; at.Sub(began) != time.Second {
			t.Errorf("the missing reader was noticed after %s", at.Sub(began))
		}
		<-time.After(time.Minute)
		p.end()
	})
	synctest.Test(t, func(t *testing.T) {
		said := httptest.NewRecorder()
		p := &keepAliveWriter{ResponseWriter: said, every: time.Second}
		p.Header().Set("Content-Type", "application/json")
		if _, err := p.Write([]byte("{}")); err != nil {
			t.Fatal(err)
		}
		<-time.After(time.Minute)
		p.end()
		if got := said.Body.String(); got != "{}" {
			t.Errorf("got %q", got)
		}
	})
}

// deaf is a response without a reader.
type deaf struct{ http.ResponseWriter }

func (deaf) Write([]byte) (int, error) { return 0, errors.New("no reader") }

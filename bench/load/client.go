package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"net/http/httptrace"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/perdure/perdure"
)

const (
	maxFrame   = 8 << 20                // bytes of a line of a stream
	tinyBuffer = 4 << 10                // receive buffer of a client that never reads
	probeEvery = 100 * time.Millisecond // precision of the time of a cut
)

// reader follows a session and reads its events.
type reader struct {
	session        perdure.SessionID
	seen           atomic.Int64  // last sequence number; the stream starts after the initial value
	ended          atomic.Bool   // no more events come
	reconnectAfter time.Duration // time until it reconnects; 0: never
	reconnects     int           // number of reconnects; only touched in follow, like the next one
	lags           []time.Duration
}

// orderError is an event out of order.
type orderError struct{ seq, last int64 }

func (m *orderError) Error() string { return fmt.Sprintf("event %d came after %d", m.seq, m.last) }

// follow reads until ctx ends, which is no error, or until a frame is out of order. It reconnects
// now and then.
func (r *reader) follow(ctx context.Context, s *server, web *http.Client, connected func()) error {
	for {
		visit, leave := ctx, context.CancelFunc(func() {})
		if r.reconnectAfter > 0 {
			visit, leave = context.WithTimeout(ctx, r.reconnectAfter/2+rand.N(r.reconnectAfter))
		}
		err := r.visit(visit, s, web, connected)
		left := visit.Err() != nil && ctx.Err() == nil
		leave()
		if !left {
			return err
		}
		r.reconnects++
	}
}

// visit reads one stream until ctx ends.
func (r *reader) visit(ctx context.Context, s *server, web *http.Client, connected func()) error {
	answer, err := s.events(ctx, web, r.session, r.seen.Load())
	if err != nil {
		if ctx.Err() != nil {
			return nil
		}
		return err
	}
	defer answer.Body.Close()
	connected()
	lines := bufio.NewScanner(answer.Body)
	lines.Buffer(make([]byte, 0, 16<<10), maxFrame)
	for id := ""; lines.Scan(); {
		// the time is at the beginning
		field, value, _ := strings.Cut(string(lines.Bytes()[:min(len(lines.Bytes()), 300)]), ": ")
		switch field {
		case "id":
			id = value
		case "event":
			if value == "slow" || value == "end" {
				return fmt.Errorf("the stream was cut: %s", value)
			}
		case "data":
			if id == "" {
				continue // a live frame
			}
			if err := r.take(id, value, time.Now()); err != nil {
				return err
			}
			id = ""
		}
	}
	if ctx.Err() != nil {
		return nil
	}
	return fmt.Errorf("the stream ended: %w", errors.Join(lines.Err(), io.ErrUnexpectedEOF))
}

// events requests the events of a session after a sequence number, as a stream. The caller closes
// its body.
func (s *server) events(ctx context.Context, web *http.Client, id perdure.SessionID,
	after int64) (*http.Response, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet,
		fmt.Sprintf("%s/v1/sessions/%s/events?after=%d", s.url, id, after), nil)
	if err != nil {
		return nil, err
	}
	req.Header.Set("Authorization", "Bearer "+s.token)
	req.Header.Set("Accept", "text/event-stream")
	answer, err := web.Do(req)
	if err != nil {
		return nil, err
	}
	if answer.StatusCode != http.StatusOK {
		text, _ := io.ReadAll(io.LimitReader(answer.Body, 1<<10)) // an error does not matter here
		return nil, errors.Join(fmt.Errorf("%s: %s", answer.Status, text), answer.Body.Close())
	}
	return answer, nil
}

// take checks the next event and records its age.
func (r *reader) take(id, head string, now time.Time) error {
	seq, err := strconv.ParseInt(id, 10, 64)
	if err != nil {
		return fmt.Errorf("read the id of a frame: %w", err)
	}
	if last := r.seen.Load(); seq != last+1 {
		return &orderError{seq, last}
	}
	_, rest, _ := strings.Cut(head, `"at":"`)
	text, _, _ := strings.Cut(rest, `"`)
	at, err := time.Parse(time.RFC3339Nano, text)
	if err != nil {
		return fmt.Errorf("read the time of event %d: %w", seq, err)
	}
	r.lags = append(r.lags, now.Sub(at))
	r.seen.Store(seq)
	return nil
}

// stall requests a session from its beginning and never reads, or reads a byte now and then when
// readInterval is not 0. It returns how long after the request it was cut; 0: it was not cut until
// ctx ended.
//
// A client that does not read does not notice the end. So it writes a byte of a possible next
// request now and then, which the server does not read before it is done with this one: when the
// server has closed the connection, the write fails.
func stall(ctx context.Context, s *server, web *http.Client, c stalledClient) (time.Duration, error) {
	var conn *net.TCPConn
	ctx = httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{GotConn: func(got httptrace.GotConnInfo) {
		if made, ok := got.Conn.(*net.TCPConn); ok && made.SetReadBuffer(tinyBuffer) == nil {
			conn = made
		}
	}})
	answer, err := s.events(ctx, web, c.session, 0)
	if err != nil {
		return 0, err
	}
	defer answer.Body.Close()
	if conn == nil {
		return 0, errors.New("cannot shrink the buffer of the connection")
	}
	c.connected()
	asked, tick, sipped := time.Now(), time.NewTicker(probeEvery), time.Now()
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
			if _, err := conn.Write([]byte("\n")); err != nil {
				return time.Since(asked), nil
			}
			if c.readInterval > 0 && time.Since(sipped) >= c.readInterval {
				sipped = time.Now()
				if _, err := answer.Body.Read(make([]byte, 1)); err != nil {
					return time.Since(asked), nil
				}
			}
		case <-ctx.Done():
			return 0, nil
		}
	}
}

// stalledClient is a client that does not keep up.
type stalledClient struct {
	session      perdure.SessionID
	readInterval time.Duration // time between two bytes that it reads; 0: it reads none
	connected    func()
}

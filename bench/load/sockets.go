package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
)

const (
	hugeBody     = 1 << 30
	manyHeaders  = 100_000
	byteEvery    = 500 * time.Millisecond // pause between the bytes of a slow header
	headerTime   = 10 * time.Second       // the server's time limit of a header
	slowBodyTime = 30 * time.Second       // the server's time limit of a body
	politeEvery  = 50 * time.Millisecond  // pause between two normal requests
)

// socketResult are the results of the section sockets.
type socketResult struct {
	BodyStatus    int     `json:"body_status"`    // of a body of a gigabyte with Content-Length
	ChunkedStatus int     `json:"chunked_status"` // of a chunked body; 0: the connection was cut
	ChunkedBytes  int64   `json:"chunked_bytes"`  // bytes of it that were accepted
	HeaderStatus  int     `json:"header_status"`  // of 100,000 header lines
	SlowBody      int     `json:"slow_body_status"`
	SlowBodyAfter float64 `json:"slow_body_after_us"`
	Slow          int     `json:"slow_headers"` // connections with a slow header
	SlowCut       int     `json:"slow_headers_cut"`
	SlowCutMax    float64 `json:"slow_headers_cut_after_max_us"`
	PrefaceStatus int     `json:"http2_preface_status"` // 0: the connection was cut
	Polite        int     `json:"polite"`               // normal requests meanwhile
	PoliteDone    int     `json:"polite_done"`
	PoliteP99     float64 `json:"polite_p99_us"`
	Before        int64   `json:"server_before_bytes"`
	During        int64   `json:"server_during_bytes"`
	After         int64   `json:"server_after_bytes"`
}

func (h *socketResult) print(w io.Writer) {
	fmt.Fprintf(w, "sockets    1 GB body %d, the same in chunks %s after %.1f MB, 100,000 headers %d, slow body %d after %.1f s, HTTP/2 preface %s\n",
		h.BodyStatus, cutOr(h.ChunkedStatus), float64(h.ChunkedBytes)/1e6, h.HeaderStatus, h.SlowBody,
		h.SlowBodyAfter/1e6, cutOr(h.PrefaceStatus))
	fmt.Fprintf(w, "           %d of %d slow headers cut, after max %.1f s; others: %d of %d answered, p99 %.1f ms\n",
		h.SlowCut, h.Slow, h.SlowCutMax/1e6, h.PoliteDone, h.Polite, h.PoliteP99/1000)
	fmt.Fprintf(w, "           server %.1f MiB before, %.1f MiB at most: %+.1f MiB (goal 32); %.1f MiB after\n",
		float64(h.Before)/mib, float64(h.During)/mib, float64(h.During-h.Before)/mib, float64(h.After)/mib)
}

func cutOr(status int) string {
	if status == 0 {
		return "cut"
	}
	return fmt.Sprint(status)
}

func measureSockets(ctx context.Context, o options, at environment) (f result, faults []error, err error) {
	s := at.server
	fmt.Fprintf(at.progress, "load: bodies, headers and %d slow connections for %s\n", o.sockets, s.url)
	h := &socketResult{Slow: o.sockets}
	polite := &overloadRun{server: s}
	var warm *raw
	for range 50 { // the memory of first requests does not count as growth
		warm, _ = polite.one(warm, s.request("GET", "/v1/tools", ""), time.Now())
	}
	if warm != nil {
		_ = warm.Close()
	}
	h.Before = s.residentBytes()
	attacked, stop := context.WithCancel(ctx)
	defer stop()
	var group, beside sync.WaitGroup
	beside.Go(func() { s.watch(attacked) })
	beside.Go(func() { h.normalRequests(attacked, polite) })
	errs := make([]error, 6)
	for i, attack := range []func(*server) error{h.body, h.chunked, h.headers, h.slowBody, h.preface} {
		group.Go(func() { errs[i] = retryRequest(func() error { return attack(s) }) })
	}
	errs[5] = h.slowHeaders(ctx, s)
	group.Wait()
	stop()
	beside.Wait()
	h.During = s.maxResident.Load()
	select {
	case <-time.After(settleTime):
	case <-ctx.Done():
	}
	h.After = s.residentBytes()
	return h, h.faults(), errors.Join(errs...)
}

// retryRequest tries an attack up to three times: the response to a client that is still sending
// may be lost with the connection.
func retryRequest(attack func() error) (err error) {
	for range 3 {
		if err = attack(); !errors.Is(err, syscall.ECONNRESET) && !errors.Is(err, io.ErrUnexpectedEOF) {
			return err
		}
	}
	return err
}

// faults returns violations that do not depend on the machine.
func (h *socketResult) faults() []error {
	var all []error
	want := func(what string, got int, wants ...int) {
		for _, status := range wants {
			if got == status {
				return
			}
		}
		all = append(all, fmt.Errorf("sockets: %s was answered with %d", what, got))
	}
	want("a body of a gigabyte", h.BodyStatus, http.StatusRequestEntityTooLarge)
	want("a body in chunks", h.ChunkedStatus, http.StatusRequestEntityTooLarge, 0)
	want("a header of 100,000 lines", h.HeaderStatus, http.StatusRequestHeaderFieldsTooLarge)
	want("a slow body", h.SlowBody, http.StatusRequestTimeout)
	want("the preface of HTTP/2", h.PrefaceStatus, http.StatusHTTPVersionNotSupported, http.StatusBadRequest,
		http.StatusUnauthorized, http.StatusNotFound, http.StatusMethodNotAllowed, 0)
	if h.SlowCut < h.Slow || h.PoliteDone < h.Polite {
		all = append(all, fmt.Errorf("sockets: %d of %d slow connections were cut, %d of %d normal requests answered",
			h.SlowCut, h.Slow, h.PoliteDone, h.Polite))
	}
	return all
}

// body announces a body of a gigabyte.
func (h *socketResult) body(s *server) error {
	c, err := s.dial()
	if err != nil {
		return err
	}
	defer c.Close()
	head, _, _ := strings.Cut(string(s.request("POST", "/v1/sessions", "x")), "Content-Length")
	h.BodyStatus, _, _, err = c.ask(fmt.Appendf(nil, "%sContent-Length: %d\r\n\r\n{", head, hugeBody))
	return err
}

// chunked sends up to a gigabyte without announcing its size.
func (h *socketResult) chunked(s *server) error {
	c, err := s.dial()
	if err != nil {
		return err
	}
	defer c.Close()
	head, _, _ := strings.Cut(string(s.request("POST", "/v1/sessions", "x")), "Content-Length")
	if _, err := fmt.Fprintf(c, "%sTransfer-Encoding: chunked\r\n\r\n", head); err != nil {
		return err
	}
	chunk := "10000\r\n" + strings.Repeat(" ", 1<<16) + "\r\n"
	for h.ChunkedBytes < hugeBody {
		if _, err := io.WriteString(c, chunk); err != nil {
			break // the connection was cut, or there is a response
		}
		h.ChunkedBytes += 1 << 16
	}
	h.ChunkedStatus, _, _, _ = c.answer() // 0: the response was lost with the connection
	return nil
}

// headers sends 100,000 header lines.
func (h *socketResult) headers(s *server) error {
	c, err := s.dial()
	if err != nil {
		return err
	}
	defer c.Close()
	go func() {
		// the connection is cut meanwhile
		_, _ = io.WriteString(c,
			"GET /v1/tools HTTP/1.1\r\nHost: load\r\n"+strings.Repeat("A: b\r\n", manyHeaders)+"\r\n")
	}()
	h.HeaderStatus, _, _, err = c.answer()
	return err
}

// slowBody sends a single byte.
func (h *socketResult) slowBody(s *server) error {
	c, err := s.dial()
	if err != nil {
		return err
	}
	defer c.Close()
	head, _, _ := strings.Cut(string(s.request("POST", "/v1/sessions", "x")), "Content-Length")
	began := time.Now()
	if _, err := fmt.Fprintf(c, "%sContent-Length: 100\r\n\r\n{", head); err != nil {
		return err
	}
	if err := c.SetReadDeadline(began.Add(2 * slowBodyTime)); err != nil {
		return err
	}
	h.SlowBody, _, _, err = c.answer()
	h.SlowBodyAfter = float64(time.Since(began).Microseconds())
	return err
}

// preface starts an HTTP/2 connection, which a rapid reset attack needs; HTTP/2 is not served.
func (h *socketResult) preface(s *server) error {
	c, err := s.dial()
	if err != nil {
		return err
	}
	defer c.Close()
	if _, err := io.WriteString(c, "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"); err != nil {
		return err
	}
	if err := c.SetReadDeadline(time.Now().Add(patience)); err != nil {
		return err
	}
	h.PrefaceStatus, _, _, _ = c.answer()
	return nil
}

// slowHeaders opens many connections with slow headers, and waits until they are cut.
func (h *socketResult) slowHeaders(ctx context.Context, s *server) error {
	var cut atomic.Int64
	var longest atomic.Int64
	var group sync.WaitGroup
	errs := make([]error, h.Slow)
	for i := range h.Slow {
		group.Go(func() {
			c, err := s.dial()
			if errs[i] = err; err != nil {
				return
			}
			defer c.Close()
			began, tick := time.Now(), time.NewTicker(byteEvery)
			defer tick.Stop()
			for _, one := range []byte("GET /v1/tools HTTP/1.1\r\nX-Slow: " + strings.Repeat("a", 1000)) {
				if _, err := c.Write([]byte{one}); err != nil {
					cut.Add(1)
					longest.Store(max(longest.Load(), int64(time.Since(began))))
					return
				}
				select {
				case <-tick.C:
				case <-ctx.Done():
					return
				}
				if time.Since(began) > 4*headerTime {
					return
				}
			}
		})
	}
	group.Wait()
	h.SlowCut, h.SlowCutMax = int(cut.Load()), float64(longest.Load())/1000
	return errors.Join(errs...)
}

// normalRequests sends normal requests at intervals.
func (h *socketResult) normalRequests(ctx context.Context, s *overloadRun) {
	var c *raw
	var took []time.Duration
	tick := time.NewTicker(politeEvery)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
			var one requestResult
			c, one = s.one(c, s.server.request("GET", "/v1/tools", ""), time.Now())
			h.Polite++
			if one.status == http.StatusOK {
				h.PoliteDone++
				took = append(took, one.took)
			}
		case <-ctx.Done():
			h.PoliteP99 = micros(took, 0.99)
			if c != nil {
				_ = c.Close()
			}
			return
		}
	}
}

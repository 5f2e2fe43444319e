package api

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// Admission is how much an API takes on at a time, so that what it takes on is done in good time however much is asked for
// (R23). What is more is refused at once, with 503. Each kind of request has places of its own: one that is overrun leaves the
// others as they are. The zero value is the defaults.
type Admission struct {
	Writes   int           // requests that commit, in work at a time; 0: 64
	Waiting  int           // more of them that wait for a place; 0: 256
	Patience time.Duration // of those; 0: 1 s
	Urgent   int           // what ends or holds up work: cancel, interrupt, deny, pause; as many wait; 0: 32
	Reads    int           // 0: 512
	Open     int           // streams, and requests that wait for an outcome; 0: 4,096
	Bodies   int64         // bytes of bodies that are held at a time; 0: 512 MiB
}

func (c Admission) withDefaults() Admission {
	c.Writes = orDefault(c.Writes, 64)
	c.Waiting = orDefault(c.Waiting, 256)
	c.Patience = orDefault(c.Patience, time.Second)
	c.Urgent = orDefault(c.Urgent, 32)
	c.Reads = orDefault(c.Reads, 512)
	c.Open = orDefault(c.Open, 4096)
	c.Bodies = orDefault(c.Bodies, 512<<20)
	return c
}

// gates are the places of an API.
type gates struct {
	writes, urgent, reads, open *gate
	bodies                      *room
}

func newGates(c Admission) gates {
	return gates{
		writes: newGate("writes", c.Writes, c.Waiting, c.Patience),
		urgent: newGate("urgent", c.Urgent, c.Urgent, c.Patience),
		reads:  newGate("reads", c.Reads, c.Reads, c.Patience),
		open:   newGate("open", c.Open, 0, c.Patience),
		bodies: &room{left: c.Bodies},
	}
}

// of is the gate of a request; nil: it needs no place.
func (g *gates) of(r *http.Request, pattern string) *gate {
	switch {
	case open(r.URL.Path):
		return nil
	case isWrite(r.Method):
		if StopsWork(pattern) {
			return g.urgent
		}
		return g.writes
	case lasts(r):
		return g.open
	}
	return g.reads
}

// isWrite reports whether a method changes something.
func isWrite(method string) bool {
	switch method {
	case http.MethodPost, http.MethodPut, http.MethodPatch, http.MethodDelete:
		return true
	}
	return false
}

// StopsWork reports whether a request, or the scope of its idempotency key, which ends with its method and path, stops work or
// takes a right away: it gets through when a server is full, and on a full disk (R7, R23).
func StopsWork(request string) bool {
	for _, end := range []string{"/cancel", ":cancel", "/interrupt", "/deny", "/pause"} {
		if strings.HasSuffix(request, end) {
			return true
		}
	}
	return strings.Contains(request, http.MethodDelete+" /v1/tokens/")
}

// lasts reports whether a request is one that goes on: a stream, or one that waits for an outcome.
func lasts(r *http.Request) bool {
	query := r.URL.Query() // as the operations read it, however it is written
	return negotiate(r.Header.Get("Accept"), formJSON, formEvents) == formEvents || query.Has("wait") || query.Has("follow") ||
		r.URL.Path == topicsPath || strings.Contains(strings.ToLower(r.Header.Get("Prefer")), "wait")
}

// gate lets so many in at a time, in the order in which they come, and lets so many more wait for a moment. It is safe for
// concurrent use and has no goroutines of its own.
type gate struct {
	name     string
	places   chan struct{} // one in it is one who is in
	most     int64         // who may wait
	patience time.Duration
	waiting  atomic.Int64
}

func newGate(name string, places, waiting int, patience time.Duration) *gate {
	return &gate{name: name, places: make(chan struct{}, places), most: int64(waiting), patience: patience}
}

// full reports whether enter would refuse now.
func (g *gate) full() bool {
	return g != nil && len(g.places) == cap(g.places) && g.waiting.Load() >= g.most
}

// enter takes a place, which leave gives back. The error is the refusal, or that of ctx.
func (g *gate) enter(ctx context.Context) error {
	if g == nil {
		return nil
	}
	select {
	case g.places <- struct{}{}:
		return nil
	default:
	}
	if g.waiting.Add(1) > g.most {
		g.waiting.Add(-1)
		return g.refusal()
	}
	defer g.waiting.Add(-1)
	late := time.NewTimer(g.patience)
	defer late.Stop()
	select {
	case g.places <- struct{}{}:
		return nil
	case <-late.C:
		return g.refusal()
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (g *gate) leave() {
	if g != nil {
		<-g.places
	}
}

// refusal says that the gate is full (H10). How long to stay away is for the client to spread: Retry-After is the least.
func (g *gate) refusal() error {
	return &Problem{
		Status: http.StatusServiceUnavailable, Code: "overloaded", Title: "Overloaded", Retryable: true,
		Detail: fmt.Sprintf("more is asked for than can be done: %d %s are in work, and enough wait; nothing was done of this. Send it again, later", cap(g.places), g.name),
		header: http.Header{
			"Ratelimit-Policy": {strconv.Quote(g.name) + ";q=" + strconv.Itoa(cap(g.places)) + `;qu="concurrent-requests"`},
			"Ratelimit":        {strconv.Quote(g.name) + ";r=0;t=1"},
		},
	}
}

// room is for bytes. It is safe for concurrent use.
type room struct {
	mu   sync.Mutex
	left int64 // guarded by mu
}

// take takes n bytes, or none.
func (s *room) take(n int64) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if n > s.left {
		return false
	}
	s.left -= n
	return true
}

func (s *room) giveBack(n int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.left += n
}

// metered is a body that takes room for what it reads.
type metered struct {
	in    io.Reader
	room  *room
	taken int64
}

// errNoRoom ends the reading of a body for which there is no room now.
var errNoRoom = &Problem{
	Status: http.StatusServiceUnavailable, Code: "overloaded", Title: "Overloaded", Retryable: true,
	Detail: "too much is being sent at once; nothing was done of this. Send it again, later",
	header: http.Header{"Connection": {"close"}},
}

func (m *metered) Read(p []byte) (int, error) {
	n, err := m.in.Read(p)
	if !m.room.take(int64(n)) {
		return 0, errNoRoom
	}
	m.taken += int64(n)
	return n, err
}

// admit lets a request in, and says so little of refusals that they cost little: one line in ten seconds.
func (a *API) admit(ctx context.Context, g *gate) error {
	err := g.enter(ctx)
	if err != nil {
		a.refused(ctx, g.name)
	}
	return err
}

// refusalsEvery is how often refusals are told of in the log.
const refusalsEvery = 10 * time.Second

// refused counts a request that was not let in.
func (a *API) refused(ctx context.Context, name string) {
	requestOf(ctx).refused = true
	n, now, said := a.refusals.Add(1), time.Now().UnixNano(), a.refusalsSaid.Load()
	if now-said > int64(refusalsEvery) && a.refusalsSaid.CompareAndSwap(said, now) {
		a.cfg.Log.Warn("requests are refused: more is asked for than can be done", "of", name, "refused_until_now", n)
	}
}

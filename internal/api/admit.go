package api

import (
	"context"
	"io"
	"net/http"
	"runtime"
	"strings"
	"sync"
	"time"
)

// Admission is how much an API takes on at a time, so that what it takes on is done in good time however much is asked for
// (R23). What is more is refused at once, with 503. Each kind of request has places of its own: one that is overrun leaves the
// others as they are. The zero value is the defaults.
type Admission struct {
	Writes   int           // requests that commit, in work at a time; 0: 16 for each processor, at most 64
	Waiting  int           // more of them that wait for a place; 0: 256
	Patience time.Duration // of those; 0: 1 s
	Calls    int           // tools that are called, and servers that are tested: they take as long as they take; as many wait; 0: 128
	Urgent   int           // what ends or holds up work: cancel, interrupt, deny, pause; as many wait; 0: 32
	Reads    int           // 0: 512
	Pages    int           // of the documents, which anybody may read; 0: 32
	Open     int           // streams, and requests that wait for an outcome; 0: 4,096
	Bodies   int64         // bytes of bodies that are held at a time; 0: 512 MiB
	Rate     int           // requests a second of one principal, but for those that stop work; 0: any number
}

// Who is in work shares the processors with all others who are: more at a time make each of them later, and whoever only wants to
// cancel, too, while no more is done. It is more than one for each processor so that many commits share one flush of the disk.
const (
	writesPerProcessor = 16
	mostWrites         = 64
)

func (c Admission) withDefaults() Admission {
	c.Writes = orDefault(c.Writes, min(writesPerProcessor*runtime.GOMAXPROCS(0), mostWrites))
	c.Waiting = orDefault(c.Waiting, 256)
	c.Patience = orDefault(c.Patience, time.Second)
	c.Calls = orDefault(c.Calls, 128)
	c.Urgent = orDefault(c.Urgent, 32)
	c.Reads = orDefault(c.Reads, 512)
	c.Pages = orDefault(c.Pages, 32)
	c.Open = orDefault(c.Open, 4096)
	c.Bodies = orDefault(c.Bodies, 512<<20)
	return c
}

// gates are the places of an API.
type gates struct {
	writes, calls, urgent, reads, open, pages *gate
	bodies                                    *room
}

func newGates(c Admission) gates {
	return gates{
		writes: newGate("writes", c.Writes, c.Waiting, c.Patience),
		calls:  newGate("calls", c.Calls, c.Calls, c.Patience),
		urgent: newGate("urgent", c.Urgent, c.Urgent, c.Patience),
		reads:  newGate("reads", c.Reads, c.Reads, c.Patience),
		open:   newGate("open", c.Open, 0, c.Patience),
		pages:  newGate("pages", c.Pages, c.Pages, c.Patience),
		bodies: &room{left: c.Bodies},
	}
}

// of is the gate of a request; nil: it needs no place.
func (g *gates) of(r *http.Request, pattern string) *gate {
	switch {
	case open(r.URL.Path):
		return nil
	case isManual(pattern):
		return g.pages
	case isWrite(r.Method):
		switch {
		case StopsWork(pattern):
			return g.urgent
		case strings.HasSuffix(pattern, "/call"), strings.HasSuffix(pattern, "/test"):
			return g.calls
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

// admit lets a request in.
func (a *API) admit(ctx context.Context, g *gate) error {
	err := g.enter(ctx, requestOf(ctx).principal)
	if err != nil {
		a.refused(ctx, g.name)
	}
	return err
}

// turnAway refuses a request of somebody who was let in before, where that can be said before their token is looked up and their
// body is read: a refusal is to cost little. What stops work is not counted, and never too much.
func (a *API) turnAway(r *http.Request, req *request, out *answer, g *gate) error {
	if g == nil {
		return nil
	}
	who, known := a.guess(r)
	if !known {
		return nil
	}
	req.principal = who
	if err := a.pace(r.Context(), out, g); err != nil {
		return err
	}
	if isWrite(r.Method) && g.full(who) {
		a.refused(r.Context(), g.name)
		return g.refusal()
	}
	return nil
}

// pace counts a request against the rate of its principal, once. What stops work is not counted, nor what needs no principal.
func (a *API) pace(ctx context.Context, out *answer, g *gate) error {
	req := requestOf(ctx)
	if g == nil || g == a.gates.urgent || g == a.gates.pages || req.counted {
		return nil
	}
	req.counted = true
	err := a.rate.take(req.principal, out.Header())
	if err != nil {
		a.refused(ctx, "rate")
	}
	return err
}

// guess is who asks, as far as that is known without the store.
func (a *API) guess(r *http.Request) (id string, known bool) {
	if a.cfg.Local {
		return orDefault(r.Header.Get("Perdure-Actor"), actorUser), true
	}
	_, token, _ := strings.Cut(r.Header.Get("Authorization"), " ")
	return a.cfg.Keyring.Guess(strings.TrimSpace(token))
}

// refusalsEvery is how often refusals are told of in the log: they are to cost little.
const refusalsEvery = 10 * time.Second

// refused counts a request that was not let in, and waits until it may be told so.
func (a *API) refused(ctx context.Context, name string) {
	requestOf(ctx).refused = true
	n, now, said := a.refusals.Add(1), time.Now().UnixNano(), a.refusalsSaid.Load()
	if now-said > int64(refusalsEvery) && a.refusalsSaid.CompareAndSwap(said, now) {
		a.cfg.Log.Warn("requests are refused: more is asked for than can be done", "of", name, "refused_until_now", n)
	}
	a.slowly(ctx)
}

package api

import (
	"context"
	"io"
	"net/http"
	"runtime"
	"strings"
	"time"

	"golang.org/x/sync/semaphore"
)

// Admission limits how much work the API accepts at a time, so that accepted requests finish in
// reasonable time under any load. Requests beyond a limit are refused at once with 503. Each kind
// of request has its own limit: overload of one kind does not affect the others. The zero value
// means the defaults.
type Admission struct {
	Writes   int           // requests that commit, running at a time; 0: 16 per processor, at most 64
	Waiting  int           // further write requests that may wait for a slot; 0: 256
	Patience time.Duration // how long a request may wait for a slot; 0: 1 s
	// Tool calls and connection tests, which take arbitrarily long; as many may wait; 0: 128.
	Calls       int
	Urgent      int   // requests that stop work: cancel, interrupt, deny, pause; as many may wait; 0: 32
	Reads       int   // other reads; as many may wait; 0: 512
	Pages       int   // documentation pages, which need no token; 0: 32
	LongRunning int   // streams, and requests that wait for an outcome; 0: 4,096
	Bodies      int64 // bytes of request bodies held in memory at a time; 0: 512 MiB
	Rate        int   // requests per second of one principal, except those that stop work; 0: unlimited
}

// Concurrent writes share the processors: more of them make each one slower, including a cancel,
// without raising throughput. The limit is above one per processor so that many commits share one
// disk flush.
const (
	writesPerProcessor = 16
	maxWrites          = 64
)

func (c Admission) withDefaults() Admission {
	c.Writes = orDefault(c.Writes, min(writesPerProcessor*runtime.GOMAXPROCS(0), maxWrites))
	c.Waiting = orDefault(c.Waiting, 256)
	c.Patience = orDefault(c.Patience, time.Second)
	c.Calls = orDefault(c.Calls, 128)
	c.Urgent = orDefault(c.Urgent, 32)
	c.Reads = orDefault(c.Reads, 512)
	c.Pages = orDefault(c.Pages, 32)
	c.LongRunning = orDefault(c.LongRunning, 4096)
	c.Bodies = orDefault(c.Bodies, 512<<20)
	return c
}

// admissionQueues are the admission queues of an API.
type admissionQueues struct {
	writes, calls, urgent, reads, open, pages *admissionQueue
	bodies                                    *semaphore.Weighted // of bytes
}

func newAdmissionQueues(c Admission) admissionQueues {
	return admissionQueues{
		writes: newAdmissionQueue("writes", c.Writes, c.Waiting, c.Patience),
		calls:  newAdmissionQueue("calls", c.Calls, c.Calls, c.Patience),
		urgent: newAdmissionQueue("urgent", c.Urgent, c.Urgent, c.Patience),
		reads:  newAdmissionQueue("reads", c.Reads, c.Reads, c.Patience),
		open:   newAdmissionQueue("open", c.LongRunning, 0, c.Patience),
		pages:  newAdmissionQueue("pages", c.Pages, c.Pages, c.Patience),
		bodies: semaphore.NewWeighted(c.Bodies),
	}
}

// overloadClass is the class of an operation under overload. It determines the admission queue of
// its requests.
type overloadClass int

const (
	ordinary  overloadClass = iota // a write, or a read, which may ask to be long-running
	stopsWork                      // stops work or revokes a token: works under overload and on a full disk
	takesTime                      // ends when a tool or another server answers
	staysOpen                      // a read that is always long-running
	isPage                         // a page of the documentation, which needs no token
	isProbe                        // needs neither a token nor a slot, whatever the method
)

// queueOf returns the admission queue of a request; nil if the request needs no slot.
func (a *API) queueOf(r *http.Request, class overloadClass) *admissionQueue {
	g := &a.queues
	switch {
	case a.probes[r.URL.Path]:
		return nil
	case class == isPage:
		return g.pages
	case class == stopsWork:
		return g.urgent
	case class == takesTime:
		return g.calls
	case isWrite(r.Method):
		return g.writes
	case class == staysOpen, isLongRunning(r):
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

// isLongRunning reports whether a read asks to be long-running: for a stream, or to wait for an
// outcome.
func isLongRunning(r *http.Request) bool {
	query := r.URL.Query() // as the operations parse it, in any encoding
	return negotiate(r.Header.Get("Accept"), formJSON, formEvents) == formEvents || query.Has("wait") || query.Has("follow") ||
		strings.Contains(strings.ToLower(r.Header.Get("Prefer")), "wait")
}

// meteredBody is a request body that reserves budget for what it reads.
type meteredBody struct {
	body     io.Reader
	budget   *semaphore.Weighted // of bytes
	reserved int64
}

// errNoBudget ends the reading of a body for which no budget is left.
var errNoBudget = &Problem{
	Status: http.StatusServiceUnavailable, Code: "overloaded", Title: "Overloaded", Retryable: true,
	Detail: "too many request bodies are being received at once; this request had no effect. Retry it later",
	header: http.Header{"Connection": {"close"}},
}

func (m *meteredBody) Read(p []byte) (int, error) {
	n, err := m.body.Read(p)
	if !m.budget.TryAcquire(int64(n)) {
		return 0, errNoBudget
	}
	m.reserved += int64(n)
	return n, err
}

// admit waits for a slot in the admission queue. An error means that the request is refused.
func (a *API) admit(ctx context.Context, g *admissionQueue) error {
	err := g.acquire(ctx, requestOf(ctx).principal)
	if err != nil {
		a.countRefusal(ctx, g.name)
	}
	return err
}

// refuseEarly refuses a request of a known principal before the token is looked up and the body is
// read, so that a refusal stays cheap. Requests that stop work are not rate limited, and the queue
// of urgent requests has its own limit.
func (a *API) refuseEarly(r *http.Request, req *request, out *responseWriter, g *admissionQueue) error {
	if g == nil {
		return nil
	}
	principal, known := a.guessPrincipal(r)
	if !known {
		return nil
	}
	req.principal = principal
	if err := a.countRate(r.Context(), out, g); err != nil {
		return err
	}
	if isWrite(r.Method) && g.full(principal) {
		a.countRefusal(r.Context(), g.name)
		return g.refusal()
	}
	return nil
}

// countRate counts a request once against the rate limit of its principal. Requests that stop work
// and pages that need no principal are not counted.
func (a *API) countRate(ctx context.Context, out *responseWriter, g *admissionQueue) error {
	req := requestOf(ctx)
	if g == nil || g == a.queues.urgent || g == a.queues.pages || req.counted {
		return nil
	}
	req.counted = true
	err := a.rate.allow(req.principal, out.Header())
	if err != nil {
		a.countRefusal(ctx, "rate")
	}
	return err
}

// guessPrincipal returns the principal of a request as far as it is known without access to the
// store.
func (a *API) guessPrincipal(r *http.Request) (id string, known bool) {
	if a.cfg.Local {
		return orDefault(r.Header.Get("Perdure-Actor"), actorUser), true
	}
	_, token, _ := strings.Cut(r.Header.Get("Authorization"), " ")
	return a.cfg.Keyring.Guess(strings.TrimSpace(token))
}

// refusalLogInterval is the minimum interval between log lines about refusals: refusals must stay
// cheap.
const refusalLogInterval = 10 * time.Second

// countRefusal counts a refused request and delays the answer; see slowly.
func (a *API) countRefusal(ctx context.Context, name string) {
	requestOf(ctx).refused = true
	n, now, lastLogged := a.refusals.Add(1), time.Now().UnixNano(), a.refusalsLogged.Load()
	if now-lastLogged > int64(refusalLogInterval) && a.refusalsLogged.CompareAndSwap(lastLogged, now) {
		a.cfg.Log.Warn("requests refused by admission control", "queue", name, "refused_total", n)
	}
	a.delayRefusal(ctx)
}

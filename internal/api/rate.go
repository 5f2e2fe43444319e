package api

import (
	"context"
	"fmt"
	"math"
	"net/http"
	"strconv"
	"time"

	"github.com/perdure/perdure/internal/access"
)

// rate limits how many requests per second each principal may send, with a burst of the same size
// (H10). nil: unlimited.
type rate struct {
	perSecond int
	pace      access.RateLimiter[string]
}

func newRate(perSecond int) *rate {
	if perSecond <= 0 {
		return nil
	}
	perSecond = min(perSecond, int(time.Second/time.Microsecond))
	return &rate{perSecond: perSecond, pace: access.RateLimiter[string]{Burst: perSecond, Every: time.Second / time.Duration(perSecond)}}
}

// allow counts a request of a principal, and sets headers with the remaining requests. The error
// refuses a request above the limit.
func (l *rate) allow(principal string, header http.Header) error {
	if l == nil {
		return nil
	}
	wait, left := l.pace.Allow(principal, time.Now())
	policy, status := fmt.Sprintf(`"caller";q=%d;w=1`, l.perSecond), fmt.Sprintf(`"caller";r=%d;t=1`, left)
	header.Set("RateLimit-Policy", policy)
	header.Set("RateLimit", status)
	if wait == 0 {
		return nil
	}
	return &Problem{
		Status: http.StatusTooManyRequests, Code: "rate_limited", Title: "Too many requests", Retryable: true,
		Detail: fmt.Sprintf("the limit of %d requests per second for one caller was exceeded; this request had no effect. Retry it later", l.perSecond),
		header: http.Header{"Retry-After": {strconv.Itoa(int(math.Ceil(wait.Seconds())))}},
	}
}

// A refusal costs processor time, which accepted requests need. So only refusalsAtOnce refusals
// plus one per refusalEvery are answered at once, and further ones are delayed by up to
// refusalPatience. A delayed connection sends nothing in the meantime, which slows clients down
// that retry as soon as they have an answer (R23).
//
// Clients that retry on other connections regardless of answers are not slowed by this. At most
// refusalsWaiting refusals are delayed, because each holds a connection and a goroutine; further
// ones are answered at once. They are answered on a connection that stays open, because accepting a
// new connection costs more than refusing a request.
//
// The pace equals a flood of ten times the peak load of one processor. Delaying more would gain
// nothing, because such clients do not wait, and every delayed request has a stack for the garbage
// collector to scan.
const (
	refusalsAtOnce  = 100
	refusalEvery    = time.Millisecond
	refusalPatience = time.Second
	refusalsWaiting = 1024
)

func newRefusalPace() access.RateLimiter[struct{}] {
	return access.RateLimiter[struct{}]{Burst: refusalsAtOnce, Every: refusalEvery}
}

// delayRefusal delays a refusal until the pace allows one more, at most for refusalPatience, and
// not at all if refusalsWaiting others are being delayed.
func (a *API) delayRefusal(ctx context.Context) {
	defer a.refusalsDelayed.Add(-1)
	if a.refusalsDelayed.Add(1) > refusalsWaiting {
		return
	}
	wait := a.refusalPace.Reserve(struct{}{}, time.Now(), refusalPatience)
	if wait == 0 {
		return
	}
	late := time.NewTimer(wait)
	defer late.Stop()
	select {
	case <-late.C:
	case <-a.draining:
	case <-ctx.Done():
	}
}

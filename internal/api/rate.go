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

// rate is how many requests a second each principal may send, and as many at once (H10). nil: as many as they like.
type rate struct {
	perSecond int
	pace      access.Pace[string]
}

func newRate(perSecond int) *rate {
	if perSecond <= 0 {
		return nil
	}
	perSecond = min(perSecond, int(time.Second/time.Microsecond))
	return &rate{perSecond: perSecond, pace: access.Pace[string]{Burst: perSecond, Every: time.Second / time.Duration(perSecond)}}
}

// take counts a request of a principal, and writes into the header of the answer how many more there may be now. The error is
// the refusal of one too many.
func (l *rate) take(who string, header http.Header) error {
	if l == nil {
		return nil
	}
	wait, left := l.pace.Take(who, time.Now())
	policy, stands := fmt.Sprintf(`"caller";q=%d;w=1`, l.perSecond), fmt.Sprintf(`"caller";r=%d;t=1`, left)
	header.Set("RateLimit-Policy", policy)
	header.Set("RateLimit", stands)
	if wait == 0 {
		return nil
	}
	return &Problem{
		Status: http.StatusTooManyRequests, Code: "rate_limited", Title: "Too many requests", Retryable: true,
		Detail: fmt.Sprintf("a caller may send %d requests a second here; nothing was done of this. Send it again, later", l.perSecond),
		header: http.Header{"Retry-After": {strconv.Itoa(int(math.Ceil(wait.Seconds())))}},
	}
}

// Refusals cost the work that was let in its time on the processor, so only so many are made in a second; when there are more, a
// refused request waits for a moment for its answer. Its connection asks for nothing meanwhile (R23). That slows those down who ask
// again when they were answered. Who asks whatever the answers are comes with another connection, and is slowed by nothing; so only
// so many refusals wait, each of which holds its connection and a goroutine, and what is more is told at once. It is told on a
// connection that stays: to accept the next one would cost more than to refuse its request. The pace is what a flood of ten times the
// peak of a processor asks for: there is nothing to gain from holding that up, since it does not wait, and each that is held has a
// stack that the garbage collector looks through.
const (
	refusalsAtOnce  = 100
	refusalEvery    = time.Millisecond
	refusalPatience = time.Second
	refusalsWaiting = 1024
)

func newRefusalPace() access.Pace[struct{}] {
	return access.Pace[struct{}]{Burst: refusalsAtOnce, Every: refusalEvery}
}

// slowly waits until one more refusal may be made, at most for refusalPatience, and not where enough others wait.
func (a *API) slowly(ctx context.Context) {
	defer a.refusalsSlow.Add(-1)
	if a.refusalsSlow.Add(1) > refusalsWaiting {
		return
	}
	wait := a.refusalPace.Queue(struct{}{}, time.Now(), refusalPatience)
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

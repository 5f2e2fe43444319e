// Package ratelimit limits the outbound tool calls of an organisation, across all instances that
// share a store.
//
// It may import the root, store and tool.
//
// The one thing to know: it fails open. When the store does not answer in time, the window of this
// process decides alone, and Counts.FellBack counts that. This window also counts the calls that
// the store allowed, so that an outage is not a fresh start.
package ratelimit

import (
	"context"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/perdure/perdure/store"
	"github.com/perdure/perdure/tool"
)

// The defaults.
const (
	DefaultPerMinute = 1000 // per organisation
	defaultPatience  = 250 * time.Millisecond
	retryPause       = time.Second // how long a store that failed is not asked again
	maxWindows       = 1000        // above this many windows, empty ones are dropped
)

// Config configures a Limiter. Store is required.
type Config struct {
	Store     store.Store
	PerMinute int           // per organisation; 0: 1,000
	Patience  time.Duration // how long to wait for the store; 0: 250 ms
	Log       *slog.Logger  // nil: discarded
	// Decided receives each answer; alone says that this process gave it without the store. nil:
	// nobody. It must not block.
	Decided func(org string, allowed, alone bool)
}

// Counts says what a Limiter has answered so far.
type Counts struct {
	Allowed  int64
	Denied   int64
	FellBack int64 // of both: answers of this process's window, because the store gave none
}

// Limiter limits outbound calls. It is safe for concurrent use.
type Limiter struct {
	cfg   Config
	begun time.Time // base of the process's monotonic clock

	allowed, denied, fellBack atomic.Int64

	mu      sync.Mutex
	windows map[string]map[int64]int // guarded by mu: by organisation and bucket, the calls allowed here
	retryAt time.Time                // guarded by mu: when the store is asked again
	alone   bool                     // guarded by mu: the store did not answer when it was last asked
}

var _ tool.OutboundRateLimiter = (*Limiter)(nil)

// New returns a limiter. A negative PerMinute means the default, too.
func New(cfg Config) *Limiter {
	if cfg.PerMinute <= 0 {
		cfg.PerMinute = DefaultPerMinute
	}
	if cfg.Patience <= 0 {
		cfg.Patience = defaultPatience
	}
	if cfg.Log == nil {
		cfg.Log = slog.New(slog.DiscardHandler)
	}
	return &Limiter{cfg: cfg, begun: time.Now(), windows: map[string]map[int64]int{}}
}

// CheckOrg counts one call of an organisation, and reports whether it is allowed.
func (l *Limiter) CheckOrg(ctx context.Context, org string) bool {
	may, err := l.countInStore(ctx, org)
	may = l.decide(org, may, err)
	if l.cfg.Decided != nil {
		l.cfg.Decided(org, may, err != nil)
	}
	return may
}

// decide counts the answer of the store, or answers itself where the store gave none.
func (l *Limiter) decide(org string, may bool, err error) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	now := l.now()
	window := l.window(org, now)
	if err != nil {
		l.fellBack.Add(1)
		n := 0
		for _, calls := range window {
			n += calls
		}
		may = n < l.cfg.PerMinute
	}
	if !may {
		l.denied.Add(1)
		return false
	}
	_, last := store.RateSpan(now)
	window[last]++
	l.allowed.Add(1)
	return true
}

// Counts returns the answers so far.
func (l *Limiter) Counts() Counts {
	return Counts{Allowed: l.allowed.Load(), Denied: l.denied.Load(), FellBack: l.fellBack.Load()}
}

// errStorePaused is the error of ask while the store is not asked because it just failed.
var errStorePaused = context.DeadlineExceeded

// countInStore counts the call in the store.
func (l *Limiter) countInStore(ctx context.Context, org string) (may bool, err error) {
	l.mu.Lock()
	muted := l.now().Before(l.retryAt)
	l.mu.Unlock()
	if muted {
		return false, errStorePaused
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), l.cfg.Patience)
	defer cancel()
	err = l.cfg.Store.InTx(ctx, func(tx store.Tx) (err error) {
		may, err = tx.Rates().CountOutbound(org, l.cfg.PerMinute)
		return err
	})
	l.mu.Lock()
	was := l.alone
	if l.alone = err != nil; l.alone {
		l.retryAt = l.now().Add(retryPause)
	}
	l.mu.Unlock()
	switch {
	case err != nil && !was: // once, however long it lasts
		l.cfg.Log.Warn("outbound rate limit not shared; this process counts alone until the store answers again", "org", org,
			"error", err)
	case err == nil && was:
		l.cfg.Log.Info("outbound rate limit shared again")
	}
	return may, err
}

// now returns a time that changes of the system clock do not affect.
func (l *Limiter) now() time.Time { return l.begun.Add(time.Since(l.begun)) }

// window returns the calls that were allowed here for an organisation, without expired buckets.
func (l *Limiter) window(org string, now time.Time) map[int64]int {
	if len(l.windows) > maxWindows {
		for other := range l.windows {
			if l.prune(other, now); len(l.windows[other]) == 0 {
				delete(l.windows, other)
			}
		}
	}
	if l.windows[org] == nil {
		l.windows[org] = map[int64]int{}
	}
	l.prune(org, now)
	return l.windows[org]
}

// prune removes the buckets that have left the window.
func (l *Limiter) prune(org string, now time.Time) {
	first, _ := store.RateSpan(now)
	for bucket := range l.windows[org] {
		if bucket < first {
			delete(l.windows[org], bucket)
		}
	}
}

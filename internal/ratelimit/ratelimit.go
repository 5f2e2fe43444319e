// Package ratelimit counts the calls of tools that go out, for all instances that share a store (RL1).
//
// It may import the root, store and tool. The one thing to know: it fails open (RL2). When the store does not answer in time,
// the window of this process decides alone, and that is counted. The window of the process has seen what the store let through
// here, so that an outage is no fresh start.
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
	DefaultPerMinute = 1000 // of an organisation (RL1)
	patience         = 250 * time.Millisecond
	quiet            = time.Second // in which a store that failed is not asked again
	manyOrgs         = 1000        // windows that are kept before those that hold nothing are dropped
)

// Config is what a Limiter is made of. Store is required.
type Config struct {
	Store     store.Store
	PerMinute int           // of an organisation; 0: 1,000
	Patience  time.Duration // with the store; 0: 250 ms
	Log       *slog.Logger  // nil: discarded
}

// Counts says what a Limiter answered since it was made.
type Counts struct {
	Allowed  int64
	Denied   int64
	FellBack int64 // of both: answers that the window of the process gave, since the store did not
}

// Limiter is the limit. Safe for concurrent use.
type Limiter struct {
	cfg   Config
	begun time.Time // by whose monotonic clock the process counts

	allowed, denied, fellBack atomic.Int64

	mu      sync.Mutex
	windows map[string]map[int64]int // guarded by mu: by organisation, the calls that went out here, by bucket
	asks    time.Time                // guarded by mu: when the store is asked again
}

var _ tool.OutboundRateLimiter = (*Limiter)(nil)

// New returns a limit. A PerMinute under 0 is the default, too.
func New(cfg Config) *Limiter {
	if cfg.PerMinute <= 0 {
		cfg.PerMinute = DefaultPerMinute
	}
	if cfg.Patience <= 0 {
		cfg.Patience = patience
	}
	if cfg.Log == nil {
		cfg.Log = slog.New(slog.DiscardHandler)
	}
	return &Limiter{cfg: cfg, begun: time.Now(), windows: map[string]map[int64]int{}}
}

// CheckOrg counts one call of an organisation, and reports whether it may go out.
func (l *Limiter) CheckOrg(ctx context.Context, org string) bool {
	may, err := l.ask(ctx, org)
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

// Counts returns what was answered so far.
func (l *Limiter) Counts() Counts {
	return Counts{Allowed: l.allowed.Load(), Denied: l.denied.Load(), FellBack: l.fellBack.Load()}
}

// errQuiet is the answer of a store that is not asked, since it just failed.
var errQuiet = context.DeadlineExceeded

// ask counts in the store.
func (l *Limiter) ask(ctx context.Context, org string) (may bool, err error) {
	l.mu.Lock()
	muted := l.now().Before(l.asks)
	l.mu.Unlock()
	if muted {
		return false, errQuiet
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), l.cfg.Patience)
	defer cancel()
	err = l.cfg.Store.InTx(ctx, func(tx store.Tx) (err error) {
		may, err = tx.CountOutbound(org, l.cfg.PerMinute)
		return err
	})
	if err != nil {
		l.cfg.Log.Warn("the rate of outbound calls is counted by this process alone", "org", org, "error", err)
		l.mu.Lock()
		l.asks = l.now().Add(quiet)
		l.mu.Unlock()
	}
	return may, err
}

// now is the moment by a clock that nobody sets.
func (l *Limiter) now() time.Time { return l.begun.Add(time.Since(l.begun)) }

// window returns what went out here for an organisation, and nothing older.
func (l *Limiter) window(org string, now time.Time) map[int64]int {
	if len(l.windows) > manyOrgs {
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

// prune forgets what the window does not reach any more.
func (l *Limiter) prune(org string, now time.Time) {
	first, _ := store.RateSpan(now)
	for bucket := range l.windows[org] {
		if bucket < first {
			delete(l.windows[org], bucket)
		}
	}
}

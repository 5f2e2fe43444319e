package app

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/perdure/perdure/internal/api"
	"github.com/perdure/perdure/store"
)

const (
	readinessTimeout   = time.Second            // how long the store may take to respond to a readiness check
	readinessCacheTime = 500 * time.Millisecond // how long a result is reused; anyone may ask, without a token
)

// storeReadiness is the last readiness of the store. Concurrent requests share one check.
type storeReadiness struct {
	store     store.Store
	log       *slog.Logger
	cacheTime time.Duration // how long a result is reused

	mu     sync.Mutex
	result []api.Check // guarded by mu
	at     time.Time   // guarded by mu: time of found
}

// checks returns the checks of the store, at most keep old.
func (l *storeReadiness) checks(ctx context.Context) []api.Check {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.result == nil || time.Since(l.at) >= l.cacheTime {
		l.result = l.once(context.WithoutCancel(ctx)) // others use the result, too
		l.at = time.Now()
	}
	return l.result
}

// once reads the clock and the schema version of the store.
func (l *storeReadiness) once(ctx context.Context) []api.Check {
	ctx, stop := context.WithTimeout(ctx, readinessTimeout)
	defer stop()
	var stored, known int64
	var clock, seen time.Time
	err := l.store.View(ctx, func(r store.Reader) (err error) {
		stored, known = 0, 0
		clock, seen = r.Now(), time.Now()
		if s, ok := r.(store.SchemaReader); ok {
			stored, known, err = s.Schema()
		}
		return err
	})
	if err != nil {
		if l.result == nil || l.result[0].OK {
			l.log.Warn("store not responding", "error", err)
		}
		// The response needs no token, and the error may contain the name of the database and its
		// user.
		const away, unseen = "not responding: see the log", "unknown while the store does not respond"
		return []api.Check{{Name: "store", Detail: away}, {Name: "migrations", Detail: unseen},
			{Name: "clock", Detail: unseen}}
	}
	checks := []api.Check{{Name: "store", OK: true}, {Name: "migrations", OK: stored == known},
		{Name: "clock", OK: true}}
	if stored != known {
		checks[1].Detail = fmt.Sprintf("the store has schema %d, this program knows %d: use the version that migrated it", stored, known)
	}
	if lag := clock.Sub(seen).Round(time.Second); lag.Abs() > clockLag {
		checks[2].OK, checks[2].Detail = false,
			fmt.Sprintf("the clocks of the store and of this machine differ by %s: correct the wrong one", lag.Abs())
	}
	return checks
}

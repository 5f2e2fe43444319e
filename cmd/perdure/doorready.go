package main

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
	lookLimit = time.Second            // how long the store may take to answer whoever asks whether the server is ready
	lookKeep  = 500 * time.Millisecond // how long an answer is good for others who ask: anybody may, without a token
)

// look is what the store said of itself last. Whoever asks while it is being looked at gets what is found.
type look struct {
	store store.Store
	log   *slog.Logger
	keep  time.Duration // how long it is good

	mu    sync.Mutex
	found []api.Check // guarded by mu
	at    time.Time   // guarded by mu: when it was found
}

// checks looks at the store, unless that was done just now.
func (l *look) checks(ctx context.Context) []api.Check {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.found == nil || time.Since(l.at) >= l.keep {
		l.found = l.once(context.WithoutCancel(ctx)) // it is for others, too
		l.at = time.Now()
	}
	return l.found
}

// once reads the clock of the store and the number of its schema (H12).
func (l *look) once(ctx context.Context) []api.Check {
	ctx, stop := context.WithTimeout(ctx, lookLimit)
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
		if l.found == nil || l.found[0].OK {
			l.log.Warn("the store does not answer", "error", err)
		}
		// Whoever asks needs no token, and the error may name the database and its user.
		const away, unseen = "it does not answer: the log says why", "cannot be seen while the store does not answer"
		return []api.Check{{Name: "store", Detail: away}, {Name: "migrations", Detail: unseen}, {Name: "clock", Detail: unseen}}
	}
	checks := []api.Check{{Name: "store", OK: true}, {Name: "migrations", OK: stored == known}, {Name: "clock", OK: true}}
	if stored != known {
		checks[1].Detail = fmt.Sprintf("the store has schema %d, this program knows %d: use the version that migrated it", stored, known)
	}
	if lag := clock.Sub(seen).Round(time.Second); lag.Abs() > clockLag {
		checks[2].OK, checks[2].Detail = false, fmt.Sprintf("the store's clock is %s away from this machine's: set the one that is wrong", lag.Abs())
	}
	return checks
}

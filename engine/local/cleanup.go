package local

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"runtime/debug"
	"slices"
	"sync"
	"time"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/budget"
	"github.com/perdure/perdure/engine"
	"github.com/perdure/perdure/internal/redact"
	"github.com/perdure/perdure/internal/sessionport"
	"github.com/perdure/perdure/store"
	"github.com/perdure/perdure/tool"
)

// The defaults of the clean-up of leased resources (RS5, RS6).
const (
	defaultCleanupScan     = 30 * time.Second
	defaultCleanupClaim    = 10 * time.Minute
	defaultCleanupAttempts = 10
	defaultCleanupPage     = 8
	firstCleanupPause      = time.Minute
	longestCleanupPause    = time.Hour
	leaseRetentionDelay    = 10 * time.Minute // after the start, so that it does without
)

// Cleanup is how leased resources are cleaned up once they have expired.
type Cleanup struct {
	// Cleaners take down what leases stand for, by their provider. A lease of a provider that is not here waits for an
	// engine that has it. nil: nothing is cleaned up here.
	Cleaners map[string]tool.LeaseCleaner
	// ConnectionOf looks up the token of a user's connection to a provider, when a cleaner asks for it: that of whoever made
	// the resource, never another one's (RS7). engine.OwnerOf(ctx) says of which org the owner is. An empty token is none. nil:
	// those of the store. Safe for concurrent use.
	ConnectionOf func(ctx context.Context, owner, provider string) (string, error)

	CleanupScan     time.Duration // how often it is looked what has expired; 0: 30 s
	CleanupClaim    time.Duration // after which a clean-up that does not end is done anew; a cleaner has half of it; 0: 10 min
	CleanupAttempts int           // after which a person must see to it; 0: 10
	CleanupPage     int           // leases that are cleaned up at once; 0: 8
}

func (c Cleanup) withDefaults() Cleanup {
	if c.CleanupScan <= 0 {
		c.CleanupScan = defaultCleanupScan
	}
	if c.CleanupClaim <= 0 {
		c.CleanupClaim = defaultCleanupClaim
	}
	if c.CleanupAttempts <= 0 {
		c.CleanupAttempts = defaultCleanupAttempts
	}
	if c.CleanupPage <= 0 {
		c.CleanupPage = defaultCleanupPage
	}
	return c
}

// startCleaning begins the passes of clean-up, which run beside the work until ctx ends: the beat never waits for them.
func (e *Engine) startCleaning(ctx context.Context) {
	e.group.Go(func() {
		stale := e.cfg.CleanupClaim
		if !e.cfg.Shared {
			stale = 0 // a claim that is found is one of a process that is dead (LG20)
		}
		tick := time.NewTicker(e.cfg.CleanupScan)
		defer tick.Stop()
		forget := time.Now().Add(leaseRetentionDelay)
		for {
			if err := e.clean(ctx, stale); err == nil {
				stale = e.cfg.CleanupClaim
			} else if ctx.Err() == nil {
				e.cfg.Log.Warn("expired resources were not cleaned up, and will be tried again", "worker", e.worker.ID, "error", err)
			}
			if e.cfg.Retention > 0 && time.Now().After(forget) {
				forget = time.Now().Add(retentionPause)
				e.forgetLeases(ctx)
			}
			select {
			case <-tick.C:
			case <-ctx.Done():
				return
			}
		}
	})
}

// clean is one pass: it claims what has expired, provider by provider and page by page, until nothing is left.
func (e *Engine) clean(ctx context.Context, stale time.Duration) error {
	var errs []error
	for _, provider := range slices.Sorted(maps.Keys(e.cfg.Cleaners)) {
		due := store.LeaseDue{Provider: provider, Attempts: e.cfg.CleanupAttempts, Stale: stale, Limit: e.cfg.CleanupPage}
		for ctx.Err() == nil {
			page, err := sessionport.ClaimLeases(ctx, e.cfg.Store, due)
			if err != nil {
				errs = append(errs, err)
			}
			if len(page) == 0 {
				break
			}
			e.cleanPage(ctx, page)
			due.Stale = e.cfg.CleanupClaim // what is claimed now is this engine's
		}
	}
	return errors.Join(errs...)
}

// cleanPage cleans up what was claimed, all at once, and returns when the last one has ended.
func (e *Engine) cleanPage(ctx context.Context, page []perdure.Lease) {
	var all sync.WaitGroup
	for _, l := range page {
		all.Go(func() { e.cleanLease(ctx, l) })
	}
	all.Wait()
}

// cleanLease cleans up one leased resource and records how it ended. When the engine ends meanwhile nothing is recorded, and
// the claim is taken over by the next start, or once it is stale.
func (e *Engine) cleanLease(ctx context.Context, l perdure.Lease) {
	last := l.Attempts >= e.cfg.CleanupAttempts
	err := e.takeDown(ctx, l)
	if ctx.Err() != nil && err != nil {
		return
	}
	end := store.LeaseEnd{ID: l.ID, Claim: l.CleanupAt}
	if err != nil {
		end.Error, end.Pause = err.Error(), cleanupPause(l.Attempts)
	}
	rest, stop := context.WithTimeout(context.WithoutCancel(ctx), stopTime)
	defer stop()
	_, failure := sessionport.EndCleanup(rest, e.cfg.Store, end, last)
	if l.Session != "" && (l.Attempts == 1 || err == nil || last) {
		e.wake(l.Session) // its journal has something that its driver has not seen
	}
	switch {
	case errors.Is(failure, perdure.Lost):
		e.cfg.Log.Info("a resource was leased anew or released while it was cleaned up", "lease", l.ID)
	case failure != nil:
		e.cfg.Log.Warn("the end of a clean-up was not recorded", "lease", l.ID, "error", failure)
	case err != nil && last:
		e.cfg.Log.Error("a resource could not be cleaned up: see to it, then lease or release it", "lease", l.ID, "provider", l.Provider, "attempts", l.Attempts, "error", err)
	case err != nil:
		e.cfg.Log.Warn("a resource could not be cleaned up, and will be tried again", "lease", l.ID, "provider", l.Provider, "attempts", l.Attempts, "error", err)
	}
}

// errNeverBack is the failure of a clean-up whose attempts all ended with their process.
var errNeverBack = errors.New("no attempt of its clean-up came to an end: look at the cleaner")

// takeDown asks the cleaner of a lease, with the connection of its owner. The error's text has no secrets (RS6).
func (e *Engine) takeDown(ctx context.Context, l perdure.Lease) (err error) {
	if l.Attempts > e.cfg.CleanupAttempts {
		return errNeverBack
	}
	secrets := redact.NewSet() // what the cleaner was given
	token := func(ctx context.Context) (string, error) {
		found, err := e.tokenOf(ctx, l)
		if err == nil {
			secrets.Add(found)
		}
		return found, err
	}
	ctx, stop := context.WithTimeout(ctx, e.cfg.CleanupClaim/2)
	defer stop()
	defer func() {
		if p := recover(); p != nil {
			e.cfg.Log.Error("a cleaner panicked", "lease", l.ID, "panic", secrets.Mask(fmt.Sprint(p)), "stack", secrets.Mask(string(debug.Stack())))
			err = errors.New("the cleaner panicked")
		}
		if err != nil {
			err = errors.New(withoutSecrets(err.Error(), secrets))
		}
	}()
	return e.cfg.Cleaners[l.Provider].Clean(ctx, l, token)
}

// tokenOf looks up the token of the connection that made a resource. NotFound: there is none.
func (e *Engine) tokenOf(ctx context.Context, l perdure.Lease) (string, error) {
	none := fmt.Errorf("%w: %q is not connected to %s", perdure.NotFound, l.Owner, l.Provider)
	if l.Owner == "" {
		return "", none
	}
	var found string
	var err error
	if look := e.cfg.ConnectionOf; look != nil {
		found, err = look(engine.For(ctx, engine.Owner{Org: cmp.Or(l.Org, budget.DefaultOrg), User: l.Owner}), l.Owner, l.Provider)
	} else {
		found, err = e.ports(e.cfg).ConnectionOf(ctx, l.Org, l.Owner, l.Provider)
	}
	if err == nil && found == "" {
		err = none
	}
	return found, err
}

// withoutSecrets is an error's text fit to be stored.
func withoutSecrets(text string, secrets *redact.Set) string {
	shown, err := redact.New(redact.Config{Known: secrets, MaxString: 500})
	if err != nil {
		return redact.Unprintable
	}
	if text = shown.Document(text); text == "" {
		return "it gave no reason"
	}
	return text
}

// cleanupPause is how long a failed clean-up rests: a minute after the first attempt, doubling to an hour (RS6).
func cleanupPause(attempts int) time.Duration {
	pause := firstCleanupPause
	for ; attempts > 1 && pause < longestCleanupPause; attempts-- {
		pause *= 2
	}
	return min(pause, longestCleanupPause)
}

// forgetLeases forgets what was released long ago (RS4).
func (e *Engine) forgetLeases(ctx context.Context) {
	for {
		var n int
		err := e.cfg.Store.InTx(ctx, func(tx store.Tx) (err error) {
			n, err = tx.PruneLeases(tx.Now().Add(-e.cfg.Retention), e.cfg.PruneBatch)
			return err
		})
		if err != nil && ctx.Err() == nil {
			e.cfg.Log.Warn("released leases were not forgotten, and will be tried again", "worker", e.worker.ID, "error", err)
		}
		if err != nil || n < e.cfg.PruneBatch {
			return
		}
	}
}

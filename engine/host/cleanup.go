package host

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

// The defaults of the cleanup of leased resources (RS5, RS6).
const (
	defaultCleanupScan     = 30 * time.Second
	defaultCleanupClaim    = 10 * time.Minute
	defaultCleanupAttempts = 10
	defaultCleanupPage     = 8
	firstCleanupPause      = time.Minute
	maxCleanupPause        = time.Hour
)

// Cleanup configures the cleanup of expired leases.
type Cleanup struct {
	// Cleaners remove leased resources, by provider. A lease of a provider without a cleaner waits
	// for an engine that has one. nil: this engine cleans nothing up.
	Cleaners map[string]tool.LeaseCleaner
	// ConnectionOf returns the token of the connection of owner to provider, when a cleaner asks
	// for it. owner is the user who created the resource, never another user (RS7);
	// engine.OwnerFromContext(ctx) has the org. An empty token means that there is no connection.
	// nil: the store's connections are used. It must be safe for concurrent use.
	ConnectionOf func(ctx context.Context, owner, provider string) (string, error)

	Interval time.Duration // the interval between passes; 0: 30 s
	Claim    time.Duration // after which an unfinished cleanup is repeated; a cleaner has half of it; 0: 10 min
	Attempts int           // after which a person must act; 0: 10
	Page     int           // leases that are cleaned up at once; 0: 8
}

func (c Cleanup) withDefaults() Cleanup {
	if c.Interval <= 0 {
		c.Interval = defaultCleanupScan
	}
	if c.Claim <= 0 {
		c.Claim = defaultCleanupClaim
	}
	if c.Attempts <= 0 {
		c.Attempts = defaultCleanupAttempts
	}
	if c.Page <= 0 {
		c.Page = defaultCleanupPage
	}
	return c
}

// Cleaner removes leased resources. It is safe for concurrent use.
type Cleaner struct{ e *Host }

// Cleaner returns what removes leased resources.
func (e *Host) Cleaner() Cleaner { return Cleaner{e} }

// Clean is one pass of the cleanup of leased resources: it claims the expired leases by provider
// and page, until none are left.
func (cl Cleaner) Clean(ctx context.Context, stale time.Duration) error {
	var errs []error
	for _, provider := range slices.Sorted(maps.Keys(cl.e.cfg.Cleanup.Cleaners)) {
		due := store.LeaseDue{
			Provider: provider, MaxAttempts: cl.e.cfg.Cleanup.Attempts, StaleAfter: stale, Limit: cl.e.cfg.Cleanup.Page,
		}
		for ctx.Err() == nil {
			page, err := sessionport.ClaimLeases(ctx, cl.e.cfg.Store, due)
			if err != nil {
				errs = append(errs, err)
			}
			if len(page) == 0 {
				break
			}
			cl.cleanPage(ctx, page)
			due.StaleAfter = cl.e.cfg.Cleanup.Claim // from now on the claims are this engine's own
		}
	}
	return errors.Join(errs...)
}

// cleanPage cleans up a page of claimed leases at once, and waits for all of them.
func (cl Cleaner) cleanPage(ctx context.Context, page []perdure.Lease) {
	var all sync.WaitGroup
	for _, l := range page {
		all.Go(func() { cl.cleanLease(ctx, l) })
	}
	all.Wait()
}

// cleanLease cleans up one leased resource and records the result. If the engine stops in the
// meantime, nothing is recorded; the claim is taken over by the next start, or when it is stale.
func (cl Cleaner) cleanLease(ctx context.Context, l perdure.Lease) {
	last := l.Attempts >= cl.e.cfg.Cleanup.Attempts
	err := cl.runCleaner(ctx, l)
	if ctx.Err() != nil && err != nil {
		return
	}
	end := store.LeaseEnd{ID: l.ID, Claim: l.CleanupAt}
	if err != nil {
		end.Error, end.RetryAfter = err.Error(), cleanupPause(l.Attempts)
	}
	rest, stop := context.WithTimeout(context.WithoutCancel(ctx), stopTime)
	defer stop()
	_, failure := sessionport.EndCleanup(rest, cl.e.cfg.Store, end, last)
	if l.Session != "" && (l.Attempts == 1 || err == nil || last) {
		cl.e.scheduler.Wake(l.Session) // its driver reads the new event
	}
	switch {
	case errors.Is(failure, perdure.Lost):
		cl.e.cfg.Log.Info("lease renewed or released during its cleanup", "lease", l.ID)
	case failure != nil:
		cl.e.cfg.Log.Warn("cleanup result not recorded", "lease", l.ID, "error", failure)
	case err != nil && last:
		cl.e.cfg.Log.Error("cleanup failed for the last time; remove the resource, then lease or release it",
			"lease", l.ID, "provider", l.Provider, "attempts", l.Attempts, "error", err)
	case err != nil:
		cl.e.cfg.Log.Warn("cleanup failed, will retry",
			"lease", l.ID, "provider", l.Provider, "attempts", l.Attempts, "error", err)
	}
}

// errNoAttemptEnded is the error of a cleanup whose every attempt ended with its process.
var errNoAttemptEnded = errors.New("no cleanup attempt ended: check the cleaner")

// runCleaner calls the cleaner of a lease, with access to the connection of its owner. The error
// contains no secrets (RS6).
func (cl Cleaner) runCleaner(ctx context.Context, l perdure.Lease) (err error) {
	if l.Attempts > cl.e.cfg.Cleanup.Attempts {
		return errNoAttemptEnded
	}
	secrets := redact.NewSet() // the tokens passed to the cleaner
	token := func(ctx context.Context) (string, error) {
		found, err := cl.connectionToken(ctx, l)
		if err == nil {
			secrets.Add(found)
		}
		return found, err
	}
	ctx, stop := context.WithTimeout(ctx, cl.e.cfg.Cleanup.Claim/2)
	defer stop()
	defer func() {
		if p := recover(); p != nil {
			cl.e.cfg.Log.Error("cleaner panicked", "lease", l.ID,
				"panic", secrets.Mask(fmt.Sprint(p)), "stack", secrets.Mask(string(debug.Stack())))
			err = errors.New("the cleaner panicked")
		}
		if err != nil {
			err = errors.New(withoutSecrets(err.Error(), secrets))
		}
	}()
	return cl.e.cfg.Cleanup.Cleaners[l.Provider].Clean(ctx, l, token)
}

// connectionToken returns the token of the connection that created a resource. NotFound: there is
// none.
func (cl Cleaner) connectionToken(ctx context.Context, l perdure.Lease) (string, error) {
	none := fmt.Errorf("%w: %q is not connected to %s", perdure.NotFound, l.Owner, l.Provider)
	if l.Owner == "" {
		return "", none
	}
	var found string
	var err error
	if look := cl.e.cfg.Cleanup.ConnectionOf; look != nil {
		found, err = look(engine.WithOwner(ctx, engine.Owner{Org: cmp.Or(l.Org, budget.DefaultOrg), User: l.Owner}),
			l.Owner, l.Provider)
	} else {
		found, err = cl.e.ports(cl.e.cfg).ConnectionOf(ctx, l.Org, l.Owner, l.Provider)
	}
	if err == nil && found == "" {
		err = none
	}
	return found, err
}

// withoutSecrets masks the secrets in an error text, so that it can be stored.
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

// cleanupPause returns the pause after a failed attempt: a minute after the first one, doubling up
// to an hour (RS6).
func cleanupPause(attempts int) time.Duration {
	pause := firstCleanupPause
	for ; attempts > 1 && pause < maxCleanupPause; attempts-- {
		pause *= 2
	}
	return min(pause, maxCleanupPause)
}

// PruneLeases removes leases that were released before the retention period (RS4).
func (cl Cleaner) PruneLeases(ctx context.Context) {
	for {
		var n int
		err := cl.e.cfg.Store.InTx(ctx, func(tx store.Tx) (err error) {
			n, err = tx.Resources().PruneLeases(tx.Now().Add(-cl.e.cfg.Timing.Retention), cl.e.cfg.Limits.PruneBatch)
			return err
		})
		if err != nil && ctx.Err() == nil {
			cl.e.cfg.Log.Warn("released leases not pruned, will retry", "worker", cl.e.worker, "error", err)
		}
		if err != nil || n < cl.e.cfg.Limits.PruneBatch {
			return
		}
	}
}

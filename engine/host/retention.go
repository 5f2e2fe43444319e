package host

import (
	"context"
	"errors"

	"github.com/perdure/perdure/internal/effect/cleanup"
	"github.com/perdure/perdure/internal/sessionport"
	"github.com/perdure/perdure/store"
)

// Retention removes what nobody needs any longer. It is safe for concurrent use.
type Retention struct{ e *Host }

// Retention returns what removes old tasks and the leftovers of deleted sessions.
func (e *Host) Retention() Retention { return Retention{e} }

// reseal re-encrypts secrets that are encrypted with an older key (SE2). The key may have been
// rotated while the engine is running.
func (rt Retention) reseal(ctx context.Context) error {
	if rt.e.cfg.Storage.Secrets.Keys == nil {
		return nil
	}
	cfg := rt.e.ports(rt.e.cfg)
	secrets, err := sessionport.Reencrypt(ctx, cfg, nil)
	rows, failed := sessionport.ReencryptDirectory(ctx, cfg)
	if n := secrets + rows; n > 0 {
		rt.e.cfg.Log.Info("secrets re-encrypted with the current key", "secrets", n)
	}
	return errors.Join(err, failed)
}

// Retain is one retention pass (TK16, SE2): it re-encrypts secrets with the current key, and
// removes old tasks. rotated is the key that was made current since the last pass; empty: none.
// again says that another cleaner, which may have crashed, has claimed a part of the work: the next
// pass should come after RetainClaim. Failures are logged; the next pass retries.
func (rt Retention) Retain(ctx context.Context, rotated string) (again bool) {
	warn := func(text string, err error, more ...any) {
		if err != nil && ctx.Err() == nil {
			rt.e.cfg.Log.Warn(text, append([]any{"worker", rt.e.worker, "error", err}, more...)...)
		}
	}
	if rotated != "" {
		warn("key rotation not recorded in audit log", sessionport.AuditRotation(ctx, rt.e.cfg.Store, rotated), "key", rotated)
	}
	warn("secrets not fully re-encrypted with the current key, will retry", rt.reseal(ctx))
	again, err := rt.prune(ctx)
	warn("old tasks not pruned, will retry", err)
	return again
}

// RetainClaim is how long a cleaner claims a part of a retention pass.
const RetainClaim = cleanup.CleanupClaimTTL

// CurrentKey returns the id of the key that secrets are encrypted with; empty without a keyring.
func (rt Retention) CurrentKey() string {
	key, _ := rt.e.cfg.Storage.Secrets.Keys.Current()
	return key
}

// prune removes old tasks in batches: first their rows, then their leftovers. Leftovers of an
// earlier pass or process come first. busy says that another cleaner has claimed some.
func (rt Retention) prune(ctx context.Context) (busy bool, err error) {
	if err := rt.pruneBulks(ctx); err != nil {
		return false, err
	}
	for {
		claimed, err := rt.cleanLeftovers(ctx)
		busy = busy || claimed
		if err != nil || rt.e.cfg.Timing.Retention < 0 {
			return busy, err
		}
		gone, err := rt.e.effects.Cleanup().Prune(ctx, rt.e.cfg.Timing.Retention, rt.e.cfg.Limits.PruneBatch)
		if err != nil || gone == 0 {
			return busy, err
		}
		rt.e.cfg.Log.Info("old tasks pruned", "tasks", gone)
	}
}

// pruneBulks removes the bulks that ended before the retention period.
func (rt Retention) pruneBulks(ctx context.Context) error {
	if rt.e.cfg.Timing.Retention < 0 {
		return nil
	}
	return rt.e.cfg.Store.InTx(ctx, func(tx store.Tx) error {
		_, err := tx.Bulks().Prune(tx.Now().Add(-rt.e.cfg.Timing.Retention), 0)
		return err
	})
}

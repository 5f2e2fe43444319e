package host

import (
	"context"
	"errors"

	"github.com/perdure/perdure/internal/effect/cleanup"
	"github.com/perdure/perdure/internal/sessionport"
)

// defaultPruneBatch is the default batch of retention (TK16).
const defaultPruneBatch = 100

// reseal re-encrypts secrets that are encrypted with an older key (SE2). The key may have been
// rotated while the engine is running.
func (e *Host) reseal(ctx context.Context) error {
	if e.cfg.Secrets.Keys == nil {
		return nil
	}
	cfg := e.ports(e.cfg)
	secrets, err := sessionport.Reencrypt(ctx, cfg, nil)
	rows, failed := sessionport.ReencryptDirectory(ctx, cfg)
	if n := secrets + rows; n > 0 {
		e.cfg.Log.Info("secrets re-encrypted with the current key", "secrets", n)
	}
	return errors.Join(err, failed)
}

// Retain is one retention pass (TK16, SE2): it re-encrypts secrets with the current key, and
// removes old tasks. rotated is the key that was made current since the last pass; empty: none.
// again says that another cleaner, which may have crashed, has claimed a part of the work: the next
// pass should come after RetainClaim. Failures are logged; the next pass retries.
func (e *Host) Retain(ctx context.Context, rotated string) (again bool) {
	warn := func(text string, err error, more ...any) {
		if err != nil && ctx.Err() == nil {
			e.cfg.Log.Warn(text, append([]any{"worker", e.worker, "error", err}, more...)...)
		}
	}
	if rotated != "" {
		warn("key rotation not recorded in audit log", sessionport.AuditRotation(ctx, e.cfg.Store, rotated), "key", rotated)
	}
	warn("secrets not fully re-encrypted with the current key, will retry", e.reseal(ctx))
	again, err := e.prune(ctx)
	warn("old tasks not pruned, will retry", err)
	return again
}

// RetainClaim is how long a cleaner claims a part of a retention pass.
const RetainClaim = cleanup.CleanupClaimTTL

// CurrentKey returns the id of the key that secrets are encrypted with; empty without a keyring.
func (e *Host) CurrentKey() string {
	key, _ := e.cfg.Secrets.Keys.Current()
	return key
}

// prune removes old tasks in batches: first their rows, then their leftovers. Leftovers of an
// earlier pass or process come first. busy says that another cleaner has claimed some.
func (e *Host) prune(ctx context.Context) (busy bool, err error) {
	for {
		claimed, err := e.cleanLeftovers(ctx)
		busy = busy || claimed
		if err != nil || e.cfg.Retention < 0 {
			return busy, err
		}
		gone, err := e.effects.Cleanup().Prune(ctx, e.cfg.Retention, e.cfg.PruneBatch)
		if err != nil || gone == 0 {
			return busy, err
		}
		e.cfg.Log.Info("old tasks pruned", "tasks", gone)
	}
}

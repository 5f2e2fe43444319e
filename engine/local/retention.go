package local

import (
	"context"
	"errors"
	"time"

	"github.com/perdure/perdure/internal/effect"
	"github.com/perdure/perdure/internal/sessionport"
)

// The defaults of retention (TK16), and the interval of its passes.
const (
	defaultRetention  = 30 * 24 * time.Hour
	defaultPruneBatch = 100
	retentionPause    = time.Hour
)

// retain starts a retention pass if one is due: at the start, about once an hour, and when the
// keyring has a new current key. The pass runs in the background and ends with ctx. Only called in
// Run.
func (e *Engine) retain(ctx context.Context) {
	if e.pruneSoon.Swap(false) {
		e.pruneNext = time.Now().Add(effect.CleanupClaimTTL)
	}
	key, _ := e.cfg.Secrets.Keys.Current() // empty without a keyring
	if time.Now().Before(e.pruneNext) && key == e.resealedKey || !e.pruning.CompareAndSwap(false, true) {
		return
	}
	rotated := e.resealedKey != "" && key != "" && key != e.resealedKey
	e.pruneNext, e.resealedKey = time.Now().Add(retentionPause), key
	e.group.Go(func() {
		defer e.pruning.Store(false)
		if rotated {
			if err := sessionport.AuditRotation(ctx, e.cfg.Store, key); err != nil && ctx.Err() == nil {
				e.cfg.Log.Warn("key rotation not recorded in audit log",
					"worker", e.worker.ID, "key", key, "error", err)
			}
		}
		if err := e.reseal(ctx); err != nil && ctx.Err() == nil {
			e.cfg.Log.Warn("secrets not fully re-encrypted with the current key, will retry",
				"worker", e.worker.ID, "error", err)
		}
		if err := e.prune(ctx); err != nil && ctx.Err() == nil {
			e.cfg.Log.Warn("old tasks not pruned, will retry", "worker", e.worker.ID, "error", err)
		}
	})
}

// reseal re-encrypts secrets that are encrypted with an older key (SE2). The key may have been
// rotated while the engine is running.
func (e *Engine) reseal(ctx context.Context) error {
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

// prune removes old tasks in batches: first their rows, then their leftovers. Leftovers of an
// earlier pass or process come first.
func (e *Engine) prune(ctx context.Context) error {
	for {
		busy, err := e.cleanLeftovers(ctx)
		if busy {
			e.pruneSoon.Store(true)
		}
		if err != nil || e.cfg.Retention < 0 {
			return err
		}
		gone, err := e.effects.PruneTasks(ctx, e.cfg.Retention, e.cfg.PruneBatch)
		if err != nil || gone == 0 {
			return err
		}
		e.cfg.Log.Info("old tasks pruned", "tasks", gone)
	}
}

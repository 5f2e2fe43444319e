package local

import (
	"context"
	"errors"
	"time"

	"github.com/perdure/perdure/internal/effect"
	"github.com/perdure/perdure/internal/sessionport"
)

// The defaults of retention (TK16), and how often it is looked what is old enough.
const (
	defaultRetention  = 30 * 24 * time.Hour
	defaultPruneBatch = 100
	retentionPause    = time.Hour
)

// retain begins a pass of retention when one is due: at the start, about once an hour, and when the keyring has another
// current key. It runs beside the work, and ends with it. Only called in Run.
func (e *Engine) retain(ctx context.Context) {
	if e.pruneSoon.Swap(false) {
		e.pruneNext = time.Now().Add(effect.NoteClaim)
	}
	key, _ := e.cfg.Secrets.Keys.Current() // without one nothing is sealed
	if time.Now().Before(e.pruneNext) && key == e.sealed || !e.pruning.CompareAndSwap(false, true) {
		return
	}
	rotated := e.sealed != "" && key != "" && key != e.sealed
	e.pruneNext, e.sealed = time.Now().Add(retentionPause), key
	e.group.Go(func() {
		defer e.pruning.Store(false)
		if rotated {
			if err := sessionport.NoteRotation(ctx, e.cfg.Store, key); err != nil && ctx.Err() == nil {
				e.cfg.Log.Warn("that there is a new key is not in the audit log", "worker", e.worker.ID, "key", key, "error", err)
			}
		}
		if err := e.reseal(ctx); err != nil && ctx.Err() == nil {
			e.cfg.Log.Warn("not all secrets are sealed under the current key, and it will be tried again", "worker", e.worker.ID, "error", err)
		}
		if err := e.prune(ctx); err != nil && ctx.Err() == nil {
			e.cfg.Log.Warn("old tasks were not forgotten, and will be tried again", "worker", e.worker.ID, "error", err)
		}
	})
}

// reseal seals under the current key what is sealed under another one (SE2): the key may have been rotated while the engine runs.
func (e *Engine) reseal(ctx context.Context) error {
	if e.cfg.Secrets.Keys == nil {
		return nil
	}
	cfg := e.ports(e.cfg)
	secrets, err := sessionport.Reencrypt(ctx, cfg, nil)
	rows, failed := sessionport.ResealDirectory(ctx, cfg)
	if n := secrets + rows; n > 0 {
		e.cfg.Log.Info("secrets were sealed under the current key", "secrets", n)
	}
	return errors.Join(err, failed)
}

// prune forgets what ended long ago, batch by batch: rows first, then what they left. What a former pass or a former life did
// not get to is removed before.
func (e *Engine) prune(ctx context.Context) error {
	for {
		busy, err := e.cleanLeft(ctx)
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
		e.cfg.Log.Info("tasks that ended long ago were forgotten", "tasks", gone)
	}
}

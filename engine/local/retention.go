package local

import (
	"context"
	"time"
)

// The defaults of retention (TK16), and how often it is looked what is old enough.
const (
	defaultRetention  = 30 * 24 * time.Hour
	defaultPruneBatch = 100
	retentionPause    = time.Hour
)

// retain begins a pass of retention when one is due: at the start, and about once an hour. It runs beside the work, and ends
// with it. Only called in Run.
func (e *Engine) retain(ctx context.Context) {
	if time.Now().Before(e.pruneNext) || !e.pruning.CompareAndSwap(false, true) {
		return
	}
	e.pruneNext = time.Now().Add(retentionPause)
	e.group.Go(func() {
		defer e.pruning.Store(false)
		if err := e.prune(ctx); err != nil && ctx.Err() == nil {
			e.cfg.Log.Warn("old tasks were not forgotten, and will be tried again", "worker", e.worker.ID, "error", err)
		}
	})
}

// prune forgets what ended long ago, batch by batch: rows first, then what they left. What a former pass or a former life did
// not get to is removed before.
func (e *Engine) prune(ctx context.Context) error {
	for {
		if err := e.cleanLeft(ctx); err != nil || e.cfg.Retention < 0 {
			return err
		}
		gone, err := e.effects.PruneTasks(ctx, e.cfg.Retention, e.cfg.PruneBatch)
		if err != nil || gone == 0 {
			return err
		}
		e.cfg.Log.Info("tasks that ended long ago were forgotten", "tasks", gone)
	}
}

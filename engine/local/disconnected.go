package local

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/store"
)

// connectionLook is how often a worker looks for workers whose process has ended (RC31).
const connectionLook = 500 * time.Millisecond

// disconnection is what the looks found of a worker without a connection.
type disconnection struct {
	since time.Time // the first look in succession that found it
	lease time.Time // its end, which each heartbeat changes
}

// endDisconnected declares workers dead whose process has ended, before their leases have expired,
// and takes over their work (RC31). A worker is declared dead if two looks in succession find its
// process without a connection and it has sent no heartbeat in between: a living process connects
// again within that time.
func (e *Engine) endDisconnected(ctx context.Context) error {
	var vacant bool
	found, err := store.Read(ctx, e.cfg.Store, func(r store.Reader) (found []store.Worker, err error) {
		found, vacant, err = e.findDisconnected(r)
		return found, err
	})
	before := e.lease.disconnected
	e.lease.disconnected = map[perdure.WorkerID]disconnection{}
	if err != nil {
		return fmt.Errorf("look for workers whose process has ended: %w", err)
	}
	var ended []store.Worker
	for _, w := range found {
		now := disconnection{since: time.Now(), lease: w.LeaseUntil}
		if earlier, again := before[w.ID]; again && earlier.lease.Equal(now.lease) {
			now.since = earlier.since
		}
		e.lease.disconnected[w.ID] = now
		if time.Since(now.since) >= connectionLook*3/4 { // two ticks may follow each other at once
			ended = append(ended, w)
		}
	}
	switch {
	case len(ended) == 0 && vacant:
		return e.scanOrphans(ctx)
	case len(ended) == 0:
		return nil
	}
	err = e.cfg.Store.InTx(ctx, func(tx store.Tx) (err error) {
		for _, w := range ended {
			err = errors.Join(err, tx.Workers().MarkDisconnected(w.ID, w.LeaseUntil))
		}
		return err
	})
	if err != nil {
		return fmt.Errorf("end workers whose process has ended: %w", err)
	}
	return e.scanOrphans(ctx)
}

// findDisconnected lists the workers without a connection. The leader looks at all workers, as does
// a transient worker while none leads; the others look at the leader. vacant: no worker leads any
// longer, and this one may have the role.
func (e *Engine) findDisconnected(r store.Reader) (found []store.Worker, vacant bool, err error) {
	last, err := lastLeader(r)
	if err != nil {
		return nil, false, err
	}
	by := perdure.WorkerID(last.Content)
	if by != e.worker.ID {
		vacant, err = e.mayLead(r, last)
	}
	switch {
	case err != nil:
		return nil, false, err
	case vacant && !e.cfg.Workers.Transient:
		return nil, true, nil
	case vacant, by == e.worker.ID:
		by = "" // all of them
	}
	found, err = r.Workers().Disconnected(by)
	return found, false, err
}

// disconnectedWorkers lists the workers without a connection, or only one of them.
func (e *Engine) disconnectedWorkers(ctx context.Context, only perdure.WorkerID) ([]store.Worker, error) {
	found, err := store.Read(ctx, e.cfg.Store, func(r store.Reader) ([]store.Worker, error) {
		return r.Workers().Disconnected(only)
	})
	if err != nil {
		return nil, fmt.Errorf("look for workers whose process has ended: %w", err)
	}
	return found, nil
}

// endIfDisconnected declares the owner of work dead, before the work is taken under a grant, if its
// process has ended (RC31). It takes two looks, and no longer where the owner is connected. Without
// it, or after an error, the lease of the owner decides.
func (e *Engine) endIfDisconnected(ctx context.Context, owner perdure.WorkerID) error {
	first, err := e.disconnectedWorkers(ctx, owner)
	if err != nil || len(first) == 0 {
		return err
	}
	pause(ctx, connectionLook)
	second, err := e.disconnectedWorkers(ctx, owner)
	if err != nil || len(second) == 0 || !second[0].LeaseUntil.Equal(first[0].LeaseUntil) {
		return err
	}
	err = e.cfg.Store.InTx(ctx, func(tx store.Tx) error {
		return tx.Workers().MarkDisconnected(owner, first[0].LeaseUntil)
	})
	if err != nil {
		return fmt.Errorf("end a worker whose process has ended: %w", err)
	}
	return nil
}

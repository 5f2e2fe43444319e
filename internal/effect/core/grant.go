package core

import (
	"errors"
	"fmt"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/store"
)

// Grant is the right to take a session or a task, from a scheduler outside of the engine that
// counts the grants of each. The zero value is that of an engine whose scheduler counts none.
type Grant struct {
	Number int64
	// Evict allows to take the work from a worker that is alive by its lease.
	Evict bool
}

// StaleGrant is the error of a grant after which a later one was used. It is of kind Lost.
var StaleGrant = fmt.Errorf("%w: the grant is stale", perdure.Lost)

// OwnedElsewhere is the error of taking work that another worker has, which is alive. It is of kind
// Lost.
var OwnedElsewhere = fmt.Errorf("%w: another worker drives it", perdure.Lost)

// Use uses a grant for a work in the commit that takes the work. StaleGrant: nothing may be taken.
func (c *Core) Use(tx store.Tx, g Grant, w store.Work) error {
	if g.Number == 0 {
		return nil
	}
	err := tx.Workers().UseGrant(w, c.Worker, g.Number)
	if errors.Is(err, perdure.Lost) {
		return fmt.Errorf("grant %d: %w", g.Number, StaleGrant)
	}
	return err
}

// MayTake reports whether work may be taken from its owner. OwnedElsewhere: the owner is alive, and
// the grant does not allow to evict it.
func (c *Core) MayTake(r store.Reader, g Grant, owner perdure.WorkerID) error {
	if !g.Evict && c.OtherWorkerAlive(r, owner) {
		return OwnedElsewhere
	}
	return nil
}

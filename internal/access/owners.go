package access

import (
	"cmp"
	"context"
	"errors"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/budget"
	"github.com/perdure/perdure/engine"
	"github.com/perdure/perdure/store"
)

// Owners knows whose sessions are.
type Owners interface {
	// Owners returns whose the sessions are; one that is not there is left out.
	Owners(ctx context.Context, ids ...perdure.SessionID) (map[perdure.SessionID]engine.Owner, error)
}

// Of returns the owners of the sessions of a store. Nothing is remembered: an id may be taken again by somebody else when its
// session was deleted.
func Of(s store.Store) Owners { return rows{s} }

type rows struct{ store store.Store }

// Owners implements Owners, on one snapshot.
func (r rows) Owners(ctx context.Context, ids ...perdure.SessionID) (map[perdure.SessionID]engine.Owner, error) {
	var found map[perdure.SessionID]engine.Owner
	err := r.store.View(ctx, func(v store.Reader) error {
		found = make(map[perdure.SessionID]engine.Owner, len(ids))
		for _, id := range ids {
			if _, known := found[id]; known {
				continue
			}
			row, err := v.Session(id)
			switch {
			case errors.Is(err, perdure.NotFound):
			case err != nil:
				return err
			default:
				found[id] = engine.Owner{Org: cmp.Or(row.Org, budget.DefaultOrg), User: row.User}
			}
		}
		return nil
	})
	return found, err
}

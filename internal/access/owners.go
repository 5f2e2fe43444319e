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

// Owners looks up the owners of sessions.
type Owners interface {
	// Owners returns the owners of sessions. Missing sessions are left out.
	Owners(ctx context.Context, ids ...perdure.SessionID) (map[perdure.SessionID]engine.Owner, error)
}

// StoreOwners returns the owners of the sessions in a store. It caches nothing, because the id of a
// deleted session may be reused by another owner.
func StoreOwners(s store.Store) Owners { return storeOwners{s} }

type storeOwners struct{ store store.Store }

func (r storeOwners) Owners(ctx context.Context, ids ...perdure.SessionID) (map[perdure.SessionID]engine.Owner, error) {
	var found map[perdure.SessionID]engine.Owner
	err := r.store.View(ctx, func(v store.Reader) error {
		found = make(map[perdure.SessionID]engine.Owner, len(ids))
		for _, id := range ids {
			if _, known := found[id]; known {
				continue
			}
			row, err := v.Sessions().Get(id)
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

package host

import (
	"context"
	"errors"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/engine"
	"github.com/perdure/perdure/internal/sessionport"
	"github.com/perdure/perdure/store"
)

func (e hostResources) List(ctx context.Context, id perdure.SessionID) (found []engine.SessionResource, err error) {
	err = e.view(ctx, func(r store.Reader) error {
		found = nil
		row, err := r.Sessions().Get(id)
		if err != nil {
			return err
		}
		all, err := r.Resources().List(store.ResourceFilter{Session: id})
		for _, entry := range all {
			if err != nil {
				return err
			}
			var one engine.SessionResource
			one, err = withLease(r, row.Org, entry.Resource)
			found = append(found, one)
		}
		return err
	})
	return found, err
}

func (e hostResources) Get(
	ctx context.Context, id perdure.SessionID, resource string,
) (found engine.SessionResource, err error) {
	err = e.view(ctx, func(r store.Reader) error {
		row, err := r.Sessions().Get(id)
		if err != nil {
			return err
		}
		entry, err := r.Resources().Get(id, resource)
		if err == nil {
			found, err = withLease(r, row.Org, entry)
		}
		return err
	})
	return found, err
}

// withLease adds the state of its lease to a resource.
func withLease(r store.Reader, org string, entry perdure.Resource) (engine.SessionResource, error) {
	shown := engine.SessionResource{Resource: entry}
	l, err := sessionport.LeaseOf(r, org, entry)
	if errors.Is(err, perdure.NotFound) {
		return shown, nil
	}
	shown.Lease, shown.ExpiresAt, shown.Attempts, shown.LastError = l.Status, l.ExpiresAt, l.Attempts, l.LastError
	return shown, err
}

// Release records that a resource no longer exists.
func (e hostResources) Release(
	ctx context.Context, id perdure.SessionID, resource, by string,
) (engine.SessionResource, error) {
	if _, err := sessionport.Release(ctx, e.cfg.Store, id, resource, by); err != nil {
		return engine.SessionResource{}, err
	}
	return e.Resources().Get(ctx, id, resource)
}

package sessionport

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/store"
	"github.com/perdure/perdure/tool"
)

// leases is remote state that somebody must clean up (RS2 to RS7).
type leases struct{ binding }

var _ tool.Leases = leases{}

// Lease records a resource or refreshes its lease, and writes the session's entry in the same commit (RS3). A refresh that
// changes nothing that the entry shows makes no event.
func (p leases) Lease(ctx context.Context, o tool.LeaseOrder) (l tool.Lease, err error) {
	wanted, err := p.order(o)
	if err == nil {
		err = p.write(ctx, func(tx store.Tx, of store.Session) error {
			wanted.Org = of.Org
			if err := p.owns(tx, o.Task); err != nil {
				return err
			}
			if l, err = tx.PutLease(wanted, o.For); err != nil {
				return err
			}
			return p.show(tx, l)
		})
	}
	if err != nil {
		return tool.Lease{}, fmt.Errorf("lease %.40q %.40q %.40q: %w", o.Provider, o.Type, o.ExternalID, err)
	}
	return l, nil
}

// Release says that the resource is gone (RS4).
func (p leases) Release(ctx context.Context, provider, kind, externalID string) (l tool.Lease, err error) {
	key := store.LeaseKey{Provider: provider, Type: kind, ExternalID: externalID}
	err = p.write(ctx, func(tx store.Tx, of store.Session) error {
		key.Org = of.Org
		if l, err = tx.ReleaseLease(p.session, key); err != nil {
			return err
		}
		return markEntries(tx, l, perdure.ResourceReleased)
	})
	if err != nil {
		return tool.Lease{}, fmt.Errorf("release lease of %s: %w", key, err)
	}
	return l, nil
}

// List returns the session's leases in the order of their making.
func (p leases) List(ctx context.Context) (found []tool.Lease, err error) {
	err = p.store.View(ctx, func(v store.Reader) error {
		found, err = v.Leases(p.session)
		return err
	})
	return found, err
}

// order is the lease that is asked for. Invalid: what is wrong with it.
func (p leases) order(o tool.LeaseOrder) (tool.Lease, error) {
	l := tool.Lease{
		ID: newID[perdure.LeaseID](), Session: p.session, Provider: o.Provider, Type: o.Type, ExternalID: o.ExternalID, Name: o.Name,
		Owner: o.Owner, Keep: o.Keep, Task: o.Task,
	}
	if l.Name == "" {
		l.Name = o.Type + " " + o.ExternalID
	}
	var err error
	if l.Metadata, err = object(o.Metadata); err != nil {
		return l, err
	}
	switch {
	case !word(o.Provider, store.MaxLeaseWordBytes) || !word(o.Type, store.MaxLeaseWordBytes) || !word(o.ExternalID, store.MaxExternalIDBytes):
		return l, fmt.Errorf("%w: provider and type are 1 to %d bytes of UTF-8 each, an external id 1 to %d", perdure.Invalid, store.MaxLeaseWordBytes, store.MaxExternalIDBytes)
	case !word(l.Name, maxNameBytes+store.MaxExternalIDBytes):
		return l, fmt.Errorf("%w name: it has %d bytes, or is no UTF-8", perdure.Invalid, len(l.Name))
	case o.Owner != "" && !word(o.Owner, maxNameBytes):
		return l, fmt.Errorf("%w owner: it has %d bytes, give at most %d of UTF-8", perdure.Invalid, len(o.Owner), maxNameBytes)
	case o.For < time.Second:
		return l, fmt.Errorf("%w duration %s: give at least a second", perdure.Invalid, o.For)
	case leased(l.Metadata):
		return l, fmt.Errorf("%w metadata: keys that begin with %s are written by the lease", perdure.Invalid, leaseKeys)
	}
	return l, nil
}

// show writes the entry of a lease into the session's registry, unless it stands there as it is.
func (p leases) show(tx store.Tx, l perdure.Lease) error {
	metadata := map[string]json.RawMessage{}
	if len(l.Metadata) > 0 {
		if err := perdure.DecodeJSON(l.Metadata, &metadata); err != nil {
			return fmt.Errorf("metadata of lease %s: %w", l.ID, err)
		}
	}
	for key, value := range map[string]string{"provider": l.Provider, "type": l.Type, "external_id": l.ExternalID, "id": string(l.ID)} {
		text, err := json.Marshal(value)
		if err != nil {
			return err
		}
		metadata[leaseKeys+key] = text
	}
	body, err := json.Marshal(metadata)
	if err != nil {
		return err
	}
	entry := perdure.Resource{ID: string(l.ID), Kind: l.Type, Name: l.Name, Status: perdure.ResourceActive, Metadata: body, Task: l.Task}
	known, err := tx.Resource(p.session, entry.ID)
	if err != nil && !errors.Is(err, perdure.NotFound) {
		return err
	}
	if err == nil && known.Kind == entry.Kind && known.Name == entry.Name && known.Status == entry.Status && known.Task == entry.Task &&
		bytes.Equal(known.Metadata, entry.Metadata) {
		return nil
	}
	_, err = p.put(tx, entry)
	return err
}

// markEntries gives the entries of a lease a status, in every session that has one.
func markEntries(tx store.Tx, l perdure.Lease, status perdure.ResourceStatus) error {
	found, err := tx.Resources(store.ResourceFilter{ID: string(l.ID)})
	if err != nil {
		return err
	}
	for _, r := range found {
		b := binding{session: r.Session}
		if _, err := tx.Session(r.Session); err != nil { // its row is locked before its entries are
			return err
		}
		entry, err := tx.Resource(r.Session, r.ID)
		if errors.Is(err, perdure.NotFound) || err == nil && entry.Status == status {
			continue
		}
		if err != nil {
			return err
		}
		entry.Status = status
		if _, err := b.put(tx, entry); err != nil {
			return err
		}
	}
	return nil
}

// ClaimLeases claims what is due for a clean-up, and tells of each that was not claimed before that it has expired (RS5).
// Where nothing is due it writes nothing.
func ClaimLeases(ctx context.Context, s store.Store, due store.LeaseDue) (claimed []perdure.Lease, err error) {
	var some []perdure.Lease
	err = s.View(ctx, func(r store.Reader) error {
		look := due
		look.Limit = 1
		some, err = r.DueLeases(look)
		return err
	})
	if err != nil || len(some) == 0 {
		return nil, err
	}
	err = s.InTx(ctx, func(tx store.Tx) error {
		if claimed, err = tx.ClaimLeases(due); err != nil {
			return err
		}
		for _, l := range claimed {
			if l.Attempts > 1 {
				continue
			}
			if err := tellOf(tx, l, perdure.LeaseExpired{Lease: l}); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	return claimed, nil
}

// EndCleanup records how a clean-up ended, with what follows for the entries of the lease. last says that it was the last
// attempt: a failure is told, and its entries are failed (RS6). Lost: somebody else has the lease; nothing was written.
func EndCleanup(ctx context.Context, s store.Store, end store.LeaseEnd, last bool) (l perdure.Lease, err error) {
	err = s.InTx(ctx, func(tx store.Tx) error {
		if l, err = tx.EndCleanup(end); err != nil {
			return err
		}
		switch {
		case end.Error == "":
			return markEntries(tx, l, perdure.ResourceReleased)
		case !last:
			return nil
		}
		if err := tellOf(tx, l, perdure.LeaseCleanupFailed{Lease: l}); err != nil {
			return err
		}
		return markEntries(tx, l, perdure.ResourceFailed)
	})
	return l, err
}

// tellOf appends a fact about a lease to the journal of the session that made it, if that is still there (RS2).
func tellOf(tx store.Tx, l perdure.Lease, fact perdure.Fact) error {
	_, err := tx.Session(l.Session)
	if errors.Is(err, perdure.NotFound) {
		return nil
	}
	if err != nil {
		return err
	}
	return binding{session: l.Session}.tell(tx, fact)
}

package sessionport

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/store"
	"github.com/perdure/perdure/tool"
)

// leases tracks remote state that must be cleaned up (RS2 to RS7).
type leases struct{ binding }

var _ tool.Leases = leases{}

// Lease records a resource or extends its lease, and writes the session's resource entry in the
// same commit (RS3). An extension that changes no field of the entry appends no event.
func (p leases) Lease(ctx context.Context, o tool.LeaseRequest) (l tool.Lease, err error) {
	wanted, err := p.newLease(o)
	if err == nil {
		err = p.write(ctx, func(tx store.Tx, of store.Session) error {
			wanted.Org = of.Org
			if err := p.checkTask(tx, o.Task); err != nil {
				return err
			}
			if l, err = tx.Resources().PutLease(wanted, o.Duration); err != nil {
				return err
			}
			return p.putEntry(tx, l)
		})
	}
	if err != nil {
		return tool.Lease{}, fmt.Errorf("lease %.40q %.40q %.40q: %w", o.Provider, o.Type, o.ExternalID, err)
	}
	return l, nil
}

// Release records that the resource is gone (RS4).
func (p leases) Release(ctx context.Context, provider, kind, externalID string) (l tool.Lease, err error) {
	key := store.LeaseKey{Provider: provider, Type: kind, ExternalID: externalID}
	err = p.write(ctx, func(tx store.Tx, of store.Session) error {
		key.Org = of.Org
		if l, err = tx.Resources().ReleaseLease(p.session, key); err != nil {
			return err
		}
		return markEntries(tx, l, perdure.ResourceReleased)
	})
	if err != nil {
		return tool.Lease{}, fmt.Errorf("release lease of %s: %w", key, err)
	}
	return l, nil
}

// List returns the session's leases in the order of their creation.
func (p leases) List(ctx context.Context) (found []tool.Lease, err error) {
	err = p.store.View(ctx, func(v store.Reader) error {
		found, err = v.Resources().Leases(p.session)
		return err
	})
	return found, err
}

// newLease returns the lease that an order describes. Invalid: the order is not valid, and the
// error says why.
func (p leases) newLease(o tool.LeaseRequest) (tool.Lease, error) {
	l := tool.Lease{
		ID: newID[perdure.LeaseID](), Session: p.session, Provider: o.Provider, Type: o.Type,
		ExternalID: o.ExternalID, Name: o.Name, Owner: o.Owner, Keep: o.Keep, Task: o.Task,
	}
	l.Name = cmp.Or(l.Name, o.Type+" "+o.ExternalID)
	var err error
	if l.Metadata, err = compactMetadata(o.Metadata); err != nil {
		return l, err
	}
	switch {
	case !isText(o.Provider, store.MaxLeaseTextBytes) || !isText(o.Type, store.MaxLeaseTextBytes) ||
		!isText(o.ExternalID, store.MaxExternalIDBytes):
		return l, fmt.Errorf("%w: provider and type must have 1 to %d bytes of UTF-8 each, and an external id 1 to %d",
			perdure.Invalid, store.MaxLeaseTextBytes, store.MaxExternalIDBytes)
	case !isText(l.Name, maxNameBytes+store.MaxExternalIDBytes):
		return l, fmt.Errorf("%w name: it has %d bytes, or is not UTF-8", perdure.Invalid, len(l.Name))
	case o.Owner != "" && !isText(o.Owner, maxNameBytes):
		return l, fmt.Errorf("%w owner: it must have at most %d bytes of UTF-8, but has %d",
			perdure.Invalid, maxNameBytes, len(o.Owner))
	case o.Duration < time.Second:
		return l, fmt.Errorf("%w duration %s: the minimum is one second", perdure.Invalid, o.Duration)
	case hasLeaseKeys(l.Metadata):
		return l, fmt.Errorf("%w metadata: keys that begin with %s are reserved for the lease itself",
			perdure.Invalid, leaseKeys)
	}
	return l, nil
}

// putEntry writes the entry of a lease into the session's resource registry, unless the registry
// has it unchanged.
func (p leases) putEntry(tx store.Tx, l perdure.Lease) error {
	metadata := map[string]json.RawMessage{}
	if len(l.Metadata) > 0 {
		if err := perdure.DecodeJSON(l.Metadata, &metadata); err != nil {
			return fmt.Errorf("metadata of lease %s: %w", l.ID, err)
		}
	}
	for key, value := range map[string]string{"provider": l.Provider, "type": l.Type, "external_id": l.ExternalID,
		"id": string(l.ID)} {
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
	entry := perdure.Resource{
		ID: string(l.ID), Kind: l.Type, Name: l.Name, Status: perdure.ResourceActive, Metadata: body, Task: l.Task,
	}
	known, err := tx.Resources().Get(p.session, entry.ID)
	if err != nil && !errors.Is(err, perdure.NotFound) {
		return err
	}
	if err == nil && known.Kind == entry.Kind && known.Name == entry.Name && known.Status == entry.Status &&
		known.Task == entry.Task &&
		bytes.Equal(known.Metadata, entry.Metadata) {
		return nil
	}
	_, err = p.putResource(tx, entry)
	return err
}

// markEntries sets the status of the entries of a lease, in every session that has one.
func markEntries(tx store.Tx, l perdure.Lease, status perdure.ResourceStatus) error {
	found, err := tx.Resources().List(store.ResourceFilter{ID: string(l.ID)})
	if err != nil {
		return err
	}
	for _, r := range found {
		b := binding{session: r.Session}
		if _, err := tx.Sessions().Get(r.Session); err != nil { // the row is locked before its entries
			return err
		}
		entry, err := tx.Resources().Get(r.Session, r.ID)
		if errors.Is(err, perdure.NotFound) || err == nil && entry.Status == status {
			continue
		}
		if err != nil {
			return err
		}
		entry.Status = status
		if _, err := b.putResource(tx, entry); err != nil {
			return err
		}
	}
	return nil
}

// ClaimLeases claims the leases that are due for cleanup, and appends an event for each that
// expires now, which is the first claim of a lease (RS5). Where nothing is due it writes nothing.
func ClaimLeases(ctx context.Context, s store.Store, due store.LeaseDue) (claimed []perdure.Lease, err error) {
	var first []perdure.Lease
	err = s.View(ctx, func(r store.Reader) error {
		look := due
		look.Limit = 1
		first, err = r.Resources().DueLeases(look)
		return err
	})
	if err != nil || len(first) == 0 {
		return nil, err
	}
	err = s.InTx(ctx, func(tx store.Tx) error {
		if claimed, err = tx.Resources().ClaimLeases(due); err != nil {
			return err
		}
		for _, l := range claimed {
			if l.Attempts > 1 {
				continue
			}
			if err := appendLeaseFact(tx, l, perdure.LeaseExpired{Lease: l}); err != nil {
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

// EndCleanup records how a cleanup ended, and updates the entries of the lease. last marks the last
// attempt: its failure appends an event, and the entries are set to failed (RS6). Lost: another
// cleaner holds the lease; nothing was written.
func EndCleanup(ctx context.Context, s store.Store, end store.LeaseEnd, last bool) (l perdure.Lease, err error) {
	err = s.InTx(ctx, func(tx store.Tx) error {
		if l, err = tx.Resources().EndCleanup(end); err != nil {
			return err
		}
		switch {
		case end.Error == "":
			return markEntries(tx, l, perdure.ResourceReleased)
		case !last:
			return nil
		}
		if err := appendLeaseFact(tx, l, perdure.LeaseCleanupFailed{Lease: l}); err != nil {
			return err
		}
		return markEntries(tx, l, perdure.ResourceFailed)
	})
	return l, err
}

// appendLeaseFact appends a fact about a lease to the journal of the session that created it, if
// that session still exists (RS2).
func appendLeaseFact(tx store.Tx, l perdure.Lease, fact perdure.Fact) error {
	_, err := tx.Sessions().Get(l.Session)
	if errors.Is(err, perdure.NotFound) {
		return nil
	}
	if err != nil {
		return err
	}
	return binding{session: l.Session}.appendFact(tx, fact)
}

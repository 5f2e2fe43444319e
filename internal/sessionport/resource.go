package sessionport

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/store"
	"github.com/perdure/perdure/tool"
)

// Limits of an entry.
const (
	maxKindBytes     = 256
	maxNameBytes     = 512
	maxMetadataBytes = 16 << 10
)

// leaseKeys is the prefix of the metadata keys that only a lease writes (RS3).
const leaseKeys = "leased_resource_"

// resources is the registry of a session's resources (RS1).
type resources struct{ binding }

var _ tool.Resources = resources{}

// Register adds an entry, or replaces the one with the same id. Invalid: the entry is not valid,
// and the error says why. NotFound: its task does not belong to this session. Conflict: the id is
// that of a leased resource.
func (p resources) Register(ctx context.Context, r tool.Resource) (tool.Resource, error) {
	r, err := checkResource(r)
	if err != nil {
		return tool.Resource{}, fmt.Errorf("register resource %.80q: %w", r.ID, err)
	}
	err = p.write(ctx, func(tx store.Tx, _ store.Session) error {
		known, err := tx.Resources().Get(p.session, r.ID)
		switch {
		case err == nil && hasLeaseKeys(known.Metadata):
			return fmt.Errorf("%w: it is a leased resource; to register it again, extend its lease", perdure.Conflict)
		case err != nil && !errors.Is(err, perdure.NotFound):
			return err
		}
		if err := p.checkTask(tx, r.Task); err != nil {
			return err
		}
		r, err = p.putResource(tx, r)
		return err
	})
	if err != nil {
		return tool.Resource{}, fmt.Errorf("register resource %.80q: %w", r.ID, err)
	}
	return r, nil
}

// UpdateStatus sets a status. Setting the same status again changes nothing.
func (p resources) UpdateStatus(ctx context.Context, id string, s tool.ResourceStatus) (r tool.Resource, err error) {
	if !s.Valid() {
		return tool.Resource{}, fmt.Errorf("update resource %.80q: %w status %q: use active, completed, failed "+
			"or released",
			id, perdure.Invalid, s)
	}
	err = p.write(ctx, func(tx store.Tx, _ store.Session) error {
		r, err = tx.Resources().Get(p.session, id)
		switch {
		case err != nil || r.Status == s:
			return err
		case r.Status != tool.ResourceActive:
			return fmt.Errorf("%w: it is %s; register it again", perdure.Conflict, r.Status)
		}
		r.Status = s
		r, err = p.putResource(tx, r)
		return err
	})
	if err != nil {
		return tool.Resource{}, fmt.Errorf("update resource %.80q: %w", id, err)
	}
	return r, nil
}

func (p resources) Resource(ctx context.Context, id string) (r tool.Resource, err error) {
	err = p.store.View(ctx, func(v store.Reader) error {
		r, err = v.Resources().Get(p.session, id)
		return err
	})
	return r, err
}

// List returns the entries in the order of their first registration.
func (p resources) List(ctx context.Context, kind string, s tool.ResourceStatus) ([]tool.Resource, error) {
	if s != "" && !s.Valid() {
		return nil, fmt.Errorf("list resources: %w status %q: use active, completed, failed or released",
			perdure.Invalid, s)
	}
	var entries []tool.Resource
	err := p.store.View(ctx, func(v store.Reader) error {
		entries = nil
		found, err := v.Resources().List(store.ResourceFilter{Session: p.session, Kind: kind, Status: s})
		for _, r := range found {
			entries = append(entries, r.Resource)
		}
		return err
	})
	return entries, err
}

// Deregister removes an entry and reports whether it existed. A lease behind it is still cleaned
// up.
func (p resources) Deregister(ctx context.Context, id string) (existed bool, err error) {
	err = p.write(ctx, func(tx store.Tx, _ store.Session) error {
		existed = false
		r, err := tx.Resources().Get(p.session, id)
		if errors.Is(err, perdure.NotFound) {
			return nil
		}
		if err == nil {
			existed, err = tx.Resources().Remove(p.session, id)
		}
		if err != nil {
			return err
		}
		return p.appendFact(tx, perdure.ResourceUpdated{Entry: r, Removed: true})
	})
	if err != nil {
		return false, fmt.Errorf("deregister resource %.80q: %w", id, err)
	}
	return existed, nil
}

// putResource writes an entry and appends an event for it.
func (b binding) putResource(tx store.Tx, r tool.Resource) (tool.Resource, error) {
	r, err := tx.Resources().Put(store.Resource{Session: b.session, Resource: r})
	if err != nil {
		return r, err
	}
	return r, b.appendFact(tx, perdure.ResourceUpdated{Entry: r})
}

// checkTask checks that a task belongs to this session. An empty id passes.
func (b binding) checkTask(tx store.Tx, id perdure.TaskID) error {
	if id == "" {
		return nil
	}
	_, err := tx.Tasks().Get(b.session, id)
	return err
}

// checkResource validates an entry and returns it in the form in which it is stored. Invalid: the
// entry is not valid, and the error says why.
func checkResource(r tool.Resource) (tool.Resource, error) {
	r.Status = cmp.Or(r.Status, tool.ResourceActive)
	r.Name = cmp.Or(r.Name, r.ID)
	var err error
	if r.Metadata, err = compactMetadata(r.Metadata); err != nil {
		return r, err
	}
	switch {
	case !isText(r.ID, store.MaxResourceIDBytes):
		return r, fmt.Errorf("%w id: it must have 1 to %d bytes of UTF-8, but has %d",
			perdure.Invalid, store.MaxResourceIDBytes, len(r.ID))
	case !isText(r.Kind, maxKindBytes):
		return r, fmt.Errorf("%w kind: it must have 1 to %d bytes of UTF-8, but has %d",
			perdure.Invalid, maxKindBytes, len(r.Kind))
	case !isText(r.Name, maxNameBytes):
		return r, fmt.Errorf("%w display name: it must have 1 to %d bytes of UTF-8, but has %d",
			perdure.Invalid, maxNameBytes, len(r.Name))
	case !r.Status.Valid():
		return r, fmt.Errorf("%w status %q: use active, completed, failed or released", perdure.Invalid, r.Status)
	case hasLeaseKeys(r.Metadata):
		return r, fmt.Errorf("%w metadata: keys that begin with %s are reserved for leases", perdure.Invalid, leaseKeys)
	}
	return r, nil
}

// isText reports whether a text is UTF-8 of 1 to limit bytes.
func isText(text string, limit int) bool {
	return text != "" && len(text) <= limit && utf8.ValidString(text)
}

// compactMetadata returns metadata as compact JSON; nil for no metadata and for an empty object.
// Invalid: it is not a JSON object, or is too large.
func compactMetadata(metadata json.RawMessage) (json.RawMessage, error) {
	if len(metadata) == 0 {
		return nil, nil
	}
	var found map[string]json.RawMessage
	if err := perdure.DecodeJSON(metadata, &found); err != nil || found == nil {
		return nil, fmt.Errorf("%w metadata: it must be a JSON object", perdure.Invalid)
	}
	if len(metadata) > maxMetadataBytes {
		return nil, fmt.Errorf("%w metadata: it has %d bytes; the limit is %d",
			perdure.Invalid, len(metadata), maxMetadataBytes)
	}
	if len(found) == 0 {
		return nil, nil
	}
	var compact bytes.Buffer
	if err := json.Compact(&compact, metadata); err != nil {
		return nil, fmt.Errorf("%w metadata: %w", perdure.Invalid, err)
	}
	return compact.Bytes(), nil
}

// hasLeaseKeys reports whether metadata has a key that only a lease writes.
func hasLeaseKeys(metadata json.RawMessage) bool {
	var found map[string]json.RawMessage
	if len(metadata) == 0 || perdure.DecodeJSON(metadata, &found) != nil {
		return false
	}
	for key := range found {
		if strings.HasPrefix(key, leaseKeys) {
			return true
		}
	}
	return false
}

// LeaseOf returns the lease behind an entry of a session of the given org. NotFound: there is no
// lease behind it, or the lease has been pruned.
func LeaseOf(r store.Reader, org string, entry perdure.Resource) (perdure.Lease, error) {
	if !hasLeaseKeys(entry.Metadata) {
		return perdure.Lease{}, fmt.Errorf("lease of resource %.80q: %w", entry.ID, perdure.NotFound)
	}
	var all map[string]json.RawMessage
	err := perdure.DecodeJSON(entry.Metadata, &all)
	field := func(key string) (text string) {
		if err == nil {
			err = perdure.DecodeJSON(all[leaseKeys+key], &text)
		}
		return text
	}
	key := store.LeaseKey{Org: org, Provider: field("provider"), Type: field("type"), ExternalID: field("external_id")}
	if err != nil {
		return perdure.Lease{}, fmt.Errorf("metadata of resource %.80q: %w", entry.ID, err)
	}
	return r.Resources().Lease(key)
}

// Release records a person's statement that the resource behind an entry is gone, and releases its
// lease (RS4). An entry that is already released stays as it is. NotFound: there is no such session
// or entry. Conflict: the entry's task is running, the entry has ended in another way, or the lease
// is another session's. After any other error the transaction may or may not have been committed.
func Release(
	ctx context.Context, s store.Store, session perdure.SessionID, id, by string,
) (r perdure.Resource, err error) {
	b := binding{store: s, session: session, by: by}
	err = b.write(ctx, func(tx store.Tx, of store.Session) error {
		r, err = tx.Resources().Get(session, id)
		if err != nil || r.Status == perdure.ResourceReleased {
			return err
		}
		task, err := tx.Tasks().Get(session, r.Task)
		switch {
		case err == nil && task.State.Live():
			return fmt.Errorf("%w: task %s is still running and uses it; cancel the task first",
				perdure.Conflict, task.ID)
		case err != nil && !errors.Is(err, perdure.NotFound):
			return err
		}
		return b.release(tx, of.Org, &r)
	})
	if err != nil {
		return perdure.Resource{}, fmt.Errorf("release resource %.80q: %w", id, err)
	}
	return r, nil
}

// release marks the lease as released, and then the entry and every other entry of that lease.
func (b binding) release(tx store.Tx, org string, r *perdure.Resource) error {
	l, err := LeaseOf(tx.Reader(), org, *r)
	unleased := errors.Is(err, perdure.NotFound)
	switch {
	case err != nil && !unleased:
		return err
	case !unleased:
		if l, err = tx.Resources().ReleaseLease(b.session, store.KeyOf(l)); errors.Is(err, perdure.NotFound) {
			return fmt.Errorf("%w: its lease belongs to another session, which must release it", perdure.Conflict)
		}
		if err != nil {
			return err
		}
	case r.Status != perdure.ResourceActive && !hasLeaseKeys(r.Metadata):
		return fmt.Errorf("%w: it is %s", perdure.Conflict, r.Status)
	}
	r.Status = perdure.ResourceReleased
	if *r, err = b.putResource(tx, *r); err != nil || unleased {
		return err
	}
	return markEntries(tx, l, perdure.ResourceReleased)
}

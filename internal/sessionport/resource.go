package sessionport

import (
	"bytes"
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

// Bounds of an entry.
const (
	maxKindBytes     = 256
	maxNameBytes     = 512
	maxMetadataBytes = 16 << 10
)

// leaseKeys begins the metadata keys that only a lease writes (RS3).
const leaseKeys = "leased_resource_"

// resources is the registry of what stands beside a session (RS1).
type resources struct{ binding }

var _ tool.Resources = resources{}

// Register adds an entry, or replaces the one of its id. Invalid: what is wrong with it. NotFound: its task is none of
// this session. Conflict: its id is that of a leased resource.
func (p resources) Register(ctx context.Context, r tool.Resource) (tool.Resource, error) {
	r, err := checked(r)
	if err != nil {
		return tool.Resource{}, fmt.Errorf("register resource %.80q: %w", r.ID, err)
	}
	err = p.write(ctx, func(tx store.Tx, _ store.Session) error {
		known, err := tx.Resource(p.session, r.ID)
		switch {
		case err == nil && leased(known.Metadata):
			return fmt.Errorf("%w: it is a leased resource, which leasing it again registers", perdure.Conflict)
		case err != nil && !errors.Is(err, perdure.NotFound):
			return err
		}
		if err := p.owns(tx, r.Task); err != nil {
			return err
		}
		r, err = p.put(tx, r)
		return err
	})
	if err != nil {
		return tool.Resource{}, fmt.Errorf("register resource %.80q: %w", r.ID, err)
	}
	return r, nil
}

// UpdateStatus sets a status. The same one again changes nothing.
func (p resources) UpdateStatus(ctx context.Context, id string, s tool.ResourceStatus) (r tool.Resource, err error) {
	if !s.Valid() {
		return tool.Resource{}, fmt.Errorf("update resource %.80q: %w status %q: it is active, completed, failed or released", id, perdure.Invalid, s)
	}
	err = p.write(ctx, func(tx store.Tx, _ store.Session) error {
		r, err = tx.Resource(p.session, id)
		switch {
		case err != nil || r.Status == s:
			return err
		case r.Status != tool.ResourceActive:
			return fmt.Errorf("%w: it is %s; register it again", perdure.Conflict, r.Status)
		}
		r.Status = s
		r, err = p.put(tx, r)
		return err
	})
	if err != nil {
		return tool.Resource{}, fmt.Errorf("update resource %.80q: %w", id, err)
	}
	return r, nil
}

// Resource returns an entry.
func (p resources) Resource(ctx context.Context, id string) (r tool.Resource, err error) {
	err = p.store.View(ctx, func(v store.Reader) error {
		r, err = v.Resource(p.session, id)
		return err
	})
	return r, err
}

// List returns the entries in the order of their first registration.
func (p resources) List(ctx context.Context, kind string, s tool.ResourceStatus) ([]tool.Resource, error) {
	if s != "" && !s.Valid() {
		return nil, fmt.Errorf("list resources: %w status %q: it is active, completed, failed or released", perdure.Invalid, s)
	}
	var entries []tool.Resource
	err := p.store.View(ctx, func(v store.Reader) error {
		entries = nil
		found, err := v.Resources(store.ResourceFilter{Session: p.session, Kind: kind, Status: s})
		for _, r := range found {
			entries = append(entries, r.Resource)
		}
		return err
	})
	return entries, err
}

// Deregister removes an entry. What a lease stands for goes on being cleaned up.
func (p resources) Deregister(ctx context.Context, id string) (there bool, err error) {
	err = p.write(ctx, func(tx store.Tx, _ store.Session) error {
		there = false
		r, err := tx.Resource(p.session, id)
		if errors.Is(err, perdure.NotFound) {
			return nil
		}
		if err == nil {
			there, err = tx.RemoveResource(p.session, id)
		}
		if err != nil {
			return err
		}
		return p.tell(tx, perdure.ResourceUpdated{Entry: r, Removed: true})
	})
	if err != nil {
		return false, fmt.Errorf("deregister resource %.80q: %w", id, err)
	}
	return there, nil
}

// put writes an entry and tells it.
func (b binding) put(tx store.Tx, r tool.Resource) (tool.Resource, error) {
	r, err := tx.PutResource(store.Resource{Session: b.session, Resource: r})
	if err != nil {
		return r, err
	}
	return r, b.tell(tx, perdure.ResourceUpdated{Entry: r})
}

// owns checks that a task is one of this session; no task is.
func (b binding) owns(tx store.Tx, id perdure.TaskID) error {
	if id == "" {
		return nil
	}
	_, err := tx.Task(b.session, id)
	return err
}

// checked is an entry as it may be stored. Invalid: what is wrong with it.
func checked(r tool.Resource) (tool.Resource, error) {
	if r.Status == "" {
		r.Status = tool.ResourceActive
	}
	if r.Name == "" {
		r.Name = r.ID
	}
	var err error
	if r.Metadata, err = object(r.Metadata); err != nil {
		return r, err
	}
	switch {
	case !word(r.ID, store.MaxResourceIDBytes):
		return r, fmt.Errorf("%w id: it has %d bytes, give 1 to %d of UTF-8", perdure.Invalid, len(r.ID), store.MaxResourceIDBytes)
	case !word(r.Kind, maxKindBytes):
		return r, fmt.Errorf("%w kind: it has %d bytes, give 1 to %d of UTF-8", perdure.Invalid, len(r.Kind), maxKindBytes)
	case !word(r.Name, maxNameBytes):
		return r, fmt.Errorf("%w display name: it has %d bytes, give 1 to %d of UTF-8", perdure.Invalid, len(r.Name), maxNameBytes)
	case !r.Status.Valid():
		return r, fmt.Errorf("%w status %q: it is active, completed, failed or released", perdure.Invalid, r.Status)
	case leased(r.Metadata):
		return r, fmt.Errorf("%w metadata: keys that begin with %s are those of leases", perdure.Invalid, leaseKeys)
	}
	return r, nil
}

// word reports whether a text is UTF-8 of 1 to so many bytes.
func word(text string, most int) bool {
	return text != "" && len(text) <= most && utf8.ValidString(text)
}

// object is metadata in compact JSON; nil is none. Invalid: it is no object, or too large.
func object(metadata json.RawMessage) (json.RawMessage, error) {
	if len(metadata) == 0 {
		return nil, nil
	}
	var found map[string]json.RawMessage
	if err := perdure.DecodeJSON(metadata, &found); err != nil || found == nil {
		return nil, fmt.Errorf("%w metadata: give a JSON object", perdure.Invalid)
	}
	if len(metadata) > maxMetadataBytes {
		return nil, fmt.Errorf("%w metadata: it has %d bytes, at most %d are kept", perdure.Invalid, len(metadata), maxMetadataBytes)
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

// leased reports whether metadata has a key that only a lease writes.
func leased(metadata json.RawMessage) bool {
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

// LeaseOf returns the lease that an entry of a session of an org stands for. NotFound: it stands for none, or for one that is
// forgotten by now.
func LeaseOf(r store.Reader, org string, entry perdure.Resource) (perdure.Lease, error) {
	if !leased(entry.Metadata) {
		return perdure.Lease{}, fmt.Errorf("lease of resource %.80q: %w", entry.ID, perdure.NotFound)
	}
	var all map[string]json.RawMessage
	err := perdure.DecodeJSON(entry.Metadata, &all)
	word := func(key string) (text string) {
		if err == nil {
			err = perdure.DecodeJSON(all[leaseKeys+key], &text)
		}
		return text
	}
	key := store.LeaseKey{Org: org, Provider: word("provider"), Type: word("type"), ExternalID: word("external_id")}
	if err != nil {
		return perdure.Lease{}, fmt.Errorf("metadata of resource %.80q: %w", entry.ID, err)
	}
	return r.Lease(key)
}

// Release records a person's word that what an entry stands for is gone, and releases its lease (RS4). One that was released
// stays as it is. NotFound: no such session or entry. Conflict: its task is at work, it has ended in another way, or the lease is
// another session's. After another error it may have been written or not.
func Release(ctx context.Context, s store.Store, session perdure.SessionID, id, by string) (r perdure.Resource, err error) {
	b := binding{store: s, session: session, by: by}
	err = b.write(ctx, func(tx store.Tx, of store.Session) error {
		r, err = tx.Resource(session, id)
		if err != nil || r.Status == perdure.ResourceReleased {
			return err
		}
		task, err := tx.Task(session, r.Task)
		switch {
		case err == nil && task.State.Live():
			return fmt.Errorf("%w: task %s has it, and is at work; cancel that", perdure.Conflict, task.ID)
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

// release marks an entry, and every other one of its lease, after the lease itself.
func (b binding) release(tx store.Tx, org string, r *perdure.Resource) error {
	l, err := LeaseOf(tx, org, *r)
	lone := errors.Is(err, perdure.NotFound)
	switch {
	case err != nil && !lone:
		return err
	case !lone:
		if l, err = tx.ReleaseLease(b.session, store.KeyOf(l)); errors.Is(err, perdure.NotFound) {
			return fmt.Errorf("%w: another session made its lease, and releases it", perdure.Conflict)
		}
		if err != nil {
			return err
		}
	case r.Status != perdure.ResourceActive && !leased(r.Metadata):
		return fmt.Errorf("%w: it is %s", perdure.Conflict, r.Status)
	}
	r.Status = perdure.ResourceReleased
	if *r, err = b.put(tx, *r); err != nil || lone {
		return err
	}
	return markEntries(tx, l, perdure.ResourceReleased)
}

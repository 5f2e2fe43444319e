package host

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/agent"
	"github.com/perdure/perdure/engine"
	"github.com/perdure/perdure/internal/effect/core"
	"github.com/perdure/perdure/store"
)

func (e hostHarnesses) List(ctx context.Context) ([]engine.HarnessEntry, error) {
	all, err := store.Read(ctx, e.cfg.Store, harnesses().all)
	if err != nil {
		return nil, err
	}
	return harnessEntries(all)
}

func (e hostHarnesses) Get(ctx context.Context, id string) (engine.HarnessEntry, error) {
	h, err := store.Read(ctx, e.cfg.Store, func(r store.Reader) (agent.Harness, error) { return harnesses().find(r, id) })
	if err != nil {
		return engine.HarnessEntry{}, err
	}
	return harnessEntry(h)
}

func (e hostHarnesses) Versions(ctx context.Context, id string, limit int) ([]engine.HarnessEntry, error) {
	versions, err := store.Read(ctx, e.cfg.Store, func(r store.Reader) ([]agent.Harness, error) {
		h, err := harnesses().find(r, id)
		if err != nil {
			return nil, err
		}
		return r.Directory().Harnesses().Versions(h.ID, max(limit, 0))
	})
	if err != nil {
		return nil, err
	}
	return harnessEntries(versions)
}

func harnessEntries(all []agent.Harness) ([]engine.HarnessEntry, error) {
	var list []engine.HarnessEntry
	for _, h := range all {
		entry, err := harnessEntry(h)
		if err != nil {
			return nil, err
		}
		list = append(list, entry)
	}
	return list, nil
}

func harnessEntry(h agent.Harness) (engine.HarnessEntry, error) {
	overlay, err := json.Marshal(h.Overlay)
	return engine.HarnessEntry{
		ID: h.ID, Name: h.Name, Parent: h.Parent, Overlay: overlay, Status: string(h.Status), Version: h.Version,
		By: h.By, CreatedAt: h.CreatedAt, UpdatedAt: h.UpdatedAt,
	}, err
}

func (e hostHarnesses) Put(ctx context.Context, w engine.HarnessWrite) (engine.HarnessEntry, error) {
	w.ID = cmp.Or(w.ID, core.NewID[perdure.HarnessID]())
	put, err := writeStored(ctx, e.cfg.Store, harnesses(), storedWrite[agent.Harness]{
		name: w.Name, version: w.Version, id: string(w.ID),
		fresh: func() agent.Harness { return agent.Harness{ID: w.ID, Name: w.Name} },
		same:  func(h agent.Harness) bool { return h.Parent == w.Parent && equalOverlays(h.Overlay, w.Overlay) },
		next: func(h agent.Harness) agent.Harness {
			h.Parent, h.Overlay, h.Version = w.Parent, w.Overlay, w.Version
			return h
		},
	})
	if err != nil {
		return engine.HarnessEntry{}, err
	}
	return harnessEntry(put)
}

// Delete marks a harness as deleted if nothing inherits from it.
func (e hostHarnesses) Delete(ctx context.Context, id string, version int64) error {
	return deleteStored(ctx, e.cfg.Store, harnesses(), storedDeletion[agent.Harness]{
		id: id, version: version, unless: func(tx store.Tx, h agent.Harness) error { return checkNotInherited(tx.Reader(), h.ID) },
		gone: func(h agent.Harness) agent.Harness {
			h.Status = agent.Deleted
			return h
		},
	})
}

// checkNotInherited returns Conflict if an agent or harness that is not deleted inherits from a
// harness.
func checkNotInherited(r store.Reader, id perdure.HarnessID) error {
	above, err := harnesses().all(r)
	if err != nil {
		return err
	}
	for _, h := range above {
		if h.Parent == id && h.Status != agent.Deleted {
			return fmt.Errorf("%w: harness %s (%.80q) inherits from it", perdure.Conflict, h.ID, h.Name)
		}
	}
	those, err := agents().all(r)
	if err != nil {
		return err
	}
	for _, a := range those {
		if a.Harness == id && a.Status != agent.Deleted {
			return fmt.Errorf("%w: agent %s (%.80q) inherits from it", perdure.Conflict, a.ID, a.Name)
		}
	}
	return nil
}

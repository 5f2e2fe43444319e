package memory

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/store"
)

// List returns the bulks with an id.
func (v bulkStore) List(id perdure.BulkID) ([]store.Bulk, error) {
	var found []store.Bulk
	for _, b := range v.bulks.from("") {
		if b.ID == id {
			b = copyOfBulk(b)
			b.Plan = nil
			found = append(found, b)
		}
	}
	slices.SortFunc(found, func(a, b store.Bulk) int { return cmp.Compare(a.Org, b.Org) })
	return found, nil
}

// Running returns the bulks that have not ended.
func (v bulkStore) Running() ([]store.Bulk, error) {
	var found []store.Bulk
	for _, b := range v.bulks.from("") {
		if b.EndedAt.IsZero() {
			found = append(found, copyOfBulk(b))
		}
	}
	slices.SortFunc(found, func(a, b store.Bulk) int {
		return cmp.Or(a.BeganAt.Compare(b.BeganAt), cmp.Compare(a.ID, b.ID), cmp.Compare(a.Org, b.Org))
	})
	return found, nil
}

// Create adds a bulk.
func (t bulkStore) Create(b store.Bulk, ended bool) error {
	key := bulkKey(b)
	if t.bulks.has(key) {
		return fmt.Errorf("create bulk %s: %w: it exists already", b.ID, perdure.Conflict)
	}
	b = copyOfBulk(b)
	b.BeganAt, b.EndedAt = t.now, time.Time{}
	if ended {
		b.EndedAt, b.Plan = t.now, nil
	}
	t.bulks = t.bulks.put(key, b)
	return nil
}

// Save records the progress of a bulk.
func (t bulkStore) Save(b store.Bulk, ended bool) error {
	known, err := t.owned(b)
	if err != nil {
		return fmt.Errorf("save bulk %s: %w", b.ID, err)
	}
	known.Progress = clone(b.Progress)
	if ended {
		known.EndedAt, known.Plan = t.now, nil
	}
	t.bulks = t.bulks.put(bulkKey(b), known)
	return nil
}

// Take changes the worker of a bulk.
func (t bulkStore) Take(b store.Bulk, next perdure.WorkerID) error {
	known, err := t.owned(b)
	if err != nil {
		return fmt.Errorf("take bulk %s: %w", b.ID, err)
	}
	known.Worker = next
	t.bulks = t.bulks.put(bulkKey(b), known)
	return nil
}

// owned returns a running bulk that b.Worker carries out.
func (t bulkStore) owned(b store.Bulk) (store.Bulk, error) {
	known, ok := t.bulks.get(bulkKey(b))
	switch {
	case !ok:
		return known, perdure.NotFound
	case known.Worker != b.Worker || !known.EndedAt.IsZero():
		return known, fmt.Errorf("%w: worker %s does not carry it out", perdure.Lost, b.Worker)
	}
	return known, nil
}

// Prune removes bulks that have ended.
func (t bulkStore) Prune(before time.Time, limit int) (int, error) {
	before = micro(before)
	var old []store.Bulk
	for _, b := range t.bulks.from("") {
		if !b.EndedAt.IsZero() && b.EndedAt.Before(before) {
			old = append(old, b)
		}
	}
	slices.SortFunc(old, func(a, b store.Bulk) int {
		return cmp.Or(a.EndedAt.Compare(b.EndedAt), a.BeganAt.Compare(b.BeganAt), cmp.Compare(a.ID, b.ID), cmp.Compare(a.Org, b.Org))
	})
	old = first(old, limit)
	for _, b := range old {
		t.bulks = t.bulks.remove(bulkKey(b))
	}
	return len(old), nil
}

func bulkKey(b store.Bulk) string { return requestKey(string(b.ID), b.Org) }

func copyOfBulk(b store.Bulk) store.Bulk {
	b.Request, b.Plan, b.Progress = clone(b.Request), clone(b.Plan), clone(b.Progress)
	return b
}

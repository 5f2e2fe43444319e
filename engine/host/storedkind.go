package host

import (
	"context"
	"fmt"
	"slices"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/agent"
	"github.com/perdure/perdure/engine"
	"github.com/perdure/perdure/internal/sessionport"
	"github.com/perdure/perdure/store"
)

// storedKind is the common part of agents and harnesses: both are in the directory of the store,
// and are named by id, or by name until they are deleted.
type storedKind[T any] struct {
	noun string
	head func(T) storedHead
	byID func(r store.Reader, id string) (T, bool, error)
	all  func(r store.Reader) ([]T, error)
	put  func(ctx context.Context, tx store.Tx, one T) (T, error)
	isID func(text string) bool
}

// storedHead identifies an agent or harness, with its version and status.
type storedHead struct {
	id, name string
	version  int64
	status   agent.Status
}

func agents() storedKind[agent.Agent] {
	return storedKind[agent.Agent]{
		noun: "agent",
		head: func(a agent.Agent) storedHead { return storedHead{string(a.ID), a.Name, a.Version, a.Status} },
		byID: func(r store.Reader, id string) (agent.Agent, bool, error) {
			return r.Directory().Agents().Get(perdure.AgentID(id))
		},
		all: func(r store.Reader) ([]agent.Agent, error) {
			return r.Directory().Agents().List(agent.StatusFilter{All: true})
		},
		put:  sessionport.PutAgent,
		isID: isID[perdure.AgentID],
	}
}

func harnesses() storedKind[agent.Harness] {
	return storedKind[agent.Harness]{
		noun: "harness",
		head: func(h agent.Harness) storedHead { return storedHead{string(h.ID), h.Name, h.Version, h.Status} },
		byID: func(r store.Reader, id string) (agent.Harness, bool, error) {
			return r.Directory().Harnesses().Get(perdure.HarnessID(id))
		},
		all: func(r store.Reader) ([]agent.Harness, error) {
			return r.Directory().Harnesses().List(agent.StatusFilter{All: true})
		},
		put:  sessionport.PutHarness,
		isID: isID[perdure.HarnessID],
	}
}

func isID[T perdure.ID](text string) bool {
	_, err := perdure.ParseID[T](text)
	return err == nil
}

// find returns the object with an id, or the object with a name that is not deleted. NotFound:
// there is none. Conflict: several have the name.
func (k storedKind[T]) find(r store.Reader, id string) (none T, err error) {
	one, found, err := k.byID(r, id)
	if err != nil || found {
		return one, err
	}
	named, err := k.withName(r, id)
	switch {
	case err != nil:
		return none, err
	case len(named) == 0:
		return none, fmt.Errorf("%s %.80q: %w", k.noun, id, perdure.NotFound)
	case len(named) > 1:
		return none, fmt.Errorf("%s %.80q: %w", k.noun, id, k.ambiguousName(named))
	}
	return named[0], nil
}

// withName lists the objects with a name that are not deleted.
func (k storedKind[T]) withName(r store.Reader, name string) ([]T, error) {
	all, err := k.all(r)
	return slices.DeleteFunc(all, func(one T) bool {
		head := k.head(one)
		return head.name != name || head.status == agent.Deleted
	}), err
}

func (k storedKind[T]) ambiguousName(named []T) error {
	return fmt.Errorf("%w: %d of them have this name; use an id, for example %s",
		perdure.Conflict, len(named), k.head(named[0]).id)
}

// storedWrite is one write of an agent or harness.
type storedWrite[T any] struct {
	name    string // or an id
	version int64  // the version that was read; 0: none
	id      string // of a new object
	fresh   func() T
	same    func(T) bool // the stored object needs no change
	next    func(T) T    // the new state, with the version that was read
}

// writeStored adds or replaces an object. An object that would not change is not written.
func writeStored[T any](ctx context.Context, st store.Store, k storedKind[T], w storedWrite[T]) (put T, err error) {
	err = st.InTx(ctx, func(tx store.Tx) (err error) {
		put, err = k.write(ctx, tx, w)
		return err
	})
	if err != nil {
		return put, fmt.Errorf("put %s %.80q: %w", k.noun, w.name, err)
	}
	return put, nil
}

func (k storedKind[T]) write(ctx context.Context, tx store.Tx, w storedWrite[T]) (none T, err error) {
	named, err := k.withName(tx.Reader(), w.name)
	if byID, found, failed := k.byID(tx.Reader(), w.name); found || failed != nil {
		named, err = []T{byID}, failed
	}
	switch {
	case err != nil:
		return none, err
	case len(named) > 1:
		return none, k.ambiguousName(named)
	case len(named) == 0 && w.version != 0:
		return none, fmt.Errorf("%w: version %d was read, but it no longer exists", perdure.NotFound, w.version)
	case len(named) == 0:
		return k.add(ctx, tx, w)
	}
	head := k.head(named[0])
	made := head.id == w.id && head.version == 1 // an earlier attempt of this write created it
	if (w.version == head.version || made) && head.status != agent.Deleted && w.same(named[0]) {
		return named[0], nil
	}
	return k.put(ctx, tx, w.next(named[0]))
}

// add creates an object. It compares the names after its own write, because from then on no other
// transaction can write the directory.
func (k storedKind[T]) add(ctx context.Context, tx store.Tx, w storedWrite[T]) (none T, err error) {
	if k.isID(w.name) {
		return none, fmt.Errorf("%s %s: %w", k.noun, w.name, perdure.NotFound)
	}
	if err := engine.CheckAgentName(w.name); err != nil {
		return none, err
	}
	put, err := k.put(ctx, tx, w.next(w.fresh()))
	if err != nil {
		return none, err
	}
	named, err := k.withName(tx.Reader(), w.name)
	if err == nil && len(named) > 1 {
		err = fmt.Errorf("%w: somebody else has created one with this name; read it and try again", perdure.Conflict)
	}
	return put, err
}

// storedDeletion is one deletion of an agent or harness.
type storedDeletion[T any] struct {
	id      string
	version int64 // the version that was read; 0: any
	gone    func(T) T
	// unless vetoes the deletion. It is called after the write, because the write blocks other
	// writers of the directory. nil: no veto.
	unless func(store.Tx, T) error
}

// deleteStored marks an object as deleted.
func deleteStored[T any](ctx context.Context, st store.Store, k storedKind[T], o storedDeletion[T]) error {
	err := st.InTx(ctx, func(tx store.Tx) error {
		one, err := k.find(tx.Reader(), o.id)
		head := k.head(one)
		switch {
		case err != nil:
			return err
		case head.status == agent.Deleted:
			return fmt.Errorf("%s %.80q: %w: it is deleted", k.noun, o.id, perdure.NotFound)
		case o.version != 0 && o.version != head.version:
			return fmt.Errorf("%w: version %d was read, but the current version is %d; read it again",
				perdure.Conflict, o.version, head.version)
		}
		if _, err = k.put(ctx, tx, o.gone(one)); err == nil && o.unless != nil {
			err = o.unless(tx, one)
		}
		return err
	})
	if err != nil {
		return fmt.Errorf("delete %s: %w", k.noun, err)
	}
	return nil
}

package local

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

// keptKind is what agents and harnesses have in common: they are kept in the directory of the store, reached by their ids, and by
// their names while they are not deleted.
type keptKind[T any] struct {
	noun string
	head func(T) keptHead
	byID func(r store.Reader, id string) (T, bool, error)
	all  func(r store.Reader) ([]T, error)
	put  func(ctx context.Context, tx store.Tx, one T) (T, error)
	isID func(text string) bool
}

// keptHead is what names one of them, and where it stands.
type keptHead struct {
	id, name string
	version  int64
	status   agent.Status
}

func agents() keptKind[agent.Agent] {
	return keptKind[agent.Agent]{
		noun: "agent",
		head: func(a agent.Agent) keptHead { return keptHead{string(a.ID), a.Name, a.Version, a.Status} },
		byID: func(r store.Reader, id string) (agent.Agent, bool, error) { return r.Agent(perdure.AgentID(id)) },
		all:  func(r store.Reader) ([]agent.Agent, error) { return r.Agents(agent.StatusFilter{All: true}) },
		put:  sessionport.PutAgent,
		isID: isID[perdure.AgentID],
	}
}

func harnesses() keptKind[agent.Harness] {
	return keptKind[agent.Harness]{
		noun: "harness",
		head: func(h agent.Harness) keptHead { return keptHead{string(h.ID), h.Name, h.Version, h.Status} },
		byID: func(r store.Reader, id string) (agent.Harness, bool, error) { return r.Harness(perdure.HarnessID(id)) },
		all:  func(r store.Reader) ([]agent.Harness, error) { return r.Harnesses(agent.StatusFilter{All: true}) },
		put:  sessionport.PutHarness,
		isID: isID[perdure.HarnessID],
	}
}

func isID[T perdure.ID](text string) bool {
	_, err := perdure.ParseID[T](text)
	return err == nil
}

// named returns the one of an id, or the one that is not deleted and has a name. NotFound: there is none. Conflict: there are several.
func (k keptKind[T]) named(r store.Reader, id string) (none T, err error) {
	one, found, err := k.byID(r, id)
	if err != nil || found {
		return one, err
	}
	named, err := k.of(r, id)
	switch {
	case err != nil:
		return none, err
	case len(named) == 0:
		return none, fmt.Errorf("%s %.80q: %w", k.noun, id, perdure.NotFound)
	case len(named) > 1:
		return none, fmt.Errorf("%s %.80q: %w", k.noun, id, k.several(named))
	}
	return named[0], nil
}

// of lists those of a name that are not deleted.
func (k keptKind[T]) of(r store.Reader, name string) ([]T, error) {
	all, err := k.all(r)
	return slices.DeleteFunc(all, func(one T) bool {
		head := k.head(one)
		return head.name != name || head.status == agent.Deleted
	}), err
}

func (k keptKind[T]) several(named []T) error {
	return fmt.Errorf("%w: there are %d of this name: name one by its id, such as %s", perdure.Conflict, len(named), k.head(named[0]).id)
}

// keptWrite is one write.
type keptWrite[T any] struct {
	name    string // or id
	version int64  // that was read; 0: none
	id      string // of one that is new
	fresh   func() T
	same    func(T) bool // it says so already
	next    func(T) T    // what it is to be, with the version that was read
}

// write adds one or replaces it. One that changes nothing writes nothing.
func write[T any](ctx context.Context, st store.Store, k keptKind[T], w keptWrite[T]) (put T, err error) {
	err = st.InTx(ctx, func(tx store.Tx) (err error) {
		put, err = k.write(ctx, tx, w)
		return err
	})
	if err != nil {
		return put, fmt.Errorf("put %s %.80q: %w", k.noun, w.name, err)
	}
	return put, nil
}

func (k keptKind[T]) write(ctx context.Context, tx store.Tx, w keptWrite[T]) (none T, err error) {
	named, err := k.of(tx, w.name)
	if byID, found, failed := k.byID(tx, w.name); found || failed != nil {
		named, err = []T{byID}, failed
	}
	switch {
	case err != nil:
		return none, err
	case len(named) > 1:
		return none, k.several(named)
	case len(named) == 0 && w.version != 0:
		return none, fmt.Errorf("%w, and version %d of it was read", perdure.NotFound, w.version)
	case len(named) == 0:
		return k.add(ctx, tx, w)
	}
	head := k.head(named[0])
	made := head.id == w.id && head.version == 1 // by this write, before
	if (w.version == head.version || made) && head.status != agent.Deleted && w.same(named[0]) {
		return named[0], nil
	}
	return k.put(ctx, tx, w.next(named[0]))
}

// add makes one. The names are compared once the directory is written, which nobody else does meanwhile.
func (k keptKind[T]) add(ctx context.Context, tx store.Tx, w keptWrite[T]) (none T, err error) {
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
	named, err := k.of(tx, w.name)
	if err == nil && len(named) > 1 {
		err = fmt.Errorf("%w: somebody else made one of this name meanwhile: read it", perdure.Conflict)
	}
	return put, err
}

// keptErase is one end.
type keptErase[T any] struct {
	id      string
	version int64 // that was read; 0: any
	gone    func(T) T
	unless  func(store.Tx, T) error // asked once the directory is written, which nobody else does meanwhile; nil: never
}

// erase makes a tombstone.
func erase[T any](ctx context.Context, st store.Store, k keptKind[T], o keptErase[T]) error {
	err := st.InTx(ctx, func(tx store.Tx) error {
		one, err := k.named(tx, o.id)
		head := k.head(one)
		switch {
		case err != nil:
			return err
		case head.status == agent.Deleted:
			return fmt.Errorf("%s %.80q: %w: it is deleted", k.noun, o.id, perdure.NotFound)
		case o.version != 0 && o.version != head.version:
			return fmt.Errorf("%w: version %d of it was read, and it has version %d: read it again", perdure.Conflict, o.version, head.version)
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

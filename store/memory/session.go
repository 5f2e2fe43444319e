package memory

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/store"
)

// session is a session's row with its journal.
type session struct {
	store.Session
	journal [][]byte // encoded events; seq n is at index n-1
}

func (v sessionStore) Get(id perdure.SessionID) (store.Session, error) {
	s, ok := v.sessions.get(string(id))
	if !ok {
		return store.Session{}, fmt.Errorf("session %s: %w", id, perdure.NotFound)
	}
	return cloneSession(s.Session), nil
}

// cloneSession returns a copy that may be changed. Empty labels become nil.
func cloneSession(s store.Session) store.Session {
	if s.Labels = maps.Clone(s.Labels); len(s.Labels) == 0 {
		s.Labels = nil
	}
	return s
}

// List lists rows, newest first.
func (v sessionStore) List(filter store.SessionFilter) ([]store.Session, error) {
	if err := filter.Check(); err != nil {
		return nil, fmt.Errorf("list sessions: %w", err)
	}
	var found []store.Session
	for _, s := range v.sessions.from("") {
		if filter.Matches(s.Session) {
			found = append(found, cloneSession(s.Session))
		}
	}
	slices.SortFunc(found, func(a, b store.Session) int {
		return cmp.Or(b.CreatedAt.Compare(a.CreatedAt), cmp.Compare(b.ID, a.ID))
	})
	return first(found, filter.Limit), nil
}

func (v sessionStore) Snapshot(id perdure.SessionID) (store.Snapshot, error) {
	s, ok := v.snapshots.get(string(id))
	if !ok {
		return store.Snapshot{}, fmt.Errorf("snapshot of session %s: %w", id, perdure.NotFound)
	}
	s.Body = clone(s.Body)
	return s, nil
}

// Create adds a row with last seq 0 and epoch 0.
func (t sessionStore) Create(s store.Session) error {
	if t.sessions.has(string(s.ID)) {
		return fmt.Errorf("create session %s: %w: it exists already", s.ID, perdure.Conflict)
	}
	if err := s.Labels.Check(); err != nil {
		return fmt.Errorf("create session %s: %w", s.ID, err)
	}
	t.sessions = t.sessions.put(string(s.ID), session{Session: store.Session{
		ID: s.ID, Parent: s.Parent, Root: cmp.Or(s.Root, s.ID), Forked: s.Forked, Org: s.Org, User: s.User,
		Title: s.Title, Labels: cloneSession(s).Labels, Status: s.Status, Secret: s.Secret, Home: s.Home,
		CreatedAt: micro(s.CreatedAt), UpdatedAt: micro(s.UpdatedAt),
	}})
	return nil
}

// Acquire makes worker the driver. The first call for a session does not count as a take-up,
// since there was no driver before.
func (t sessionStore) Acquire(id perdure.SessionID, worker perdure.WorkerID) (store.Session, error) {
	s, ok := t.sessions.get(string(id))
	if !ok {
		return store.Session{}, fmt.Errorf("acquire session %s: %w", id, perdure.NotFound)
	}
	if s.Epoch > 0 && s.LastSeq == s.SeenSeq {
		s.Resumes++
	} else {
		s.Resumes = 0
	}
	s.Epoch++
	s.Worker, s.SeenSeq, s.WaitsSince = worker, s.LastSeq, time.Time{}
	t.sessions = t.sessions.put(string(id), s)
	return cloneSession(s.Session), nil
}

// Lock checks the fence. It locks nothing: only one transaction runs at a time.
func (t sessionStore) Lock(id perdure.SessionID, epoch int64) (int64, error) {
	s, ok := t.sessions.get(string(id))
	switch {
	case !ok:
		return 0, fmt.Errorf("lock session %s: %w", id, perdure.NotFound)
	case s.Epoch != epoch:
		return 0, fmt.Errorf("lock session %s: %w: epoch %d, the session is at %d", id, perdure.Lost, epoch, s.Epoch)
	}
	return s.LastSeq, nil
}

func (t sessionStore) Update(id perdure.SessionID, title string, status perdure.SessionStatus) error {
	s, ok := t.sessions.get(string(id))
	if !ok {
		return fmt.Errorf("save session %s: %w", id, perdure.NotFound)
	}
	s.Title, s.Status, s.UpdatedAt = title, status, t.now
	t.sessions = t.sessions.put(string(id), s)
	return nil
}

func (t sessionStore) SetLabels(id perdure.SessionID, labels perdure.Labels) error {
	s, ok := t.sessions.get(string(id))
	if !ok {
		return fmt.Errorf("set labels of session %s: %w", id, perdure.NotFound)
	}
	if err := labels.Check(); err != nil {
		return fmt.Errorf("set labels of session %s: %w", id, err)
	}
	s.Labels, s.UpdatedAt = labels, t.now
	s.Session = cloneSession(s.Session)
	t.sessions = t.sessions.put(string(id), s)
	return nil
}

func (t sessionStore) SetHome(id perdure.SessionID, home perdure.HomeID) error {
	s, ok := t.sessions.get(string(id))
	if !ok {
		return fmt.Errorf("set home of session %s: %w", id, perdure.NotFound)
	}
	s.Home, s.WaitsSince = home, time.Time{}
	t.sessions = t.sessions.put(string(id), s)
	return nil
}

func (t sessionStore) AwaitHome(id perdure.SessionID) error {
	s, ok := t.sessions.get(string(id))
	if !ok {
		return fmt.Errorf("await home of session %s: %w", id, perdure.NotFound)
	}
	if s.Home != "" && s.WaitsSince.IsZero() {
		s.WaitsSince = micro(t.now)
		t.sessions = t.sessions.put(string(id), s)
	}
	return nil
}

// Release clears the driver under its epoch and records the last seq as seen.
func (t sessionStore) Release(id perdure.SessionID, epoch int64) error {
	if _, err := t.Sessions().Lock(id, epoch); err != nil {
		return fmt.Errorf("release: %w", err)
	}
	s, _ := t.sessions.get(string(id))
	s.Worker, s.SeenSeq = "", s.LastSeq
	t.sessions = t.sessions.put(string(id), s)
	return nil
}

func (t sessionStore) PutSnapshot(id perdure.SessionID, s store.Snapshot) error {
	s.Body = clone(s.Body)
	t.snapshots = t.snapshots.put(string(id), s)
	return nil
}

package memory

import (
	"fmt"
	"slices"
	"strings"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/store"
)

func (v valueStore) Get(session perdure.SessionID, key string) (store.Value, error) {
	found, ok := v.values.get(nameKey(session, key))
	if !ok {
		return store.Value{}, fmt.Errorf("value %q of %s: %w", key, session, perdure.NotFound)
	}
	return found, nil
}

// List lists the values of a session, without their texts.
func (v valueStore) List(session perdure.SessionID) ([]store.Value, error) {
	found := below(v.values, session)
	for i := range found {
		found[i].Text = ""
	}
	return found, nil
}

// Put writes a value, or replaces it.
func (t valueStore) Put(v store.Value) (store.Value, error) {
	err := v.Check()
	key := nameKey(v.Session, v.Key)
	known, there := t.values.get(key)
	switch {
	case err != nil:
	case !t.sessions.has(string(v.Session)):
		err = fmt.Errorf("session %s: %w", v.Session, perdure.NotFound)
	case !there:
		known.CreatedAt = t.now
		if n := len(below(t.values, v.Session)); n >= store.MaxKeys {
			err = fmt.Errorf("%w: the session has %d values; remove one first", perdure.Limit, n)
		}
	}
	if err != nil {
		return store.Value{}, fmt.Errorf("put value %q of %s: %w", v.Key, v.Session, err)
	}
	v.Version, v.CreatedAt, v.UpdatedAt = known.Version+1, known.CreatedAt, t.now
	t.values = t.values.put(key, v)
	v.Text = ""
	return v, nil
}

func (t valueStore) Remove(session perdure.SessionID, key string) (bool, error) {
	there := t.values.has(nameKey(session, key))
	t.values = t.values.remove(nameKey(session, key))
	return there, nil
}

func (v secretStore) Get(session perdure.SessionID, name string) (store.Secret, error) {
	s, ok := v.secrets.get(nameKey(session, name))
	if !ok || name == "" {
		return store.Secret{}, fmt.Errorf("secret %q of %s: %w", name, session, perdure.NotFound)
	}
	return cloneSecret(s), nil
}

// NextVersion returns the version with which a secret is to be written. For a missing secret it is
// greater than all removed versions, which a row without a name records.
func (v secretStore) NextVersion(session perdure.SessionID, name string) (int64, error) {
	known, there := v.secrets.get(nameKey(session, name))
	if !there {
		known, _ = v.secrets.get(nameKey(session, ""))
	}
	return known.Version + 1, nil
}

func (v secretStore) List(filter store.SecretFilter) ([]store.Secret, error) {
	after := nameKey(filter.After.Session, filter.After.Name)
	if filter.Session != "" {
		after = nameKey(filter.Session, filter.After.Name)
	}
	if filter.Session == "" && filter.After == (store.SecretKey{}) {
		after = ""
	}
	var found []store.Secret
	for key, s := range v.secrets.from(after) {
		switch {
		case key == after || s.Name == "" || s.KeyID == filter.OtherThanKey:
			continue
		case filter.Session != "" && s.Session != filter.Session:
			return found, nil
		}
		s = cloneSecret(s)
		if filter.WithoutValue {
			s.Sealed = nil
		}
		if found = append(found, s); len(found) == filter.Limit {
			break
		}
	}
	return found, nil
}

func (t secretStore) Put(s store.Secret) error {
	err := s.Check()
	key := nameKey(s.Session, s.Name)
	known, there := t.secrets.get(key)
	next, _ := t.Secrets().NextVersion(s.Session, s.Name) // never fails
	switch {
	case err != nil:
	case !t.sessions.has(string(s.Session)):
		err = fmt.Errorf("session %s: %w", s.Session, perdure.NotFound)
	case !there && t.secretsOf(s.Session) >= store.MaxKeys:
		err = fmt.Errorf("%w: the session has %d secrets; remove one first", perdure.Limit, store.MaxKeys)
	case s.Version != next:
		err = fmt.Errorf("%w: the next version is %d, not %d", perdure.Conflict, next, s.Version)
	}
	if err != nil {
		return fmt.Errorf("put secret %q of %s: %w", s.Name, s.Session, err)
	}
	s = cloneSecret(s)
	s.CreatedAt, s.UpdatedAt = t.now, t.now
	if there {
		s.CreatedAt = known.CreatedAt
	}
	t.secrets = t.secrets.put(key, s)
	return nil
}

func (t secretStore) Reseal(s store.Secret, was string) (bool, error) {
	if err := s.Check(); err != nil {
		return false, fmt.Errorf("reseal secret %q of %s: %w", s.Name, s.Session, err)
	}
	known, ok := t.secrets.get(nameKey(s.Session, s.Name))
	if !ok || known.Version != s.Version || known.KeyID != was {
		return false, nil
	}
	known.Sealed, known.KeyID = clone(s.Sealed), s.KeyID
	t.secrets = t.secrets.put(nameKey(s.Session, s.Name), known)
	return true, nil
}

func (t secretStore) Remove(session perdure.SessionID, name string) (bool, error) {
	known, err := t.Secrets().Get(session, name)
	if err != nil {
		return false, nil
	}
	t.secrets = t.secrets.remove(nameKey(session, name))
	removed, _ := t.secrets.get(nameKey(session, ""))
	removed.Session, removed.Version = session, max(removed.Version, known.Version)
	t.secrets = t.secrets.put(nameKey(session, ""), removed)
	return true, nil
}

// secretsOf counts the secrets of a session.
func (v *tx) secretsOf(session perdure.SessionID) (n int) {
	for _, s := range below(v.secrets, session) {
		if s.Name != "" {
			n++
		}
	}
	return n
}

// nameKey orders values and secrets by session and name.
func nameKey(session perdure.SessionID, name string) string { return sessionPrefix(session) + name }

// below returns the values of a session, by the bytes of their names. Without values it returns
// nil.
func below[V any](all tree[V], session perdure.SessionID) []V {
	var found []V
	for key, value := range all.from(sessionPrefix(session)) {
		if !strings.HasPrefix(key, sessionPrefix(session)) {
			break
		}
		found = append(found, value)
	}
	return found
}

func cloneSecret(s store.Secret) store.Secret {
	s.Sealed, s.Hosts = clone(s.Sealed), slices.Clone(s.Hosts)
	return s
}

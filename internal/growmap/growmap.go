// Package growmap has a map that only grows and is cheap to copy.
//
// A value that is copied at every step cannot afford to copy thousands of entries with it. A [Map]
// shares its older entries between all copies and never changes them; only the latest ones are
// copied. The package imports only the standard library.
package growmap

import (
	"encoding/json"
	"maps"
)

// maxCopied is the number of entries that a copy copies at most.
const maxCopied = 128

// Map is a map from which no entry is removed. The zero value is empty. A Map is not safe for
// concurrent use, but different copies may be used concurrently. Copy one with Clone, not by
// assignment: Put would change both.
type Map[K ~string, V comparable] struct {
	old   map[K]V // shared with other copies
	fresh map[K]V // at most maxCopied
}

// Get returns the value of a key, and whether the key is present.
func (m Map[K, V]) Get(key K) (V, bool) {
	if v, ok := m.fresh[key]; ok {
		return v, true
	}
	v, ok := m.old[key]
	return v, ok
}

// IsZero reports whether the map is empty.
func (m Map[K, V]) IsZero() bool { return len(m.old) == 0 && len(m.fresh) == 0 }

// Equal reports whether both maps have the same entries.
func (m Map[K, V]) Equal(other Map[K, V]) bool { return maps.Equal(m.all(), other.all()) }

// Put sets the value of a key in this copy.
func (m *Map[K, V]) Put(key K, value V) {
	if len(m.fresh) >= maxCopied {
		m.old, m.fresh = m.all(), nil
	}
	if m.fresh == nil {
		m.fresh = map[K]V{}
	}
	m.fresh[key] = value
}

// Clone returns an independent copy. It copies at most 128 entries.
func (m Map[K, V]) Clone() Map[K, V] { return Map[K, V]{old: m.old, fresh: maps.Clone(m.fresh)} }

func (m Map[K, V]) all() map[K]V {
	all := make(map[K]V, len(m.old)+len(m.fresh))
	maps.Copy(all, m.old)
	maps.Copy(all, m.fresh)
	return all
}

// MarshalJSON writes an object.
func (m Map[K, V]) MarshalJSON() ([]byte, error) { return json.Marshal(m.all()) }

// UnmarshalJSON reads what MarshalJSON wrote.
func (m *Map[K, V]) UnmarshalJSON(text []byte) error {
	*m = Map[K, V]{}
	return json.Unmarshal(text, &m.old)
}

package perdure

import (
	"encoding/json"
	"maps"
)

// maxFresh is how many entries of a [Register] are copied with it before they join the old ones.
const maxFresh = 128

// Register is a map that only grows, and is copied at every step of a session: its old entries are shared between the
// copies and never changed, so that a copy costs no more when there are thousands. The zero value is empty.
// It is not safe for concurrent use; its copies may be used beside one another.
type Register[K ~string, V comparable] struct {
	old   map[K]V // shared with other copies
	fresh map[K]V // at most maxFresh
}

// Get returns the value of a key, and whether there is one.
func (r Register[K, V]) Get(key K) (V, bool) {
	if v, ok := r.fresh[key]; ok {
		return v, true
	}
	v, ok := r.old[key]
	return v, ok
}

// IsZero reports whether it is empty.
func (r Register[K, V]) IsZero() bool { return len(r.old) == 0 && len(r.fresh) == 0 }

// Equal reports whether two hold the same.
func (r Register[K, V]) Equal(other Register[K, V]) bool { return maps.Equal(r.all(), other.all()) }

func (r *Register[K, V]) put(key K, value V) {
	if len(r.fresh) >= maxFresh {
		r.old, r.fresh = r.all(), nil
	}
	if r.fresh == nil {
		r.fresh = map[K]V{}
	}
	r.fresh[key] = value
}

func (r Register[K, V]) clone() Register[K, V] {
	return Register[K, V]{old: r.old, fresh: maps.Clone(r.fresh)}
}

func (r Register[K, V]) all() map[K]V {
	all := make(map[K]V, len(r.old)+len(r.fresh))
	maps.Copy(all, r.old)
	maps.Copy(all, r.fresh)
	return all
}

// MarshalJSON writes it as an object.
func (r Register[K, V]) MarshalJSON() ([]byte, error) { return json.Marshal(r.all()) }

// UnmarshalJSON reads what MarshalJSON wrote.
func (r *Register[K, V]) UnmarshalJSON(text []byte) error {
	*r = Register[K, V]{}
	return json.Unmarshal(text, &r.old)
}

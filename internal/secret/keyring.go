package secret

import (
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/perdure/perdure"
)

// Keyring holds the keys that seal values: the current one, which seals new values, and earlier
// ones, which still open old values. It is stored in a file that only its owner may read. A nil
// Keyring seals and opens nothing.
//
// Changes of the file by another process take effect with the next value. A Keyring is safe for
// concurrent use.
type Keyring struct {
	path string

	mu    sync.Mutex
	keys  []key     // guarded by mu; the last one is current
	stamp fileStamp // guarded by mu; of the file that the keys were read from
}

// KeyStat describes a key, without its bytes.
type KeyStat struct {
	ID        string    `json:"id"`
	Current   bool      `json:"current"`
	CreatedAt time.Time `json:"created_at"`
	RetiredAt time.Time `json:"retired_at,omitzero"`
}

var errNoRing = fmt.Errorf("%w: there is no keyring", perdure.Unavailable)

// Create creates a keyring with one key in a new file, which is durable when Create returns.
// Conflict: the file exists.
func Create(path string) (*Keyring, error) {
	k := &Keyring{path: path}
	err := k.change(func(keys []key) ([]key, error) {
		if keys != nil {
			return nil, fmt.Errorf("%w: the file exists already; open it with Load, since a new keyring would lose the secrets sealed under the old one", perdure.Conflict)
		}
		return []key{newKey()}, nil
	})
	if err != nil {
		return nil, fmt.Errorf("create keyring %s: %w", path, err)
	}
	return k, nil
}

// Load reads a keyring. NotFound: there is no file. Invalid: others may read the file, or it is not
// a keyring.
func Load(path string) (*Keyring, error) {
	k := &Keyring{path: path}
	k.mu.Lock()
	defer k.mu.Unlock()
	if err := k.reload(); err != nil {
		return nil, fmt.Errorf("load keyring %s: %w", path, err)
	}
	return k, nil
}

// Rotate adds a key, which becomes the current one, and returns its id. The earlier keys still open
// their values; once these are sealed again, the keys can be pruned.
func (k *Keyring) Rotate() (string, error) {
	if k == nil {
		return "", errNoRing
	}
	next := newKey()
	err := k.change(func(keys []key) ([]key, error) {
		if keys == nil {
			return nil, fmt.Errorf("%w: the keyring file is gone: restore it", perdure.NotFound)
		}
		keys[len(keys)-1].retired = next.created
		return append(keys, next), nil
	})
	if err != nil {
		return "", fmt.Errorf("rotate keyring %s: %w", k.path, err)
	}
	return next.id, nil
}

// Prune removes the keys that were retired before a moment and seal nothing any more, and returns
// their ids. used lists the keys that still seal values. A writer that read the keyring before a
// rotation may still commit a value under the former key: choose a moment that no such writer can
// outlast. The current key stays.
func (k *Keyring) Prune(used []string, before time.Time) (gone []string, err error) {
	if k == nil {
		return nil, errNoRing
	}
	err = k.change(func(keys []key) ([]key, error) {
		if keys == nil {
			return nil, fmt.Errorf("%w: the keyring file is gone: restore it", perdure.NotFound)
		}
		gone = nil
		return slices.DeleteFunc(keys, func(old key) bool {
			free := !old.retired.IsZero() && old.retired.Before(before) && !slices.Contains(used, old.id)
			if free {
				gone = append(gone, old.id)
			}
			return free
		}), nil
	})
	if err != nil {
		return nil, fmt.Errorf("prune keyring %s: %w", k.path, err)
	}
	return gone, nil
}

// Current returns the id of the key that seals new values. Unavailable: there is no keyring, or it
// cannot be read.
func (k *Keyring) Current() (string, error) {
	now, err := k.current()
	return now.id, err
}

// Keys describes the keys, oldest first.
func (k *Keyring) Keys() []KeyStat {
	if k == nil {
		return nil
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	all := make([]KeyStat, 0, len(k.keys))
	for i, one := range k.keys {
		all = append(all, KeyStat{ID: one.id, Current: i == len(k.keys)-1, CreatedAt: one.created, RetiredAt: one.retired})
	}
	return all
}

// current returns the current key of the file.
func (k *Keyring) current() (key, error) {
	if k == nil {
		return key{}, errNoRing
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	if err := k.refresh(); err != nil {
		return key{}, fmt.Errorf("keyring %s: %w", k.path, err)
	}
	return k.keys[len(k.keys)-1], nil
}

// byID returns a key. If the id is unknown, it reads the file again, since the key may have been
// added meanwhile.
func (k *Keyring) byID(id string) (key, error) {
	if k == nil {
		return key{}, errNoRing
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	is := func(one key) bool { return one.id == id }
	at := slices.IndexFunc(k.keys, is)
	if at < 0 {
		if err := k.refresh(); err != nil {
			return key{}, fmt.Errorf("keyring %s: %w", k.path, err)
		}
		at = slices.IndexFunc(k.keys, is)
	}
	if at < 0 {
		return key{}, fmt.Errorf("%w: %s", UnknownKey, id)
	}
	return k.keys[at], nil
}

// refresh reads the file again if it has changed. A missing file only prevents sealing: the keys in
// memory still open what is sealed. It is called with mu held.
func (k *Keyring) refresh() error {
	now, err := stampOf(k.path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return fmt.Errorf("%w: the keyring file is gone: restore it, since values sealed without it could never be opened again", perdure.Unavailable)
	case err != nil:
		return fmt.Errorf("%w: %w", perdure.Unavailable, err)
	case now == k.stamp:
		return nil
	}
	return k.reload()
}

// reload reads the file. It is called with mu held.
func (k *Keyring) reload() error {
	keys, at, err := read(k.path)
	if err != nil {
		return err
	}
	k.keys, k.stamp = keys, at
	return nil
}

// change replaces the file with what fn makes of its keys, under a lock against other processes. fn
// receives nil if there is no file.
func (k *Keyring) change(fn func([]key) ([]key, error)) error {
	k.mu.Lock()
	defer k.mu.Unlock()
	unlock, err := lock(k.path)
	if err != nil {
		return err
	}
	defer unlock()
	keys, _, err := read(k.path)
	if err != nil && !errors.Is(err, perdure.NotFound) {
		return err
	}
	if keys, err = fn(slices.Clone(keys)); err != nil {
		return err
	}
	if err := write(k.path, keys); err != nil {
		return err
	}
	return k.reload()
}

func newKey() key {
	one := key{created: time.Now().UTC().Truncate(time.Microsecond), bytes: newMaterial()}
	var id [8]byte
	rand.Read(id[:]) // never fails
	one.id = "key_" + hex.EncodeToString(id[:])
	return one
}

// String returns the name of the file and hides the keys.
func (k *Keyring) String() string {
	if k == nil {
		return "no keyring"
	}
	return "keyring " + k.path
}

// GoString is String.
func (k *Keyring) GoString() string { return k.String() }

// Format writes String for every verb.
func (k *Keyring) Format(s fmt.State, _ rune) { _, _ = s.Write([]byte(k.String())) }

// MarshalJSON describes the keys and hides them.
func (k *Keyring) MarshalJSON() ([]byte, error) { return marshalStats(k.Keys()) }

// LogValue is String.
func (k *Keyring) LogValue() slog.Value { return slog.StringValue(k.String()) }

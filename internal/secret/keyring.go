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

// Keyring is the keys under which values are sealed: the current one, for what is written, and those before it, for what
// was (SE2). It is kept in a file that its owner alone may read. nil is no ring: it seals and opens nothing.
//
// What another process does to the file is seen with the next value. Safe for concurrent use.
type Keyring struct {
	path string

	mu    sync.Mutex
	keys  []key // guarded by mu; the current one is the last
	stamp stamp // guarded by mu; of the file that keys were read from
}

// KeyStat describes a key, never its bytes.
type KeyStat struct {
	ID        string    `json:"id"`
	Current   bool      `json:"current"`
	CreatedAt time.Time `json:"created_at"`
	RetiredAt time.Time `json:"retired_at,omitzero"`
}

var errNoRing = fmt.Errorf("%w: there is no keyring", perdure.Unavailable)

// Create makes a keyring with one key in a new file, which is durable when it returns. Conflict: the file is there.
func Create(path string) (*Keyring, error) {
	k := &Keyring{path: path}
	err := k.change(func(keys []key) ([]key, error) {
		if keys != nil {
			return nil, fmt.Errorf("%w: the file is there: it is opened with Load, and never made anew, since the secrets under its keys would be lost", perdure.Conflict)
		}
		return []key{newKey()}, nil
	})
	if err != nil {
		return nil, fmt.Errorf("create keyring %s: %w", path, err)
	}
	return k, nil
}

// Load reads a keyring. NotFound: there is no file. Invalid: others may read it, or it is no keyring.
func Load(path string) (*Keyring, error) {
	k := &Keyring{path: path}
	k.mu.Lock()
	defer k.mu.Unlock()
	if err := k.reload(); err != nil {
		return nil, fmt.Errorf("load keyring %s: %w", path, err)
	}
	return k, nil
}

// Rotate adds a key, which is the current one from then on, and returns its id. Values under the keys before it still open;
// they are to be sealed again, and then those keys may be pruned.
func (k *Keyring) Rotate() (string, error) {
	if k == nil {
		return "", errNoRing
	}
	next := newKey()
	err := k.change(func(keys []key) ([]key, error) {
		if keys == nil {
			return nil, fmt.Errorf("%w: the file is gone: put it back", perdure.NotFound)
		}
		keys[len(keys)-1].retired = next.made
		return append(keys, next), nil
	})
	if err != nil {
		return "", fmt.Errorf("rotate keyring %s: %w", k.path, err)
	}
	return next.id, nil
}

// Prune forgets the keys that were retired before a moment and under which nothing is sealed any more, and returns their ids.
// used are the keys under which something is. A writer that had read the ring before it was rotated may still commit a value
// under the key before: give a moment that no such writer can outlast. The current key stays.
func (k *Keyring) Prune(used []string, before time.Time) (gone []string, err error) {
	if k == nil {
		return nil, errNoRing
	}
	err = k.change(func(keys []key) ([]key, error) {
		if keys == nil {
			return nil, fmt.Errorf("%w: the file is gone: put it back", perdure.NotFound)
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

// Current is the id of the key under which values are sealed now. Unavailable: there is no ring, or it cannot be read.
func (k *Keyring) Current() (string, error) {
	now, err := k.current()
	return now.id, err
}

// Keys describes the keys, the oldest first.
func (k *Keyring) Keys() []KeyStat {
	if k == nil {
		return nil
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	all := make([]KeyStat, 0, len(k.keys))
	for i, one := range k.keys {
		all = append(all, KeyStat{ID: one.id, Current: i == len(k.keys)-1, CreatedAt: one.made, RetiredAt: one.retired})
	}
	return all
}

// current returns the current key, as the file has it now.
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

// byID returns a key. One that is not known may have been added to the file meanwhile.
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

// refresh reads the file again where it has changed. A file that is gone changes nothing for what is sealed already: the keys
// are still here. It is called with mu held.
func (k *Keyring) refresh() error {
	now, err := stampOf(k.path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return fmt.Errorf("%w: the file is gone: put it back, since what is sealed without it could never be opened", perdure.Unavailable)
	case err != nil:
		return fmt.Errorf("%w: %w", perdure.Unavailable, err)
	case now == k.stamp:
		return nil
	}
	return k.reload()
}

// reload is called with mu held.
func (k *Keyring) reload() error {
	keys, at, err := read(k.path)
	if err != nil {
		return err
	}
	k.keys, k.stamp = keys, at
	return nil
}

// change replaces the file by what fn makes of its keys, with no other process in between. nil is no file.
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
	one := key{made: time.Now().UTC().Truncate(time.Microsecond), bytes: newMaterial()}
	var id [8]byte
	rand.Read(id[:]) // never fails
	one.id = "key_" + hex.EncodeToString(id[:])
	return one
}

// String names the file and hides the keys.
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

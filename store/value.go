package store

import (
	"fmt"
	"time"

	"github.com/perdure/perdure"
)

// Limits of the values and secrets of a session. Sizes are in bytes.
const (
	MaxKeyBytes    = 256     // of a key, and of the name of a secret
	MaxValueBytes  = 1 << 20 // of a value
	MaxKeys        = 1000    // values of a session, and also secrets
	MaxSecretBytes = 1 << 17 // of a secret as stored
)

// Value is a value that a session stores under a key.
type Value struct {
	Session   perdure.SessionID
	Key       string
	Text      string
	Version   int64 // from 1, one more with each write
	CreatedAt time.Time
	UpdatedAt time.Time
}

// Check checks a value. Invalid: the error says what is wrong.
func (v Value) Check() error {
	if v.Key == "" || len(v.Key) > MaxKeyBytes {
		return fmt.Errorf("%w key of %d bytes: 1 to %d are allowed", perdure.Invalid, len(v.Key), MaxKeyBytes)
	}
	if len(v.Text) > MaxValueBytes {
		return fmt.Errorf("%w value of %d bytes: at most %d are allowed", perdure.Invalid, len(v.Text), MaxValueBytes)
	}
	return nil
}

// ValueReader reads the values of sessions.
type ValueReader interface {
	// Get returns a value. NotFound: the session has none with that key.
	Get(session perdure.SessionID, key string) (Value, error)
	// List lists the values of a session by the bytes of their keys, without their texts.
	List(session perdure.SessionID) ([]Value, error)
}

// ValueWriter writes the values of sessions. They are removed with their session.
type ValueWriter interface {
	// Put adds a value, or replaces the one with its key, and returns it as stored without its
	// text. The store sets version and times. Invalid: as Check says. Limit: the session has
	// MaxKeys other values. NotFound: no such session.
	Put(v Value) (Value, error)
	// Remove removes a value and reports whether it existed.
	Remove(session perdure.SessionID, key string) (bool, error)
}

// Secret is a sealed value. The store cannot open it.
type Secret struct {
	Session   perdure.SessionID
	Name      string
	Version   int64          // higher with each write, see Secrets.NextVersion; sealed with the value
	Sealed    []byte         // opaque to the store
	KeyID     string         // of the key that seals it
	Hosts     []string       // where the value may be sent; empty: nowhere
	Call      perdure.CallID // that wrote it; empty: none
	CreatedAt time.Time
	UpdatedAt time.Time // not changed by Secrets.Reseal
}

// Check checks a secret. Invalid: the error says what is wrong.
func (s Secret) Check() error {
	if s.Name == "" || len(s.Name) > MaxKeyBytes {
		return fmt.Errorf("%w secret name of %d bytes: 1 to %d are allowed", perdure.Invalid, len(s.Name), MaxKeyBytes)
	}
	if len(s.Sealed) == 0 || len(s.Sealed) > MaxSecretBytes || s.KeyID == "" {
		return fmt.Errorf("%w secret: %d bytes under the key %q", perdure.Invalid, len(s.Sealed), s.KeyID)
	}
	return nil
}

// SecretFilter narrows a list of secrets. The zero value lists all of them in full.
type SecretFilter struct {
	Session      perdure.SessionID // empty: of all sessions
	OtherThanKey string            // only those not sealed under this key; empty: all
	After        SecretKey         // only those after this one; the zero value: from the first
	Limit        int               // 0: no limit
	WithoutValue bool              // without the sealed bytes
}

// SecretKey identifies a secret.
type SecretKey struct {
	Session perdure.SessionID
	Name    string
}

// SecretReader reads sealed values.
type SecretReader interface {
	// Get returns a secret. NotFound: the session has none with that name.
	Get(session perdure.SessionID, name string) (Secret, error)
	// NextVersion returns the version under which a secret must be written: one more than the
	// stored one, otherwise one more than any version that the session removed, otherwise 1. So no
	// version of a name is used twice, even after a removal: bytes that were sealed for one version
	// never open as another, and a version always identifies the same value.
	NextVersion(session perdure.SessionID, name string) (int64, error)
	// List lists secrets: those of a session by the bytes of their names, sessions in a stable
	// order of the store. A list can thus be read in pages while secrets are written.
	List(filter SecretFilter) ([]Secret, error)
}

// SecretWriter writes sealed values. They are removed with their session; neither Dump nor a fork
// copies them.
type SecretWriter interface {
	// Put adds a secret, or replaces the one with its name. The caller sets the version that
	// Secrets.NextVersion returned, because the version is sealed with the value; the store sets
	// the times. Invalid: as Check says. Conflict: another version was written since; read it and
	// seal again. Limit: the session has MaxKeys other secrets. NotFound: no such session.
	Put(s Secret) error
	// Reseal replaces the sealed bytes and the key id of version s.Version, if it is sealed
	// under the key was, and changes nothing else. It reports whether it did; if not, the secret
	// was written or removed since, and nothing needs to be done.
	Reseal(s Secret, was string) (bool, error)
	// Remove removes a secret and reports whether it existed. Its version is never used
	// again.
	Remove(session perdure.SessionID, name string) (bool, error)
}

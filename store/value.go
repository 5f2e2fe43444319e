package store

import (
	"fmt"
	"time"

	"github.com/perdure/perdure"
)

// The limits of what a session keeps (VA1). Sizes are in bytes.
const (
	MaxKeyBytes    = 256     // of a key, and of the name of a secret
	MaxValueBytes  = 1 << 20 // of a value
	MaxKeys        = 1000    // values of a session, and likewise secrets
	MaxSecretBytes = 1 << 17 // of a secret as it is stored
)

// Value is what a session keeps by key (VA1).
type Value struct {
	Session   perdure.SessionID
	Key       string
	Text      string
	Version   int64 // from 1, one more with each write
	CreatedAt time.Time
	UpdatedAt time.Time
}

// Check says whether a value may be stored. Invalid: what is wrong with it.
func (v Value) Check() error {
	if v.Key == "" || len(v.Key) > MaxKeyBytes {
		return fmt.Errorf("%w key of %d bytes: it has 1 to %d", perdure.Invalid, len(v.Key), MaxKeyBytes)
	}
	if len(v.Text) > MaxValueBytes {
		return fmt.Errorf("%w value of %d bytes: it has at most %d", perdure.Invalid, len(v.Text), MaxValueBytes)
	}
	return nil
}

// ValueReader reads what sessions keep.
type ValueReader interface {
	// Value returns a value. NotFound: the session has none of that key.
	Value(session perdure.SessionID, key string) (Value, error)
	// Values lists the values of a session by the bytes of their keys, without their texts.
	Values(session perdure.SessionID) ([]Value, error)
}

// ValueWriter writes what sessions keep. All of it goes with its session.
type ValueWriter interface {
	// PutValue writes a value, or replaces the one of its key, and returns it as it is stored but for its text: version and
	// moments are the store's to say. Invalid: what Check says. Limit: the session has MaxKeys others. NotFound: no such session.
	PutValue(v Value) (Value, error)
	// RemoveValue says whether it was there.
	RemoveValue(session perdure.SessionID, key string) (bool, error)
}

// Secret is a sealed value. The store cannot open it.
type Secret struct {
	Session   perdure.SessionID
	Name      string
	Version   int64          // more with each write, see NextSecret; sealed with the value
	Sealed    []byte         // of which the store knows nothing
	KeyID     string         // under which it is sealed
	Hosts     []string       // where the value may be sent to; empty: nowhere
	Call      perdure.CallID // that wrote it; empty: none did
	CreatedAt time.Time
	UpdatedAt time.Time // sealing it again under another key is no change
}

// Check says whether a secret may be stored. Invalid: what is wrong with it.
func (s Secret) Check() error {
	if s.Name == "" || len(s.Name) > MaxKeyBytes {
		return fmt.Errorf("%w name of a secret, of %d bytes: it has 1 to %d", perdure.Invalid, len(s.Name), MaxKeyBytes)
	}
	if len(s.Sealed) == 0 || len(s.Sealed) > MaxSecretBytes || s.KeyID == "" {
		return fmt.Errorf("%w secret: %d bytes under the key %q", perdure.Invalid, len(s.Sealed), s.KeyID)
	}
	return nil
}

// SecretFilter narrows a list of secrets. The zero value lists all of them, whole.
type SecretFilter struct {
	Session perdure.SessionID // empty: of every session
	Other   string            // those that are not sealed under this key; empty: all
	After   SecretKey         // those behind this one; the zero value: from the first
	Limit   int               // 0: no limit
	Bare    bool              // without what is sealed
}

// SecretKey is what makes a secret the one that it is.
type SecretKey struct {
	Session perdure.SessionID
	Name    string
}

// SecretReader reads sealed values.
type SecretReader interface {
	// Secret returns a secret. NotFound: the session has none of that name.
	Secret(session perdure.SessionID, name string) (Secret, error)
	// NextSecret returns the version as which a secret is to be written: one more than that of the one that is there, else one
	// more than any that the session removed, else 1. So no version of a name comes twice, also after it was removed: what
	// was sealed for one never opens in the place of another, and whoever knows one by its version knows it for good.
	NextSecret(session perdure.SessionID, name string) (int64, error)
	// Secrets lists secrets: those of a session by the bytes of their names, sessions in an order of the store's own, which
	// stays the same. So a list can be read by pages while secrets are written.
	Secrets(filter SecretFilter) ([]Secret, error)
}

// SecretWriter writes sealed values. All of them go with their session; neither Dump nor a fork takes any along.
type SecretWriter interface {
	// PutSecret writes a secret, or replaces the one of its name. Its version is the writer's to say, since it is sealed with
	// the value: what NextSecret says; the moments are the store's. Invalid: what Check says.
	// Conflict: somebody else wrote a version since; read it and seal the value again. Limit: the session has MaxKeys others.
	// NotFound: no such session.
	PutSecret(s Secret) error
	// ResealSecret replaces what is sealed, and its key, of the version s.Version that is sealed under the key was, and nothing
	// else of it. It says whether that version is there: if not, it was written or removed since, and nothing is to be done.
	ResealSecret(s Secret, was string) (bool, error)
	// RemoveSecret says whether it was there. Its version is never used again.
	RemoveSecret(session perdure.SessionID, name string) (bool, error)
}

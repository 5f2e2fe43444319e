// Package secret protects values that must not be read: it seals them under a keyring and opens
// them again.
//
// It may import the root and tink.
//
// The one thing to know: every value is sealed under its own data key, which a key of the keyring
// wraps, and both are bound to the place where the value is stored ([StorageIdentity]). A record
// that was moved to another place, or restored from an earlier version, does not open. A rotation
// of the keyring touches no values until they are sealed again.
package secret

import (
	"encoding/binary"
	"fmt"

	"github.com/perdure/perdure"
)

// openError is one of the three reasons why a value does not open. It unwraps to its kind.
type openError struct {
	text string
	kind perdure.Kind
}

// Error returns the text.
func (f *openError) Error() string { return f.text }

// Unwrap returns the kind.
func (f *openError) Unwrap() error { return f.kind }

// The reasons why a value does not open. Callers compare with errors.Is.
var (
	// UnknownKey means that the keyring does not have the key: it is the wrong keyring, or the key
	// was pruned. It is Unavailable, since the right keyring would open the value.
	UnknownKey error = &openError{"the key is not in the keyring", perdure.Unavailable}
	// Tampered means that the record is intact but was not written for this place: it was changed,
	// moved from another place, or restored from an earlier version. It is Invalid.
	Tampered error = &openError{"the secret does not match its place: it was changed, moved or restored from an earlier version", perdure.Invalid}
	// Corrupt means that the record is damaged: truncated, or changed by accident. It is Invalid.
	Corrupt error = &openError{"the record of the secret is damaged", perdure.Invalid}
)

// Place is where a sealed value is stored. The value opens only for the same place.
type Place struct {
	Org     string // empty: there are no organisations
	Session perdure.SessionID
	Name    string
	Version int64
}

// The two kinds of data that are sealed for a place.
const (
	forValue = "perdure secret value"
	forKey   = "perdure secret key"
)

// bound returns the associated data for a place: the kind of data, the header and the place, every
// string with its length, so that different places never encode alike.
func (p Place) bound(what string, h header) []byte {
	var out []byte
	for _, part := range []string{what, h.keyID, p.Org, string(p.Session), p.Name} {
		out = binary.BigEndian.AppendUint64(out, uint64(len(part)))
		out = append(out, part...)
	}
	out = append(out, h.version, h.alg)
	return binary.BigEndian.AppendUint64(out, uint64(p.Version))
}

// Seal encrypts a value for a place under the current key. The value may be empty. Unavailable:
// there is no keyring, or its file cannot be read. Seal is safe for concurrent use.
func (k *Keyring) Seal(at Place, plain []byte) ([]byte, error) {
	key, err := k.current()
	if err != nil {
		return nil, fmt.Errorf("seal %q: %w", at.Name, err)
	}
	sealed, err := key.seal(at, plain)
	if err != nil {
		return nil, fmt.Errorf("seal %q: %w", at.Name, err)
	}
	return sealed, nil
}

// Open decrypts a value. The errors are UnknownKey, Tampered and Corrupt; none of them reveals
// anything of the value. Open is safe for concurrent use.
func (k *Keyring) Open(at Place, sealed []byte) ([]byte, error) {
	r, err := decode(sealed)
	if err != nil {
		return nil, fmt.Errorf("open %q: %w", at.Name, err)
	}
	key, err := k.byID(r.keyID)
	if err != nil {
		return nil, fmt.Errorf("open %q: %w", at.Name, err)
	}
	plain, err := key.open(at, r)
	if err != nil {
		return nil, fmt.Errorf("open %q: %w", at.Name, err)
	}
	return plain, nil
}

// KeyID returns the id of the key that sealed a value. Corrupt: it is not a sealed value.
func KeyID(sealed []byte) (string, error) {
	r, err := decode(sealed)
	return r.keyID, err
}

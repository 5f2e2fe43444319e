// Package secret keeps values that must not be read: it seals them under a ring of keys, and opens them again (SE1, SE2).
//
// It may import the root and tink. The one thing to know: a value is sealed by a key of its own, and that one by a key of
// the ring, both bound to the place where the value stands ([Place]). So what was moved to another place, or put back from
// an earlier version, does not open, and a new key for the ring touches no value until somebody seals it again.
package secret

import (
	"encoding/binary"
	"fmt"

	"github.com/perdure/perdure"
)

// fault is one of the three reasons for which a value does not open. Each is of a kind too.
type fault struct {
	text string
	kind perdure.Kind
}

// Error returns the text.
func (f *fault) Error() string { return f.text }

// Unwrap returns the kind.
func (f *fault) Unwrap() error { return f.kind }

// The reasons for which a value does not open (SE2). A caller asks errors.Is.
var (
	// UnknownKey means that the ring has no such key: it is another ring, or the key was pruned. It is Unavailable, since
	// the right ring opens the value.
	UnknownKey error = &fault{"the key is not in the keyring", perdure.Unavailable}
	// Tampered means that the record is whole and was not written for this place: it was changed, moved from another
	// place, or put back from an earlier version. It is Invalid.
	Tampered error = &fault{"the secret does not belong here: it was changed, moved or put back", perdure.Invalid}
	// Corrupt means that the record is damaged: cut off, or changed by accident. It is Invalid.
	Corrupt error = &fault{"the record of the secret is damaged", perdure.Invalid}
)

// Place is where a sealed value stands. A value opens only there.
type Place struct {
	Org     string // empty: there are no organisations
	Session perdure.SessionID
	Name    string
	Version int64
}

// The two things that are sealed for a place.
const (
	forValue = "perdure secret value"
	forKey   = "perdure secret key"
)

// bound is the associated data of a place: what is sealed and how, then every part behind its length, so that no two
// places are written alike.
func (p Place) bound(what string, h header) []byte {
	var out []byte
	for _, part := range []string{what, h.keyID, p.Org, string(p.Session), p.Name} {
		out = binary.BigEndian.AppendUint64(out, uint64(len(part)))
		out = append(out, part...)
	}
	out = append(out, h.version, h.alg)
	return binary.BigEndian.AppendUint64(out, uint64(p.Version))
}

// Seal encrypts a value for a place under the current key of the ring. The empty value is one too. Unavailable: there is
// no ring, or its file cannot be read. Safe for concurrent use.
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

// Open decrypts a value. The errors are UnknownKey, Tampered and Corrupt; none of them shows anything of it. Safe for
// concurrent use.
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

// KeyID names the key under which a value was sealed. Corrupt: it is none that was.
func KeyID(sealed []byte) (string, error) {
	r, err := decode(sealed)
	return r.keyID, err
}

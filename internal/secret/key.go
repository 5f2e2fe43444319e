package secret

import (
	"crypto/rand"
	"fmt"
	"log/slog"
	"time"
)

// maskedKey is printed instead of anything that holds a key.
const maskedKey = "<key>"

// keyMaterial holds the bytes of a key. They are never printed, whatever prints them. The bytes are
// behind a pointer because fmt calls no method for the verb %p.
type keyMaterial struct{ bytes *[keyBytes]byte }

// newMaterial returns a new random key.
func newMaterial() keyMaterial {
	m := keyMaterial{new([keyBytes]byte)}
	rand.Read(m.bytes[:]) // never fails
	return m
}

// materialOf moves the bytes of a key: it clears them where they were.
func materialOf(from []byte) keyMaterial {
	m := keyMaterial{new([keyBytes]byte)}
	copy(m.bytes[:], from)
	clear(from)
	return m
}

// String hides the key.
func (keyMaterial) String() string { return maskedKey }

// GoString hides the key.
func (keyMaterial) GoString() string { return maskedKey }

// Format hides the key from every verb.
func (keyMaterial) Format(s fmt.State, _ rune) { _, _ = s.Write([]byte(maskedKey)) }

// MarshalJSON hides the key.
func (keyMaterial) MarshalJSON() ([]byte, error) { return []byte(`"` + maskedKey + `"`), nil }

// LogValue hides the key.
func (keyMaterial) LogValue() slog.Value { return slog.StringValue(maskedKey) }

// key is one key of a keyring. It is immutable.
type key struct {
	id      string
	created time.Time
	retired time.Time // when a newer key became the current one; zero: it is the current one
	bytes   keyMaterial
}

// seal encrypts a value under a new data key, and wraps the data key with this one.
func (k key) seal(at Place, plain []byte) ([]byte, error) {
	r := record{header: header{version: recordVersion, alg: algAES256GCM, keyID: k.id}}
	own := newMaterial()
	defer clear(own.bytes[:])
	value, err := encrypt(own, plain, at.bound(forValue, r.header))
	if err != nil {
		return nil, err
	}
	r.nonce, r.ciphertext = value[:nonceBytes], value[nonceBytes:]
	if r.wrapped, err = encrypt(k.bytes, own.bytes[:], at.bound(forKey, r.header)); err != nil {
		return nil, err
	}
	return r.encode(), nil
}

// open decrypts a record that names this key. Tampered: this key did not seal it, or not for this
// place.
func (k key) open(at Place, r record) ([]byte, error) {
	bytes, err := decrypt(k.bytes, r.wrapped, at.bound(forKey, r.header))
	if err != nil {
		return nil, err
	}
	own := materialOf(bytes)
	defer clear(own.bytes[:])
	return decrypt(own, append(append([]byte{}, r.nonce...), r.ciphertext...), at.bound(forValue, r.header))
}

package secret

import (
	"crypto/rand"
	"fmt"
	"log/slog"
	"time"
)

// hidden is what is printed of anything that holds a key.
const hidden = "<key>"

// material is the bytes of a key. They are never printed, whatever prints them: also not by %p, which asks no method, and so they
// stand behind a pointer.
type material struct{ bytes *[keyBytes]byte }

// newMaterial returns a fresh key.
func newMaterial() material {
	m := material{new([keyBytes]byte)}
	rand.Read(m.bytes[:]) // never fails
	return m
}

// materialOf takes the bytes of a key over: they are cleared where they were.
func materialOf(from []byte) material {
	m := material{new([keyBytes]byte)}
	copy(m.bytes[:], from)
	clear(from)
	return m
}

// String hides the key.
func (material) String() string { return hidden }

// GoString hides the key.
func (material) GoString() string { return hidden }

// Format hides the key from every verb.
func (material) Format(s fmt.State, _ rune) { _, _ = s.Write([]byte(hidden)) }

// MarshalJSON hides the key.
func (material) MarshalJSON() ([]byte, error) { return []byte(`"` + hidden + `"`), nil }

// LogValue hides the key.
func (material) LogValue() slog.Value { return slog.StringValue(hidden) }

// key is one key of a ring. It is never changed.
type key struct {
	id      string
	made    time.Time
	retired time.Time // when another one became the current one; zero: it is
	bytes   material
}

// seal encrypts a value under a key of its own, which this one wraps.
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

// open decrypts a record that says that this key sealed it. Tampered: it did not, or not for this place.
func (k key) open(at Place, r record) ([]byte, error) {
	bytes, err := decrypt(k.bytes, r.wrapped, at.bound(forKey, r.header))
	if err != nil {
		return nil, err
	}
	own := materialOf(bytes)
	defer clear(own.bytes[:])
	return decrypt(own, append(append([]byte{}, r.nonce...), r.ciphertext...), at.bound(forValue, r.header))
}

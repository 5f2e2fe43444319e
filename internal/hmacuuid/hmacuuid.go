// Package hmacuuid derives UUIDs from a secret: the same input always gives the same UUID, and
// without the secret nobody can guess one.
//
// The random bits of a UUID are HMAC-SHA-256 over a name and its parts. The name separates the
// kinds of things that are derived from one secret. Stored ids depend on every bit of this, so the
// functions never change. The package imports only the standard library.
package hmacuuid

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/binary"
	"time"
)

// V4 returns a UUID of version 4, which contains no time.
func V4(secret [32]byte, name string, parts ...string) [16]byte {
	return withVersion(sum(secret, name, parts), 0x40)
}

// V7 returns a UUID of version 7. Its time bits are the milliseconds of at.
func V7(secret [32]byte, at time.Time, name string, parts ...string) [16]byte {
	uuid := sum(secret, name, parts)
	var ms [8]byte
	binary.BigEndian.PutUint64(ms[:], uint64(at.UnixMilli()))
	copy(uuid[:6], ms[2:])
	return withVersion(uuid, 0x70)
}

// V8 returns a UUID of version 8, which contains no time. Neither V4 nor V7 returns the same one.
func V8(secret [32]byte, name string, parts ...string) [16]byte {
	return withVersion(sum(secret, name, parts), 0x80)
}

// sum hashes the parts with their lengths, so that no two lists of parts are the same input.
func sum(secret [32]byte, name string, parts []string) (uuid [16]byte) {
	mac := hmac.New(sha256.New, secret[:])
	mac.Write([]byte(name))
	for _, part := range parts {
		mac.Write(binary.BigEndian.AppendUint64(nil, uint64(len(part))))
		mac.Write([]byte(part))
	}
	copy(uuid[:], mac.Sum(nil))
	return uuid
}

// withVersion sets the bits of RFC 9562 that say version and variant.
func withVersion(uuid [16]byte, version byte) [16]byte {
	uuid[6] = uuid[6]&0x0f | version
	uuid[8] = uuid[8]&0x3f | 0x80
	return uuid
}

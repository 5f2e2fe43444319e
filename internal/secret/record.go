package secret

import (
	"encoding/binary"
	"fmt"
	"hash/crc32"
)

// What a record says of itself. A later version is refused, never guessed at.
const (
	recordVersion = 1
	algAES256GCM  = 1
)

// The sizes of AES-256-GCM, in bytes.
const (
	keyBytes   = 32
	nonceBytes = 12
	tagBytes   = 16
	wrapBytes  = nonceBytes + keyBytes + tagBytes // a key of a value, sealed
	sumBytes   = 4
)

// maxKeyID bounds the name of a key, in bytes.
const maxKeyID = 64

// header is what a record says before anything is opened. It is bound to the value as the place is.
type header struct {
	version, alg byte
	keyID        string
}

// record is a sealed value as it is stored: version, alg, key id, wrapped key, nonce, ciphertext, and a sum by which damage
// is told from forgery.
type record struct {
	header
	wrapped    []byte // the value's own key, with its nonce in front
	nonce      []byte
	ciphertext []byte // with its tag
}

// encode writes a record:
//
//	version 1 | alg 1 | length of the key id 1 | key id | wrapped key 60 | nonce 12 | length 4 | ciphertext | CRC-32C 4
//
// Numbers are big endian, sizes are in bytes.
func (r record) encode() []byte {
	out := []byte{r.version, r.alg, byte(len(r.keyID))}
	out = append(out, r.keyID...)
	out = append(out, r.wrapped...)
	out = append(out, r.nonce...)
	out = binary.BigEndian.AppendUint32(out, uint32(len(r.ciphertext)))
	out = append(out, r.ciphertext...)
	return binary.BigEndian.AppendUint32(out, sumOf(out))
}

func sumOf(text []byte) uint32 { return crc32.Checksum(text, crc32.MakeTable(crc32.Castagnoli)) }

// decode reads what encode wrote, and nothing else. Corrupt: what is wrong with it.
func decode(text []byte) (record, error) {
	rest := text
	var r record
	take := func(n int) []byte {
		if n > len(rest) {
			rest = nil
			return nil
		}
		part := rest[:n]
		rest = rest[n:]
		return part
	}
	if len(text) < 3+sumBytes {
		return record{}, fmt.Errorf("%w: %d bytes are none", Corrupt, len(text))
	}
	body, sum := text[:len(text)-sumBytes], text[len(text)-sumBytes:]
	if sumOf(body) != binary.BigEndian.Uint32(sum) {
		return record{}, fmt.Errorf("%w: its sum is wrong", Corrupt)
	}
	rest = body
	head := take(3)
	r.version, r.alg = head[0], head[1]
	if r.version != recordVersion || r.alg != algAES256GCM {
		return record{}, fmt.Errorf("%w: it has version %d and algorithm %d, which this program does not know", Corrupt, r.version, r.alg)
	}
	id := take(int(head[2]))
	r.keyID = string(id)
	r.wrapped, r.nonce = take(wrapBytes), take(nonceBytes)
	size := take(4)
	if len(id) == 0 || len(id) > maxKeyID || r.wrapped == nil || r.nonce == nil || size == nil {
		return record{}, fmt.Errorf("%w: it is cut off", Corrupt)
	}
	r.ciphertext = rest
	if n := binary.BigEndian.Uint32(size); uint64(n) != uint64(len(rest)) || n < tagBytes {
		return record{}, fmt.Errorf("%w: it says that it has %d bytes, and has %d", Corrupt, n, len(rest))
	}
	return r, nil
}

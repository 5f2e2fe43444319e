package secret

import (
	"encoding/binary"
	"fmt"
	"hash/crc32"
)

// The version and algorithm of a record. Others are refused.
const (
	recordVersion = 1
	algAES256GCM  = 1
)

// The sizes of AES-256-GCM, in bytes.
const (
	keyBytes        = 32
	nonceBytes      = 12
	tagBytes        = 16
	wrappedKeyBytes = nonceBytes + keyBytes + tagBytes // a sealed data key
	checksumBytes   = 4
)

// maxKeyID bounds the id of a key, in bytes.
const maxKeyID = 64

// header is the unencrypted start of a record. It is part of the associated data.
type header struct {
	version, alg byte
	keyID        string
}

// record is a sealed value as it is stored: version, algorithm, key id, wrapped data key, nonce,
// ciphertext, and a checksum that tells accidental damage from forgery.
type record struct {
	header
	wrapped    []byte // the data key, with its nonce in front
	nonce      []byte
	ciphertext []byte // with its tag
}

// encode encodes a record:
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
	return binary.BigEndian.AppendUint32(out, checksum(out))
}

func checksum(text []byte) uint32 { return crc32.Checksum(text, crc32.MakeTable(crc32.Castagnoli)) }

// decode decodes a record. Corrupt: what is wrong with it.
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
	if len(text) < 3+checksumBytes {
		return record{}, fmt.Errorf("%w: only %d bytes", Corrupt, len(text))
	}
	body, sum := text[:len(text)-checksumBytes], text[len(text)-checksumBytes:]
	if checksum(body) != binary.BigEndian.Uint32(sum) {
		return record{}, fmt.Errorf("%w: wrong checksum", Corrupt)
	}
	rest = body
	head := take(3)
	r.version, r.alg = head[0], head[1]
	if r.version != recordVersion || r.alg != algAES256GCM {
		return record{}, fmt.Errorf("%w: unknown version %d or algorithm %d", Corrupt, r.version, r.alg)
	}
	id := take(int(head[2]))
	r.keyID = string(id)
	r.wrapped, r.nonce = take(wrappedKeyBytes), take(nonceBytes)
	size := take(4)
	if len(id) == 0 || len(id) > maxKeyID || r.wrapped == nil || r.nonce == nil || size == nil {
		return record{}, fmt.Errorf("%w: truncated", Corrupt)
	}
	r.ciphertext = rest
	if n := binary.BigEndian.Uint32(size); uint64(n) != uint64(len(rest)) || n < tagBytes {
		return record{}, fmt.Errorf("%w: the ciphertext has %[3]d bytes instead of %[2]d", Corrupt, n, len(rest))
	}
	return r, nil
}

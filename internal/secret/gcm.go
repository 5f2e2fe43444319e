package secret

import (
	"crypto/aes"
	"crypto/cipher"
	"fmt"
)

// encrypt returns nonce and ciphertext with its tag. The nonce is fresh: 12 random bytes, of which a key that seals one value,
// or wraps the keys of less than 2³² of them, never sees two alike.
func encrypt(k material, plain, bound []byte) ([]byte, error) {
	gcm, err := gcmOf(k)
	if err != nil {
		return nil, err
	}
	return gcm.Seal(nil, nil, plain, bound), nil
}

// decrypt reads what encrypt wrote. Tampered: it is not for this key and what it was bound to. What the library says of it is
// left out, since it says no more.
func decrypt(k material, sealed, bound []byte) ([]byte, error) {
	gcm, err := gcmOf(k)
	if err != nil {
		return nil, err
	}
	plain, err := gcm.Open(nil, nil, sealed, bound)
	if err != nil {
		return nil, Tampered
	}
	return plain, nil
}

// gcmOf is AES-256-GCM that puts its nonce before what it seals.
func gcmOf(k material) (cipher.AEAD, error) {
	block, err := aes.NewCipher(k.bytes[:])
	if err != nil {
		return nil, fmt.Errorf("AES-256-GCM: %w", err)
	}
	gcm, err := cipher.NewGCMWithRandomNonce(block)
	if err != nil {
		return nil, fmt.Errorf("AES-256-GCM: %w", err)
	}
	return gcm, nil
}

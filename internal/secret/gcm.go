package secret

import (
	"crypto/aes"
	"crypto/cipher"
	"fmt"
)

// encrypt returns nonce and ciphertext with its tag. The nonce is 12 random bytes. A key encrypts
// either a single value or fewer than 2³² other keys, so that a nonce never repeats under one key.
func encrypt(k keyMaterial, plain, bound []byte) ([]byte, error) {
	gcm, err := gcmOf(k)
	if err != nil {
		return nil, err
	}
	return gcm.Seal(nil, nil, plain, bound), nil
}

// decrypt reverses encrypt. Tampered: sealed does not match the key and the associated data. The
// library's error is dropped, since it says no more than that.
func decrypt(k keyMaterial, sealed, bound []byte) ([]byte, error) {
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

// gcmOf returns AES-256-GCM that puts the nonce in front of the ciphertext.
func gcmOf(k keyMaterial) (cipher.AEAD, error) {
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

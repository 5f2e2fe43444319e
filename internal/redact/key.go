package redact

import "strings"

// The names of secrets, the end of a name, and what is no secret although it is called so (RD2).
const (
	secretNames = "key token secret password passwd credential authorization auth cookie signature"
	plainNames  = "idempotencykey publickey"
)

// names reports whether a key names a secret (RD2).
func names(key string) bool {
	bare := bareKey(key)
	for name := range strings.FieldsSeq(plainNames) {
		if bare == name {
			return false
		}
	}
	for name := range strings.FieldsSeq(secretNames) {
		if strings.HasSuffix(bare, name) {
			return true
		}
	}
	return false
}

// counts reports whether a number under a key counts tokens, and so is none.
func counts(key string) bool {
	return strings.HasSuffix(separators().Replace(strings.ToLower(key)), "tokens")
}

// bareKey is a key as it is compared: small, in one word, in the singular.
func bareKey(key string) string {
	return strings.TrimSuffix(separators().Replace(strings.ToLower(key)), "s")
}

func separators() *strings.Replacer { return strings.NewReplacer("-", "", "_", "", " ", "") }

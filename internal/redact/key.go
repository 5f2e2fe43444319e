package redact

import "strings"

// The suffixes of secret names, and names that are not secret although they have such a suffix.
const (
	secretNames = "key token secret password passwd credential authorization auth cookie signature"
	plainNames  = "idempotencykey publickey"
)

// isSecretName reports whether a key is the name of a secret.
func isSecretName(key string) bool {
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

// countsTokens reports whether a number under this key is a count of tokens, and so not a secret.
func countsTokens(key string) bool {
	return strings.HasSuffix(separators().Replace(strings.ToLower(key)), "tokens")
}

// bareKey returns a key in the form in which it is compared: lower case, one word, singular.
func bareKey(key string) string {
	return strings.TrimSuffix(separators().Replace(strings.ToLower(key)), "s")
}

func separators() *strings.Replacer { return strings.NewReplacer("-", "", "_", "", " ", "") }

package supervise

import (
	"slices"
	"strings"
	"testing"
)

// FuzzDecodeSecrets: a text is decoded completely or not at all.
func FuzzDecodeSecrets(f *testing.F) {
	for _, text := range []string{"", "0\x00", "1\x00A=b\x00", "2\x00A=b\x00", "1\x00A=b", "-1\x00", "x"} {
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		secrets, err := decodeSecrets(text)
		if err != nil {
			return
		}
		again, err := decodeSecrets(encodeSecrets(secrets))
		if err != nil || !slices.Equal(again, secrets) {
			t.Fatalf("%q became %q and %v", secrets, again, err)
		}
	})
}

// TestSecretsAreWhole: no prefix of an encoded text decodes, so a starter that dies halfway starts
// nothing, and no error shows a secret.
func TestSecretsAreWhole(t *testing.T) {
	t.Parallel()
	secrets := []string{"A=one two", "B=", "C=line\nline"}
	text := encodeSecrets(secrets)
	for n := range text {
		if got, err := decodeSecrets(text[:n]); err == nil {
			t.Errorf("%d of %d bytes decode to %q", n, len(text), got)
		} else if strings.Contains(err.Error(), "one") {
			t.Errorf("the error shows a secret: %v", err)
		}
	}
	if got, err := decodeSecrets(text); err != nil || !slices.Equal(got, secrets) {
		t.Errorf("got %q and %v", got, err)
	}
}

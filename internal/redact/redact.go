// Package redact takes secrets out of whatever leaves: error texts, logs, events.
//
// It may import nothing of ours. The one thing to know: a secret is looked for in every form in which somebody who
// echoes it may write it, so that a careless server cannot smuggle it into a journal (S18).
package redact

import (
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"regexp"
	"strings"
)

// Mark stands where a secret was (RD2).
const Mark = "<redacted>"

// Secret is one secret that must not be shown. nil masks nothing. It is safe for concurrent use.
type Secret struct{ form *regexp.Regexp }

// NewSecret returns what masks a secret; nil for the empty one. An error is a fault of this package.
func NewSecret(secret string) (*Secret, error) {
	form, err := formOf(secret)
	if err != nil || form == nil {
		return nil, err
	}
	return &Secret{form: form}, nil
}

// Mask takes the secret out of a text.
func (s *Secret) Mask(text string) string {
	if s == nil {
		return text
	}
	return s.form.ReplaceAllLiteralString(text, Mark)
}

// MaskError returns an error as it is, or only its masked text where that shows the secret. nil stays nil.
func (s *Secret) MaskError(err error) error {
	if err == nil {
		return nil
	}
	text := err.Error()
	if masked := s.Mask(text); masked != text {
		return errors.New(masked)
	}
	return err
}

// leastSecret is how long a secret is that is looked for inside of words too. A shorter one, such as "ollama", is no
// secret that holds, and to take it out of other words would only spoil them.
const leastSecret = 8

// formOf finds a secret in a text: as it is, and as somebody may write it who echoes it: escaped for a URL, for JSON or for
// HTML, wholly or here and there, in hex, or in base64, alone or among other bytes. nil: there is none.
func formOf(key string) (*regexp.Regexp, error) {
	switch {
	case key == "":
		return nil, nil
	case len(key) < leastSecret:
		return regexp.Compile(wordEdge(key[0]) + regexp.QuoteMeta(key) + wordEdge(key[len(key)-1]))
	}
	forms := []string{escapedForms(key), "(?i:" + hex.EncodeToString([]byte(key)) + ")"}
	for before := range 3 {
		for _, code := range []*base64.Encoding{base64.RawStdEncoding, base64.RawURLEncoding} {
			forms = append(forms, regexp.QuoteMeta(base64Core(code, key, before)))
		}
	}
	return regexp.Compile(strings.Join(forms, "|"))
}

// wordEdge is the border of a word beside c. Beside a character that is in no word there is none.
func wordEdge(c byte) string {
	if c == '_' || '0' <= c && c <= '9' || 'a' <= c|0x20 && c|0x20 <= 'z' {
		return `\b`
	}
	return ""
}

// escapedForms finds a key of which any character may be escaped. The escapes come first: a character that begins
// one would else be taken for itself, and the rest of its escape be left.
func escapedForms(key string) string {
	var out strings.Builder
	for _, c := range []byte(key) {
		plain := regexp.QuoteMeta(string(rune(c)))
		fmt.Fprintf(&out, `(?:%%(?i:%02x)|\\u00(?i:%02x)|&#0*%d;|&#(?i:x0*%x);|\\%s|`, c, c, c, c, plain)
		if name := map[byte]string{'&': "amp", '<': "lt", '>': "gt", '"': "quot", '\'': "apos"}[c]; name != "" {
			out.WriteString("&" + name + ";|")
		}
		out.WriteString(plain + ")")
	}
	return out.String()
}

// base64Core is what stands for key in the base64 of a text that holds it behind so many bytes, modulo 3, without the
// characters at its ends that also say something of its neighbours.
func base64Core(code *base64.Encoding, key string, before int) string {
	whole := code.EncodeToString([]byte(strings.Repeat("\x00", before) + key))
	first := (before*8 + 5) / 6
	return whole[first : (before+len(key))*8/6]
}

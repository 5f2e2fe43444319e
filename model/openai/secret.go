package openai

import (
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"regexp"
	"strings"

	"github.com/perdure/perdure/model"
)

// leastSecret is how long a key is that is looked for inside of words too. A shorter one, such as "ollama", is no
// secret that holds, and to take it out of other words would only spoil them.
const leastSecret = 8

// secretOf finds a key in a text: as it is, and as somebody may write it who echoes it: escaped for a URL, for JSON or for
// HTML, wholly or here and there, in hex, or in base64, alone or among other bytes. nil: there is no key.
func secretOf(key string) (*regexp.Regexp, error) {
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

// escapedForms finds a key of which any character may be escaped.
func escapedForms(key string) string {
	var out strings.Builder
	for _, c := range []byte(key) {
		plain := regexp.QuoteMeta(string(rune(c)))
		fmt.Fprintf(&out, `(?:%s|\\%s|%%(?i:%02x)|\\u00(?i:%02x)|&#0*%d;|&#(?i:x0*%x);`, plain, plain, c, c, c, c)
		if name := map[byte]string{'&': "amp", '<': "lt", '>': "gt", '"': "quot", '\'': "apos"}[c]; name != "" {
			out.WriteString("|&" + name + ";")
		}
		out.WriteByte(')')
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

// masked takes the key out of a text.
func (m *Model) masked(text string) string {
	if m.secret == nil {
		return text
	}
	return m.secret.ReplaceAllLiteralString(text, "[key]")
}

// maskedCause is the cause of an error, or its masked text where that shows the key.
func (m *Model) maskedCause(cause error) error {
	if cause == nil {
		return nil
	}
	text := cause.Error()
	if masked := m.masked(text); masked != text {
		return errors.New(masked)
	}
	return cause
}

// mask takes the key out of an error, makes its text one line, and cuts it. The key goes first, so that no cut leaves a
// part of it.
func (m *Model) mask(e *model.Error) *model.Error {
	e.Text = cutText(strings.Join(strings.Fields(m.masked(strings.ToValidUTF8(e.Text, "\uFFFD"))), " "))
	e.Err = m.maskedCause(e.Err)
	return e
}

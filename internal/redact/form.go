package redact

import (
	"cmp"
	"encoding/base64"
	"encoding/hex"
	"slices"
	"sort"
	"strings"
)

// minSecretBytes is the length in bytes from which a secret is also searched for inside words.
const minSecretBytes = 8

// form is one encoding of a secret.
type form struct {
	text  string
	hex   bool // hexadecimal: letters in either case, and no escapes
	wraps bool // encoders break it into lines
	word  bool // matches only as it is and as a whole word
}

// formsOf returns the forms of a secret; escapes of single characters are handled in escape.go. A
// secret that occurs in the mark has none, since masking it would change the mark itself.
func formsOf(secret string) []form {
	forms := allForms(secret)
	if newTable([][]form{forms}).mask(Mark) != Mark {
		return nil
	}
	return forms
}

func allForms(secret string) []form {
	if len(secret) < minSecretBytes {
		return []form{{text: secret, word: true}}
	}
	forms := []form{{text: secret}, {text: hex.EncodeToString([]byte(secret)), hex: true, wraps: true}}
	for before := range 3 {
		for _, code := range []*base64.Encoding{base64.RawStdEncoding, base64.RawURLEncoding} {
			forms = append(forms, form{text: base64Core(code, secret, before), wraps: true})
		}
	}
	return forms
}

// base64Core returns the part of a base64 text that depends on the secret alone. before is the
// number of bytes in front of the secret, modulo 3. Characters at the ends that also encode
// neighbouring bytes are left out.
func base64Core(code *base64.Encoding, secret string, before int) string {
	whole := code.EncodeToString([]byte(strings.Repeat("\x00", before) + secret))
	first := (before*8 + 5) / 6
	return whole[first : (before+len(secret))*8/6]
}

// table finds the forms of many secrets at once. It is immutable.
type table struct {
	written, hex list
	longest      int             // largest number of bytes that one form can take
	startPairs   [1 << 10]uint64 // a bit for every pair of bytes with which a form can start, in any spelling
}

// How many bytes one byte of a form takes at most: an escape, and the line breaks after it.
const (
	hexBytes     = 1 + maxBreaks*(maxBackslashes+1)
	writtenBytes = maxBackslashes + len("uXXXX") + maxBreaks*(maxBackslashes+1)
)

// nextStart returns the next position from at where a form may start, judged by two bytes. The last
// position always counts.
func (t *table) nextStart(text []byte, at int) int {
	for ; at+1 < len(text); at++ {
		pair := int(text[at])<<8 | int(text[at+1])
		if t.startPairs[pair>>6]&(1<<(pair&63)) != 0 {
			break
		}
	}
	return at
}

// markPair adds a pair of bytes with which a form can start.
func (t *table) markPair(a, b byte) {
	pair := int(a)<<8 | int(b)
	t.startPairs[pair>>6] |= 1 << (pair & 63)
}

// list holds forms in byte order. Forms with the same prefix are adjacent, so what a text may still
// match is a range, and every byte narrows the range.
type list struct {
	forms []form
	first [257]int        // index of the first form whose first byte is at least the given one
	pairs [1 << 10]uint64 // a bit for every pair of bytes with which a form starts
}

// mayStart reports whether a form may start with a pair of bytes.
func (l *list) mayStart(a, b byte) bool {
	pair := int(a)<<8 | int(b)
	return l.pairs[pair>>6]&(1<<(pair&63)) != 0
}

func newTable(all [][]form) *table {
	var t table
	for _, forms := range all {
		for _, f := range forms {
			if f.hex {
				t.hex.forms = append(t.hex.forms, f)
			} else {
				t.written.forms = append(t.written.forms, f)
			}
		}
	}
	t.written.order()
	t.hex.order()
	for i := range t.startPairs {
		t.startPairs[i] = t.written.pairs[i] | t.hex.pairs[i]
	}
	for _, f := range slices.Concat(t.written.forms, t.hex.forms) {
		limit := writtenBytes
		if f.hex {
			limit = hexBytes
		}
		t.longest = max(t.longest, limit*len(f.text))
		for _, first := range []byte{f.text[0], capital(f.text[0])} {
			for b := range 256 {
				if escapes(byte(b)) || f.hex && len(f.text) > 1 && small(byte(b)) == f.text[1] {
					t.markPair(first, byte(b))
				}
			}
		}
	}
	for _, a := range []byte(`+%\&`) { // no form starts with a line break
		for b := range 256 {
			t.markPair(a, byte(b))
		}
	}
	return &t
}

// capital returns a hexadecimal digit in upper case.
func capital(c byte) byte {
	if 'a' <= c && c <= 'f' {
		c &^= 0x20
	}
	return c
}

// order sorts a list and merges equal forms into the less restrictive one.
func (l *list) order() {
	slices.SortFunc(l.forms, func(a, b form) int { return cmp.Compare(a.text, b.text) })
	unique := l.forms[:0]
	for _, f := range l.forms {
		if n := len(unique); n > 0 && unique[n-1].text == f.text {
			unique[n-1].wraps = unique[n-1].wraps || f.wraps
			unique[n-1].word = unique[n-1].word && f.word
			continue
		}
		unique = append(unique, f)
	}
	l.forms = unique
	for _, f := range unique {
		a, from, to := int(f.text[0])<<8, 0, 255
		if len(f.text) > 1 {
			from, to = int(f.text[1]), int(f.text[1])
		}
		for pair := a | from; pair <= a|to; pair++ {
			l.pairs[pair>>6] |= 1 << (pair & 63)
		}
	}
	for c := range l.first {
		l.first[c] = sort.Search(len(unique), func(i int) bool { return int(unique[i].text[0]) >= c })
	}
}

// narrow returns the part of the range from lo to hi, whose forms share the first read bytes, that
// continues with c.
func (l *list) narrow(lo, hi, read int, c byte) (int, int) {
	if read == 0 {
		return l.first[c], l.first[int(c)+1]
	}
	if len(l.forms[lo].text) == read {
		lo++ // the shortest form comes first, and has no further byte
	}
	if hi-lo == 1 {
		if l.forms[lo].text[read] != c {
			hi = lo
		}
		return lo, hi
	}
	lo += sort.Search(hi-lo, func(i int) bool { return l.forms[lo+i].text[read] >= c })
	return lo, lo + sort.Search(hi-lo, func(i int) bool { return l.forms[lo+i].text[read] > c })
}

// mask replaces the secrets in a text.
func (t *table) mask(text string) string {
	if t == nil || text == "" {
		return text
	}
	s := Stream{known: t, fixed: true}
	return string(append(s.Feed([]byte(text)), s.Flush()...))
}

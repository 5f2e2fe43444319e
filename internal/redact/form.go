package redact

import (
	"cmp"
	"encoding/base64"
	"encoding/hex"
	"slices"
	"sort"
	"strings"
)

// leastSecret is how long a secret is, in bytes, that is looked for inside of words too.
const leastSecret = 8

// form is one way in which a secret is written.
type form struct {
	text  string
	hex   bool // its letters may be small or capital, and none is escaped
	wraps bool // encoders break it over lines
	word  bool // it counts only as it is, and not inside of a longer word
}

// formsOf returns the forms of a secret. How its characters may be escaped is not said here: see escape.go. What stands
// in the mark itself is no secret, since to hide it would show it.
func formsOf(secret string) []form {
	forms := allForms(secret)
	if newTable([][]form{forms}).mask(Mark) != Mark {
		return nil
	}
	return forms
}

func allForms(secret string) []form {
	if len(secret) < leastSecret {
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

// base64Core is what stands for a secret in the base64 of a text that holds it behind so many bytes, modulo 3, without the
// characters at its ends that also say something of its neighbours.
func base64Core(code *base64.Encoding, secret string, before int) string {
	whole := code.EncodeToString([]byte(strings.Repeat("\x00", before) + secret))
	first := (before*8 + 5) / 6
	return whole[first : (before+len(secret))*8/6]
}

// table finds the forms of many secrets at once. It does not change.
type table struct {
	written, hex list
	longest      int             // bytes in which one of them can be written
	begins       [1 << 10]uint64 // a bit for each two bytes with which one can begin, however written
}

// How many bytes stand for one of a form at most: an escape, and the breaks behind it.
const (
	hexBytes     = 1 + maxBreaks*(maxBackslashes+1)
	writtenBytes = maxBackslashes + len("uXXXX") + maxBreaks*(maxBackslashes+1)
)

// pass returns the next place from at on where a form may begin, as far as two characters tell; the last one may always.
func (t *table) pass(text []byte, at int) int {
	for ; at+1 < len(text); at++ {
		pair := int(text[at])<<8 | int(text[at+1])
		if t.begins[pair>>6]&(1<<(pair&63)) != 0 {
			break
		}
	}
	return at
}

// begin notes two bytes with which a form can begin.
func (t *table) begin(a, b byte) {
	pair := int(a)<<8 | int(b)
	t.begins[pair>>6] |= 1 << (pair & 63)
}

// list holds forms in the order of their bytes. Those that begin in the same way stand side by side, so that what a text
// may still become is a range of it, which every byte narrows.
type list struct {
	forms []form
	first [257]int        // where the forms begin whose first byte is so much or more
	pairs [1 << 10]uint64 // a bit for each two bytes with which a form begins
}

// opens reports whether a form may begin with two bytes.
func (l *list) opens(a, b byte) bool {
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
	for i := range t.begins {
		t.begins[i] = t.written.pairs[i] | t.hex.pairs[i]
	}
	for _, f := range slices.Concat(t.written.forms, t.hex.forms) {
		most := writtenBytes
		if f.hex {
			most = hexBytes
		}
		t.longest = max(t.longest, most*len(f.text))
		for _, first := range []byte{f.text[0], capital(f.text[0])} {
			for b := range 256 {
				if escapes(byte(b)) || f.hex && len(f.text) > 1 && small(byte(b)) == f.text[1] {
					t.begin(first, byte(b))
				}
			}
		}
	}
	for _, a := range []byte(`+%\&`) { // a break begins nothing
		for b := range 256 {
			t.begin(a, byte(b))
		}
	}
	return &t
}

// capital makes a hexadecimal digit a capital letter.
func capital(c byte) byte {
	if 'a' <= c && c <= 'f' {
		c &^= 0x20
	}
	return c
}

// order sorts a list and makes one of those that are equal: the one that is found more often.
func (l *list) order() {
	slices.SortFunc(l.forms, func(a, b form) int { return cmp.Compare(a.text, b.text) })
	kept := l.forms[:0]
	for _, f := range l.forms {
		if n := len(kept); n > 0 && kept[n-1].text == f.text {
			kept[n-1].wraps = kept[n-1].wraps || f.wraps
			kept[n-1].word = kept[n-1].word && f.word
			continue
		}
		kept = append(kept, f)
	}
	l.forms = kept
	for _, f := range kept {
		a, from, to := int(f.text[0])<<8, 0, 255
		if len(f.text) > 1 {
			from, to = int(f.text[1]), int(f.text[1])
		}
		for pair := a | from; pair <= a|to; pair++ {
			l.pairs[pair>>6] |= 1 << (pair & 63)
		}
	}
	for c := range l.first {
		l.first[c] = sort.Search(len(kept), func(i int) bool { return int(kept[i].text[0]) >= c })
	}
}

// narrow returns which forms of the range from lo to hi, all of which begin with the same read bytes, go on with c.
func (l *list) narrow(lo, hi, read int, c byte) (int, int) {
	if read == 0 {
		return l.first[c], l.first[int(c)+1]
	}
	if len(l.forms[lo].text) == read {
		lo++ // the shortest stands first, and goes on with nothing
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

// mask takes the secrets out of a text.
func (t *table) mask(text string) string {
	if t == nil || text == "" {
		return text
	}
	s := Stream{known: t, fixed: true}
	return string(append(s.Feed([]byte(text)), s.Flush()...))
}

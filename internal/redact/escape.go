package redact

import (
	"bytes"
	"strings"
	"unicode/utf16"
	"unicode/utf8"
)

// maxBackslashes is the largest number of backslashes in one escape: 7 and a quote are a quote in
// JSON in JSON in JSON.
const maxBackslashes = 8

// maxDigits limits the number in &#x…;.
const maxDigits = 7

// reading is one way to read the start of a text: size bytes stand for text. A line break stands
// for nothing.
type reading struct {
	size int
	text string
}

// escapes reports whether an escape may start with a character.
func escapes(c byte) bool {
	switch c {
	case '\n', '\r', '+', '%', '\\', '&':
		return true
	}
	return false
}

// readings returns the ways to read the escape at the start of a text, besides byte for byte. All
// of them are possibilities, because the bytes may also stand for themselves. unsure: more input is
// needed to decide.
func readings(text []byte, last bool) (all []reading, unsure bool) {
	switch text[0] {
	case '\n', '\r':
		return []reading{{size: 1}}, false
	case '+':
		return []reading{{1, " "}}, false
	case '%':
		return percent(text, last)
	case '\\':
		return backslash(text, last)
	case '&':
		return entity(text, last)
	}
	return nil, false
}

// percent reads %2F, and its repeated escapes %252F and %25252F.
func percent(text []byte, last bool) (all []reading, unsure bool) {
	for at := 1; at <= 5; at += 2 {
		digits, short := hexDigits(text, at, 2)
		if short {
			return all, !last
		}
		if digits < 0 {
			return all, false
		}
		all = append(all, reading{at + 2, string([]byte{byte(digits)})})
		if digits == '+' {
			all = append(all, reading{at + 2, " "})
		}
		if digits != '%' {
			return all, false
		}
	}
	return all, false
}

// backslash reads \" and \u0022, and their repeated escapes \\\" and \\u0022.
func backslash(text []byte, last bool) (all []reading, unsure bool) {
	run := 1
	for run < len(text) && run < maxBackslashes && text[run] == '\\' {
		run++
	}
	for size := 2; size <= run; size *= 2 {
		all = append(all, reading{size, `\`})
	}
	if run == len(text) {
		return all, !last && run < maxBackslashes
	}
	switch c := text[run]; {
	case c == 'u':
		one, short := escapedRune(text, run)
		if one.size > 0 {
			all = append(all, one)
		}
		return all, short && !last
	case c == 'x':
		digits, short := hexDigits(text, run+1, 2)
		if digits >= 0 {
			all = append(all, reading{run + 3, string([]byte{byte(digits)})})
		}
		return all, short && !last
	case c == 'n' || c == 'r':
		all = append(all, reading{size: run + 1}) // a line break, and the character itself
		fallthrough
	case strings.IndexByte("btf", c) >= 0:
		return append(all, reading{run + 1, string("\b\t\n\f\r"[strings.IndexByte("btnfr", c)])}), false
	case c != '\\' && c < utf8.RuneSelf && !isWord(c):
		return append(all, reading{run + 1, string([]byte{c})}), false
	}
	return all, false
}

// escapedRune reads u and four digits after a run of backslashes, or a surrogate pair of them.
func escapedRune(text []byte, run int) (one reading, short bool) {
	high, short := hexDigits(text, run+1, 4)
	if short || high < 0 {
		return reading{}, short
	}
	size := run + 5
	if !utf16.IsSurrogate(rune(high)) {
		return reading{size, string(rune(high))}, false
	}
	again := append(bytes.Repeat([]byte(`\`), run), 'u')
	rest := text[size:]
	if len(rest) < len(again) {
		return reading{}, bytes.HasPrefix(again, rest)
	}
	if !bytes.HasPrefix(rest, again) {
		return reading{}, false
	}
	low, short := hexDigits(text, size+len(again), 4)
	if short || low < 0 {
		return reading{}, short
	}
	if r := utf16.DecodeRune(rune(high), rune(low)); r != utf8.RuneError {
		return reading{2 * size, string(r)}, false
	}
	return reading{}, false
}

// entity reads &amp; and the like, and &#38; and &#x26;.
func entity(text []byte, last bool) (all []reading, unsure bool) {
	for _, named := range []struct{ name, text string }{{"&amp;", "&"}, {"&lt;", "<"}, {"&gt;", ">"}, {"&quot;", `"`},
		{"&apos;", "'"}} {
		if bytes.HasPrefix(text, []byte(named.name)) {
			return []reading{{len(named.name), named.text}}, false
		}
		unsure = unsure || !last && strings.HasPrefix(named.name, string(text))
	}
	if len(text) < 2 || text[1] != '#' {
		return nil, unsure
	}
	at, base := 2, rune(10)
	if len(text) > at && (text[at] == 'x' || text[at] == 'X') {
		at, base = 3, 16
	}
	var r rune
	for digits := 0; at < len(text) && digits <= maxDigits; at, digits = at+1, digits+1 {
		digit := rune(digitOf(text[at]))
		switch {
		case text[at] == ';' && digits > 0:
			return []reading{{at + 1, string(r)}}, false
		case digit < 0 || digit >= base:
			return nil, false
		}
		r = min(r*base+digit, utf8.MaxRune+1)
	}
	return nil, !last && at == len(text)
}

// hexDigits reads n hexadecimal digits; -1: there are others. short: the text ends too early.
func hexDigits(text []byte, at, n int) (value int, short bool) {
	for i := range n {
		if at+i >= len(text) {
			return -1, true
		}
		digit := digitOf(text[at+i])
		if digit < 0 {
			return -1, false
		}
		value = value<<4 | digit
	}
	return value, false
}

func digitOf(c byte) int {
	switch {
	case '0' <= c && c <= '9':
		return int(c - '0')
	case 'a' <= c|0x20 && c|0x20 <= 'f':
		return int(c|0x20-'a') + 10
	}
	return -1
}

// isWord reports whether a character is part of a word.
func isWord(c byte) bool {
	return c == '_' || '0' <= c && c <= '9' || 'a' <= c|0x20 && c|0x20 <= 'z'
}

package mcptool

import (
	"bytes"
	"encoding/json"
	"strconv"
	"unicode/utf16"
	"unicode/utf8"
)

// maxLevels is the maximum depth of a mended value. The SDK refuses deeper ones, too.
const maxLevels = 900

// mend reads one JSON value at the beginning of a text and returns it in a form that a strict
// decoder accepts, and the text behind it. Half surrogates and invalid UTF-8 become U+FFFD; NaN and
// infinities become null; of a key that occurs twice the last value counts. ok is false if the text
// does not begin with a value.
func mend(text []byte) (clean, rest []byte, ok bool) {
	m := mender{in: text, out: make([]byte, 0, len(text)+len(text)/16)}
	if !m.value(0) {
		return nil, text, false
	}
	return m.out, text[m.at:], true
}

// mender rewrites JSON.
type mender struct {
	in  []byte
	at  int
	out []byte
}

// space skips white space and returns the next byte; 0: the text has ended.
func (m *mender) space() byte {
	for m.at < len(m.in) {
		switch c := m.in[m.at]; c {
		case ' ', '\t', '\r', '\n':
			m.at++
		default:
			return c
		}
	}
	return 0
}

func (m *mender) value(level int) bool {
	switch c := m.space(); {
	case level > maxLevels:
		return false
	case c == '{':
		return m.object(level)
	case c == '[':
		return m.list(level)
	case c == '"':
		return m.string()
	default:
		return m.word()
	}
}

// object mends an object. A comma before its end is skipped.
func (m *mender) object(level int) bool {
	m.at++
	begin, twice := len(m.out), false
	m.out = append(m.out, '{')
	members := map[string][2]int{} // begin and end of the last member of a key in out
	var order []string
	for {
		switch m.space() {
		case '}':
			m.at++
			if twice {
				m.lastMembers(begin, order, members)
			}
			m.out = append(m.out, '}')
			return true
		case ',':
			m.at++
			continue
		case '"':
		default:
			return false
		}
		if len(members) > 0 {
			m.out = append(m.out, ',')
		}
		from := len(m.out)
		if !m.string() {
			return false
		}
		key := string(m.out[from:])
		if m.space() != ':' {
			return false
		}
		m.at++
		m.out = append(m.out, ':')
		if !m.value(level + 1) {
			return false
		}
		if _, known := members[key]; known {
			twice = true
		} else {
			order = append(order, key)
		}
		members[key] = [2]int{from, len(m.out)}
	}
}

// lastMembers writes an object again, with one member of each key.
func (m *mender) lastMembers(begin int, order []string, members map[string][2]int) {
	written := bytes.Clone(m.out[begin:])
	m.out = append(m.out[:begin], '{')
	for i, key := range order {
		if i > 0 {
			m.out = append(m.out, ',')
		}
		m.out = append(m.out, written[members[key][0]-begin:members[key][1]-begin]...)
	}
}

// list mends an array. A comma before its end is skipped.
func (m *mender) list(level int) bool {
	m.at++
	m.out = append(m.out, '[')
	for n := 0; ; {
		switch m.space() {
		case ']':
			m.at++
			m.out = append(m.out, ']')
			return true
		case ',':
			m.at++
			continue
		}
		if n++; n > 1 {
			m.out = append(m.out, ',')
		}
		if !m.value(level + 1) {
			return false
		}
	}
}

// words are the words of JSON, and those that Python and JavaScript write instead.
var words = map[string]string{
	"true": "true", "false": "false", "null": "null", "True": "true", "False": "false", "None": "null",
	"NaN": "null", "nan": "null", "Infinity": "null", "-Infinity": "null", "inf": "null", "-inf": "null", "undefined": "null",
}

// word mends a number or a word.
func (m *mender) word() bool {
	from := m.at
	for m.at < len(m.in) && isWordByte(m.in[m.at]) {
		m.at++
	}
	token := string(m.in[from:m.at])
	if known, ok := words[token]; ok {
		m.out = append(m.out, known...)
		return true
	}
	if token == "" || token[0] != '-' && (token[0] < '0' || token[0] > '9') || !json.Valid([]byte(token)) {
		return false
	}
	m.out = append(m.out, token...)
	return true
}

func isWordByte(c byte) bool {
	return c >= '0' && c <= '9' || c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c == '-' || c == '+' || c == '.'
}

// string mends a string.
func (m *mender) string() bool {
	m.at++
	m.out = append(m.out, '"')
	for m.at < len(m.in) {
		switch c := m.in[m.at]; {
		case c == '"':
			m.at++
			m.out = append(m.out, '"')
			return true
		case c == '\\':
			if !m.escape() {
				return false
			}
		case c < ' ':
			m.out = append(m.out, `\u00`...)
			m.out = append(m.out, "0123456789abcdef"[c>>4], "0123456789abcdef"[c&15])
			m.at++
		case c < utf8.RuneSelf:
			m.out = append(m.out, c)
			m.at++
		default:
			r, size := utf8.DecodeRune(m.in[m.at:]) // invalid UTF-8 is U+FFFD
			m.out = utf8.AppendRune(m.out, r)
			m.at += size
		}
	}
	return false
}

// escape mends one escape. A backslash before a character that needs none stands for itself.
func (m *mender) escape() bool {
	if m.at+1 >= len(m.in) {
		return false
	}
	switch c := m.in[m.at+1]; c {
	case '"', '\\', '/', 'b', 'f', 'n', 'r', 't':
		m.out = append(m.out, '\\', c)
		m.at += 2
	case 'u':
		first, ok := hexEscape(m.in[m.at:])
		if !ok {
			m.out = append(m.out, `\\u`...)
			m.at += 2
			return true
		}
		second, paired := hexEscape(m.in[m.at+6:])
		switch {
		case !utf16.IsSurrogate(first):
			m.out = append(m.out, m.in[m.at:m.at+6]...)
		case paired && utf16.DecodeRune(first, second) != utf8.RuneError:
			m.out = append(m.out, m.in[m.at:m.at+12]...)
			m.at += 6
		default:
			m.out = utf8.AppendRune(m.out, utf8.RuneError)
		}
		m.at += 6
	default:
		m.out = append(m.out, `\\`...)
		m.at++
	}
	return true
}

// hexEscape decodes a \uXXXX at the beginning of a text.
func hexEscape(text []byte) (rune, bool) {
	if len(text) < 6 || text[0] != '\\' || text[1] != 'u' {
		return 0, false
	}
	n, err := strconv.ParseUint(string(text[2:6]), 16, 16)
	return rune(n), err == nil
}

package strictjson

import (
	"slices"
	"strconv"
	"strings"
	"unicode/utf16"
	"unicode/utf8"
)

// The limits of JSON from outside.
const (
	maxJSONLevels   = 1000
	maxNumberLength = 1000 // bytes; also the largest absolute exponent
)

// space is the white space of JSON.
const space = " \t\r\n"

// scanner checks a JSON text from start to end against the Go type that it will be decoded into.
// Duplicate keys are found by sorting the members of each object. The time is O(n log n), and the
// memory that of the members of the objects that are open at once.
type scanner struct {
	text    string
	pos     int
	members []member            // of the open objects, the innermost last
	orders  map[int]memberOrder // objects with unsorted keys; nil: not recorded

	bounded     bool   // numbers have limits
	strict      bool   // unknown fields are errors; otherwise they are added to skipped
	tryDecoders bool   // custom decoders are tried, to find the value that one of them refused
	skipped     []span // parts to hide from encoding/json, with their commas
}

// span is a part of the text.
type span struct{ start, end int }

// member is a member of an object: its key, and the positions of key, value and end.
type member struct {
	key               string
	start, value, end int
	skip              bool
}

// checkDocument checks that the text is exactly one value.
func (s *scanner) checkDocument(to target) error {
	if fault := s.scanDocument(to); fault != nil {
		return fault.asError()
	}
	return nil
}

func (s *scanner) scanDocument(to target) *openFault {
	if strings.HasPrefix(s.text, "\ufeff") {
		return faultf("it begins with a byte order mark: send UTF-8 without one")
	}
	if s.next() == 0 && s.pos == len(s.text) {
		return faultf("it is empty")
	}
	if fault := s.value(to, 0); fault != nil {
		return fault
	}
	s.next()
	if s.pos < len(s.text) {
		return faultf("text after the value")
	}
	return nil
}

// next skips white space and returns the next byte; 0 at the end.
func (s *scanner) next() byte {
	s.pos = pastSpace(s.text, s.pos)
	return s.peek()
}

func (s *scanner) peek() byte {
	if s.pos < len(s.text) {
		return s.text[s.pos]
	}
	return 0
}

func pastSpace(text string, at int) int {
	for at < len(text) && (text[at] == ' ' || text[at] == '\n' || text[at] == '\r' || text[at] == '\t') {
		at++
	}
	return at
}

func (s *scanner) value(to target, level int) *openFault {
	if level > maxJSONLevels {
		return faultf("nested deeper than %d", maxJSONLevels)
	}
	to, fault := to.dereferenced()
	if fault != nil {
		return fault
	}
	c, start := s.next(), s.pos
	got := ""
	switch {
	case c == '{':
		if fault = to.check("object", ""); fault == nil {
			fault = s.object(to, level)
		}
	case c == '[':
		if fault = to.check("array", ""); fault == nil {
			fault = s.array(to, level)
		}
	case c == '"':
		got, fault = "string", s.quoted()
	case c == '-' || '0' <= c && c <= '9':
		got, fault = "number", s.number()
	default:
		got, fault = s.word()
	}
	if fault != nil {
		return fault
	}
	if got != "" {
		fault = to.check(got, s.text[start:s.pos])
	}
	if fault == nil && to.quoted && got == "string" {
		fault = s.inside(to, s.text[start:s.pos])
	}
	if fault == nil && s.tryDecoders {
		fault = to.tryDecode(s.text[start:s.pos])
	}
	return fault
}

// inside checks the JSON inside a string, for a field with the option string.
func (s *scanner) inside(to target, token string) *openFault {
	to.quoted = false
	inner := scanner{text: unquoted(token), bounded: s.bounded, strict: s.strict}
	return inner.scanDocument(to)
}

func (s *scanner) object(to target, level int) *openFault {
	open, base := s.pos, len(s.members)
	s.pos++
	if s.next() == '}' {
		s.pos++
		return nil
	}
	fields, known := shapeOf(to)
	for {
		m, fault := s.key()
		if fault != nil {
			return fault
		}
		child := to.element()
		if known {
			child, m.skip, fault = s.field(to, fields, m.key)
		} else {
			fault = to.checkKey(m.key)
		}
		if fault == nil {
			fault = s.value(child, level+1)
		}
		if fault != nil {
			return fault.at(m.key)
		}
		m.end = s.pos
		s.members = append(s.members, m)
		more, fault := s.more('}')
		if fault != nil {
			return fault
		}
		if !more {
			break
		}
	}
	fault := s.finish(open, s.members[base:])
	s.members = s.members[:base]
	return fault
}

// key reads a key and its colon, up to the start of the value.
func (s *scanner) key() (member, *openFault) {
	c, start := s.next(), s.pos
	if c != '"' {
		return member{}, s.unexpected("a key in quotes")
	}
	if fault := s.quoted(); fault != nil {
		return member{}, fault
	}
	m := member{key: unquoted(s.text[start:s.pos]), start: start}
	if s.next() != ':' {
		return member{}, s.unexpected("a colon after the key")
	}
	s.pos++
	s.next()
	m.value = s.pos
	return m, nil
}

// more reads the comma or the end after an element.
func (s *scanner) more(end byte) (bool, *openFault) {
	switch s.next() {
	case ',':
		s.pos++
		return true, nil
	case end:
		s.pos++
		return false, nil
	}
	return false, s.unexpected("a comma or " + strconv.QuoteRune(rune(end)))
}

// finish handles the members of a completed object: it removes skipped ones and finds duplicate
// keys.
func (s *scanner) finish(open int, members []member) *openFault {
	s.skipMembers(members)
	byKey := func(a, b member) int { return strings.Compare(a.key, b.key) }
	sorted := slices.IsSortedFunc(members, byKey)
	if !sorted {
		slices.SortStableFunc(members, byKey)
	}
	for i, m := range members {
		if i > 0 && m.key == members[i-1].key {
			return faultf("duplicate key").at(m.key)
		}
	}
	if s.orders != nil && !sorted {
		s.orders[open] = memberOrder{members: slices.Clone(members), end: s.pos}
	}
	return nil
}

// skipMembers adds skipped members to skipped, together with the commas that would be left over.
// One comma remains between a visible member and the next visible one.
func (s *scanner) skipMembers(members []member) {
	visible := false
	for i, m := range members {
		if m.skip {
			s.skipped = append(s.skipped, span{m.start, m.end})
		}
		visible = visible || !m.skip
		if last := i == len(members)-1; last || visible && !members[i+1].skip {
			continue
		}
		if comma := pastSpace(s.text, m.end); m.skip || members[i+1].skip {
			s.skipped = append(s.skipped, span{comma, comma + 1})
		}
	}
}

func (s *scanner) array(to target, level int) *openFault {
	s.pos++
	if s.next() == ']' {
		s.pos++
		return nil
	}
	for i := 0; ; i++ {
		child, fault := to.item(i)
		if fault == nil {
			fault = s.value(child, level+1)
		}
		if fault != nil {
			return fault.at(strconv.Itoa(i))
		}
		more, fault := s.more(']')
		if fault != nil || !more {
			return fault
		}
	}
}

// word reads true, false or null and returns its type.
func (s *scanner) word() (string, *openFault) {
	for _, w := range []struct{ word, is string }{{"true", "boolean"}, {"false", "boolean"}, {"null", "null"}} {
		rest := s.text[s.pos:]
		if strings.HasPrefix(rest, w.word) {
			s.pos += len(w.word)
			return w.is, nil
		}
		if rest != "" && strings.HasPrefix(w.word, rest) {
			s.pos = len(s.text)
		}
	}
	return "", s.unexpected("a value")
}

// number reads a number and checks its form and size.
func (s *scanner) number() *openFault {
	start := s.pos
	if s.peek() == '-' {
		s.pos++
	}
	zero := s.peek() == '0'
	if s.digits() == 0 {
		return s.unexpected("a digit")
	}
	if first := strings.TrimPrefix(s.text[start:s.pos], "-"); zero && len(first) > 1 {
		return faultf("a number starts with 0")
	}
	if s.peek() == '.' {
		s.pos++
		if s.digits() == 0 {
			return s.unexpected("a digit after the point")
		}
	}
	exponent := 0
	if c := s.peek(); c == 'e' || c == 'E' {
		s.pos++
		if c := s.peek(); c == '+' || c == '-' {
			s.pos++
		}
		from := s.pos
		if s.digits() == 0 {
			return s.unexpected("a digit in the exponent")
		}
		// Out of range: the largest int.
		exponent, _ = strconv.Atoi(strings.TrimLeft(s.text[from:min(s.pos, from+2*maxNumberLength)], "0"))
	}
	if s.bounded && (s.pos-start > maxNumberLength || exponent > maxNumberLength) {
		return faultf("number out of range: %s", clipped(s.text[start:s.pos], 40))
	}
	return nil
}

// digits skips digits and counts them.
func (s *scanner) digits() int {
	start := s.pos
	for s.pos < len(s.text) && '0' <= s.text[s.pos] && s.text[s.pos] <= '9' {
		s.pos++
	}
	return s.pos - start
}

// quoted reads one string.
func (s *scanner) quoted() *openFault {
	s.pos++
	for s.pos < len(s.text) {
		switch c := s.text[s.pos]; {
		case c == '"':
			s.pos++
			return nil
		case c == '\\':
			if fault := s.escape(); fault != nil {
				return fault
			}
		case c < ' ':
			return faultf("the character %U in a string is not escaped", c)
		case c < utf8.RuneSelf:
			s.pos++
		default:
			r, size := utf8.DecodeRuneInString(s.text[s.pos:])
			if r == utf8.RuneError && size == 1 {
				return faultf("the byte 0x%02x in a string is not UTF-8", c)
			}
			s.pos += size
		}
	}
	return s.unexpected("the end of a string")
}

// escape reads an escape in a string; both halves of a surrogate pair count as one.
func (s *scanner) escape() *openFault {
	rest := s.text[s.pos+1:]
	if rest == "" {
		s.pos = len(s.text)
		return s.unexpected("")
	}
	if strings.IndexByte(`"\/bfnrt`, rest[0]) >= 0 {
		s.pos += 2
		return nil
	}
	if rest[0] != 'u' {
		s.pos++
		return s.unexpected("an escape that JSON has")
	}
	r, ok := hexRune(s.text[s.pos:])
	switch {
	case !ok && len(rest) < 5:
		s.pos = len(s.text)
		return s.unexpected("")
	case !ok:
		return faultf(`\u needs four hexadecimal digits`)
	case !utf16.IsSurrogate(r):
		s.pos += 6
		return nil
	}
	second, ok := hexRune(s.text[s.pos+6:])
	if !ok || utf16.DecodeRune(r, second) == utf8.RuneError {
		return faultf(`%s is half of a surrogate pair and not a character`, s.text[s.pos:s.pos+6])
	}
	s.pos += 12
	return nil
}

// hexRune decodes \uXXXX at the start of text.
func hexRune(text string) (rune, bool) {
	if len(text) < 6 || text[0] != '\\' || text[1] != 'u' {
		return 0, false
	}
	n, err := strconv.ParseUint(text[2:6], 16, 16)
	return rune(n), err == nil
}

// unexpected returns the fault of text that ends too early or has something else at this position.
func (s *scanner) unexpected(want string) *openFault {
	if s.pos >= len(s.text) {
		return &openFault{text: "it is cut off", whole: true}
	}
	r, _ := utf8.DecodeRuneInString(s.text[s.pos:])
	return faultf("want %s, got %s (byte %d)", want, strconv.QuoteRune(r), s.pos+1)
}

// unquoted returns the contents of a checked JSON string; token includes the quotes.
func unquoted(token string) string {
	token = token[1 : len(token)-1]
	at := strings.IndexByte(token, '\\')
	if at < 0 {
		return token
	}
	var out strings.Builder
	out.Grow(len(token))
	for at >= 0 {
		out.WriteString(token[:at])
		token = token[at:]
		if r, ok := hexRune(token); ok {
			token = token[6:]
			if utf16.IsSurrogate(r) {
				second, _ := hexRune(token)
				r, token = utf16.DecodeRune(r, second), token[6:]
			}
			out.WriteRune(r)
		} else {
			out.WriteByte("\"\\/\b\f\n\r\t"[strings.IndexByte(`"\/bfnrt`, token[1])])
			token = token[2:]
		}
		at = strings.IndexByte(token, '\\')
	}
	out.WriteString(token)
	return out.String()
}

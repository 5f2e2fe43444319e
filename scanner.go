package perdure

import (
	"slices"
	"strconv"
	"strings"
	"unicode/utf16"
	"unicode/utf8"
)

// The limits of JSON from outside (S7).
const (
	maxJSONLevels   = 1000
	maxNumberLength = 1000 // bytes, and the largest exponent, up or down
)

// space is what JSON skips between its signs.
const space = " \t\r\n"

// scanner checks one JSON text from front to back, beside the Go type that it will be read into. Duplicate
// keys are found by sorting the members of an object, so time is n log n at worst, and memory is that of the
// members of the objects that are open.
type scanner struct {
	text    string
	pos     int
	members []member      // of the objects that are open, the innermost last
	orders  map[int]order // nil: not asked for; else of the objects whose keys are not in order

	bounded bool   // numbers have limits
	strict  bool   // fields that are not known are faults; else they go to skipped
	blame   bool   // what reads itself is tried, to find out which value it was that could not be read
	skipped []span // what encoding/json shall not see, commas included
}

// span is a part of the text.
type span struct{ start, end int }

// member is one member of an object: where its key and its value begin, and where it ends.
type member struct {
	key               string
	start, value, end int
	skip              bool
}

// whole checks the text as one value and nothing after it.
func (s *scanner) whole(to spot) error {
	if fault := s.one(to); fault != nil {
		return fault.told()
	}
	return nil
}

func (s *scanner) one(to spot) *jsonFault {
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

// next skips white space and returns the byte there; 0 at the end.
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

func (s *scanner) value(to spot, level int) *jsonFault {
	if level > maxJSONLevels {
		return faultf("nested deeper than %d", maxJSONLevels)
	}
	to, fault := to.settled()
	if fault != nil {
		return fault
	}
	c, start := s.next(), s.pos
	got := ""
	switch {
	case c == '{':
		if fault = to.takes("object", ""); fault == nil {
			fault = s.object(to, level)
		}
	case c == '[':
		if fault = to.takes("array", ""); fault == nil {
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
		fault = to.takes(got, s.text[start:s.pos])
	}
	if fault == nil && to.quoted && got == "string" {
		fault = s.inside(to, s.text[start:s.pos])
	}
	if fault == nil && s.blame {
		fault = to.tried(s.text[start:s.pos])
	}
	return fault
}

// inside checks the JSON in a string, of a field with the option string.
func (s *scanner) inside(to spot, token string) *jsonFault {
	to.quoted = false
	inner := scanner{text: unquoted(token), bounded: s.bounded, strict: s.strict}
	return inner.one(to)
}

func (s *scanner) object(to spot, level int) *jsonFault {
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
			fault = to.takesKey(m.key)
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

// key reads a key, its colon, and up to the value.
func (s *scanner) key() (member, *jsonFault) {
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

// more reads what follows an element: a comma, or the end.
func (s *scanner) more(end byte) (bool, *jsonFault) {
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

// finish looks at the members of an object that has ended: which are skipped, and that no key is there twice.
func (s *scanner) finish(open int, members []member) *jsonFault {
	s.leaveOut(members)
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
		s.orders[open] = order{members: slices.Clone(members), end: s.pos}
	}
	return nil
}

// leaveOut gives the members that are skipped to skipped, and the commas that are then too many: those that
// do not stand between a member that is kept and the next one that is.
func (s *scanner) leaveOut(members []member) {
	kept := false
	for i, m := range members {
		if m.skip {
			s.skipped = append(s.skipped, span{m.start, m.end})
		}
		kept = kept || !m.skip
		if last := i == len(members)-1; last || kept && !members[i+1].skip {
			continue
		}
		if comma := pastSpace(s.text, m.end); m.skip || members[i+1].skip {
			s.skipped = append(s.skipped, span{comma, comma + 1})
		}
	}
}

func (s *scanner) array(to spot, level int) *jsonFault {
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

// word reads true, false or null, and returns its type.
func (s *scanner) word() (string, *jsonFault) {
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

// number reads one number, of the form and size that there may be.
func (s *scanner) number() *jsonFault {
	start := s.pos
	if s.peek() == '-' {
		s.pos++
	}
	zero := s.peek() == '0'
	if s.digits() == 0 {
		return s.unexpected("a digit")
	}
	if first := strings.TrimPrefix(s.text[start:s.pos], "-"); zero && len(first) > 1 {
		return faultf("a number begins with 0")
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
		exponent, _ = strconv.Atoi(strings.TrimLeft(s.text[from:min(s.pos, from+2*maxNumberLength)], "0")) // too large: the largest int
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
func (s *scanner) quoted() *jsonFault {
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
				return faultf("the byte 0x%02x in a string is no UTF-8", c)
			}
			s.pos += size
		}
	}
	return s.unexpected("the end of a string")
}

// escape reads one escape of a string; the halves of a surrogate pair are one.
func (s *scanner) escape() *jsonFault {
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
		return faultf(`after \u there are four hexadecimal digits`)
	case !utf16.IsSurrogate(r):
		s.pos += 6
		return nil
	}
	second, ok := hexRune(s.text[s.pos+6:])
	if !ok || utf16.DecodeRune(r, second) == utf8.RuneError {
		return faultf(`%s is half of a surrogate pair, and no character`, s.text[s.pos:s.pos+6])
	}
	s.pos += 12
	return nil
}

// hexRune reads \uXXXX at the start of a text.
func hexRune(text string) (rune, bool) {
	if len(text) < 6 || text[0] != '\\' || text[1] != 'u' {
		return 0, false
	}
	n, err := strconv.ParseUint(text[2:6], 16, 16)
	return rune(n), err == nil
}

// unexpected is the fault of text that is cut off, or has something else here.
func (s *scanner) unexpected(want string) *jsonFault {
	if s.pos >= len(s.text) {
		return &jsonFault{text: "it is cut off", whole: true}
	}
	r, _ := utf8.DecodeRuneInString(s.text[s.pos:])
	return faultf("want %s, got %s (byte %d)", want, strconv.QuoteRune(r), s.pos+1)
}

// unquoted returns what a string says that has been found good, quotes and all.
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

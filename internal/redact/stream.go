package redact

import (
	"slices"
	"unicode/utf8"
)

// maxBreaks limits the line breaks, or their characters, between two characters of a form.
const maxBreaks = 2

// Stream masks the secrets of a set in a stream of chunks, even across chunk boundaries. The output
// does not depend on how the stream was divided, and bytes that are not secret pass unchanged.
//
// It holds back what may be the start of a secret, at most the longest form of one, and incomplete
// characters. Not safe for concurrent use.
//
// The algorithm reads the buffer byte by byte. At every position it keeps the set of forms that may
// have started earlier and still match, as candidates. Where the text can be read in
// several ways, because of escapes, each reading continues a candidate of its own. A candidate that
// reaches the end of a form hides the bytes from its start; bytes before the earliest candidate can
// be released.
type Stream struct {
	set   *Set
	known *table
	fixed bool // known never changes

	buf        []byte
	next       int         // position in buf up to which it has been read
	before     byte        // the byte before buf; 0: none
	candidates []candidate // unordered
	spare      []candidate // array of the previous begun, for reuse
	found      []span      // in order, without overlaps
}

// candidate is a candidate: a form that the text may contain from some position.
type candidate struct {
	hex     bool
	lo, hi  int // range of the forms that it can be
	read    int // bytes of the form that were matched
	from    int // where it started in buf
	next    int // where it continues in buf
	breaks  int // line breaks since its last character
	broken  bool
	escaped bool // an escape or a line break was read, so the length in buf differs from read
	ended   bool // it matches unless a word continues here
}

// span is a part of buf that is hidden.
type span struct {
	from, to int
	marked   bool // its mark was already returned
}

// Stream returns a stream that masks the secrets of this set.
func (s *Set) Stream() *Stream { return &Stream{set: s} }

// Feed takes the next chunk and returns the bytes that are safe to show. The caller owns the slice.
func (s *Stream) Feed(chunk []byte) []byte {
	s.refresh()
	s.buf = append(s.buf, chunk...)
	s.scan(false)
	return s.release(false)
}

// Flush ends the stream and returns what was held back. The stream can be used again.
func (s *Stream) Flush() []byte {
	s.refresh()
	s.scan(true)
	out := s.release(true)
	*s = Stream{set: s.set, known: s.known, fixed: s.fixed}
	return out
}

// Skip says that a part of the text is missing here. What may be the start of a secret that ends in
// the gap is never shown. Neither are as many of the following bytes as the end of a secret can
// take, because the end cannot be recognised.
func (s *Stream) Skip() (out []byte) {
	s.refresh()
	if s.known == nil {
		out = s.buf // an incomplete character
	}
	*s = Stream{set: s.set, known: s.known, fixed: s.fixed}
	if s.known != nil {
		s.found = []span{{to: s.known.longest, marked: true}}
	}
	return out
}

// refresh adopts changes of the set. What is held back is read again; what was found stays hidden.
func (s *Stream) refresh() {
	if s.fixed {
		return
	}
	if now := s.set.table(); now != s.known {
		s.known, s.next, s.candidates = now, 0, nil
	}
}

// scan reads as much as possible, and records what it finds.
func (s *Stream) scan(last bool) {
	if s.known == nil {
		s.next = len(s.buf)
		return
	}
	for s.next < len(s.buf) {
		if len(s.candidates) == 0 {
			s.next = s.known.nextStart(s.buf, s.next)
		}
		others, unsure := readings(s.buf[s.next:], last)
		if unsure {
			return
		}
		if len(s.candidates) > 0 {
			now := s.candidates
			s.candidates, s.spare = s.spare[:0], now
			for _, b := range now {
				if b.next == s.next {
					s.step(b, others)
				} else {
					s.candidates = append(s.candidates, b)
				}
			}
		}
		if s.mayBegin(&s.known.written) {
			s.step(candidate{from: s.next, next: s.next}, others)
		}
		if s.mayBegin(&s.known.hex) {
			s.step(candidate{from: s.next, next: s.next, hex: true}, nil)
		}
		s.next++
	}
	if last {
		for _, b := range s.candidates {
			if b.ended {
				s.hide(b.from, b.next)
			}
		}
		s.candidates = nil
	}
}

// mayBegin reports whether a form may start at the next position, judged by two bytes.
func (s *Stream) mayBegin(l *list) bool {
	if s.next+1 == len(s.buf) {
		return true
	}
	a, b := s.buf[s.next], s.buf[s.next+1]
	if l == &s.known.hex {
		a, b = small(a), small(b)
	}
	return escapes(a) || escapes(b) || l.mayStart(a, b)
}

// small returns a hexadecimal digit in lower case.
func small(c byte) byte {
	if 'A' <= c && c <= 'F' {
		c |= 0x20
	}
	return c
}

// step lets a candidate continue with the byte at its position, in every possible reading.
func (s *Stream) step(b candidate, others []reading) {
	c := s.buf[b.next]
	if b.ended {
		if !isWord(c) {
			s.hide(b.from, b.next)
		}
		return
	}
	if b.hex {
		c = small(c)
	}
	s.read(b, 1, c)
	for _, r := range others {
		switch other := b; {
		case r.text == "":
			if other.breaks++; b.read > 0 && other.breaks <= maxBreaks {
				other.broken, other.escaped = true, true
				other.next += r.size
				s.addCandidate(other)
			}
		case !b.hex:
			other.escaped = true
			s.read(other, r.size, []byte(r.text)...)
		}
	}
}

// read lets a candidate match some characters, which take size bytes of the text.
func (s *Stream) read(b candidate, size int, text ...byte) {
	l := &s.known.written
	if b.hex {
		l = &s.known.hex
	}
	for _, c := range text {
		if b.lo, b.hi = l.narrow(b.lo, b.hi, b.read, c); b.lo == b.hi {
			return
		}
		b.read++
	}
	b.next += size
	b.breaks = 0
	if f := l.forms[b.lo]; len(f.text) == b.read {
		s.end(b, f)
		if b.hi == b.lo+1 {
			return
		}
	}
	s.addCandidate(b)
}

// addCandidate adds a candidate. If two readings lead to the same state, the one that started first
// stands for both; otherwise their number could grow without bound.
func (s *Stream) addCandidate(b candidate) {
	if b.escaped {
		for i, other := range s.candidates {
			first := min(b.from, other.from)
			other.from = b.from
			if b == other {
				s.candidates[i].from = first
				return
			}
		}
	}
	s.candidates = append(s.candidates, b)
}

// end records that a form was matched completely.
func (s *Stream) end(b candidate, f form) {
	switch {
	case b.broken && !f.wraps:
	case !f.word:
		s.hide(b.from, b.next)
	case b.escaped || isWord(f.text[0]) && isWord(s.byteBefore(b.from)):
	case !isWord(f.text[len(f.text)-1]):
		s.hide(b.from, b.next)
	default:
		b.ended = true
		s.candidates = append(s.candidates, b)
	}
}

func (s *Stream) byteBefore(at int) byte {
	if at == 0 {
		return s.before
	}
	return s.buf[at-1]
}

// hide records a span and merges it with all spans that it overlaps, so that no part of a secret is
// left between two marks.
func (s *Stream) hide(from, to int) {
	one := span{from: from, to: to}
	s.found = slices.DeleteFunc(s.found, func(other span) bool {
		if other.to <= one.from || one.to <= other.from {
			return false
		}
		one = span{min(one.from, other.from), max(one.to, other.to), one.marked || other.marked}
		return true
	})
	at := 0
	for at < len(s.found) && s.found[at].from < one.from {
		at++
	}
	s.found = slices.Insert(s.found, at, one)
}

// release returns the bytes before the first position where a secret may have started, with marks
// for what was found.
func (s *Stream) release(last bool) []byte {
	safe := s.next
	for _, b := range s.candidates {
		safe = min(safe, b.from)
	}
	if !last {
		safe = wholeRunes(s.buf[:safe])
	}
	var out []byte
	at := 0
	for len(s.found) > 0 && s.found[0].from < safe {
		one := &s.found[0]
		out = append(out, s.buf[at:max(at, one.from)]...)
		if !one.marked {
			out = append(out, Mark...)
			one.marked = true
		}
		at = min(one.to, safe)
		if one.to > safe {
			break
		}
		s.found = s.found[1:]
	}
	out = append(out, s.buf[at:safe]...)
	s.forget(safe)
	return out
}

// forget drops the first n bytes of buf.
func (s *Stream) forget(n int) {
	if n == 0 {
		return
	}
	s.before = s.buf[n-1]
	s.buf = append(s.buf[:0], s.buf[n:]...)
	s.next -= n
	for i := range s.candidates {
		s.candidates[i].from -= n
		s.candidates[i].next -= n
	}
	for i := range s.found {
		s.found[i].from -= n
		s.found[i].to -= n
	}
}

// wholeRunes returns the length of the text up to its last complete character. Invalid bytes count
// as complete.
func wholeRunes(text []byte) int {
	for at := len(text) - 1; at >= 0 && at > len(text)-utf8.UTFMax; at-- {
		if utf8.RuneStart(text[at]) {
			if !utf8.FullRune(text[at:]) {
				return at
			}
			break
		}
	}
	return len(text)
}

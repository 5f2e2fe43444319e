package redact

import (
	"io"
	"slices"
	"unicode/utf8"
)

// maxBreaks bounds the breaks of lines, or their characters, between two characters of a form.
const maxBreaks = 2

// Stream takes the secrets of a set out of what comes in chunks, wherever the chunks were cut (RD5). What comes out is
// the same for all cuts, and what is no secret comes out byte for byte.
//
// It holds back what may be the begin of a secret, and so no more than the longest form in which one can be written;
// and a character of which only a part has come. One goroutine uses it.
type Stream struct {
	set   *Set
	known *table
	fixed bool // known is all there ever is

	buf    []byte
	next   int     // what stands before it in buf has been read
	before byte    // the byte before buf; 0: nothing
	begun  []begun // in no order
	spare  []begun // the array of the last ones
	found  []span  // in order; no two overlap
}

// begun is a form that the text may hold from a place on.
type begun struct {
	hex    bool
	lo, hi int // the forms of the list that it can be
	read   int // bytes of them that were found
	from   int // where it began in buf
	next   int // where it goes on in buf
	breaks int // of lines, since its last character
	broken bool
	bent   bool // an escape or a break was read: next-from is not read
	ended  bool // it was found if no word goes on here
}

// span is a piece of buf that is not shown.
type span struct {
	from, to int
	told     bool // its mark has gone out, with what stood before next
}

// Stream returns what takes the secrets of this set out of one stream of bytes.
func (s *Set) Stream() *Stream { return &Stream{set: s} }

// Feed takes the next chunk and returns what may go out now. The slice is the caller's.
func (s *Stream) Feed(chunk []byte) []byte {
	s.refresh()
	s.buf = append(s.buf, chunk...)
	s.scan(false)
	return s.release(false)
}

// Flush returns what was held back: nothing more comes. The stream can begin again then.
func (s *Stream) Flush() []byte {
	s.refresh()
	s.scan(true)
	out := s.release(true)
	*s = Stream{set: s.set, known: s.known, fixed: s.fixed}
	return out
}

// Skip says that a piece of the text is missing here. What may be the begin of a secret that ends in it is never shown, and
// neither is as much of what follows as the end of one can take: nobody can tell it from something else.
func (s *Stream) Skip() (out []byte) {
	s.refresh()
	if s.known == nil {
		out = s.buf // a piece of a character
	}
	*s = Stream{set: s.set, known: s.known, fixed: s.fixed}
	if s.known != nil {
		s.found = []span{{to: s.known.longest, told: true}}
	}
	return out
}

// refresh takes up what was added to the set or removed. What is held back is read again; what was found stays hidden.
func (s *Stream) refresh() {
	if s.fixed {
		return
	}
	if now := s.set.table(); now != s.known {
		s.known, s.next, s.begun = now, 0, nil
	}
}

// scan reads all that can be read, and notes what is found.
func (s *Stream) scan(last bool) {
	if s.known == nil {
		s.next = len(s.buf)
		return
	}
	for s.next < len(s.buf) {
		if len(s.begun) == 0 {
			s.next = s.known.pass(s.buf, s.next)
		}
		others, unsure := readings(s.buf[s.next:], last)
		if unsure {
			return
		}
		if len(s.begun) > 0 {
			now := s.begun
			s.begun, s.spare = s.spare[:0], now
			for _, b := range now {
				if b.next == s.next {
					s.step(b, others)
				} else {
					s.begun = append(s.begun, b)
				}
			}
		}
		if s.mayBegin(&s.known.written) {
			s.step(begun{from: s.next, next: s.next}, others)
		}
		if s.mayBegin(&s.known.hex) {
			s.step(begun{from: s.next, next: s.next, hex: true}, nil)
		}
		s.next++
	}
	if last {
		for _, b := range s.begun {
			if b.ended {
				s.hide(b.from, b.next)
			}
		}
		s.begun = nil
	}
}

// mayBegin reports whether a form may begin at the next place, as far as two characters tell.
func (s *Stream) mayBegin(l *list) bool {
	if s.next+1 == len(s.buf) {
		return true
	}
	a, b := s.buf[s.next], s.buf[s.next+1]
	if l == &s.known.hex {
		a, b = small(a), small(b)
	}
	return escapes(a) || escapes(b) || l.opens(a, b)
}

// small makes a hexadecimal digit a small letter.
func small(c byte) byte {
	if 'A' <= c && c <= 'F' {
		c |= 0x20
	}
	return c
}

// step lets a begun form read what stands at its place, in all ways.
func (s *Stream) step(b begun, others []reading) {
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
				other.broken, other.bent = true, true
				other.next += r.size
				s.keep(other)
			}
		case !b.hex:
			other.bent = true
			s.read(other, r.size, []byte(r.text)...)
		}
	}
}

// read lets a begun form go on with some characters, which so many bytes of the text stand for.
func (s *Stream) read(b begun, size int, text ...byte) {
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
	s.keep(b)
}

// keep notes a begun form. Where two ways of reading lead to the same, the one that began first stands for both: else
// there would be ever more of them.
func (s *Stream) keep(b begun) {
	if b.bent {
		for i, other := range s.begun {
			first := min(b.from, other.from)
			other.from = b.from
			if b == other {
				s.begun[i].from = first
				return
			}
		}
	}
	s.begun = append(s.begun, b)
}

// end notes that a form was read to its end.
func (s *Stream) end(b begun, f form) {
	switch {
	case b.broken && !f.wraps:
	case !f.word:
		s.hide(b.from, b.next)
	case b.bent || isWord(f.text[0]) && isWord(s.byteBefore(b.from)):
	case !isWord(f.text[len(f.text)-1]):
		s.hide(b.from, b.next)
	default:
		b.ended = true
		s.begun = append(s.begun, b)
	}
}

func (s *Stream) byteBefore(at int) byte {
	if at == 0 {
		return s.before
	}
	return s.buf[at-1]
}

// hide makes one of a found piece and all that it overlaps, so that no end of a secret is left beside another.
func (s *Stream) hide(from, to int) {
	one := span{from: from, to: to}
	s.found = slices.DeleteFunc(s.found, func(other span) bool {
		if other.to <= one.from || one.to <= other.from {
			return false
		}
		one = span{min(one.from, other.from), max(one.to, other.to), one.told || other.told}
		return true
	})
	at := 0
	for at < len(s.found) && s.found[at].from < one.from {
		at++
	}
	s.found = slices.Insert(s.found, at, one)
}

// release returns what is before the first place where a secret may have begun, with marks for what was found.
func (s *Stream) release(last bool) []byte {
	safe := s.next
	for _, b := range s.begun {
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
		if !one.told {
			out = append(out, Mark...)
			one.told = true
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
	for i := range s.begun {
		s.begun[i].from -= n
		s.begun[i].next -= n
	}
	for i := range s.found {
		s.found[i].from -= n
		s.found[i].to -= n
	}
}

// wholeRunes is how much of a text ends with a whole character. Bytes that begin none are taken for whole.
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

// Writer writes to another writer, without the secrets of a set. One goroutine uses it.
type Writer struct {
	to     io.Writer
	stream *Stream
}

// NewWriter returns a writer over another one. nil knows no secret.
func NewWriter(to io.Writer, secrets *Set) *Writer {
	return &Writer{to: to, stream: secrets.Stream()}
}

// Write takes a chunk and passes on what may go out. After an error the other writer has a part of it at most, and
// nobody knows which: write nothing more.
func (w *Writer) Write(chunk []byte) (int, error) {
	if err := w.pass(w.stream.Feed(chunk)); err != nil {
		return 0, err
	}
	return len(chunk), nil
}

// Flush writes what was held back. Call it when nothing more comes.
func (w *Writer) Flush() error { return w.pass(w.stream.Flush()) }

func (w *Writer) pass(out []byte) error {
	if len(out) == 0 {
		return nil
	}
	_, err := w.to.Write(out)
	return err
}

package taskrun

import (
	"bytes"
	"slices"
	"strings"
	"unicode/utf8"
)

// lineLog turns the output of several streams into lines, each after the name of its stream. A line
// is added when it is complete, so that the text depends on the order in which lines ended, and not
// on the pieces in which they arrived. The zero value is ready to use.
type lineLog struct {
	text  []byte     // complete lines
	chars int        // characters of text
	open  []openLine // of each stream that has one, in the order in which they began
	// Nonzero: only so many characters of the end are needed, and not much more is kept.
	keepChars int
}

// openLine is the beginning of a line.
type openLine struct {
	stream string
	bytes  []byte
}

// write adds a piece of the output of a stream.
func (l *lineLog) write(stream string, p []byte) {
	if most := l.maxOpenBytes(); most > 0 && len(p) > most {
		p = p[len(p)-most:] // of what comes before, nothing is needed
		l.close(stream)
	}
	for len(p) > 0 {
		line, rest, complete := bytes.Cut(p, []byte("\n"))
		o := l.openOf(stream)
		o.bytes, p = append(o.bytes, line...), rest
		if !complete {
			if most := l.maxOpenBytes(); most > 0 && len(o.bytes) > 2*most {
				o.bytes = slices.Clone(o.bytes[len(o.bytes)-most:])
			}
			return
		}
		l.add(o.text() + "\n")
		l.close(stream)
	}
}

// maxOpenBytes returns how much of the end of a line is needed; zero: all of it. It is twice what
// is shown, so that the place where the rest was cut off is never shown.
func (l *lineLog) maxOpenBytes() int { return 2 * l.keepChars * utf8.UTFMax }

// close forgets the open line of a stream.
func (l *lineLog) close(stream string) {
	l.open = slices.DeleteFunc(l.open, func(o openLine) bool { return o.stream == stream })
}

// gap adds a line about output that is missing, and ends the lines that it may have interrupted.
func (l *lineLog) gap(n int64) {
	l.add(l.rest(true))
	l.open = nil
	l.write("system", []byte(strings.TrimLeft(OmittedText(n), "\n")))
}

// openOf returns the open line of a stream, which begins now if there is none.
func (l *lineLog) openOf(stream string) *openLine {
	for i := range l.open {
		if l.open[i].stream == stream {
			return &l.open[i]
		}
	}
	l.open = append(l.open, openLine{stream: stream})
	return &l.open[len(l.open)-1]
}

// add adds complete lines.
func (l *lineLog) add(lines string) {
	l.text = append(l.text, lines...)
	l.chars += utf8.RuneCountInString(lines)
	if l.keepChars > 0 && l.chars > 2*l.keepChars {
		l.text = []byte(lastChars(string(l.text), l.keepChars))
		l.chars = l.keepChars
	}
}

// size returns the number of characters so far, open lines included.
func (l *lineLog) size() int {
	n := l.chars
	for _, o := range l.open {
		n += utf8.RuneCount(o.bytes)
	}
	return n
}

// String returns all lines. An open one has no end, unless another one follows it.
func (l *lineLog) String() string {
	text := string(l.text) + l.rest(false)
	if l.keepChars > 0 {
		return lastChars(text, l.keepChars)
	}
	return text
}

// rest returns the open lines; ended: the last one gets its end, too.
func (l *lineLog) rest(ended bool) string {
	var b strings.Builder
	for i, o := range l.open {
		b.WriteString(o.text())
		if ended || i < len(l.open)-1 {
			b.WriteString("\n")
		}
	}
	return b.String()
}

func (o openLine) text() string {
	return "[" + o.stream + "] " + strings.ToValidUTF8(string(o.bytes), "\uFFFD")
}

// lastChars returns the last n characters of a text.
func lastChars(text string, n int) string {
	if over := utf8.RuneCountInString(text) - n; over > 0 {
		for i := range text {
			if over == 0 {
				return text[i:]
			}
			over--
		}
	}
	return text
}

// Characters cuts output between characters, for a stream that is passed on piece by piece as text.
// The zero value is ready to use.
type Characters struct{ cut map[string][]byte } // by stream: the beginning of a character

// Whole returns the next piece of a stream up to its last whole character. The rest comes with the
// next piece. What can be no character becomes U+FFFD.
func (c *Characters) Whole(stream string, p []byte) string {
	if before := c.cut[stream]; len(before) > 0 {
		p = append(slices.Clone(before), p...)
	}
	n := wholeBytes(p)
	if c.cut == nil {
		c.cut = map[string][]byte{}
	}
	c.cut[stream] = slices.Clone(p[n:])
	return strings.ToValidUTF8(string(p[:n]), "\uFFFD")
}

// wholeBytes returns how many bytes of p are before an incomplete character at its end.
func wholeBytes(p []byte) int {
	for i := len(p) - 1; i >= max(0, len(p)-utf8.UTFMax); i-- {
		if utf8.RuneStart(p[i]) {
			if !utf8.FullRune(p[i:]) {
				return i
			}
			break
		}
	}
	return len(p)
}

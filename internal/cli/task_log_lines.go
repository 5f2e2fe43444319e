package cli

import (
	"bytes"
	"fmt"
	"io"
	"maps"
	"regexp"
	"slices"
	"time"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/engine"
)

// logSieve is which parts of a log are wanted (C6). The zero value wants all of it.
type logSieve struct {
	since, until time.Time // zero: no bound
	attempt      int       // 0: all
	stream       string    // out or err; empty: both
	grep         *regexp.Regexp
}

// chooses reports whether something is left out.
func (s logSieve) chooses() bool { return s != logSieve{} }

// takes reports whether a chunk is wanted. The bound until is kept by whoever reads on.
func (s logSieve) takes(c engine.Chunk) bool {
	switch {
	case !s.since.IsZero() && c.At.Before(s.since):
		return false
	case s.attempt != 0 && c.Attempt != s.attempt:
		return false
	}
	return s.stream == "" || c.Stream == s.stream || c.Stream == "std"+s.stream
}

// bytesOut writes a log byte for byte.
type bytesOut struct{ w io.Writer }

func (b bytesOut) chunk(c engine.Chunk) error {
	_, err := b.w.Write(c.Bytes)
	return err
}

func (b bytesOut) caughtUp() error { return nil }

// lineOut writes a log line by line. A line of one stream is not cut by what the other writes meanwhile. Only the goroutine
// that prints uses it.
type lineOut struct {
	w      io.Writer
	grep   *regexp.Regexp // nil: all lines
	stamps bool
	prefix perdure.TaskID // empty: none
	keep   int            // of the lines that were there at the beginning, only the last so many; 0: all

	open map[string]*openLine // by stream: lines that have not ended
	kept [][]byte             // lines to be written when all is read that was there
	live bool                 // it is read
}

// openLine is a line that has not ended.
type openLine struct {
	at   time.Time // when its first byte was written
	text []byte
}

// chunk takes output of one stream.
func (l *lineOut) chunk(c engine.Chunk) error {
	if l.open == nil {
		l.open = map[string]*openLine{}
	}
	for _, part := range bytes.SplitAfter(c.Bytes, []byte("\n")) {
		if len(part) == 0 {
			continue
		}
		line := l.open[c.Stream]
		if line == nil {
			line = &openLine{at: c.At}
			l.open[c.Stream] = line
		}
		line.text = append(line.text, part...)
		if part[len(part)-1] != '\n' {
			continue
		}
		delete(l.open, c.Stream)
		if err := l.line(c.Stream, line); err != nil {
			return err
		}
	}
	return nil
}

// line writes a line, or keeps it until it is known which are the last ones.
func (l *lineOut) line(stream string, line *openLine) error {
	if l.grep != nil && !l.grep.Match(bytes.TrimRight(line.text, "\r\n")) {
		return nil
	}
	var text []byte
	if l.stamps {
		text = append(text, line.at.UTC().Format("2006-01-02T15:04:05.000Z")+" "...)
	}
	if l.prefix != "" {
		text = append(text, fmt.Sprintf("%s %s | ", l.prefix, stream)...)
	}
	text = append(text, line.text...)
	if l.keep > 0 && !l.live {
		l.kept = append(l.kept, text)
		l.kept = l.kept[max(len(l.kept)-l.keep, 0):]
		return nil
	}
	_, err := l.w.Write(text)
	return err
}

// caughtUp writes what was kept. Lines that have not ended count, and are written when they do.
func (l *lineOut) caughtUp() error {
	if !l.live && l.keep > 0 {
		wanted := l.keep
		for _, line := range l.open {
			if l.grep == nil || l.grep.Match(line.text) {
				wanted--
			}
		}
		l.kept = l.kept[max(len(l.kept)-max(wanted, 0), 0):]
	}
	l.live = true
	for _, text := range l.kept {
		if _, err := l.w.Write(text); err != nil {
			return err
		}
	}
	l.kept = nil
	return nil
}

// close writes lines that never ended.
func (l *lineOut) close() error {
	for _, stream := range slices.Sorted(maps.Keys(l.open)) {
		line := l.open[stream]
		delete(l.open, stream)
		line.text = append(line.text, '\n')
		if err := l.line(stream, line); err != nil {
			return err
		}
	}
	return nil
}

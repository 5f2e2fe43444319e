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

// logFilter selects parts of a log. The zero value selects all of it.
type logFilter struct {
	since, until time.Time // zero: no bound
	attempt      int       // 0: all
	stream       string    // out or err; empty: both
	grep         *regexp.Regexp
}

// isActive reports whether anything is left out.
func (s logFilter) isActive() bool { return s != logFilter{} }

// matches reports whether a chunk is selected. The caller enforces until, because it ends the
// reading.
func (s logFilter) matches(c engine.Chunk) bool {
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

// lineOut writes a log line by line. A line of one stream is not split by output of the other one.
// Only the printing goroutine uses it.
type lineOut struct {
	w         io.Writer
	grep      *regexp.Regexp // nil: all lines
	stamps    bool
	prefix    perdure.TaskID // empty: none
	tailLines int            // number of existing lines to print, from the end; 0: all

	open      map[string]*openLine // by stream: incomplete lines
	tail      [][]byte             // lines to write once the existing log is read
	following bool                 // the existing log is read
}

// openLine is an incomplete line.
type openLine struct {
	at   time.Time // time of its first byte
	text []byte
}

// chunk adds output of one stream.
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

// line writes a line, or stores it until the last lines are known.
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
	if l.tailLines > 0 && !l.following {
		l.tail = append(l.tail, text)
		l.tail = l.tail[max(len(l.tail)-l.tailLines, 0):]
		return nil
	}
	_, err := l.w.Write(text)
	return err
}

// caughtUp writes the stored lines. Incomplete lines count as lines, and are written when they are
// complete.
func (l *lineOut) caughtUp() error {
	if !l.following && l.tailLines > 0 {
		wanted := l.tailLines
		for _, line := range l.open {
			if l.grep == nil || l.grep.Match(line.text) {
				wanted--
			}
		}
		l.tail = l.tail[max(len(l.tail)-max(wanted, 0), 0):]
	}
	l.following = true
	for _, text := range l.tail {
		if _, err := l.w.Write(text); err != nil {
			return err
		}
	}
	l.tail = nil
	return nil
}

// close writes the remaining incomplete lines.
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

package taskrun

import (
	"bytes"
	"strings"
	"testing"
	"unicode/utf8"
)

// piece is a piece of output of a stream; a gap if it has no stream.
type piece struct {
	stream, bytes string
	gap           int64
}

// TestLines: output.log has the name of the stream at the start of each line, and no character is
// cut, whatever the pieces.
func TestLines(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name   string // with the report
		pieces []piece
		want   string
	}{
		{"a line in two pieces (rust-cli/env_logger#38)", []piece{{"stdout", "ERR", 0}, {"stdout", "OR: full\n", 0}}, "[stdout] ERROR: full\n"},
		{"lines in one piece", []piece{{"stdout", "one\ntwo\n", 0}}, "[stdout] one\n[stdout] two\n"},
		{"the other stream in the middle of a line (shadow/shadow#3428)", []piece{{"stdout", "per", 0}, {"stderr", "warning\n", 0}, {"stdout", "cent\n", 0}},
			"[stderr] warning\n[stdout] percent\n"},
		{"a character in two pieces (wonderwhy-er/DesktopCommanderMCP#628)", []piece{{"stdout", "\xe2", 0}, {"stdout", "\x89", 0}, {"stdout", "\xa4\n", 0}}, "[stdout] ≤\n"},
		{"a character and the other stream (anomalyco/opencode#15385)", []piece{{"stdout", "cleanup \xe2", 0}, {"stderr", "x\xe2", 0}, {"stdout", "\x80\x94 end\n", 0}, {"stderr", "\x86\x92\n", 0}},
			"[stdout] cleanup — end\n[stderr] x→\n"},
		{"no end of the last line", []piece{{"stdout", "a\nb", 0}}, "[stdout] a\n[stdout] b"},
		{"no end of either", []piece{{"stderr", "b", 0}, {"stdout", "a", 0}}, "[stderr] b\n[stdout] a"},
		{"empty lines", []piece{{"stdout", "\n\n", 0}}, "[stdout] \n[stdout] \n"},
		{"what is no text", []piece{{"stdout", "a\xff\xfeb\n", 0}}, "[stdout] a\uFFFDb\n"},
		{"a character that never ends", []piece{{"stdout", "a\xe2\x80", 0}}, "[stdout] a\uFFFD"},
		{"a gap in a line", []piece{{"stdout", "beg", 0}, {"", "", 12}, {"stdout", "in\n", 0}}, "[stdout] beg\n[system] [... 12 bytes left out ...]\n[stdout] in\n"},
		{"nothing", nil, ""},
	} {
		var l lineLog
		for _, p := range c.pieces {
			if p.stream == "" {
				l.gap(p.gap)
			} else {
				l.write(p.stream, []byte(p.bytes))
			}
		}
		if got := l.String(); got != c.want {
			t.Errorf("%s: got %q, want %q", c.name, got, c.want)
		}
	}
}

// FuzzLines: the text does not depend on how a stream is cut into pieces, and is always text.
func FuzzLines(f *testing.F) {
	f.Add([]byte("one\ntwo\n"), []byte{1, 2})
	f.Add([]byte(strings.Repeat("日", 100)), []byte{1, 1, 4, 7})
	f.Add([]byte("\xff\xe2\x80\n\xf0\x9f"), []byte{1, 1, 1, 1})
	f.Fuzz(func(t *testing.T, text, cuts []byte) {
		whole := lineLog{}
		whole.write("stdout", text)
		parts, tail := lineLog{}, lineLog{keepChars: 10}
		var frames Characters
		var shown strings.Builder
		rest := text
		for i := 0; len(rest) > 0; i++ {
			n := len(rest)
			if i < len(cuts) {
				n = min(n, int(cuts[i])+1)
			}
			parts.write("stdout", rest[:n])
			tail.write("stdout", rest[:n])
			shown.WriteString(frames.Whole("stdout", rest[:n]))
			rest = rest[n:]
		}

		if got, want := parts.String(), whole.String(); got != want || !utf8.ValidString(got) {
			t.Errorf("got %q in pieces, %q as a whole", got, want)
		}
		got, want := tail.String(), lastChars(whole.String(), 10)
		if valid := utf8.Valid(text); valid && got != want || utf8.RuneCountInString(got) > 10 {
			t.Errorf("got the tail %q, want %q", got, want)
		}
		if valid := utf8.Valid(text); valid && shown.String() != string(text) || strings.Count(shown.String(), "\n") != bytes.Count(text, []byte("\n")) {
			t.Errorf("live updates show %q of %q", shown.String(), text)
		}
	})
}

// TestCharacters: a live update ends between characters, of each stream by itself.
func TestCharacters(t *testing.T) {
	t.Parallel()
	var c Characters
	for _, step := range []struct{ stream, bytes, want string }{
		{"stdout", "a\xe6", "a"}, {"stderr", "\xe2\x86", ""}, {"stdout", "\x97\xa5b", "日b"}, {"stderr", "\x92", "→"},
		{"stdout", "\xff", "\uFFFD"}, {"stdout", "\xf0\x9f\x98", ""}, {"stdout", "\x80\xf0", "😀"}, {"stdout", "x", "\uFFFDx"},
	} {
		if got := c.Whole(step.stream, []byte(step.bytes)); got != step.want {
			t.Errorf("%s %q: got %q, want %q", step.stream, step.bytes, got, step.want)
		}
	}
}

package app

import (
	"regexp"
	"slices"
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"
)

// screen emulates a terminal. It supports only what this program may send.
type screen struct {
	t        *testing.T
	columns  int
	reflows  bool // rewraps its lines when it is resized, as some terminals do
	wraps    bool // a line that is too long continues in the next row
	rows     [][]rune
	row, col int
	wrapped  int // wrapped lines
}

var sequence = regexp.MustCompile(`^\x1b\[([?0-9;]*)([A-Za-z])`)

// write shows text.
func (s *screen) write(text string) {
	s.t.Helper()
	for text != "" {
		if found := sequence.FindStringSubmatch(text); found != nil {
			text = text[len(found[0]):]
			s.control(found[1], found[2])
			continue
		}
		r, size := utf8.DecodeRuneInString(text)
		text = text[size:]
		switch {
		case r == '\r':
			s.col = 0
		case r == '\n':
			s.row++
		case r < 0x20 || r >= 0x7f && r <= 0x9f || r == utf8.RuneError:
			s.t.Errorf("the terminal is sent %q", r)
		default:
			s.put(r)
		}
	}
}

func (s *screen) control(argument, final string) {
	s.t.Helper()
	switch {
	case final == "m": // a color
	case argument == "?7" && (final == "h" || final == "l"):
		s.wraps = final == "h"
	case final == "J" && argument == "":
		s.there()
		s.rows = s.rows[:s.row+1]
		s.rows[s.row] = s.rows[s.row][:min(s.col, len(s.rows[s.row]))]
	case final == "A" && len(argument) == 1:
		s.row = max(0, s.row-int(argument[0]-'0'))
	default:
		s.t.Errorf("the terminal is sent ESC[%s%s", argument, final)
	}
}

// there makes the row of the cursor.
func (s *screen) there() {
	for len(s.rows) <= s.row {
		s.rows = append(s.rows, nil)
	}
}

func (s *screen) put(r rune) {
	width := 1
	if unicode.Is(unicode.Han, r) {
		width = 2
	}
	if s.col+width > s.columns {
		if s.col = s.columns - width; s.wraps {
			s.row, s.col = s.row+1, 0
			s.wrapped++
		}
	}
	s.there()
	for len(s.rows[s.row]) < s.col+width {
		s.rows[s.row] = append(s.rows[s.row], ' ')
	}
	s.rows[s.row][s.col] = r
	s.col += width
}

// resize sets the number of columns. The cursor stays in its line.
func (s *screen) resize(columns int) {
	s.there()
	var rows [][]rune
	row := 0
	for i, line := range s.rows {
		if i == s.row {
			row = len(rows)
		}
		switch {
		case !s.reflows:
			rows = append(rows, line[:min(columns, len(line))])
		case len(line) == 0:
			rows = append(rows, nil)
		default:
			rows = slices.AppendSeq(rows, slices.Chunk(line, columns))
		}
	}
	s.columns, s.rows, s.row, s.col = columns, rows, row, min(s.col, columns-1)
}

// String is the visible text, without empty rows at the end.
func (s *screen) String() string {
	var lines []string
	for _, row := range s.rows {
		lines = append(lines, strings.TrimRight(string(row), " "))
	}
	return strings.TrimRight(strings.Join(lines, "\n"), "\n")
}

package anthropic

import (
	"strings"
	"unicode/utf8"
)

// charBuffer joins pieces that may split characters. The zero value is empty.
type charBuffer struct {
	rest string // the start of a character
}

// add returns the complete characters so far. Bytes that belong to none become U+FFFD.
func (r *charBuffer) add(piece string) string {
	s := r.rest + piece
	end := len(s)
	for i := len(s) - 1; i >= 0 && i >= len(s)-utf8.UTFMax; i-- {
		if utf8.RuneStart(s[i]) {
			if !utf8.FullRuneInString(s[i:]) {
				end = i
			}
			break
		}
	}
	r.rest = s[end:]
	return valid(s[:end])
}

// end returns the rest after the last piece.
func (r *charBuffer) end() string {
	s := valid(r.rest)
	r.rest = ""
	return s
}

func valid(s string) string { return strings.ToValidUTF8(s, "\uFFFD") }

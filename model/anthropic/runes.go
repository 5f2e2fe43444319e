package anthropic

import (
	"strings"
	"unicode/utf8"
)

// runes makes whole characters of pieces that may end inside of one. The zero value has seen nothing.
type runes struct {
	rest string // the beginning of a character
}

// add returns the whole characters so far; bytes that belong to none become U+FFFD.
func (r *runes) add(piece string) string {
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

// end returns what is left when nothing more comes.
func (r *runes) end() string {
	s := valid(r.rest)
	r.rest = ""
	return s
}

func valid(s string) string { return strings.ToValidUTF8(s, "\uFFFD") }

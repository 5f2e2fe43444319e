package openai

import (
	"bytes"
	"strconv"
	"strings"
	"unicode/utf16"
	"unicode/utf8"
)

// A server may end a chunk in the middle of a character. Some servers split UTF-8, so that a chunk
// is not even JSON, and some split the two \u escapes of one character. A JSON decoder would
// replace either half by U+FFFD. The halves are therefore passed through the decoder as pairs of
// noncharacters (U+FDD0 and following), which Unicode reserves for internal use and which no text
// contains.
const (
	highNibble = 0xFDD0
	lowNibble  = 0xFDE0
)

// encodeBroken encodes each byte of a broken character in a chunk as two noncharacters, and reports
// whether there was one. Half of a pair of escapes is encoded by the three bytes that its number
// would have in UTF-8.
func encodeBroken(text []byte) ([]byte, bool) {
	if utf8.Valid(text) && !bytes.Contains(bytes.ToLower(text), []byte(`\ud`)) {
		return text, false
	}
	var out []byte
	changed := false
	for i := 0; i < len(text); {
		half, n := halfEscape(text[i:])
		switch {
		case half != nil:
			out, changed = appendEncoded(out, half), true
		case n > 0:
			out = append(out, text[i:i+n]...)
		default:
			r, size := utf8.DecodeRune(text[i:])
			n = size
			if r == utf8.RuneError && size == 1 {
				out, changed = appendEncoded(out, text[i:i+1]), true
			} else {
				out = append(out, text[i:i+n]...)
			}
		}
		i += n
	}
	return out, changed
}

// halfEscape examines an escape at the start of text. n is its length, 0 if there is none. half has
// the bytes of one half of a surrogate pair whose other half is missing.
func halfEscape(text []byte) (half []byte, n int) {
	if text[0] != '\\' || len(text) < 2 {
		return nil, 0
	}
	first, ok := escaped(text)
	if !ok {
		if text[1] < utf8.RuneSelf {
			return nil, 2
		}
		return nil, 1
	}
	if !utf16.IsSurrogate(first) {
		return nil, 6
	}
	if second, ok := escaped(text[6:]); ok && utf16.DecodeRune(first, second) != utf8.RuneError {
		return nil, 12
	}
	return []byte{0xE0 | byte(first>>12), 0x80 | byte(first>>6)&0x3F, 0x80 | byte(first)&0x3F}, 6
}

// escaped decodes \uXXXX.
func escaped(text []byte) (rune, bool) {
	if len(text) < 6 || text[0] != '\\' || text[1] != 'u' {
		return 0, false
	}
	n, err := strconv.ParseUint(string(text[2:6]), 16, 16)
	return rune(n), err == nil
}

func appendEncoded(out, raw []byte) []byte {
	for _, b := range raw {
		out = utf8.AppendRune(out, highNibble+rune(b>>4))
		out = utf8.AppendRune(out, lowNibble+rune(b&0xF))
	}
	return out
}

// decodeBroken restores the bytes that carry encoded.
func decodeBroken(s string) string {
	var out []byte
	high := rune(-1)
	for _, r := range s {
		switch {
		case highNibble <= r && r < highNibble+16:
			high = r - highNibble
		case lowNibble <= r && r < lowNibble+16 && high >= 0:
			out = append(out, byte(high<<4|(r-lowNibble)))
			high = -1
		default:
			out = utf8.AppendRune(out, r)
		}
	}
	return string(out)
}

// charBuffer holds back the end of a text as long as it may be the start of a character.
type charBuffer struct{ held string }

// add returns the part of the text so far that is complete. Bytes that cannot become a character
// are replaced by U+FFFD.
func (s *charBuffer) add(text string) string {
	text = joinHalves(s.held + text)
	cut := len(text) - unfinished(text)
	s.held = text[cut:]
	return strings.ToValidUTF8(text[:cut], "\uFFFD")
}

// rest returns what is still held back when the text has ended.
func (s *charBuffer) rest() string {
	held := s.held
	s.held = ""
	return strings.ToValidUTF8(held, "\uFFFD")
}

// unfinished returns how many bytes at the end of a text may be the start of a character.
func unfinished(text string) int {
	for n := 1; n <= min(3, len(text)); n++ {
		tail := text[len(text)-n:]
		if !utf8.RuneStart(tail[0]) {
			continue
		}
		if !utf8.FullRuneInString(tail) || n == 3 && isHalf(tail, 0xA0) {
			return n
		}
		return 0
	}
	return 0
}

// isHalf reports whether text starts with half of a surrogate pair: the first with kind 0xA0, the
// second with 0xB0.
func isHalf(text string, kind byte) bool {
	return len(text) >= 3 && text[0] == 0xED && text[1]&0xF0 == kind && text[2]&0xC0 == 0x80
}

// joinHalves joins the two halves of surrogate pairs.
func joinHalves(text string) string {
	if !strings.Contains(text, "\xED") {
		return text
	}
	var out strings.Builder
	for i := 0; i < len(text); i++ {
		if isHalf(text[i:], 0xA0) && isHalf(text[i+3:], 0xB0) {
			out.WriteRune(utf16.DecodeRune(half(text[i:]), half(text[i+3:])))
			i += 5
			continue
		}
		out.WriteByte(text[i])
	}
	return out.String()
}

func half(text string) rune {
	return rune(text[0]&0x0F)<<12 | rune(text[1]&0x3F)<<6 | rune(text[2]&0x3F)
}

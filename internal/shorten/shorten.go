// Package shorten cuts texts and JSON values to a number of characters, for messages and lists that
// have little space.
//
// A character is a code point of UTF-8: a cut never leaves a part of one. The package imports only
// the standard library.
package shorten

import "strings"

// Chars returns the first n characters of a text.
func Chars(text string, n int) string {
	for i := range text {
		if n == 0 {
			return text[:i]
		}
		n--
	}
	return text
}

// Line makes a text one line of at most n characters: white space becomes single spaces.
func Line(text string, n int) string { return Chars(strings.Join(strings.Fields(text), " "), n) }

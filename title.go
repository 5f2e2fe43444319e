package perdure

import (
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"
)

// MaxTitleFilterBytes limits a title filter.
const MaxTitleFilterBytes = 200

// TitleFilter matches titles that contain each of its words, in upper or lower case. Every
// character stands for itself: there are no wildcards. Empty: every title.
type TitleFilter string

// Check returns an Invalid error if the filter cannot match any title.
func (f TitleFilter) Check() error {
	if len(f) > MaxTitleFilterBytes || !utf8.ValidString(string(f)) {
		return fmt.Errorf("%w text %.80q: it has %d bytes; give at most %d bytes of UTF-8",
			Invalid, string(f), len(f), MaxTitleFilterBytes)
	}
	return nil
}

// Matcher returns a function that reports whether a title matches. It does what does not depend on
// the title once.
func (f TitleFilter) Matcher() func(title string) bool {
	words := strings.Fields(foldCase(string(f)))
	return func(title string) bool {
		if len(words) == 0 {
			return true
		}
		title = foldCase(title)
		for _, word := range words {
			if !strings.Contains(title, word) {
				return false
			}
		}
		return true
	}
}

// foldCase replaces each character by the one that stands for all its cases. It uses the simple
// folding of Unicode, so that all stores agree, whatever the language of the machine.
func foldCase(text string) string {
	return strings.Map(func(r rune) rune {
		if r < utf8.RuneSelf {
			if 'A' <= r && r <= 'Z' {
				r += 'a' - 'A'
			}
			return r
		}
		least := r
		for next := unicode.SimpleFold(r); next != r; next = unicode.SimpleFold(next) {
			least = min(least, next)
		}
		if 'A' <= least && least <= 'Z' { // such as the sign for Kelvin
			least += 'a' - 'A'
		}
		return least
	}, text)
}

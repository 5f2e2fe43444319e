package sessionsql

import (
	"slices"
	"strings"
)

// maxWords is how many leading words identify a statement, as in EXPLAIN QUERY PLAN CREATE
// TEMPORARY TRIGGER.
const maxWords = 6

// statement is one statement, without its semicolon and the comments around it.
type statement struct {
	text  string
	words []string // the leading words in upper case, up to the first other token
}

// begins reports whether the statement begins with one of the words.
func (s statement) begins(words ...string) bool {
	return len(s.words) > 0 && slices.Contains(words, s.words[0])
}

// parseSingle returns the one statement in a text. Invalid: there is none, or more than one. It
// recognizes the ends of quotes, comments and trigger bodies as SQLite does. If it took for one
// statement what SQLite takes for two, both would run under the same rules: the check is for a
// clear error message, not for safety.
func parseSingle(text string) (statement, error) {
	if strings.ContainsRune(text, 0) {
		return statement{}, invalidError("The statement contains a NUL character. Pass such values as arguments.")
	}
	var found statement
	start, end := -1, 0
	counting, ended := true, false // still in the leading words; statement ended
	before, last := "", ""         // the two tokens before this one, to find the end of a trigger
	for at := 0; at < len(text); {
		t := tokenAt(text, at)
		next := at + t.size
		switch {
		case t.kind == blank:
		case t.kind == semicolon && start < 0:
			// an empty statement before the first one
		case t.kind == semicolon && !ended && (!found.isTrigger() || last == "END" && before == ";"):
			ended = true
		case ended && t.kind != semicolon:
			return statement{}, invalidError("Only one statement can be run at a time. Send the second one in a " +
				"separate call.")
		case ended:
		default:
			if start < 0 {
				start = at
			}
			end = next
			counting = counting && t.kind == word && len(found.words) < maxWords
			if counting {
				found.words = append(found.words, strings.ToUpper(text[at:next]))
			}
			before, last = last, ""
			if t.kind != quoted {
				last = strings.ToUpper(text[at:next])
			}
		}
		at = next
	}
	if start < 0 {
		return statement{}, invalidError("There is no statement.")
	}
	found.text = text[start:end]
	return found, nil
}

// isTrigger reports whether the statement is CREATE TRIGGER, whose body contains semicolons.
func (s statement) isTrigger() bool {
	words := s.words
	if len(words) > 0 && words[0] == "EXPLAIN" {
		words = words[1:]
		if len(words) > 1 && words[0] == "QUERY" && words[1] == "PLAN" {
			words = words[2:]
		}
	}
	if len(words) < 2 || words[0] != "CREATE" {
		return false
	}
	if words[1] == "TEMP" || words[1] == "TEMPORARY" {
		words = words[1:]
	}
	return len(words) > 1 && words[1] == "TRIGGER"
}

// Kinds of tokens.
const (
	other = iota
	blank // white space and comments
	semicolon
	word // letters, digits and other characters that a name may contain
	quoted
)

type token struct{ kind, size int }

// tokenAt returns the token at an offset of the text. Its size is at least 1.
func tokenAt(text string, at int) token {
	rest := text[at:]
	switch c := rest[0]; {
	case strings.IndexByte(" \t\n\f\r", c) >= 0:
		return token{blank, 1}
	case strings.HasPrefix(rest, "--"):
		return token{blank, sizeUntil(rest, 2, "\n")}
	case strings.HasPrefix(rest, "/*"):
		return token{blank, sizeUntil(rest, 2, "*/")}
	case c == ';':
		return token{semicolon, 1}
	case c == '[':
		return token{quoted, sizeUntil(rest, 1, "]")}
	case c == '\'' || c == '"' || c == '`':
		return token{quoted, quotedSize(rest)}
	case isWord(c):
		n := 1
		for n < len(rest) && isWord(rest[n]) {
			n++
		}
		return token{word, n}
	}
	return token{other, 1}
}

// sizeUntil returns the size of a token that ends with end or with the text.
func sizeUntil(rest string, from int, end string) int {
	if i := strings.Index(rest[from:], end); i >= 0 {
		return from + i + len(end)
	}
	return len(rest)
}

// quotedSize returns the size of a quoted token. A doubled quote is part of it.
func quotedSize(rest string) int {
	for n := 1; n < len(rest); n++ {
		if rest[n] != rest[0] {
			continue
		}
		if n+1 < len(rest) && rest[n+1] == rest[0] {
			n++
			continue
		}
		return n + 1
	}
	return len(rest)
}

func isWord(c byte) bool {
	return c >= 0x80 || c == '_' || c == '$' || '0' <= c && c <= '9' || 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z'
}

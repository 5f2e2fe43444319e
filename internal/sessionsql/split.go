package sessionsql

import (
	"slices"
	"strings"
)

// maxWords is how many words from its beginning a statement is known by: EXPLAIN QUERY PLAN CREATE TEMPORARY TRIGGER.
const maxWords = 6

// statement is one statement, without the semicolon and the comments around it.
type statement struct {
	text  string
	words []string // the first ones, in capitals; until something else than a word comes
}

// begins reports whether the statement begins with one of the words.
func (s statement) begins(words ...string) bool {
	return len(s.words) > 0 && slices.Contains(words, s.words[0])
}

// single finds the one statement in a text. Invalid: there is none, or a second one. It knows where quotes, comments and
// the body of a trigger end, as SQLite does. What it takes for one statement and SQLite for two would run as two, each
// under the same rules: this is for clear words, not for safety.
func single(text string) (statement, error) {
	if strings.ContainsRune(text, 0) {
		return statement{}, invalid("The statement contains a NUL character. Pass such values as arguments.")
	}
	var found statement
	start, end := -1, 0
	counting, ended := true, false // words; the statement
	before, last := "", ""         // the tokens before this one, which tell the end of a trigger
	for at := 0; at < len(text); {
		t := tokenAt(text, at)
		next := at + t.size
		switch {
		case t.kind == blank:
		case t.kind == semicolon && start < 0:
			// nothing stands before it
		case t.kind == semicolon && !ended && (!found.isTrigger() || last == "END" && before == ";"):
			ended = true
		case ended && t.kind != semicolon:
			return statement{}, invalid("Only one statement at a time can be run: send the second one in a call of its own.")
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
		return statement{}, invalid("There is no statement.")
	}
	found.text = text[start:end]
	return found, nil
}

// isTrigger reports whether the words are those of CREATE TRIGGER, whose body has semicolons.
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

// The kinds of tokens.
const (
	other = iota
	blank // white space and comments
	semicolon
	word // letters, digits and whatever may be in a name
	quoted
)

type token struct{ kind, size int }

// tokenAt returns the token that begins at a place in the text; its size is at least 1.
func tokenAt(text string, at int) token {
	rest := text[at:]
	switch c := rest[0]; {
	case strings.IndexByte(" \t\n\f\r", c) >= 0:
		return token{blank, 1}
	case strings.HasPrefix(rest, "--"):
		return token{blank, until(rest, 2, "\n")}
	case strings.HasPrefix(rest, "/*"):
		return token{blank, until(rest, 2, "*/")}
	case c == ';':
		return token{semicolon, 1}
	case c == '[':
		return token{quoted, until(rest, 1, "]")}
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

// until is the size of what ends with end, or with the text.
func until(rest string, from int, end string) int {
	if i := strings.Index(rest[from:], end); i >= 0 {
		return from + i + len(end)
	}
	return len(rest)
}

// quotedSize is the size of a quoted text; a doubled quote stands for one.
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

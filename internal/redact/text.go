package redact

import (
	"net/url"
	"regexp"
	"strings"
	"sync"
	"unicode/utf8"
)

// maxScanned is how many bytes of a text are examined, many times what is ever shown.
const maxScanned = 32 << 10

// Patterns of secrets in text that is not JSON.
var (
	// namedValue finds a name, a quote after it, and the separator between a name and its value: a
	// header, a query, a form, a setting, truncated JSON.
	namedValue = sync.OnceValue(func() *regexp.Regexp {
		return regexp.MustCompile(`([\pL\pN_.%\[\]-]+?)(\\*["'` + "`" + `]?)\s*(:=|=>|[:=]|%(?:25)*3[AaDd])\s*`)
	})
	// option finds a command-line option, whose value follows after a space.
	option = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`--([\pL\pN_.-]+)(\s+)`) })
	// bearer finds a bearer token.
	bearer = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`(?i)\b(Bearer\s+)[\w.~+/=-]{8,}`) })
	// userPart finds the password in a URL.
	userPart = sync.OnceValue(func() *regexp.Regexp {
		return regexp.MustCompile(`(://[^\s/?#:@"'<>]*:)[^\s/?#@"'<>]+@`)
	})
	// scheme finds the word before a credential.
	scheme = sync.OnceValue(func() *regexp.Regexp {
		return regexp.MustCompile(`^(?i:bearer|basic|digest|token|negotiate|apikey)\s+`)
	})
	// joint finds the separator of the values of a query inside a query.
	joint = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`%(?:25)*26`) })
	// block finds the start of a value that continues on the next lines.
	block = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^[|>][+-]?\s*\n`) })
)

// quotes may surround a name or a value.
const quotes = "\"'`"

// scrub hides the values of secret names in a text. If the end of a value is uncertain, it hides
// more rather than less.
func scrub(text string) string {
	if len(text) > maxScanned {
		text = text[:wholeRunes([]byte(text[:maxScanned]))]
	}
	text = pairs(text, namedValue(), valueSpan)
	text = pairs(text, option(), optionSpan)
	text = bearer().ReplaceAllString(text, "${1}"+Mark)
	return userPart().ReplaceAllString(text, "${1}"+Mark+"@")
}

// pairs replaces the values whose names a pattern finds. span returns where a value starts and
// ends.
func pairs(text string, pattern *regexp.Regexp, span func(string, []int) (from, to int)) string {
	var out strings.Builder
	for text != "" {
		m := pattern.FindStringSubmatchIndex(text)
		if m == nil {
			break
		}
		from, to := m[1], m[1]
		if hides(text[:m[2]], nameIn(text[m[2]:m[3]])) {
			from, to = span(text, m)
		}
		out.WriteString(text[:from])
		if value := text[from:to]; value != "" {
			if countsTokens(text[m[2]:m[3]]) && isNumber(value) {
				out.WriteString(value)
			} else {
				out.WriteString(Mark)
			}
		}
		text = text[to:]
	}
	return out.String() + text
}

// hides reports whether a name in a text hides its value. The word before it may belong to it:
// "idempotency key".
func hides(before, name string) bool {
	trimmed := strings.TrimSuffix(before, " ")
	if trimmed != before {
		last := strings.LastIndexFunc(trimmed, func(r rune) bool { return r < utf8.RuneSelf && !isWord(byte(r)) })
		if word := trimmed[last+1:]; word != "" && isSecretName(name) && !isSecretName(word+name) {
			return false
		}
	}
	return isSecretName(name)
}

// nameIn returns the name at the end of a run of characters: user[password] and user%5Bpassword%5D
// are password.
func nameIn(run string) string {
	if plain, err := url.PathUnescape(run); err == nil {
		run = plain
	}
	return strings.Trim(run, "[]%. ")
}

// optionSpan returns the value of an option: one word, or a quoted text. Another option is not a
// value.
func optionSpan(text string, m []int) (from, to int) {
	from = m[1]
	if strings.HasPrefix(text[from:], "-") {
		return from, from
	}
	if q := quoteAt(text[from:]); q != "" {
		return quoted(text, from, q)
	}
	return from, from + until(text[from:], " \t\r\n")
}

// valueSpan returns the value of a name that the pattern has found.
func valueSpan(text string, m []int) (from, to int) {
	from = m[1]
	rest := text[from:]
	closed := m[5] > m[4] // a quote after the name, so it belongs to an object
	switch sep := text[m[6]:m[7]]; {
	case strings.HasPrefix(rest, Mark):
		return from, from + len(Mark)
	case quoteAt(rest) != "":
		return quoted(text, from, quoteAt(rest))
	case block().MatchString(rest):
		return from, len(text)
	case closed && rest != "" && strings.IndexByte("{[", rest[0]) >= 0:
		return from, from + bracketed(rest)
	case closed:
		return from, from + until(rest, ",}] \t\r\n")
	case sep[0] == '%':
		if end := joint().FindStringIndex(rest); end != nil {
			rest = rest[:end[0]]
		}
		return from, from + until(rest, "&; \t\r\n")
	case sep == ":":
		if q := openBefore(text[:m[2]]); q != "" && strings.Contains(rest, q) {
			return from, from + strings.Index(rest, q)
		}
		return from, from + until(rest, "\r\n")
	}
	skip := len(scheme().FindString(rest))
	return from, from + skip + until(rest[skip:], "&; \t\r\n")
}

// until returns the length of a text before the first of some characters.
func until(text, stops string) int {
	if end := strings.IndexAny(text, stops); end >= 0 {
		return end
	}
	return len(text)
}

// quoteAt returns the quote at the start of a text with the backslashes before it, or nothing.
func quoteAt(text string) string {
	slashes := len(text) - len(strings.TrimLeft(text, `\`))
	if slashes < len(text) && strings.IndexByte(quotes, text[slashes]) >= 0 {
		return text[:slashes+1]
	}
	return ""
}

// openBefore returns the quote right before a name, or nothing.
func openBefore(text string) string {
	if text == "" || strings.IndexByte(quotes, text[len(text)-1]) < 0 {
		return ""
	}
	bare := strings.TrimRight(text[:len(text)-1], `\`)
	return text[len(bare):]
}

// quoted returns what is inside quotes. The closing quote has as many backslashes as the opening
// one; a quote with more belongs to the value. Without a closing quote the value extends to the
// end.
func quoted(text string, at int, q string) (from, to int) {
	from = at + len(q)
	for to = from; ; to++ {
		next := strings.IndexByte(text[to:], q[len(q)-1])
		if next < 0 {
			return from, len(text)
		}
		to += next
		value := text[from:to]
		if slashes := len(value) - len(strings.TrimRight(value, `\`)); slashes%2 == 0 && len(q) == 1 ||
			slashes == len(q)-1 && len(q) > 1 {
			return from, to - len(q) + 1
		}
	}
}

// bracketed returns the length of an object or a list, or of the text if it is not closed.
func bracketed(text string) int {
	depth := 0
	for at := 0; at < len(text); at++ {
		switch text[at] {
		case '{', '[':
			depth++
		case '}', ']':
			if depth--; depth == 0 {
				return at + 1
			}
		case '"':
			_, end := quoted(text, at, `"`)
			at = end
		}
	}
	return len(text)
}

func isNumber(text string) bool {
	return text != "" && strings.Trim(text, "0123456789") == ""
}

// cut shortens a text to limit characters; the last one is an ellipsis.
func cut(text string, limit int) string {
	if len(text) <= limit || utf8.RuneCountInString(text) <= limit {
		return text
	}
	end := 0
	for range limit - 1 {
		_, size := utf8.DecodeRuneInString(text[end:])
		end += size
	}
	return text[:end] + "…"
}

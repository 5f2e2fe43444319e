package redact

import (
	"net/url"
	"regexp"
	"strings"
	"sync"
	"unicode/utf8"
)

// maxScanned is how much of a text is looked at, in bytes, many times what is ever shown.
const maxScanned = 32 << 10

// What a text may say of a secret without being JSON.
var (
	// namedValue finds a name, a quote behind it, and what stands between a name and its value: a header, a query, a form, a
	// setting, JSON that was cut.
	namedValue = sync.OnceValue(func() *regexp.Regexp {
		return regexp.MustCompile(`([\pL\pN_.%\[\]-]+?)(\\*["'` + "`" + `]?)\s*(:=|=>|[:=]|%(?:25)*3[AaDd])\s*`)
	})
	// option finds a name on a command line, whose value comes behind a space.
	option = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`--([\pL\pN_.-]+)(\s+)`) })
	// bearer finds a token wherever it is called so.
	bearer = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`(?i)\b(Bearer\s+)[\w.~+/=-]{8,}`) })
	// userPart finds the password in a URL.
	userPart = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`(://[^\s/?#:@"'<>]*:)[^\s/?#@"'<>]+@`) })
	// scheme finds a word that stands before a credential.
	scheme = sync.OnceValue(func() *regexp.Regexp {
		return regexp.MustCompile(`^(?i:bearer|basic|digest|token|negotiate|apikey)\s+`)
	})
	// joint finds what parts the values of a query in a query.
	joint = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`%(?:25)*26`) })
	// block finds the begin of a value that goes on in the next lines.
	block = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^[|>][+-]?\s*\n`) })
)

// quotes may stand around a name or a value.
const quotes = "\"'`"

// scrub takes out of a text what stands under the name of a secret. Where it is not certain how far a value goes, it takes
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

// pairs replaces the values that a pattern finds names of. span returns where such a value begins and ends.
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
			if counts(text[m[2]:m[3]]) && isNumber(value) {
				out.WriteString(value)
			} else {
				out.WriteString(Mark)
			}
		}
		text = text[to:]
	}
	return out.String() + text
}

// hides reports whether a name in a text hides its value. The word before it may be a part of it: "idempotency key".
func hides(before, name string) bool {
	trimmed := strings.TrimSuffix(before, " ")
	if trimmed != before {
		last := strings.LastIndexFunc(trimmed, func(r rune) bool { return r < utf8.RuneSelf && !isWord(byte(r)) })
		if word := trimmed[last+1:]; word != "" && names(name) && !names(word+name) {
			return false
		}
	}
	return names(name)
}

// nameIn is the name that a run of characters ends with: user[password] and user%5Bpassword%5D are password.
func nameIn(run string) string {
	if plain, err := url.PathUnescape(run); err == nil {
		run = plain
	}
	return strings.Trim(run, "[]%. ")
}

// optionSpan is where the value of an option stands: one word, or what is in quotes. Another option is none.
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

// valueSpan is where the value stands that a pattern has found the name of.
func valueSpan(text string, m []int) (from, to int) {
	from = m[1]
	rest := text[from:]
	closed := m[5] > m[4] // a quote behind the name: an object's
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

// until is how far a text goes without any of some characters.
func until(text, stops string) int {
	if end := strings.IndexAny(text, stops); end >= 0 {
		return end
	}
	return len(text)
}

// quoteAt is the quote that a text begins with, with the backslashes before it, or nothing.
func quoteAt(text string) string {
	slashes := len(text) - len(strings.TrimLeft(text, `\`))
	if slashes < len(text) && strings.IndexByte(quotes, text[slashes]) >= 0 {
		return text[:slashes+1]
	}
	return ""
}

// openBefore is the quote that stands right before a name, or nothing.
func openBefore(text string) string {
	if text == "" || strings.IndexByte(quotes, text[len(text)-1]) < 0 {
		return ""
	}
	bare := strings.TrimRight(text[:len(text)-1], `\`)
	return text[len(bare):]
}

// quoted is what stands in quotes. The end has as many backslashes as the begin; one with more is a part of the value.
// Without an end it goes to the end of the text.
func quoted(text string, at int, q string) (from, to int) {
	from = at + len(q)
	for to = from; ; to++ {
		next := strings.IndexByte(text[to:], q[len(q)-1])
		if next < 0 {
			return from, len(text)
		}
		to += next
		value := text[from:to]
		if slashes := len(value) - len(strings.TrimRight(value, `\`)); slashes%2 == 0 && len(q) == 1 || slashes == len(q)-1 && len(q) > 1 {
			return from, to - len(q) + 1
		}
	}
}

// bracketed is how far an object or a list goes, or the whole text where it has no end.
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

// cut shortens a text to so many characters, the last of which says that it was cut (RD3).
func cut(text string, most int) string {
	if len(text) <= most || utf8.RuneCountInString(text) <= most {
		return text
	}
	end := 0
	for range most - 1 {
		_, size := utf8.DecodeRuneInString(text[end:])
		end += size
	}
	return text[:end] + "…"
}

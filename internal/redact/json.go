package redact

import (
	"strings"
	"unicode/utf16"
	"unicode/utf8"
)

// reader rewrites JSON without its secrets. The text is valid JSON. Every occurrence of a duplicate
// key is handled.
type reader struct {
	text string
	at   int
	p    *printer
	out  *writer
}

// member is the position of a member or list item in the text.
type member struct {
	key      string
	from, to int
}

// value rewrites the next value, at the given depth.
func (r *reader) value(depth int) {
	switch c := r.nextChar(); {
	case r.out.full():
		r.skip()
	case c == '"':
		r.p.leaf(r.out, unquote(r.skip()), depth+1)
	case c != '{' && c != '[':
		r.scalar(r.skip())
	case depth >= r.p.cfg.MaxDepth:
		r.skip()
		quote(r.out, Mark)
	case c == '{':
		r.object(depth)
	default:
		r.list(depth)
	}
}

// scalar rewrites a number or literal, unless it is a secret.
func (r *reader) scalar(value string) {
	if r.p.cfg.Known.Mask(value) != value {
		quote(r.out, Mark)
		return
	}
	r.out.WriteString(value)
}

// object rewrites an object. Under the name of a secret, only a count of tokens is shown. A pair of
// name and value counts too, as in {"name": "Cookie", "value": "…"}.
func (r *reader) object(depth int) {
	all := r.members('}')
	end := r.at
	named := ""
	for _, m := range all {
		if strings.EqualFold(m.key, "name") && r.text[m.from] == '"' {
			named = unquote(r.text[m.from:m.to])
		}
	}
	r.out.WriteByte('{')
	for i, m := range all {
		if i > 0 {
			r.out.WriteByte(',')
		}
		value := r.text[m.from:m.to]
		hidden := r.p.key(r.out, m.key) && !(countsTokens(m.key) && isJSONNumber(value))
		if hidden || strings.EqualFold(m.key, "value") && isSecretName(named) {
			quote(r.out, Mark)
		} else {
			r.at = m.from
			r.value(depth + 1)
		}
		if r.out.full() {
			break
		}
	}
	r.out.WriteByte('}')
	r.at = end
}

// list rewrites a list. The value after the name of a secret is hidden in a pair, as in ["Cookie",
// "…"], and after a command-line option, as in ["--token", "…"].
func (r *reader) list(depth int) {
	all := r.members(']')
	end := r.at
	r.out.WriteByte('[')
	for i, m := range all {
		if i > 0 {
			r.out.WriteByte(',')
		}
		if i > 0 && r.namesNext(all[i-1], len(all)) {
			quote(r.out, Mark)
		} else {
			r.at = m.from
			r.value(depth + 1)
		}
		if r.out.full() {
			break
		}
	}
	r.out.WriteByte(']')
	r.at = end
}

// namesNext reports whether an item of a list of n items says that the next one is secret.
func (r *reader) namesNext(m member, n int) bool {
	if r.text[m.from] != '"' {
		return false
	}
	name := unquote(r.text[m.from:m.to])
	return (n == 2 || strings.HasPrefix(name, "--")) && isSecretName(name)
}

// members skips an object or a list and returns its members.
func (r *reader) members(end byte) []member {
	var all []member
	for r.at++; r.nextChar() != end; {
		if r.text[r.at] == ',' {
			r.at++
			r.nextChar()
		}
		var m member
		if end == '}' {
			m.key = unquote(r.skip())
			r.nextChar()
			r.at++ // the colon
			r.nextChar()
		}
		m.from = r.at
		r.skip()
		m.to = r.at
		all = append(all, m)
	}
	r.at++
	return all
}

// nextChar skips white space and returns the next byte.
func (r *reader) nextChar() byte {
	for strings.IndexByte(" \t\r\n", r.text[r.at]) >= 0 {
		r.at++
	}
	return r.text[r.at]
}

// skip skips the next value and returns it.
func (r *reader) skip() string {
	from := r.at
	for depth := 0; r.at < len(r.text); {
		switch c := r.text[r.at]; c {
		case '"':
			for r.at++; r.text[r.at] != '"'; r.at++ {
				if r.text[r.at] == '\\' {
					r.at++
				}
			}
			r.at++
		case '{', '[':
			depth++
			r.at++
		case '}', ']':
			depth--
			r.at++
		default:
			r.at++
			if depth == 0 && !(r.at < len(r.text) && strings.IndexByte(",:}] \t\r\n", r.text[r.at]) < 0) {
				return r.text[from:r.at]
			}
			continue
		}
		if depth == 0 {
			break
		}
	}
	return r.text[from:r.at]
}

func isJSONNumber(value string) bool {
	return value[0] == '-' || '0' <= value[0] && value[0] <= '9'
}

// unquote decodes a JSON string. An unpaired surrogate becomes a replacement character.
func unquote(quoted string) string {
	inner := quoted[1 : len(quoted)-1]
	var out strings.Builder
	for {
		at := strings.IndexByte(inner, '\\')
		if at < 0 {
			return out.String() + inner
		}
		out.WriteString(inner[:at])
		inner = inner[at:]
		c := inner[1]
		if c != 'u' {
			if named := strings.IndexByte("btnfr", c); named >= 0 {
				c = "\b\t\n\f\r"[named]
			}
			out.WriteByte(c)
			inner = inner[2:]
			continue
		}
		r, size := rune(unit(inner)), 6
		if low := unit(inner[6:]); utf16.IsSurrogate(r) {
			if r = utf16.DecodeRune(r, rune(low)); r != utf8.RuneError {
				size = 12
			}
		}
		out.WriteRune(r)
		inner = inner[size:]
	}
}

// unit returns the number of the \u escape at the start of a text; 0: there is none.
func unit(text string) int {
	if !strings.HasPrefix(text, `\u`) {
		return 0
	}
	value, _ := hexDigits([]byte(text[:min(len(text), 6)]), 2, 4)
	return max(value, 0)
}

// quote writes a text as a JSON string, with the fewest escapes.
func quote(out *writer, text string) {
	out.WriteByte('"')
	for i := range len(text) {
		switch c := text[i]; {
		case c == '"' || c == '\\':
			out.WriteByte('\\')
			out.WriteByte(c)
		case c >= ' ':
			out.WriteByte(c)
		case strings.IndexByte("\b\t\n\f\r", c) >= 0:
			out.WriteByte('\\')
			out.WriteByte("btnfr"[strings.IndexByte("\b\t\n\f\r", c)])
		default:
			const digits = "0123456789abcdef"
			out.WriteString(`\u00`)
			out.WriteByte(digits[c>>4])
			out.WriteByte(digits[c&15])
		}
	}
	out.WriteByte('"')
}

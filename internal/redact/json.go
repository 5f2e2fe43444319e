package redact

import (
	"strings"
	"unicode/utf16"
	"unicode/utf8"
)

// reader writes JSON again, without its secrets. The text is valid. A key may come twice: each is looked at.
type reader struct {
	text string
	at   int
	p    *printer
	out  *writer
}

// member is where a member or an item stands in the text.
type member struct {
	key      string
	from, to int
}

// value writes the next value, which stands so many levels deep.
func (r *reader) value(depth int) {
	switch c := r.sign(); {
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

// scalar writes a number or a word, unless it is a secret.
func (r *reader) scalar(value string) {
	if r.p.cfg.Known.Mask(value) != value {
		quote(r.out, Mark)
		return
	}
	r.out.WriteString(value)
}

// object writes an object. Under the name of a secret nothing is shown but the number of tokens. A pair of a name and a
// value is a member too, as in {"name": "Cookie", "value": "…"}.
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
		hidden := r.p.key(r.out, m.key) && !(counts(m.key) && isJSONNumber(value))
		if hidden || strings.EqualFold(m.key, "value") && names(named) {
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

// list writes a list. What follows the name of a secret is hidden in a pair, as in ["Cookie", "…"], and behind an option
// of a command, as in ["--token", "…"].
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

// namesNext reports whether an item of a list of n names the next one as a secret.
func (r *reader) namesNext(m member, n int) bool {
	if r.text[m.from] != '"' {
		return false
	}
	name := unquote(r.text[m.from:m.to])
	return (n == 2 || strings.HasPrefix(name, "--")) && names(name)
}

// members goes over an object or a list, to behind its end, and returns what is in it.
func (r *reader) members(end byte) []member {
	var all []member
	for r.at++; r.sign() != end; {
		if r.text[r.at] == ',' {
			r.at++
			r.sign()
		}
		var m member
		if end == '}' {
			m.key = unquote(r.skip())
			r.sign()
			r.at++ // the colon
			r.sign()
		}
		m.from = r.at
		r.skip()
		m.to = r.at
		all = append(all, m)
	}
	r.at++
	return all
}

// sign goes to the next sign that is no space.
func (r *reader) sign() byte {
	for strings.IndexByte(" \t\r\n", r.text[r.at]) >= 0 {
		r.at++
	}
	return r.text[r.at]
}

// skip goes over the next value and returns it.
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

// unquote is the text of a string in JSON. Half of a surrogate pair is a replacement character.
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

// unit is the number in an escape that a text begins with; 0: it begins with none.
func unit(text string) int {
	if !strings.HasPrefix(text, `\u`) {
		return 0
	}
	value, _ := hexDigits([]byte(text[:min(len(text), 6)]), 2, 4)
	return max(value, 0)
}

// quote writes a text as a string in JSON. Only what must be is escaped.
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

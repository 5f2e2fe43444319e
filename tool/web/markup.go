package web

import (
	"html"
	"strings"
)

// kind is the kind of a piece of markup.
type kind int

const (
	textPiece kind = iota // with entities
	rawPiece              // content of a script, style or title: not markup
	startPiece
	endPiece
)

// piece is a text or a tag of a page.
type piece struct {
	kind kind
	name string // tag name in lower case; for raw text, the enclosing tag
	text string // the text; for a start tag, its attributes
}

// markup is a tokenizer for HTML. It accepts any input, never fails, and looks at each byte at most
// twice. The library's full parser only sees output that was filtered through it.
type markup struct {
	rest string
	raw  string // the element whose raw text comes next
}

// next returns the next piece; ok is false at the end.
func (m *markup) next() (piece, bool) {
	for m.rest != "" {
		if m.raw != "" {
			return m.rawText(), true
		}
		if m.rest[0] != '<' {
			return m.textTo(strings.IndexByte(m.rest, '<')), true
		}
		switch next := m.peek(1); {
		case isLetter(next):
			return m.startTag(), true
		case next == '/' && isLetter(m.peek(2)):
			return m.endTag(), true
		case strings.HasPrefix(m.rest, "<!--"):
			m.skipPast("-->")
		case next == '!' || next == '?' || next == '/':
			m.skipPast(">")
		default:
			return m.textTo(1 + strings.IndexByte(m.rest[1:], '<')), true
		}
	}
	return piece{}, false
}

// peek returns the byte at offset i of the rest, or 0 beyond the end.
func (m *markup) peek(i int) byte {
	if i >= len(m.rest) {
		return 0
	}
	return m.rest[i]
}

// textTo consumes n bytes as text; if n is less than 1, the whole rest.
func (m *markup) textTo(n int) piece {
	if n < 1 {
		n = len(m.rest)
	}
	text := m.rest[:n]
	m.rest = m.rest[n:]
	return piece{kind: textPiece, text: text}
}

func (m *markup) skipPast(end string) {
	_, after, found := strings.Cut(m.rest, end)
	if !found {
		after = ""
	}
	m.rest = after
}

// rawText consumes everything up to the end tag of the raw element.
func (m *markup) rawText() piece {
	name := m.raw
	m.raw = ""
	end := 0
	for {
		i := strings.Index(m.rest[end:], "</")
		if i < 0 {
			end = len(m.rest)
			break
		}
		end += i
		after := end + 2 + len(name)
		if after <= len(m.rest) && strings.EqualFold(m.rest[end+2:after], name) && !isLetter(m.peek(after)) {
			break
		}
		end += 2
	}
	p := piece{kind: rawPiece, name: name, text: m.rest[:end]}
	m.rest = m.rest[end:]
	return p
}

func (m *markup) startTag() piece {
	name, attributes := m.tag(1)
	if isRaw(name) {
		m.raw = name
	}
	return piece{kind: startPiece, name: name, text: attributes}
}

func (m *markup) endTag() piece {
	name, _ := m.tag(2)
	return piece{kind: endPiece, name: name}
}

// tag consumes a tag whose name starts at from. A ">" within quotes does not end it; an
// unterminated tag consumes the rest.
func (m *markup) tag(from int) (name, attributes string) {
	end := from
	for end < len(m.rest) && !isSpace(m.rest[end]) && m.rest[end] != '>' && m.rest[end] != '/' {
		end++
	}
	name = strings.ToLower(m.rest[from:end])
	var quote byte
	at := end
	for ; at < len(m.rest); at++ {
		c := m.rest[at]
		switch {
		case quote != 0:
			if c == quote {
				quote = 0
			}
			continue
		case (c == '"' || c == '\'') && lastSign(m.rest[end:at]) == '=':
			quote = c
			continue
		case c != '>':
			continue
		}
		break
	}
	attributes = m.rest[end:at]
	m.rest = m.rest[min(at+1, len(m.rest)):]
	return name, attributes
}

// lastSign returns the last byte that is not white space, or 0.
func lastSign(text string) byte {
	text = strings.TrimRight(text, " \t\n\r\f")
	if text == "" {
		return 0
	}
	return text[len(text)-1]
}

// attribute returns the value of an attribute of a start tag, with entities resolved. If the
// attribute is repeated, the first one counts.
func (p piece) attribute(name string) string {
	rest := p.text
	for {
		rest = strings.TrimLeft(rest, " \t\n\r\f/")
		if rest == "" {
			return ""
		}
		end := strings.IndexAny(rest[1:], " \t\n\r\f/=") + 1
		if end == 0 {
			return "" // the last attribute, without a value
		}
		key, after := rest[:end], strings.TrimLeft(rest[end:], " \t\n\r\f")
		value := ""
		if strings.HasPrefix(after, "=") {
			value, after = attributeValue(strings.TrimLeft(after[1:], " \t\n\r\f"))
		}
		if strings.EqualFold(key, name) {
			return html.UnescapeString(value)
		}
		rest = after
	}
}

// attributeValue splits the text after "=" into the value and the rest.
func attributeValue(text string) (value, rest string) {
	if text != "" && (text[0] == '"' || text[0] == '\'') {
		value, rest, _ = strings.Cut(text[1:], text[:1])
		return value, rest
	}
	end := strings.IndexAny(text, " \t\n\r\f")
	if end < 0 {
		return text, ""
	}
	return text[:end], text[end:]
}

// isRaw reports whether the content of an element is raw text.
func isRaw(name string) bool {
	switch name {
	case "script", "style", "textarea", "title", "iframe", "noscript", "noembed", "noframes":
		return true
	}
	return false
}

func isLetter(c byte) bool { return 'a' <= c|0x20 && c|0x20 <= 'z' }

func isSpace(c byte) bool { return c == ' ' || c == '\t' || c == '\n' || c == '\r' || c == '\f' }

package web

import (
	"html"
	"strings"
)

// kind says what a piece of markup is.
type kind int

const (
	textPiece kind = iota // with its entities
	rawPiece              // what stands in a script, style or title: no markup
	startPiece
	endPiece
)

// piece is a text or a tag of a page.
type piece struct {
	kind kind
	name string // of a tag, in small letters; of a raw text, of the tag that it stands in
	text string // of a text; of a start tag, its attributes
}

// markup reads a page piece by piece. It needs no well-formed page, never fails, and looks at each byte at
// most twice, whatever the page is: the full parser of the library is only shown what went through here.
type markup struct {
	rest string
	raw  string // the element whose raw text comes next
}

// next returns the next piece; false: there is none.
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

// peek is the byte at a place of the rest, 0 behind its end.
func (m *markup) peek(i int) byte {
	if i >= len(m.rest) {
		return 0
	}
	return m.rest[i]
}

// textTo takes n bytes as text; fewer than one: all that is left.
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

// rawText takes everything up to the end tag of the raw element.
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

// tag takes a tag whose name begins at from. A ">" in quotes does not end it; a tag without an end takes the rest.
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

// lastSign is the last byte of a text that is no space, 0 if there is none.
func lastSign(text string) byte {
	text = strings.TrimRight(text, " \t\n\r\f")
	if text == "" {
		return 0
	}
	return text[len(text)-1]
}

// attribute is the value of an attribute of a start tag, with its entities resolved. The first of a name counts.
func (p piece) attribute(name string) string {
	rest := p.text
	for {
		rest = strings.TrimLeft(rest, " \t\n\r\f/")
		if rest == "" {
			return ""
		}
		end := strings.IndexAny(rest[1:], " \t\n\r\f/=") + 1
		if end == 0 {
			return "" // the last one, without a value
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

// attributeValue splits the text behind "=" into the value and what follows.
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

// isRaw names the elements whose text is no markup.
func isRaw(name string) bool {
	switch name {
	case "script", "style", "textarea", "title", "iframe", "noscript", "noembed", "noframes":
		return true
	}
	return false
}

func isLetter(c byte) bool { return 'a' <= c|0x20 && c|0x20 <= 'z' }

func isSpace(c byte) bool { return c == ' ' || c == '\t' || c == '\n' || c == '\r' || c == '\f' }

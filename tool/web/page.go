package web

import (
	"html"
	"net/url"
	"strings"
)

// maxTitleRunes limits the title of a page.
const maxTitleRunes = 300

// page is a web page with the results of a first pass.
type page struct {
	text  string
	title string
	base  *url.URL       // base URL of relative links
	ends  map[string]int // number of end tags of noise elements, by name
}

// openPage makes the first pass over a page. at is its URL.
func openPage(text string, at *url.URL) page {
	p := page{text: text, base: at, ends: map[string]int{}}
	based, vector := false, 0 // titles inside vector graphics do not count
	m := markup{rest: text}
	for {
		piece, more := m.next()
		if !more {
			return p
		}
		switch {
		case piece.kind == rawPiece && piece.name == "title" && p.title == "" && vector == 0:
			p.title = shortTitle(piece.text)
		case piece.kind == startPiece && piece.name == "svg":
			vector++
		case piece.kind == startPiece && piece.name == "base" && !based:
			if to, err := url.Parse(strings.TrimSpace(piece.attribute("href"))); err == nil && piece.attribute("href") != "" {
				p.base, based = at.ResolveReference(to), true
			}
		case piece.kind == endPiece:
			if piece.name == "svg" {
				vector = max(vector-1, 0)
			}
			p.ends[piece.name] += count(isNoise(piece.name))
		}
	}
}

func count(yes bool) int {
	if yes {
		return 1
	}
	return 0
}

// shortTitle returns a title on one line, shortened.
func shortTitle(text string) string {
	title := []rune(strings.Join(strings.Fields(html.UnescapeString(text)), " "))
	if len(title) > maxTitleRunes {
		return string(title[:maxTitleRunes]) + "…"
	}
	return string(title)
}

// isNoise reports whether the content of an element does not belong to the text of the page.
// Scripts and similar elements are raw text, which is dropped anyway.
func isNoise(name string) bool {
	switch name {
	case "nav", "template", "svg", "math", "canvas", "select", "object", "audio", "video":
		return true
	}
	return false
}

// reading iterates over the pieces of a page that are content.
type reading struct {
	markup  markup
	ends    map[string]int // end tags of noise elements still to come
	keepNav bool
}

// read starts a reading. Navigation is left out, unless keepNav is true.
func (p page) read(keepNav bool) *reading {
	ends := make(map[string]int, len(p.ends))
	for name, n := range p.ends {
		ends[name] = n
	}
	return &reading{markup: markup{rest: p.text}, ends: ends, keepNav: keepNav}
}

// next returns the next text or tag; ok is false at the end.
func (r *reading) next() (piece, bool) {
	for {
		p, more := r.markup.next()
		if !more {
			return piece{}, false
		}
		switch {
		case p.kind == rawPiece:
			continue
		case !isNoise(p.name):
			return p, true
		case p.kind == endPiece:
			r.ends[p.name]--
		case p.name != "nav" || !r.keepNav:
			r.skip(p.name)
		}
	}
}

// skip skips a noise element. If it is never closed, only its tag is skipped, so that a page with a
// missing end tag keeps its text.
func (r *reading) skip(name string) {
	for depth := 1; depth > 0 && r.ends[name] > 0; {
		p, more := r.markup.next()
		switch {
		case !more:
			return
		case p.name != name:
		case p.kind == endPiece:
			depth--
			r.ends[name]--
		case p.kind == startPiece:
			depth++
		}
	}
}

// isBlock reports whether an element starts a new line and has no other meaning.
func isBlock(name string) bool {
	switch name {
	case "p", "div", "section", "article", "main", "header", "footer", "aside", "address", "figure", "figcaption",
		"fieldset", "legend", "form", "details", "summary", "dialog", "dl", "dt", "dd", "caption", "body", "html", "center",
		"optgroup", "option", "nav", "hgroup", "search", "menu", "dir":
		return true
	}
	return false
}

// heading returns the level of a heading, or 0 for any other element.
func heading(name string) int {
	if len(name) == 2 && name[0] == 'h' && '1' <= name[1] && name[1] <= '6' {
		return int(name[1] - '0')
	}
	return 0
}

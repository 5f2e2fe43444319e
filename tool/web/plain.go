package web

import (
	"html"
	"strings"
)

// plain writes a page as text: one line for each block, a tab between the cells of a row, no
// markup.
type plain struct {
	out   []byte
	pre   int  // number of open pre elements, in which white space is kept
	item  bool // the dash of a list item was written, but no text yet
	space bool // a space is needed before the next word
}

// plainText returns a page as plain text.
func (p page) plainText() string {
	text := p.plainWith(false)
	if text == "" {
		return p.plainWith(true)
	}
	return text
}

func (p page) plainWith(keepNav bool) string {
	w := plain{}
	r := p.read(keepNav)
	for {
		piece, more := r.next()
		switch {
		case !more:
			return strings.TrimSpace(string(w.out))
		case piece.kind == textPiece:
			w.text(html.UnescapeString(piece.text))
		default:
			w.tag(piece)
		}
	}
}

func (w *plain) tag(p piece) {
	starts := p.kind == startPiece
	switch p.name {
	case "br":
		w.out, w.space = append(w.out, '\n'), false
	case "li":
		w.item = false
		w.lines(1)
		if starts {
			w.out, w.item = append(w.out, "- "...), true
		}
	case "td", "th":
		if n := len(w.out); starts && n > 0 && w.out[n-1] != '\n' {
			w.out, w.space = append(w.out, '\t'), false
		}
	case "tr", "div", "dt", "dd", "option":
		w.lines(1)
	case "pre":
		w.lines(2)
		w.pre = max(w.pre+2*count(starts)-1, 0)
	case "p", "ul", "ol", "table", "blockquote", "hr":
		w.lines(2)
	case "img":
		if alt := p.attribute("alt"); starts && alt != "" {
			w.text("[" + alt + "]")
		}
	default:
		if heading(p.name) > 0 || isBlock(p.name) {
			w.lines(2)
		}
	}
}

// lines ends the current line so that n line ends precede the following text.
func (w *plain) lines(n int) {
	w.space = false
	if w.item {
		return
	}
	end := len(w.out)
	for end > 0 && (w.out[end-1] == ' ' || w.out[end-1] == '\t') {
		end--
	}
	w.out = w.out[:end]
	for end > 0 && n > 0 && w.out[end-1] == '\n' {
		end--
		n--
	}
	for ; n > 0 && len(w.out) > 0; n-- {
		w.out = append(w.out, '\n')
	}
}

// text writes words separated by single spaces; inside pre it writes the text unchanged.
func (w *plain) text(text string) {
	if w.pre > 0 {
		w.out, w.item = append(w.out, text...), false
		return
	}
	for i, word := range strings.Fields(text) {
		before := w.space || i > 0 || startsWithSpace(text)
		if n := len(w.out); before && n > 0 && !isSpace(w.out[n-1]) {
			w.out = append(w.out, ' ')
		}
		w.out, w.space, w.item = append(w.out, word...), false, false
	}
	w.space = w.space || text != "" && isSpace(text[len(text)-1])
}

func startsWithSpace(text string) bool { return text != "" && isSpace(text[0]) }

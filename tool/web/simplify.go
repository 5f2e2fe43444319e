package web

import (
	"html"
	"slices"
	"strconv"
	"strings"
)

// The bounds of what the converter is shown. A page beyond them is written as plain text instead.
const (
	maxNesting   = 16      // lists, quotes and tables inside each other; deeper ones lose their markup
	maxWork      = 1 << 21 // tags and lines, each counted once for every list, quote or table around it
	maxTableArea = 1 << 19 // cells of all tables, with those that a span adds
	maxSpanned   = 1 << 14 // cells that spans may add
	maxColSpan   = 100
	maxRowSpan   = 1000
	maxFreeBase  = 128 // bytes of the page's address; where it is longer, each link pays for the rest
)

// simplified is a page as the converter is shown it: the few elements that Markdown has, well nested, with
// nothing but the attributes that it reads. So its work and its memory are bounded by the length of the page,
// whatever the page is: the depth of the tree, the elements that a parser opens again in every block, and
// the area of a table, which two numbers in attributes can make as large as they like.
type simplified struct {
	out      []byte
	nest     []string       // quotes, lists and tables that are open
	dropped  map[string]int // such elements that were too deep, by name
	heading  int            // level of the heading that is open; 0: none
	pre      int            // pre elements that are open
	headRows bool           // inside a thead
	inline   inline
	spanned  int // cells that spans have added
	table    tableArea
	area     int // of the tables before this one
	work     int
}

// tableArea measures a table from its tags. It never says less than the converter will make of it.
type tableArea struct{ rows, cells, widest, spans, highest int }

// row begins a row.
func (t *tableArea) row() {
	t.widest = max(t.widest, t.cells)
	t.rows++
	t.cells = 0
}

// size is the area in cells.
func (t tableArea) size() int {
	return (t.rows + t.highest + 1) * (max(t.widest, t.cells) + t.spans)
}

// simplify returns the page for the converter; false: it is beyond the bounds.
func (p page) simplify(keepNav bool) (string, bool) {
	s := simplified{dropped: map[string]int{}}
	s.inline.budget = 2*len(p.text) + 1<<16
	s.inline.base = max(len(p.base.String())-maxFreeBase, 0)
	r := p.read(keepNav)
	for {
		piece, more := r.next()
		if !more {
			break
		}
		switch piece.kind {
		case textPiece:
			s.text(piece.text)
		case startPiece:
			s.start(piece, r)
		default:
			s.end(piece.name)
		}
		s.work += (1 + strings.Count(piece.text, "\n")) * (1 + len(s.nest))
		if s.area+s.table.size() > maxTableArea || s.work > maxWork {
			return "", false
		}
	}
	s.block("")
	return string(s.out), true
}

// text writes a text. A "<" that begins no tag must not begin one when its neighbours are gone.
func (s *simplified) text(text string) {
	if s.pre == 0 && strings.TrimSpace(text) != "" {
		s.out = s.inline.open(s.out)
	}
	s.out = append(s.out, strings.ReplaceAll(text, "<", "&lt;")...)
}

func (s *simplified) start(p piece, r *reading) {
	level := heading(p.name)
	switch {
	case s.pre > 0:
		s.inPre(p)
	case s.inline.start(p):
	case level > 0:
		s.endHeading()
		s.block("<h" + strconv.Itoa(level) + ">")
		s.heading = level
	case p.name == "ul" || p.name == "ol" || p.name == "blockquote" || p.name == "table":
		s.push(p)
	case p.name == "li":
		s.item()
	case p.name == "tr" || p.name == "td" || p.name == "th":
		s.cell(p)
	case p.name == "thead" || p.name == "tbody" || p.name == "tfoot":
		s.headRows = p.name == "thead"
	case p.name == "br":
		s.out = append(s.out, "<br>"...)
	case p.name == "hr":
		s.endHeading()
		s.block("<hr>")
	case p.name == "img":
		s.image(p)
	case p.name == "pre":
		s.endHeading()
		s.block(`<pre` + codeClass(p, r) + `>`)
		s.pre = 1
	case isBlock(p.name):
		s.paragraph()
	}
}

func (s *simplified) end(name string) {
	switch {
	case s.pre > 0:
		if name == "pre" {
			s.pre--
		}
		if name == "pre" && s.pre == 0 {
			s.out = append(s.out, "</pre>"...)
		}
	case s.inline.end(name):
		s.out = s.inline.shut(s.out)
	case heading(name) > 0:
		s.endHeading()
	case name == "ul" || name == "ol" || name == "blockquote" || name == "table":
		s.pop(name)
	case name == "tr" && slices.Contains(s.nest, "table"):
		s.table.row()
		s.block("</tr>")
	case name == "thead":
		s.headRows = false
	case isBlock(name):
		s.paragraph()
	}
}

// block ends the formats of the present block and writes a tag.
func (s *simplified) block(tag string) {
	s.out = s.inline.closeAll(s.out)
	s.out = append(s.out, tag...)
}

// paragraph begins a block without a meaning of its own. In a heading it is a space: a heading is one line.
func (s *simplified) paragraph() {
	if s.heading > 0 {
		s.out = append(s.out, ' ')
		return
	}
	s.block("<p>")
}

func (s *simplified) endHeading() {
	if s.heading == 0 {
		return
	}
	s.block("</h" + strconv.Itoa(s.heading) + ">")
	s.heading = 0
}

// push opens a quote, list or table, unless it is too deep.
func (s *simplified) push(p piece) {
	s.endHeading()
	if len(s.nest) == maxNesting {
		s.dropped[p.name]++
		s.block("<p>")
		return
	}
	s.nest = append(s.nest, p.name)
	tag := "<" + p.name
	if first, err := strconv.Atoi(p.attribute("start")); err == nil && p.name == "ol" && first >= 0 && first < 1<<20 {
		tag += ` start="` + strconv.Itoa(first) + `"`
	}
	if p.name == "table" {
		s.area += s.table.size()
		s.table, s.headRows = tableArea{}, false
	}
	s.block(tag + ">")
}

// pop closes the last such element, and what is open in it. Lists and quotes do not reach out of their table.
func (s *simplified) pop(name string) {
	s.endHeading()
	if s.dropped[name] > 0 {
		s.dropped[name]--
		return
	}
	for i := len(s.nest) - 1; i >= 0; i-- {
		if s.nest[i] == name {
			s.nest = s.nest[:i]
			s.block("</" + name + ">")
			return
		}
		if s.nest[i] == "table" {
			return
		}
	}
}

// item begins an item of a list.
func (s *simplified) item() {
	s.endHeading()
	if n := len(s.nest); n > 0 && (s.nest[n-1] == "ul" || s.nest[n-1] == "ol") {
		s.block("<li>")
		return
	}
	s.block("<p>")
}

// cell begins a row or a cell of the innermost table.
func (s *simplified) cell(p piece) {
	s.endHeading()
	n := len(s.nest)
	for n > 0 && s.nest[n-1] != "table" {
		n--
	}
	if n == 0 {
		s.block("<p>")
		return
	}
	s.nest = s.nest[:n]
	if p.name == "tr" {
		s.table.row()
		s.block("<tr>")
		return
	}
	name := p.name
	if s.headRows {
		name = "th"
	}
	s.block("<" + name + s.span(p) + ">")
}

// span counts a cell and returns its attributes.
func (s *simplified) span(p piece) string {
	wide, high := spanOf(p, "colspan", maxColSpan), spanOf(p, "rowspan", maxRowSpan)
	if s.spanned+wide*high > maxSpanned {
		wide, high = 1, 1
	}
	s.table.cells += wide
	text := ""
	if wide > 1 {
		text = ` colspan="` + strconv.Itoa(wide) + `"`
	}
	if high > 1 {
		text += ` rowspan="` + strconv.Itoa(high) + `"`
		s.table.spans += wide
		s.table.highest = max(s.table.highest, high)
	}
	if text != "" {
		s.spanned += wide * high
	}
	if align := strings.ToLower(p.attribute("align")); align == "left" || align == "center" || align == "right" {
		text += ` align="` + align + `"`
	}
	return text
}

func spanOf(p piece, name string, most int) int {
	n, err := strconv.Atoi(strings.TrimSpace(p.attribute(name)))
	if err != nil || n < 1 {
		return 1
	}
	return min(n, most)
}

// image writes a picture. One that is in the page itself is only named.
func (s *simplified) image(p piece) {
	source, alt := strings.TrimSpace(p.attribute("src")), p.attribute("alt")
	if source == "" || strings.HasPrefix(strings.ToLower(source), "data:") || !s.inline.affords(s.inline.base) {
		s.text(html.EscapeString(alt))
		return
	}
	s.out = s.inline.open(s.out)
	s.out = append(s.out, `<img src="`+html.EscapeString(source)+`" alt="`+html.EscapeString(alt)+`">`...)
}

// inPre is a start tag where spaces count: only line ends are kept of it.
func (s *simplified) inPre(p piece) {
	switch p.name {
	case "br", "div", "p", "li", "tr":
		s.out = append(s.out, '\n')
	case "pre":
		s.pre++
	}
}

// codeClass is the class that names the language of a pre, which mostly stands at the code in it.
func codeClass(p piece, r *reading) string {
	class := p.attribute("class")
	ahead := r.markup
	if inner, more := ahead.next(); more && inner.kind == startPiece && inner.name == "code" {
		class += " " + inner.attribute("class")
	}
	for _, word := range strings.Fields(class) {
		name, ok := strings.CutPrefix(word, "language-")
		if !ok {
			name, ok = strings.CutPrefix(word, "lang-")
		}
		if ok && name != "" && len(name) <= 30 && strings.Trim(name, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789+-#_") == "" {
			return ` class="language-` + name + `"`
		}
	}
	return ""
}

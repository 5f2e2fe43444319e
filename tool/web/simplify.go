package web

import (
	"html"
	"slices"
	"strconv"
	"strings"
)

// The limits of the input for the converter. A page beyond them is written as plain text instead.
const (
	maxNesting   = 16      // nested lists, quotes and tables; deeper ones lose their markup
	maxWork      = 1 << 21 // tags and lines, each counted once for every enclosing list, quote or table
	maxTableArea = 1 << 19 // cells of all tables, including those added by spans
	maxSpanned   = 1 << 14 // cells added by spans
	maxColSpan   = 100
	maxRowSpan   = 1000
	// Bytes of the page's address that are free for each link; a longer address costs budget.
	maxFreeBase = 128
)

// simplified is a page reduced for the converter: only the elements that Markdown has, well nested,
// with only the attributes that it reads. This limits the converter's time and memory for any page:
// the depth of the tree, the elements that a parser reopens in every block, and the area of a
// table, which two numbers in attributes could make arbitrarily large.
type simplified struct {
	out      []byte
	nest     []string       // open quotes, lists and tables
	dropped  map[string]int // such elements dropped because of the depth, by name
	heading  int            // level of the open heading; 0: none
	pre      int            // number of open pre elements
	headRows bool           // inside a thead
	inline   inline
	spanned  int // cells added by spans so far
	table    tableArea
	area     int // of the preceding tables
	work     int
}

// tableArea computes an upper bound of the area of a table from its tags.
type tableArea struct{ rows, cells, widest, spans, highest int }

// row starts a row.
func (t *tableArea) row() {
	t.widest = max(t.widest, t.cells)
	t.rows++
	t.cells = 0
}

// size returns the area in cells.
func (t tableArea) size() int {
	return (t.rows + t.highest + 1) * (max(t.widest, t.cells) + t.spans)
}

// simplify returns the page for the converter; ok is false if it exceeds the limits.
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

// text writes a text. It escapes "<", which might otherwise form a tag with new neighbours.
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
		s.out = s.inline.closeTag(s.out)
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

// block closes the inline formats and writes a block tag.
func (s *simplified) block(tag string) {
	s.out = s.inline.closeAll(s.out)
	s.out = append(s.out, tag...)
}

// paragraph starts a block without a meaning of its own. Inside a heading it writes a space,
// because a heading is one line.
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

// push opens a quote, list or table, unless it is nested too deeply.
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

// pop closes the innermost element with this name, and everything open inside it. It does not close
// elements outside the innermost table.
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

// item starts a list item.
func (s *simplified) item() {
	s.endHeading()
	if n := len(s.nest); n > 0 && (s.nest[n-1] == "ul" || s.nest[n-1] == "ol") {
		s.block("<li>")
		return
	}
	s.block("<p>")
}

// cell starts a row or a cell of the innermost table.
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

func spanOf(p piece, name string, limit int) int {
	n, err := strconv.Atoi(strings.TrimSpace(p.attribute(name)))
	if err != nil || n < 1 {
		return 1
	}
	return min(n, limit)
}

// image writes an image. For an embedded image it writes only the alternative text.
func (s *simplified) image(p piece) {
	source, alt := strings.TrimSpace(p.attribute("src")), p.attribute("alt")
	if source == "" || strings.HasPrefix(strings.ToLower(source), "data:") || !s.inline.fitsBudget(s.inline.base) {
		s.text(html.EscapeString(alt))
		return
	}
	s.out = s.inline.open(s.out)
	s.out = append(s.out, `<img src="`+html.EscapeString(source)+`" alt="`+html.EscapeString(alt)+`">`...)
}

// inPre handles a start tag inside pre: only line ends are kept.
func (s *simplified) inPre(p piece) {
	switch p.name {
	case "br", "div", "p", "li", "tr":
		s.out = append(s.out, '\n')
	case "pre":
		s.pre++
	}
}

// codeClass returns the class attribute with the language of a pre, which is usually found at the
// code element inside it.
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

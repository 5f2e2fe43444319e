package web

import (
	"html"
	"strings"
)

// The inline formats, in nesting order.
var formats = [...]string{"a", "b", "i", "code"}

// inline tracks inline formats: those open in the page, and those open in the output. Tags are
// written only when there is text to format, and are closed at the end of each block.
type inline struct {
	want    map[string]int // how many of each are open in the page
	link    string         // target of the open link
	written []string       // tags open in the output, outermost first
	budget  int            // bytes of tags and addresses that may still be written
	base    int            // bytes that the page's address adds to each link, above maxFreeBase
}

// formatOf returns the format of an element; empty: none.
func formatOf(name string) string {
	switch name {
	case "a":
		return "a"
	case "b", "strong":
		return "b"
	case "i", "em", "cite", "dfn":
		return "i"
	case "code", "kbd", "samp", "tt", "var":
		return "code"
	}
	return ""
}

// start handles a start tag, and reports whether it belongs to a format.
func (f *inline) start(p piece) bool {
	format := formatOf(p.name)
	if format == "" {
		return false
	}
	if f.want == nil {
		f.want = map[string]int{}
	}
	if format == "a" {
		f.want["a"] = 0 // links do not nest
		f.link = strings.TrimSpace(p.attribute("href"))
		if f.link == "" || strings.HasPrefix(strings.ToLower(f.link), "javascript:") {
			return true
		}
	}
	f.want[format]++
	return true
}

// end handles an end tag, and reports whether it belongs to a format.
func (f *inline) end(name string) bool {
	format := formatOf(name)
	if f.want[format] > 0 {
		f.want[format]--
	}
	return format != ""
}

// tags returns the start tags of the formats open in the page.
func (f *inline) tags() []string {
	var tags []string
	for _, format := range formats {
		switch {
		case f.want[format] == 0:
		case format == "a":
			tags = append(tags, `<a href="`+html.EscapeString(f.link)+`">`)
		default:
			tags = append(tags, "<"+format+">")
		}
	}
	return tags
}

// open writes the tags for the next text.
func (f *inline) open(out []byte) []byte {
	tags := f.tags()
	same := f.same(tags)
	out = f.close(out, same)
	for _, tag := range tags[same:] {
		cost := len(tag) + len("</code>")
		if strings.HasPrefix(tag, "<a ") {
			cost += f.base
		}
		if !f.fitsBudget(cost) {
			break
		}
		out = append(out, tag...)
		f.written = append(f.written, tag)
	}
	return out
}

// fitsBudget takes the cost from the budget, and reports whether the budget covered it.
func (f *inline) fitsBudget(cost int) bool {
	f.budget -= cost
	return f.budget >= 0
}

// closeTag closes the tags that are no longer open in the page.
func (f *inline) closeTag(out []byte) []byte { return f.close(out, f.same(f.tags())) }

// closeAll closes all tags at the end of a block.
func (f *inline) closeAll(out []byte) []byte { return f.close(out, 0) }

// same returns how many of the tags are already open in the output.
func (f *inline) same(tags []string) int {
	n := 0
	for n < len(tags) && n < len(f.written) && tags[n] == f.written[n] {
		n++
	}
	return n
}

// close closes the open tags except the first keep.
func (f *inline) close(out []byte, keep int) []byte {
	for i := len(f.written) - 1; i >= keep; i-- {
		name, _, _ := strings.Cut(strings.Trim(f.written[i], "<>"), " ")
		out = append(out, "</"+name+">"...)
	}
	f.written = f.written[:min(keep, len(f.written))]
	return out
}

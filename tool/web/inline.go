package web

import (
	"html"
	"strings"
)

// The formats within a line, in the order in which they nest.
var formats = [...]string{"a", "b", "i", "code"}

// inline is the formats within a line: those that the page has open, and those that are written. They are
// written when there is something to format, and never reach over the end of a block.
type inline struct {
	want    map[string]int // how often each is open in the page
	link    string         // where the open link leads
	written []string       // tags that are open in what is written, outermost first
	budget  int            // bytes of tags, and of addresses, that may still be written
	base    int            // bytes that the page's address adds to each link, beyond what is free
}

// formatOf is the format that an element stands for; empty: none.
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

// start takes a start tag, and reports whether it is one of a format.
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

// end takes an end tag, and reports whether it is one of a format.
func (f *inline) end(name string) bool {
	format := formatOf(name)
	if f.want[format] > 0 {
		f.want[format]--
	}
	return format != ""
}

// tags are the start tags of what is open in the page.
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

// open writes the tags that the next text needs.
func (f *inline) open(out []byte) []byte {
	tags := f.tags()
	same := f.same(tags)
	out = f.close(out, same)
	for _, tag := range tags[same:] {
		cost := len(tag) + len("</code>")
		if strings.HasPrefix(tag, "<a ") {
			cost += f.base
		}
		if !f.affords(cost) {
			break
		}
		out = append(out, tag...)
		f.written = append(f.written, tag)
	}
	return out
}

// affords pays for what is about to be written, and reports whether the budget is enough for it.
func (f *inline) affords(cost int) bool {
	f.budget -= cost
	return f.budget >= 0
}

// shut closes the tags that are not open in the page any more.
func (f *inline) shut(out []byte) []byte { return f.close(out, f.same(f.tags())) }

// closeAll closes all, at the end of a block.
func (f *inline) closeAll(out []byte) []byte { return f.close(out, 0) }

// same is how many of the tags are written already.
func (f *inline) same(tags []string) int {
	n := 0
	for n < len(tags) && n < len(f.written) && tags[n] == f.written[n] {
		n++
	}
	return n
}

// close closes the written tags but the first keep.
func (f *inline) close(out []byte, keep int) []byte {
	for i := len(f.written) - 1; i >= keep; i-- {
		name, _, _ := strings.Cut(strings.Trim(f.written[i], "<>"), " ")
		out = append(out, "</"+name+">"...)
	}
	f.written = f.written[:min(keep, len(f.written))]
	return out
}

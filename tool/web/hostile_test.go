package web

import (
	"runtime"
	"strings"
	"testing"
)

// hostileBytes is the size of such a page. What grows faster than the page shows well at this size.
const hostileBytes = 1 << 15

// hostile are pages that are each made to be dear in a way of their own.
func hostile() map[string]string {
	fill := func(before, unit string) string {
		return before + strings.Repeat(unit, (hostileBytes-len(before))/len(unit))
	}
	half := func(a, b string) string {
		return strings.Repeat(a, hostileBytes/2/len(a)) + strings.Repeat(b, hostileBytes/2/len(b))
	}
	pages := map[string]string{
		"divs":              fill("", "<div>"),
		"divs with text":    fill("", "<div>a"),
		"formats":           fill("", "<b>a"),
		"formats of a kind": fill("<p>"+strings.Repeat("<b><i><code><a href=x>", 100), "<p>x"),
		"formats around":    fill("", "<b><i>a</b></i>"),
		"links":             fill("<a href="+strings.Repeat("y", 2000)+">", "<p>x"),
		"links and heads":   fill("", "<a href=x><h1>x"),
		"codes":             fill("", "<code>a</code> <b>b</b>"),
		"codes empty":       fill("", "<code></code>"),
		"bolds empty":       fill("", "<b></b><a href=x></a>"),
		"pres":              fill("", "<pre>"),
		"pres closed":       fill("", "<pre>a\n</pre>"),
		"lists":             fill("", "<ul><li>"),
		"items":             fill("<ul>", "<li>a"),
		"items unlisted":    fill("", "<li>a"),
		"lists in a row":    fill("", "<ul><li>a</ul>"),
		"quotes":            fill(strings.Repeat("<blockquote>", 500), "a<br>"),
		"lists deep":        fill(strings.Repeat("<ul><li>", 500), "a<br>"),
		"wide table":        half("<td>a", "<tr><td>a"),
		"long table":        "<table>" + half("<td>a", "<tr><td>a"),
		"long table fair":   fill("<table>", "<tr><td>a<td>b"),
		"spans":             fill("<table>", "<tr><td colspan=1000000000 rowspan=1000000000>"),
		"tables":            fill("", "<table><tr><td>a</table>"),
		"tables in tables":  fill("", "<table><tr><td>"),
		"select":            "<table><tr>" + half("<td>a<select></tr></select>", "<tr><td>a"),
		"lesser":            fill("", "<"),
		"lesser and more":   fill("", "<>"),
		"comments":          fill("", "<!--"),
		"ends":              fill("", "</b>"),
		"quotation marks":   fill("<a ", "'=\""),
		"entities":          fill("", "&amp;&#0;&notanentity"),
		"breaks":            fill("", "<br>"),
		"stars":             fill("", "*_`[](<>"),
		"spaces":            fill("a", " "),
		"scripts":           fill("", "<script>"),
		"titles":            fill("", "<title>a</title>"),
		"navs":              fill("", "<nav>a"),
		"navs closed":       half("<nav>", "</nav>"),
		"headings":          fill("", "<h1>a"),
		"headings empty":    fill("", "<h1></h1>"),
		"images":            fill("", "<img src=a>"),
		"rules":             fill("", "<hr>"),
		"newlines":          fill("<pre>", "\n"),
		"backticks":         fill("<pre>", "`"),
		"code backticks":    fill("<code>", "` "),
		"attributes":        fill("<a ", "href=a "),
		"long base":         "<base href=http://example.com/" + strings.Repeat("y", hostileBytes/2) + "/>" + strings.Repeat("<a href=x>a</a>", hostileBytes/30),
		"long base, images": "<base href=http://example.com/" + strings.Repeat("y", hostileBytes/2) + "/>" + strings.Repeat("<img src=x>", hostileBytes/22),
	}
	// Each of these is escaped by a look around it, which may go far.
	for _, sign := range []string{"[", "]", "*", "_", "`", "#", ">", "|", "!", `\`, "-", "+", "=", "~", ".", ")", "1."} {
		pages["signs "+sign] = fill("<p>", sign)
		pages["signs with spaces "+sign] = fill("<p>", sign+" ")
		pages["signs in bold "+sign] = fill("<p>", "<b>"+sign+"</b>")
		pages["signs in cells "+sign] = fill("<table><tr>", "<td>"+sign)
		pages["lines of "+sign] = fill("<p>", sign+"<br>")
	}
	return pages
}

// TestHostilePages wants the memory that a page costs, and what becomes of it, bounded by its
// length. Memory stands for time, which a test cannot measure: what takes long here makes much. Not
// parallel, since it counts the memory of the process.
func TestHostilePages(t *testing.T) {
	const mostMemory, mostText = 1500, 24 // bytes for a byte of the page
	for name, text := range hostile() {
		t.Run(name, func(t *testing.T) {
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)

			p := openPage(text, from(t))
			markdown, err := p.markdown(t.Context())
			plain := p.plainText()

			runtime.ReadMemStats(&after)
			if used := (after.TotalAlloc - before.TotalAlloc) / uint64(len(text)); err != nil || used > mostMemory {
				t.Errorf("%d bytes of memory for a byte of the page, %v", used, err)
			}
			if len(markdown) > mostText*len(text) || len(plain) > mostText*len(text) {
				t.Errorf("%d bytes became %d of Markdown and %d of text", len(text), len(markdown), len(plain))
			}
		})
	}
}

// TestNesting wants the text of a page kept where its markup is too deep, and the markup around it.
func TestNesting(t *testing.T) {
	t.Parallel()
	const depth = 20_000
	for tag, want := range map[string]string{
		"div":        "# a\n\nbottom\n\n## b",
		"blockquote": "# a\n\n" + strings.Repeat("> ", maxNesting) + "bottom\n\n## b",
		"b":          "# a\n\n**bottom**\n\n## b",
	} {
		text := "<h1>a</h1>" + strings.Repeat("<"+tag+">", depth) + "bottom" + strings.Repeat("</"+tag+">", depth) + "<h2>b</h2>"

		got, err := openPage(text, from(t)).markdown(t.Context())

		if got != want || err != nil {
			t.Errorf("%s: got %.200q, %v", tag, got, err)
		}
	}
}

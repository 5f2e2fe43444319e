package manual

import (
	"bytes"
	"path"
	"strconv"
	"strings"

	"github.com/yuin/goldmark"
	"github.com/yuin/goldmark/ast"
	"github.com/yuin/goldmark/extension"
	"github.com/yuin/goldmark/parser"
	"github.com/yuin/goldmark/renderer"
	"github.com/yuin/goldmark/util"
)

// markdown reads and shows pages: CommonMark with tables, no HTML of a page's own, and headings that can be gone to.
var markdown = goldmark.New(
	goldmark.WithExtensions(extension.NewTable(extension.WithTableCellAlignMethod(extension.TableCellAlignAttribute))), // no style attribute: the policy forbids it
	goldmark.WithParserOptions(parser.WithAutoHeadingID()),
	goldmark.WithRendererOptions(renderer.WithNodeRenderers(util.Prioritized(blocks{}, 100))),
)

// inContext is what one page is read in: its headings have ids of their own.
func inContext() parser.ParseOption {
	return parser.WithContext(parser.NewContext(parser.WithIDs(&ids{taken: map[string]bool{}})))
}

// ids names headings as the hosts of repositories do, so that one link works in both places.
type ids struct{ taken map[string]bool }

// Generate makes the id of a heading.
func (s *ids) Generate(text []byte, _ ast.NodeKind) []byte {
	var out strings.Builder
	for _, c := range strings.ToLower(string(text)) {
		switch {
		case c >= 'a' && c <= 'z', c >= '0' && c <= '9', c == '-', c == '_':
			out.WriteRune(c)
		case c == ' ':
			out.WriteByte('-')
		}
	}
	id := out.String()
	for n := 1; s.taken[id]; n++ {
		id = out.String() + "-" + strconv.Itoa(n)
	}
	s.Put([]byte(id))
	return []byte(id)
}

// Put takes an id.
func (s *ids) Put(id []byte) { s.taken[string(id)] = true }

// blocks shows blocks of code otherwise than goldmark does, and no HTML.
type blocks struct{}

// RegisterFuncs names what it shows.
func (b blocks) RegisterFuncs(reg renderer.NodeRendererFuncRegisterer) {
	reg.Register(ast.KindFencedCodeBlock, b.code)
	reg.Register(ast.KindCodeBlock, b.code)
	none := func(util.BufWriter, []byte, ast.Node, bool) (ast.WalkStatus, error) { return ast.WalkSkipChildren, nil }
	reg.Register(ast.KindHTMLBlock, none) // comments for tests
	reg.Register(ast.KindRawHTML, none)
}

// code shows a block that may be wider than the window: it takes the focus, so that it can be moved by keys.
func (blocks) code(w util.BufWriter, source []byte, n ast.Node, entering bool) (ast.WalkStatus, error) {
	if !entering {
		_, err := w.WriteString("</code></pre>\n")
		return ast.WalkContinue, err
	}
	if _, err := w.WriteString(`<pre tabindex="0"><code>`); err != nil {
		return ast.WalkStop, err
	}
	for i := range n.Lines().Len() {
		line := n.Lines().At(i)
		if _, err := w.Write(util.EscapeHTML(line.Value(source))); err != nil {
			return ast.WalkStop, err
		}
	}
	return ast.WalkContinue, nil
}

// body shows what a page says. known has the files and folders that are shown, too.
func (p *page) body(known map[string]bool) ([]byte, error) {
	var links []*ast.Link
	err := ast.Walk(p.tree, func(n ast.Node, entering bool) (ast.WalkStatus, error) {
		if link, ok := n.(*ast.Link); ok && entering {
			links = append(links, link)
		}
		return ast.WalkContinue, nil
	})
	if err != nil {
		return nil, err
	}
	for _, link := range links {
		p.lead(link, known)
	}
	var out bytes.Buffer
	err = markdown.Renderer().Render(&out, p.source, p.tree)
	return out.Bytes(), err
}

// lead makes a link lead to where its page is shown. What only the repository has is named, and not linked.
func (p *page) lead(link *ast.Link, known map[string]bool) {
	target, anchor, _ := strings.Cut(string(link.Destination), "#")
	if target == "" || strings.Contains(target, "://") {
		return
	}
	if anchor != "" {
		anchor = "#" + anchor
	}
	file := path.Join(path.Dir(p.file), target)
	switch {
	case known[file]:
		link.Destination = []byte(relative(address(p.file), address(file)) + anchor)
		return
	case file == "reference/openapi.json":
		link.Destination = []byte(relative(address(p.file), "/openapi.json"))
		return
	}
	parent := link.Parent()
	words := plain(link, p.source)
	for child := link.FirstChild(); child != nil; child = link.FirstChild() {
		parent.InsertBefore(parent, link, child)
	}
	if where := strings.TrimPrefix(path.Join("docs", file), "../"); !strings.Contains(words, where) {
		parent.InsertBefore(parent, link, ast.NewString([]byte(" ("+where+" in the repository)")))
	}
	parent.RemoveChild(parent, link)
}

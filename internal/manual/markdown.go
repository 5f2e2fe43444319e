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

// markdown parses and renders pages: CommonMark with tables, without HTML, and with ids of
// headings.
var markdown = goldmark.New(
	// no style attributes: the policy forbids them
	goldmark.WithExtensions(extension.NewTable(extension.WithTableCellAlignMethod(extension.TableCellAlignAttribute))),
	goldmark.WithParserOptions(parser.WithAutoHeadingID()),
	goldmark.WithRendererOptions(renderer.WithNodeRenderers(util.Prioritized(blocks{}, 100))),
)

// inContext returns the parser context of one page, which has its own ids of headings.
func inContext() parser.ParseOption {
	return parser.WithContext(parser.NewContext(parser.WithIDs(&ids{taken: map[string]bool{}})))
}

// ids creates ids of headings like repository hosts do, so that a link works in both places.
type ids struct{ taken map[string]bool }

// Generate returns the id of a heading.
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

// Put reserves an id.
func (s *ids) Put(id []byte) { s.taken[string(id)] = true }

// blocks renders code blocks in its own way, and no HTML.
type blocks struct{}

func (b blocks) RegisterFuncs(reg renderer.NodeRendererFuncRegisterer) {
	reg.Register(ast.KindFencedCodeBlock, b.code)
	reg.Register(ast.KindCodeBlock, b.code)
	none := func(util.BufWriter, []byte, ast.Node, bool) (ast.WalkStatus, error) { return ast.WalkSkipChildren, nil }
	reg.Register(ast.KindHTMLBlock, none) // comments for tests
	reg.Register(ast.KindRawHTML, none)
}

// code renders a code block. It can be wider than the window, so that it is focusable and can be
// scrolled with keys.
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

// body renders a page. known contains the files and folders that have pages.
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
		p.summary(link, known)
	}
	var out bytes.Buffer
	err = markdown.Renderer().Render(&out, p.source, p.tree)
	return out.Bytes(), err
}

// summary adapts a link to the addresses of the pages. A file that is only in the repository is
// named instead of linked.
func (p *page) summary(link *ast.Link, known map[string]bool) {
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

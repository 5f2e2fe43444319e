package manual

import (
	"bytes"
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strings"

	"github.com/yuin/goldmark/ast"
	"github.com/yuin/goldmark/text"
)

// page is a document that was read.
type page struct {
	file    string // its path
	source  []byte
	tree    ast.Node
	title   string // plain
	about   string // the first sentence below the title, plain
	chapter []heading
}

// heading is one that can be gone to.
type heading struct{ ID, Text string }

// folders are the kinds of pages, in the order in which they are listed.
var folders = []struct{ name, title, about string }{
	{".", "Begin, and understand", "What it is, what it promises, and how to begin."},
	{"how-to", "How to", "What to do, for one thing at a time."},
	{"reference", "Reference", "To look things up."},
	{"spec", "Specification", "The behaviour, rule by rule."},
	{"decisions", "Decisions", "Single choices, with what they cost."},
}

// fill reads and shows all pages.
func fill(files fs.FS) (shelf, error) {
	pages, err := readAll(files)
	if err != nil {
		return nil, err
	}
	all := shelf{}
	known := map[string]bool{}
	for _, f := range folders[1:] {
		known[f.name] = true
	}
	for _, p := range pages {
		known[p.file] = true
	}
	for _, p := range pages {
		body, err := p.body(known)
		if err != nil {
			return all, fmt.Errorf("show %s: %w", p.file, err)
		}
		shown, err := p.shown(body)
		if err != nil {
			return all, fmt.Errorf("show %s: %w", p.file, err)
		}
		all[address(p.file)] = newSheet(formHTML, shown)
		all[Root+"/"+p.file] = newSheet(formMarkdown, p.source)
	}
	for _, f := range folders[1:] {
		shown, err := contents(f.name, f.title, f.about, pages)
		if err != nil {
			return all, err
		}
		all[address(f.name)] = newSheet(formHTML, shown)
	}
	all[List] = newSheet(formText, list(pages))
	return all, nil
}

// readAll reads the pages, those of a folder together.
func readAll(files fs.FS) ([]*page, error) {
	var all []*page
	for _, f := range folders {
		names, err := fs.Glob(files, path.Join(f.name, "*.md"))
		if err != nil {
			return nil, err
		}
		for _, name := range names {
			source, err := fs.ReadFile(files, name)
			if err != nil {
				return nil, err
			}
			p := readPage(name, source)
			if p.title == "" {
				return nil, fmt.Errorf("%s has no title", name)
			}
			all = append(all, p)
		}
	}
	return all, nil
}

func readPage(file string, source []byte) *page {
	p := &page{file: file, source: source, tree: markdown.Parser().Parse(text.NewReader(source), inContext())}
	for n := p.tree.FirstChild(); n != nil; n = n.NextSibling() {
		h, isHeading := n.(*ast.Heading)
		switch {
		case isHeading && h.Level == 1 && p.title == "":
			p.title = plain(h, source)
		case isHeading && h.Level == 2:
			id, _ := h.AttributeString("id")
			name, _ := id.([]byte)
			p.chapter = append(p.chapter, heading{string(name), plain(h, source)})
		case n.Kind() == ast.KindParagraph && p.about == "":
			p.about = sentence(plain(n, source))
		}
	}
	return p
}

// plain is the text of a node without its marks.
func plain(n ast.Node, source []byte) string {
	var out bytes.Buffer
	_ = ast.Walk(n, func(n ast.Node, entering bool) (ast.WalkStatus, error) { // the function never fails
		if !entering {
			return ast.WalkContinue, nil
		}
		switch n := n.(type) {
		case *ast.Text:
			out.Write(n.Segment.Value(source))
			if n.SoftLineBreak() || n.HardLineBreak() {
				out.WriteByte(' ')
			}
		case *ast.String:
			out.Write(n.Value)
		}
		return ast.WalkContinue, nil
	})
	return out.String()
}

// sentence is the first one of a text.
func sentence(text string) string {
	for i := range text {
		rest := text[i:]
		if strings.HasPrefix(rest, ". ") || rest == "." || strings.HasPrefix(rest, ": ") && i > 40 {
			return text[:i] + "."
		}
	}
	return text
}

// address is where a file or folder is shown.
func address(file string) string {
	if file == index {
		return Root
	}
	return Root + "/" + strings.TrimSuffix(file, ".md")
}

// relative is a reference from one address to another one, which holds behind any prefix.
func relative(from, to string) string {
	base := strings.Split(strings.Trim(path.Dir(from), "/"), "/")
	if base[0] == "" {
		base = nil
	}
	way := strings.Split(strings.Trim(to, "/"), "/")
	for len(base) > 0 && len(way) > 1 && base[0] == way[0] {
		base, way = base[1:], way[1:]
	}
	return strings.Repeat("../", len(base)) + strings.Join(way, "/")
}

// list is for programs: every page with its source (llmstxt.org). Its reader is at List.
func list(pages []*page) []byte {
	var out bytes.Buffer
	out.WriteString("# Perdure\n\n> A durable runtime for the tool calls of AI agents, as a Go library and one binary: calls are claimed before they run and\n" +
		"> settled after it, so that a crash loses nothing, repeats nothing that must not be repeated, and says what nobody can know.\n\n" +
		"These are the sources of the pages, in Markdown; without `.md` a browser reads them. The operations of the HTTP API are described in\n" +
		"[OpenAPI](openapi.json). References are relative to this file.\n")
	for _, f := range folders {
		title := f.title
		if f.name == "decisions" {
			title = "Optional"
		}
		fmt.Fprintf(&out, "\n## %s\n\n", title)
		for _, p := range inFolder(pages, f.name) {
			fmt.Fprintf(&out, "- [%s](%s)", p.title, relative(List, Root+"/"+p.file))
			if p.about != "" {
				out.WriteString(": " + p.about)
			}
			out.WriteByte('\n')
		}
	}
	return out.Bytes()
}

func inFolder(pages []*page, folder string) []*page {
	return slices.DeleteFunc(slices.Clone(pages), func(p *page) bool { return path.Dir(p.file) != folder })
}

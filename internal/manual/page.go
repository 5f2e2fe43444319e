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

// page is a parsed document.
type page struct {
	file    string // path of the file
	source  []byte
	tree    ast.Node
	title   string // plain text
	about   string // first sentence below the title, as plain text
	chapter []heading
}

// heading is a heading with an id.
type heading struct{ ID, Text string }

// folders are the groups of pages, in the order of the list.
var folders = []struct{ name, title, about string }{
	{".", "Introduction", "What Perdure is, what it guarantees, and how to start."},
	{"how-to", "How-to guides", "Instructions for single tasks."},
	{"coming-from", "Coming from another system", "Which word is which, and what is easier where."},
	{"reference", "Reference", "Commands, APIs and formats."},
	{"spec", "Specification", "The behaviour, rule by rule."},
	{"contributing", "Contributing", "Where things are, for people who change them."},
	{"decisions", "Decisions", "Design decisions and their trade-offs."},
}

// fill reads and renders all pages.
func fill(files fs.FS) (rendered, error) {
	pages, err := readAll(files)
	if err != nil {
		return nil, err
	}
	all := rendered{}
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
		shown, err := p.render(body)
		if err != nil {
			return all, fmt.Errorf("show %s: %w", p.file, err)
		}
		all[address(p.file)] = newRepresentation(formHTML, shown)
		all[Root+"/"+p.file] = newRepresentation(formMarkdown, p.source)
	}
	for _, f := range folders[1:] {
		shown, err := contents(f.name, f.title, f.about, pages)
		if err != nil {
			return all, err
		}
		all[address(f.name)] = newRepresentation(formHTML, shown)
	}
	all[List] = newRepresentation(formText, list(pages))
	return all, nil
}

// readAll reads the pages, grouped by folder.
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

// plain returns the text of a node without markup.
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

// sentence returns the first sentence of a text.
func sentence(text string) string {
	for i := range text {
		rest := text[i:]
		if strings.HasPrefix(rest, ". ") || rest == "." || strings.HasPrefix(rest, ": ") && i > 40 {
			return text[:i] + "."
		}
	}
	return text
}

// address returns the address of a file or folder.
func address(file string) string {
	if file == index {
		return Root
	}
	return Root + "/" + strings.TrimSuffix(file, ".md")
}

// relative returns a relative link between two addresses, which works behind any prefix.
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

// list returns the list for programs: every page with its source (llmstxt.org). It is served at
// List.
func list(pages []*page) []byte {
	var out bytes.Buffer
	out.WriteString("# Perdure\n\n> A durable runtime for the tool calls of AI agents, as a Go library and a single binary: calls are claimed before they run and\n" +
		"> settled afterwards. A crash loses no work and repeats no effect that must not happen twice; unknown outcomes are reported.\n\n" +
		"These are the Markdown sources of the pages; without `.md` they are HTML. The operations of the HTTP API are described in\n" +
		"[OpenAPI](openapi.json). Links are relative to this file.\n")
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

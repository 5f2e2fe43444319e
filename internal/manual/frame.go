package manual

import (
	"bytes"
	"crypto/sha256"
	_ "embed"
	"encoding/base64"
	"html/template"
	"path"
)

// style is the style sheet of all pages, with both themes.
//
//go:embed style.css
var style string

//go:embed frame.html
var frameText string

var frame = template.Must(template.New("frame").Parse(frameText))

// policy allows the style sheet of a page and nothing else: no scripts, no images, no external
// resources.
var policy = "default-src 'none'; style-src '" + styleHash() +
	"'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"

func styleHash() string {
	sum := sha256.Sum256([]byte(style))
	return "sha256-" + base64.StdEncoding.EncodeToString(sum[:])
}

// chapters is the minimum number of headings for a table of contents.
const chapters = 3

// pageData is the input of the page template.
type pageData struct {
	Style    template.CSS
	Title    string
	Above    []breadcrumb // parents of the page
	Source   string
	Chapters []heading
	Body     template.HTML
	Entries  []entry
}

// breadcrumb is a link.
type breadcrumb struct{ To, Name string }

// entry is a page in a list of pages.
type entry struct {
	breadcrumb
	About string
}

func (l pageData) html() ([]byte, error) {
	var out bytes.Buffer
	l.Style = template.CSS(style)
	err := frame.Execute(&out, l)
	return out.Bytes(), err
}

// render returns a page as HTML.
func (p *page) render(body []byte) ([]byte, error) {
	own := address(p.file)
	// our own files, by a renderer that passes no HTML
	l := pageData{Title: p.title, Source: relative(own, Root+"/"+p.file), Body: template.HTML(body)}
	if own != Root {
		l.Above = append(l.Above, breadcrumb{relative(own, Root), "Documents"})
	}
	for _, f := range folders[1:] {
		if path.Dir(p.file) == f.name {
			l.Above = append(l.Above, breadcrumb{relative(own, address(f.name)), f.title})
		}
	}
	if len(p.chapter) >= chapters {
		l.Chapters = p.chapter
	}
	return l.html()
}

// contents returns the list of the pages of a folder.
func contents(folder, title, about string, pages []*page) ([]byte, error) {
	own := address(folder)
	l := pageData{Title: title, Above: []breadcrumb{{relative(own, Root), "Documents"}}}
	l.Body = template.HTML("<h1>" + template.HTMLEscapeString(title) + "</h1>\n<p>" + template.HTMLEscapeString(about) +
		"</p>\n")
	for _, p := range inFolder(pages, folder) {
		l.Entries = append(l.Entries, entry{breadcrumb{relative(own, address(p.file)), p.title}, p.about})
	}
	return l.html()
}

// notFoundPage returns the page for an unknown address.
func notFoundPage(address string) ([]byte, error) {
	l := pageData{Title: "Page not found", Above: []breadcrumb{{relative(address, Root), "Documents"}}}
	l.Body = "<h1>Page not found</h1>\n<p>It may have another name in this version. See the list of pages:</p>\n"
	l.Entries = []entry{{breadcrumb{relative(address, Root), "Documents"}, "all pages, by topic."}}
	for _, f := range folders[1:] {
		l.Entries = append(l.Entries, entry{breadcrumb{relative(address, Root+"/"+f.name), f.title}, f.about})
	}
	return l.html()
}

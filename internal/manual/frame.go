package manual

import (
	"bytes"
	"crypto/sha256"
	_ "embed"
	"encoding/base64"
	"html/template"
	"path"
)

// style is the look of all pages, in both themes.
//
//go:embed style.css
var style string

//go:embed frame.html
var frameText string

var frame = template.Must(template.New("frame").Parse(frameText))

// policy lets a page have its own look, and nothing else: no script, no picture, nothing from elsewhere.
var policy = "default-src 'none'; style-src '" + styleHash() + "'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"

func styleHash() string {
	sum := sha256.Sum256([]byte(style))
	return "sha256-" + base64.StdEncoding.EncodeToString(sum[:])
}

// chapters is from how many on a page begins with a list of them.
const chapters = 3

// look is what stands in the frame of a page.
type look struct {
	Style    template.CSS
	Title    string
	Above    []way // to where this page belongs
	Source   string
	Chapters []heading
	Body     template.HTML
	Entries  []entry
}

// way is a link.
type way struct{ To, Name string }

// entry is a page in a list of them.
type entry struct {
	way
	About string
}

func (l look) html() ([]byte, error) {
	var out bytes.Buffer
	l.Style = template.CSS(style)
	err := frame.Execute(&out, l)
	return out.Bytes(), err
}

// shown is a page as a browser reads it.
func (p *page) shown(body []byte) ([]byte, error) {
	own := address(p.file)
	l := look{Title: p.title, Source: relative(own, Root+"/"+p.file), Body: template.HTML(body)} // of our own files, by a renderer that lets no HTML through
	if own != Root {
		l.Above = append(l.Above, way{relative(own, Root), "Documents"})
	}
	for _, f := range folders[1:] {
		if path.Dir(p.file) == f.name {
			l.Above = append(l.Above, way{relative(own, address(f.name)), f.title})
		}
	}
	if len(p.chapter) >= chapters {
		l.Chapters = p.chapter
	}
	return l.html()
}

// contents lists the pages of a folder.
func contents(folder, title, about string, pages []*page) ([]byte, error) {
	own := address(folder)
	l := look{Title: title, Above: []way{{relative(own, Root), "Documents"}}}
	l.Body = template.HTML("<h1>" + template.HTMLEscapeString(title) + "</h1>\n<p>" + template.HTMLEscapeString(about) + "</p>\n")
	for _, p := range inFolder(pages, folder) {
		l.Entries = append(l.Entries, entry{way{relative(own, address(p.file)), p.title}, p.about})
	}
	return l.html()
}

// notThere is for whoever asks for what is not there, by the address that they asked for.
func notThere(address string) ([]byte, error) {
	l := look{Title: "There is no such page", Above: []way{{relative(address, Root), "Documents"}}}
	l.Body = "<h1>There is no such page</h1>\n<p>It may have another name in this version. Here is what there is:</p>\n"
	l.Entries = []entry{{way{relative(address, Root), "Documents"}, "all pages, by what you want."}}
	for _, f := range folders[1:] {
		l.Entries = append(l.Entries, entry{way{relative(address, Root+"/"+f.name), f.title}, f.about})
	}
	return l.html()
}

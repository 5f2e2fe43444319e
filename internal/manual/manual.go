// Package manual serves the documentation: pages for browsers, their Markdown sources, and a list
// for programs.
//
// It may import goldmark and none of our packages. The one thing to know: all links are relative,
// so that the pages work behind any prefix, and no page loads anything from another server.
package manual

import (
	"crypto/sha256"
	"encoding/hex"
	"io/fs"
	"net/http"
	"strconv"
	"strings"
	"sync"
)

// The addresses of the pages. A page is at the path of its file below Root, with or without .md.
const (
	Root = "/docs"
	List = "/llms.txt" // list of all pages, in the format of llmstxt.org
)

// index is the file at Root.
const index = "README.md"

// The content types.
const (
	formHTML     = "text/html; charset=utf-8"
	formMarkdown = "text/markdown; charset=utf-8"
	formText     = "text/plain; charset=utf-8"
)

// cacheControl is how long a response may be reused without revalidation. Afterwards its ETag is
// enough.
const cacheControl = "public, max-age=300"

// Handler serves Root, everything below it, and List. It is safe for concurrent use.
type Handler struct {
	pages func() (rendered, error) // created with the first request: a start does not wait for it
}

var _ http.Handler = (*Handler)(nil)

// New returns a manual of the pages in files.
func New(files fs.FS) *Handler {
	return &Handler{pages: sync.OnceValues(func() (rendered, error) { return fill(files) })}
}

// rendered contains all responses, by path.
type rendered map[string]representation

// representation is one response.
type representation struct {
	form string
	text []byte
	tag  string // ETag
}

func newRepresentation(form string, text []byte) representation {
	sum := sha256.Sum256(text)
	return representation{form: form, text: text, tag: `"` + hex.EncodeToString(sum[:16]) + `"`}
}

// ServeHTTP serves a page. An unknown path gets a page with status 404.
func (m *Handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	all, err := m.pages()
	if err != nil { // a page cannot be read: TestEveryPage prevents that
		http.Error(w, "cannot show the documentation", http.StatusInternalServerError)
		return
	}
	header := w.Header()
	header.Set("Content-Security-Policy", policy)
	header.Set("Referrer-Policy", "no-referrer")
	if there, ok := redirectTarget(r.URL.Path); ok {
		header.Set("Location", there)
		w.WriteHeader(http.StatusMovedPermanently)
		return
	}
	s, ok := all[r.URL.Path]
	if !ok {
		missing, _ := notFoundPage(r.URL.Path) // its template was executed for every page
		header.Set("Content-Type", formHTML)
		w.WriteHeader(http.StatusNotFound)
		_, _ = w.Write(missing) // a client that is gone needs no response
		return
	}
	header.Set("Content-Type", s.form)
	header.Set("Cache-Control", cacheControl)
	header.Set("ETag", s.tag)
	if matches(r.Header.Get("If-None-Match"), s.tag) {
		w.WriteHeader(http.StatusNotModified)
		return
	}
	header.Set("Content-Length", strconv.Itoa(len(s.text)))
	_, _ = w.Write(s.text)
}

// redirectTarget returns the canonical address of a page that is requested by another one.
func redirectTarget(path string) (there string, ok bool) {
	switch path {
	case Root + "/", Root + "/README":
		return ".." + Root, true
	}
	return "", false
}

// matches reports whether If-None-Match contains the tag.
func matches(header, tag string) bool {
	for one := range strings.SplitSeq(header, ",") {
		if one = strings.TrimPrefix(strings.TrimSpace(one), "W/"); one == tag || one == "*" {
			return true
		}
	}
	return false
}

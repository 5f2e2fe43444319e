// Package manual shows the documents to readers of a server: pages that a browser reads, their sources, and a list for programs.
//
// It may import goldmark and nothing of ours. The one thing to know: whatever it answers refers to other pages by relative
// references, so that it can be read behind any prefix, and nothing that it answers comes from elsewhere.
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

// Where the pages are. A page is at its file's path below Root, with .md or without.
const (
	Root = "/docs"
	List = "/llms.txt" // of all pages, in the form of llmstxt.org
)

// index is the file that Root shows.
const index = "README.md"

// The forms of what is answered.
const (
	formHTML     = "text/html; charset=utf-8"
	formMarkdown = "text/markdown; charset=utf-8"
	formText     = "text/plain; charset=utf-8"
)

// kept says how long an answer may be shown again without asking. Afterwards its ETag is enough.
const kept = "public, max-age=300"

// Manual answers on Root, below it, and on List. It is safe for concurrent use.
type Manual struct {
	shelf func() (shelf, error) // made for the first reader: a start does not wait for it
}

var _ http.Handler = (*Manual)(nil)

// New makes a manual of the pages in files, which are named by their paths.
func New(files fs.FS) *Manual {
	return &Manual{shelf: sync.OnceValues(func() (shelf, error) { return fill(files) })}
}

// shelf has what is answered, by the path that is asked for.
type shelf map[string]sheet

// sheet is one answer.
type sheet struct {
	form string
	text []byte
	tag  string // ETag
}

func newSheet(form string, text []byte) sheet {
	sum := sha256.Sum256(text)
	return sheet{form: form, text: text, tag: `"` + hex.EncodeToString(sum[:16]) + `"`}
}

// ServeHTTP shows a page. What is not there is answered with a page that says so, with 404.
func (m *Manual) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	all, err := m.shelf()
	if err != nil { // a page of ours cannot be read: TestEveryPage would have seen it
		http.Error(w, "the documents cannot be shown", http.StatusInternalServerError)
		return
	}
	header := w.Header()
	header.Set("Content-Security-Policy", policy)
	header.Set("Referrer-Policy", "no-referrer")
	if there, ok := moved(r.URL.Path); ok {
		header.Set("Location", there)
		w.WriteHeader(http.StatusMovedPermanently)
		return
	}
	s, ok := all[r.URL.Path]
	if !ok {
		missing, _ := notThere(r.URL.Path) // its template was carried out for every page
		header.Set("Content-Type", formHTML)
		w.WriteHeader(http.StatusNotFound)
		_, _ = w.Write(missing) // a client that is gone needs no answer
		return
	}
	header.Set("Content-Type", s.form)
	header.Set("Cache-Control", kept)
	header.Set("ETag", s.tag)
	if matches(r.Header.Get("If-None-Match"), s.tag) {
		w.WriteHeader(http.StatusNotModified)
		return
	}
	header.Set("Content-Length", strconv.Itoa(len(s.text)))
	_, _ = w.Write(s.text)
}

// moved is where a page is that is asked for by another one of its names.
func moved(path string) (there string, ok bool) {
	switch path {
	case Root + "/", Root + "/README":
		return ".." + Root, true
	}
	return "", false
}

// matches reports whether a reader has what there is, by If-None-Match.
func matches(header, tag string) bool {
	for one := range strings.SplitSeq(header, ",") {
		if one = strings.TrimPrefix(strings.TrimSpace(one), "W/"); one == tag || one == "*" {
			return true
		}
	}
	return false
}

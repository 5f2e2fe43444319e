package ui

import (
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"embed"
	"encoding/base64"
	"io/fs"
	"net/http"
	"path"
	"strconv"
	"strings"
	"sync"
)

// dist is what the build of the folder ui writes.
//
//go:embed all:dist
var dist embed.FS

// The files of dist with a meaning.
const (
	indexFile    = "index.html"
	assetsFolder = "assets/" // files whose names contain a hash of their content
)

// tagBytes is how much of a file's hash its ETag has. The first load is dozens of files, so a long
// one would weigh.
const tagBytes = 9

// policy lets the page load and reach its own server only. It runs no inline script and no inline
// style sheet, and no other page shows it in a frame.
const policy = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data: blob:; connect-src 'self'; " +
	"worker-src 'self'; base-uri 'self'; form-action 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'"

// dataPolicy is for responses of the API to a browser. Some contain files that tools wrote: opened
// as a page, such a file has an origin of its own, and runs no script with the rights of the
// reader.
const dataPolicy = "sandbox; default-src 'none'; frame-ancestors 'none'"

// mediaTypes are those of the files, by extension. The table of the system differs between systems.
var mediaTypes = map[string]string{
	".html": "text/html; charset=utf-8", ".js": "text/javascript; charset=utf-8", ".css": "text/css; charset=utf-8",
	".svg": "image/svg+xml", ".txt": "text/plain; charset=utf-8", ".json": "application/json", ".webmanifest": "application/manifest+json",
}

// content is one file, ready to be sent.
type content struct {
	media        string
	text, packed []byte // packed: with gzip
	tag          string // ETag
}

// files returns all files, by their paths below dist. They are read with the first request: a start
// does not wait for it.
var files = sync.OnceValue(func() map[string]content {
	all := map[string]content{}
	_ = fs.WalkDir(dist, "dist", func(name string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		text, err := dist.ReadFile(name)
		all[strings.TrimPrefix(name, "dist/")] = newContent(name, text)
		return err // an embedded file is always readable
	})
	return all
})

func newContent(name string, text []byte) content {
	sum := sha256.Sum256(text)
	return content{media: mediaTypes[path.Ext(name)], text: text, packed: pack(text), tag: `"` + base64.RawURLEncoding.EncodeToString(sum[:tagBytes]) + `"`}
}

// pack compresses a text.
func pack(text []byte) []byte {
	var out bytes.Buffer
	zip, err := gzip.NewWriterLevel(&out, gzip.BestCompression)
	if err == nil { // the level is valid, and a buffer does not fail
		_, _ = zip.Write(text)
		_ = zip.Close()
	}
	return out.Bytes()
}

// serveFile serves a file of the UI. Any other path is a page, which the script draws by its
// address: it gets the index.
func serveFile(w http.ResponseWriter, r *http.Request) {
	if !isRead(r) {
		w.Header().Set("Allow", "GET, HEAD")
		refuse(w, r, http.StatusMethodNotAllowed, r.Method+" is not allowed for this path; allowed: GET, HEAD")
		return
	}
	name := strings.TrimPrefix(r.URL.Path, Root)
	found, ok := files()[name]
	if name == indexFile || !ok && !strings.HasPrefix(name, assetsFolder) {
		serveIndex(w, r)
		return
	}
	if !ok {
		refuse(w, r, http.StatusNotFound, "no such file; reload the page, since another version of the server may have its own")
		return
	}
	header := w.Header()
	header.Set("Cache-Control", "no-cache")
	if strings.HasPrefix(name, assetsFolder) {
		header.Set("Cache-Control", "public, max-age=31536000, immutable")
	}
	header.Set("ETag", found.tag)
	if r.Header.Get("If-None-Match") == found.tag {
		w.WriteHeader(http.StatusNotModified)
		return
	}
	found.send(w, r)
}

// base is how the index names the folder that its addresses are relative to.
const base = `<base href="./"`

// serveIndex serves the page. Its addresses are relative to the root of the UI, so that they are
// right below any prefix, however deep the path of the page is. Browsers do not count the slashes
// that are escaped.
func serveIndex(w http.ResponseWriter, r *http.Request) {
	up := "./"
	if depth := strings.Count(strings.TrimPrefix(r.URL.EscapedPath(), Root), "/"); depth > 0 {
		up = strings.Repeat("../", depth)
	}
	text := bytes.Replace(files()[indexFile].text, []byte(base), []byte(`<base href="`+up+`"`), 1)
	w.Header().Set("Cache-Control", "no-cache")
	content{media: mediaTypes[".html"], text: text}.send(w, r)
}

// send writes the content, compressed if the client accepts that.
func (c content) send(w http.ResponseWriter, r *http.Request) {
	header, text := w.Header(), c.text
	header.Set("Content-Type", c.media)
	header.Add("Vary", "Accept-Encoding")
	if acceptsGzip(r.Header.Get("Accept-Encoding")) && len(c.packed) > 0 && len(c.packed) < len(text) {
		header.Set("Content-Encoding", "gzip")
		text = c.packed
	}
	header.Set("Content-Length", strconv.Itoa(len(text)))
	w.WriteHeader(http.StatusOK)
	_, _ = w.Write(text) // a client that is gone needs no response
}

// acceptsGzip reports whether an Accept-Encoding header names gzip.
func acceptsGzip(header string) bool {
	for one := range strings.SplitSeq(header, ",") {
		name, quality, _ := strings.Cut(one, ";")
		if strings.EqualFold(strings.TrimSpace(name), "gzip") {
			return strings.ReplaceAll(quality, " ", "") != "q=0"
		}
	}
	return false
}

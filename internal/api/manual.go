package api

import (
	"context"
	"fmt"
	"net/http"

	"github.com/danielgtaylor/huma/v2"
	"github.com/danielgtaylor/huma/v2/adapters/humago"

	"github.com/perdure/perdure"
)

// Where Config.Manual answers.
const (
	manualPath = "/docs"
	pagesPath  = manualPath + "/{path...}"
	listPath   = "/llms.txt"
)

// problemsPage explains the kinds of problems; a code is an anchor in it.
const problemsPage = manualPath + "/reference/problems#"

// isManual reports whether a pattern of the router is that of a page, which anybody may read.
func isManual(pattern string) bool {
	return pattern == "GET "+manualPath || pattern == "GET "+pagesPath || pattern == "GET "+listPath
}

// aPage names a page of the documents.
type aPage struct {
	Path string `path:"path" doc:"The path of a page, as it is below docs in the repository; with .md it is the source." example:"concepts"`
}

func (a *API) manualOperations() {
	text := &huma.MediaType{Schema: &huma.Schema{Type: huma.TypeString}}
	read(a, operation{
		id: "documents", path: manualPath, summary: "The documents of this version", open: true,
		errors: []int{http.StatusServiceUnavailable}, forms: map[string]*huma.MediaType{"text/html": text},
	}, func(ctx context.Context, _ *struct{}) (*streamed, error) { return a.manual(ctx) })
	read(a, operation{
		id: "document", path: pagesPath, summary: "A page of the documents, for a browser or as Markdown", open: true,
		errors: []int{http.StatusNotFound, http.StatusServiceUnavailable}, forms: map[string]*huma.MediaType{"text/html": text, "text/markdown": text},
	}, func(ctx context.Context, _ *aPage) (*streamed, error) { return a.manual(ctx) })
	read(a, operation{
		id: "document-list", path: listPath, summary: "The documents, listed for programs", open: true,
		errors: []int{http.StatusServiceUnavailable}, forms: map[string]*huma.MediaType{"text/plain": text},
	}, func(ctx context.Context, _ *struct{}) (*streamed, error) { return a.manual(ctx) })
}

// manual hands a request for a page on. An answer that is no page says so in the form of a page.
func (a *API) manual(context.Context) (*streamed, error) {
	if a.cfg.Manual == nil {
		return nil, fmt.Errorf("%w: this process has no documents", perdure.NotFound)
	}
	return &streamed{Body: func(c huma.Context) {
		r, w := humago.Unwrap(c)
		if negotiate(c.Header("Accept"), "text/html", "application/problem+json", formJSON) != "text/html" {
			w = &pageless{ResponseWriter: w, refuse: func(w http.ResponseWriter) {
				a.refuse(w, r, &Problem{Status: http.StatusNotFound, Detail: "there is no such page; see " + listPath + " for all that there are"})
			}}
		}
		a.cfg.Manual.ServeHTTP(w, r)
	}}, nil
}

// pageless puts a problem in the place of the page that says that there is no such page: for who takes JSON (H3).
type pageless struct {
	http.ResponseWriter
	refuse  func(http.ResponseWriter)
	refused bool
}

// WriteHeader refuses instead of a 404.
func (p *pageless) WriteHeader(status int) {
	if p.refused = status == http.StatusNotFound; p.refused {
		p.refuse(p.ResponseWriter)
		return
	}
	p.ResponseWriter.WriteHeader(status)
}

// Write leaves the page out whose place is taken.
func (p *pageless) Write(text []byte) (int, error) {
	if p.refused {
		return len(text), nil
	}
	return p.ResponseWriter.Write(text)
}

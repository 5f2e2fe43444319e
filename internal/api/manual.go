package api

import (
	"context"
	"fmt"
	"net/http"

	"github.com/danielgtaylor/huma/v2"
	"github.com/danielgtaylor/huma/v2/adapters/humago"

	"github.com/perdure/perdure"
)

// The paths served by Config.Manual. The start page leads to the documentation.
const (
	startPage  = "GET /{$}"
	manualPath = "/docs"
	pagesPath  = manualPath + "/{path...}"
	listPath   = "/llms.txt"
)

// problemsPage explains the kinds of problems. A problem code is an anchor on it.
const problemsPage = manualPath + "/reference/problems#"

// pageQuery is the path of a page of the documentation.
type pageQuery struct {
	Path string `path:"path" doc:"The path of a page below docs in the repository. With the suffix .md the response is the Markdown source." example:"concepts"`
}

func (a manualHandlers) register() {
	text := &huma.MediaType{Schema: &huma.Schema{Type: huma.TypeString}}
	read(a.API, operation{
		id: "documents", path: manualPath, summary: "The documentation of this version", open: true, class: isPage,
		errors: []int{http.StatusServiceUnavailable}, forms: map[string]*huma.MediaType{"text/html": text},
	}, func(ctx context.Context, _ *struct{}) (*streamed, error) { return a.manual(ctx) })
	read(a.API, operation{
		id: "document", path: pagesPath, summary: "A page of the documentation, as HTML or Markdown", open: true, class: isPage,
		errors: []int{http.StatusNotFound, http.StatusServiceUnavailable}, forms: map[string]*huma.MediaType{"text/html": text, "text/markdown": text},
	}, func(ctx context.Context, _ *pageQuery) (*streamed, error) { return a.manual(ctx) })
	read(a.API, operation{
		id: "document-list", path: listPath, summary: "An index of the documentation for programs", open: true, class: isPage,
		errors: []int{http.StatusServiceUnavailable}, forms: map[string]*huma.MediaType{"text/plain": text},
	}, func(ctx context.Context, _ *struct{}) (*streamed, error) { return a.manual(ctx) })
	// The start page is for people with a browser, and no operation of the API.
	a.mux.HandleFunc(startPage, a.start)
	a.routes[startPage], a.policies[startPage] = route{open: true, class: isPage}, ""
}

// start redirects a browser to the documentation. The target is relative, so that it is also right
// below the prefix of a proxy.
func (a manualHandlers) start(w http.ResponseWriter, r *http.Request) {
	if a.cfg.Manual == nil {
		a.refuse(w, r, &Problem{Status: http.StatusNotFound, Detail: "no such path; see /openapi.json for the available ones"})
		return
	}
	w.Header().Set("Location", "docs")
	w.WriteHeader(http.StatusFound)
}

// manual passes a request on to the documentation handler. A 404 becomes a problem for clients that
// do not prefer HTML.
func (a *API) manual(context.Context) (*streamed, error) {
	if a.cfg.Manual == nil {
		return nil, fmt.Errorf("%w: this server has no documentation", perdure.NotFound)
	}
	return &streamed{Body: func(c huma.Context) {
		r, w := humago.Unwrap(c)
		if negotiate(c.Header("Accept"), "text/html", "application/problem+json", formJSON) != "text/html" {
			w = &notFoundWriter{ResponseWriter: w, fallback: func(w http.ResponseWriter) {
				a.refuse(w, r, &Problem{Status: http.StatusNotFound, Detail: "no such page; see " + listPath + " for all pages"})
			}}
		}
		a.cfg.Manual.ServeHTTP(w, r)
	}}, nil
}

// notFoundWriter replaces a 404 page by a problem, for clients that accept JSON (H3).
type notFoundWriter struct {
	http.ResponseWriter
	fallback func(http.ResponseWriter)
	refused  bool
}

// WriteHeader writes the problem instead of a 404.
func (p *notFoundWriter) WriteHeader(status int) {
	if p.refused = status == http.StatusNotFound; p.refused {
		p.fallback(p.ResponseWriter)
		return
	}
	p.ResponseWriter.WriteHeader(status)
}

// Write drops the body of a replaced page.
func (p *notFoundWriter) Write(text []byte) (int, error) {
	if p.refused {
		return len(text), nil
	}
	return p.ResponseWriter.Write(text)
}

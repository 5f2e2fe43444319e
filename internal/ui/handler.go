package ui

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/internal/access"
)

// The addresses of the UI. Everything else belongs to the API.
const (
	Root        = "/ui/"
	linkPath    = Root + "link"    // creates a one-time link, on the socket only
	sessionPath = Root + "session" // signs a browser in and out
	apiPrefix   = "/v1/"           // where a cookie counts
)

// The times of a request for the UI.
const (
	readTime  = 10 * time.Second // for the body of a sign-in
	writeTime = 30 * time.Second // for a response
)

// Browsers creates and revokes the tokens of browsers that sign in by link.
type Browsers interface {
	// Create creates a token that expires at the given time, and returns its secret.
	Create(ctx context.Context, expires time.Time) (secret string, err error)
	// Revoke revokes a token that Create has created.
	Revoke(ctx context.Context, id perdure.TokenID) error
}

// Config configures a Handler. All fields but Local are required.
type Config struct {
	API      http.Handler // gets all other requests
	Keyring  *access.Keyring
	Browsers Browsers
	Links    *Links // shared by all listeners of a server
	// Local states that the listener is a Unix socket that only its owner may open. There are no
	// pages on it, and the owner can ask for a link.
	Local bool
}

// Handler serves the UI, and passes other requests on to the API. It is safe for concurrent use.
type Handler struct {
	cfg    Config
	origin *http.CrossOriginProtection
}

var _ http.Handler = (*Handler)(nil)

// New checks the configuration and creates a handler. Invalid: a field is missing.
func New(cfg Config) (*Handler, error) {
	if cfg.API == nil || cfg.Browsers == nil || cfg.Links == nil || cfg.Keyring == nil && !cfg.Local {
		return nil, fmt.Errorf("new web UI: %w configuration: API, Browsers, Links and Keyring are required", perdure.Invalid)
	}
	return &Handler{cfg: cfg, origin: http.NewCrossOriginProtection()}, nil
}

// ServeHTTP serves one request.
func (h *Handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	path := r.URL.Path
	switch {
	case h.cfg.Local && path == linkPath:
		h.bounded(w, r, h.createLink)
	case h.cfg.Local:
		h.cfg.API.ServeHTTP(w, r)
	case (path == "/" || path == strings.TrimRight(Root, "/")) && isRead(r):
		redirect(w)
	case path == sessionPath:
		h.bounded(w, r, h.session)
	case strings.HasPrefix(path, Root):
		h.bounded(w, r, serveFile)
	case strings.HasPrefix(path, apiPrefix):
		h.serveAPI(w, r)
	default:
		h.cfg.API.ServeHTTP(w, r)
	}
}

// bounded serves a request with the headers and the time limits of the UI.
func (h *Handler) bounded(w http.ResponseWriter, r *http.Request, serve func(http.ResponseWriter, *http.Request)) {
	now, conn := time.Now(), http.NewResponseController(w)
	// writers without deadlines, such as those of tests, ignore them
	_ = conn.SetReadDeadline(now.Add(readTime))
	_ = conn.SetWriteDeadline(now.Add(writeTime))
	protect(w.Header())
	serve(w, r)
}

// protect sets what every response of the UI tells a browser, also that of an error. Files set
// another Cache-Control.
func protect(header http.Header) {
	header.Set("Content-Security-Policy", policy)
	header.Set("X-Content-Type-Options", "nosniff")
	header.Set("Referrer-Policy", "no-referrer")
	header.Set("Cross-Origin-Opener-Policy", "same-origin")
	header.Set("Cross-Origin-Resource-Policy", "same-origin")
	header.Set("Cache-Control", "no-store")
}

// redirect leads to the UI. The address is relative, so that it is right below any prefix.
func redirect(w http.ResponseWriter) {
	protect(w.Header())
	w.Header().Set("Location", strings.TrimPrefix(Root, "/"))
	w.WriteHeader(http.StatusFound)
}

// isRead reports whether a request only reads.
func isRead(r *http.Request) bool { return r.Method == http.MethodGet || r.Method == http.MethodHead }

// serveAPI passes a request on to the API. If the request has no token of its own, it gets that of
// the browser.
func (h *Handler) serveAPI(w http.ResponseWriter, r *http.Request) {
	signedIn, ok := credentialOf(r)
	if !ok || r.Header.Get("Authorization") != "" || !fromOwnPage(r) {
		h.cfg.API.ServeHTTP(w, r)
		return
	}
	if err := h.origin.Check(r); err != nil {
		refuse(w, r, http.StatusForbidden, "a page of another origin sent this request, so it had no effect")
		return
	}
	own := r.WithContext(r.Context())
	own.Header = r.Header.Clone()
	own.Header.Del("Cookie")
	own.Header.Set("Authorization", "Bearer "+signedIn.secret)
	w.Header().Set("Content-Security-Policy", dataPolicy)
	w.Header().Set("X-Content-Type-Options", "nosniff")
	w.Header().Set("Cross-Origin-Resource-Policy", "same-origin")
	h.cfg.API.ServeHTTP(w, own)
}

// fromOwnPage reports whether a page of this origin sent a request, or the user did, as far as the
// browser says. Browsers send a cookie also to other ports of its host, so a page there must not
// use it.
func fromOwnPage(r *http.Request) bool {
	site := r.Header.Get("Sec-Fetch-Site")
	return site == "" || site == "same-origin" || site == "none"
}

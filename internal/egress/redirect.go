package egress

import (
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/perdure/perdure"
)

// maxRedirects is how many redirects one request follows (EG4).
const maxRedirects = 5

// harmless are the fields of a header that go on to another origin. All others stay behind, since a credential
// can have any name (EG4).
const harmless = "Accept Accept-Language Cache-Control Content-Encoding Content-Language Content-Type If-Match If-Modified-Since " +
	"If-None-Match If-Range If-Unmodified-Since Mcp-Protocol-Version Pragma Range User-Agent"

// dropCredentials takes away what is not known to be harmless.
func dropCredentials(header http.Header) {
	for name := range header {
		if !slices.Contains(strings.Fields(harmless), name) {
			delete(header, name)
		}
	}
}

// sameOrigin compares scheme, host and port.
func sameOrigin(a, b *url.URL) bool {
	return a.Scheme == b.Scheme && strings.EqualFold(a.Hostname(), b.Hostname()) && portOf(a) == portOf(b)
}

// redirectError says why a redirect is not followed; n counts from 1. What it leads to is checked as any URL is.
func redirectError(from, to *url.URL, n int) *perdure.EgressError {
	text := ""
	switch {
	case n > maxRedirects:
		text = fmt.Sprintf("%s redirects once more, after %d redirects: no more are followed", from.Hostname(), maxRedirects)
	case from.Scheme == "https" && to.Scheme == "http":
		text = fmt.Sprintf("%s redirects from https to http: ask for the https address of %s, if it has one", from.Hostname(), to.Hostname())
	default:
		return nil
	}
	return &perdure.EgressError{Code: perdure.EgressDenied, Host: to.Hostname(), Rule: perdure.RuleRedirect, Layer: perdure.LayerGuard, Text: text}
}

// isRedirect reports whether a status sends on to another place.
func isRedirect(status int) bool {
	switch status {
	case http.StatusMovedPermanently, http.StatusFound, http.StatusSeeOther, http.StatusTemporaryRedirect, http.StatusPermanentRedirect:
		return true
	}
	return false
}

// methodAfter returns the method of the next hop, and whether the body goes with it (RFC 9110, 15.4).
func methodAfter(status int, method string) (next string, keepsBody bool) {
	switch {
	case status == http.StatusSeeOther && method != http.MethodGet && method != http.MethodHead:
		return http.MethodGet, false
	case method == http.MethodPost && (status == http.StatusMovedPermanently || status == http.StatusFound):
		return http.MethodGet, false
	}
	return method, true
}

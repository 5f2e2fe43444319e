package egress

import (
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/perdure/perdure"
)

// maxRedirects is how many redirects a request follows (EG4).
const maxRedirects = 5

// forwardedFields lists the header fields that are sent to another origin after a redirect. All
// others are dropped, since a credential can have any name (EG4).
const forwardedFields = "Accept Accept-Language Cache-Control Content-Encoding Content-Language Content-Type If-Match If-Modified-Since " +
	"If-None-Match If-Range If-Unmodified-Since Mcp-Protocol-Version Pragma Range User-Agent"

// dropCredentials removes all fields that are not known to be harmless.
func dropCredentials(header http.Header) {
	for name := range header {
		if !slices.Contains(strings.Fields(forwardedFields), name) {
			delete(header, name)
		}
	}
}

// sameOrigin compares scheme, host and port.
func sameOrigin(a, b *url.URL) bool {
	return a.Scheme == b.Scheme && strings.EqualFold(a.Hostname(), b.Hostname()) && portOf(a) == portOf(b)
}

// redirectError returns why a redirect is not followed; n counts from 1. The target itself is
// checked like any other URL.
func redirectError(from, to *url.URL, n int) *perdure.EgressError {
	text := ""
	switch {
	case n > maxRedirects:
		text = fmt.Sprintf("%s redirects again, and at most %d redirects are followed", from.Hostname(), maxRedirects)
	case from.Scheme == "https" && to.Scheme == "http":
		text = fmt.Sprintf("%s redirects from https to http: use the https address of %s, if it has one", from.Hostname(), to.Hostname())
	default:
		return nil
	}
	return &perdure.EgressError{Code: perdure.EgressDenied, Host: to.Hostname(), Rule: perdure.RuleRedirect, Layer: perdure.LayerGuard, Text: text}
}

// isRedirect reports whether a status is a redirect.
func isRedirect(status int) bool {
	switch status {
	case http.StatusMovedPermanently, http.StatusFound, http.StatusSeeOther, http.StatusTemporaryRedirect, http.StatusPermanentRedirect:
		return true
	}
	return false
}

// methodAfter returns the method of the next hop, and whether it has the body (RFC 9110, section
// 15.4).
func methodAfter(status int, method string) (next string, keepsBody bool) {
	switch {
	case status == http.StatusSeeOther && method != http.MethodGet && method != http.MethodHead:
		return http.MethodGet, false
	case method == http.MethodPost && (status == http.StatusMovedPermanently || status == http.StatusFound):
		return http.MethodGet, false
	}
	return method, true
}

package api

import (
	"fmt"
	"net/http"
	"strconv"
	"time"
)

// deprecation announces the removal of an operation (H14). The zero value means that the operation
// stays. A field of an object has no headers of its own: it carries the tag deprecated:"true" and
// the text of deprecation.words in its doc tag. TestH14Deprecations checks both.
type deprecation struct {
	since       string    // the version that announces it, such as 1.4
	removedIn   string    // the first version without the operation, at least two minor versions later
	replacement string    // the replacement
	announced   time.Time // release date of since
	sunset      time.Time // earliest release date of gone
}

// text returns the text for the OpenAPI document; empty if nothing is announced.
func (f deprecation) text() string {
	if f.since == "" {
		return ""
	}
	return fmt.Sprintf("Deprecated since %s, removed in %s: use %s.", f.since, f.removedIn, f.replacement)
}

// setHeaders sets the Deprecation (RFC 9745) and Sunset (RFC 8594) headers of a response.
func (f deprecation) setHeaders(header http.Header) {
	if f.since == "" {
		return
	}
	header.Set("Deprecation", "@"+strconv.FormatInt(f.announced.Unix(), 10))
	header.Set("Sunset", f.sunset.UTC().Format(http.TimeFormat))
}

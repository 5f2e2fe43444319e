package api

import (
	"fmt"
	"net/http"
	"strconv"
	"time"
)

// farewell says that an operation will be gone (H14). The zero value: it stays. A field of an object, which has no answers of its own,
// says the same with the tag deprecated:"true" and in its doc, in the words of farewell.words. What is so said is held by
// TestH14Deprecations.
type farewell struct {
	since   string    // the version that says so first, such as 1.4
	gone    string    // the first version without it, two minors later or more
	instead string    // what to use
	told    time.Time // when since came out
	sunset  time.Time // when gone comes out, at the earliest
}

// words is what the document says of it; empty: nothing.
func (f farewell) words() string {
	if f.since == "" {
		return ""
	}
	return fmt.Sprintf("Deprecated since %s, gone with %s: use %s.", f.since, f.gone, f.instead)
}

// say writes it into the header of an answer, as RFC 9745 (Deprecation) and RFC 8594 (Sunset) have it.
func (f farewell) say(header http.Header) {
	if f.since == "" {
		return
	}
	header.Set("Deprecation", "@"+strconv.FormatInt(f.told.Unix(), 10))
	header.Set("Sunset", f.sunset.UTC().Format(http.TimeFormat))
}

package strictjson

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// Fault says what is wrong with a text, and where.
type Fault struct {
	Pointer string // a JSON pointer (RFC 6901) to the place, shortened if it is long; empty: the whole text
	Text    string // one line
}

// Error returns the place and the fault on one line.
func (e *Fault) Error() string {
	if e.Pointer == "" {
		return "invalid JSON: " + e.Text
	}
	place := strconv.Quote(e.Pointer)
	return "invalid JSON at " + place[1:len(place)-1] + ": " + e.Text
}

// faultText shortens the error of a decoder to one line.
func faultText(err error) string {
	line := strconv.Quote(strings.TrimPrefix(err.Error(), "json: "))
	line = strings.ReplaceAll(line[1:len(line)-1], `\"`, `"`)
	return clipped(line, 300)
}

// Limits of a name and of a pointer in a fault, in bytes.
const (
	maxNameBytes    = 100
	maxPointerBytes = 300
)

func clipped(s string, limit int) string {
	if len(s) <= limit {
		return s
	}
	return strings.ToValidUTF8(s[:limit], "") + "…"
}

// openFault is a fault with the part of its place that is known so far.
type openFault struct {
	text  string
	path  []string // innermost first
	whole bool     // the fault is in the text as a whole, not at a place in it
}

// at adds the member or item that contains the fault.
func (f *openFault) at(name string) *openFault {
	if !f.whole {
		f.path = append(f.path, name)
	}
	return f
}

func faultf(format string, args ...any) *openFault {
	return &openFault{text: fmt.Sprintf(format, args...)}
}

// asError returns the fault as an error.
func (f *openFault) asError() error {
	escape := strings.NewReplacer("~", "~0", "/", "~1")
	var pointer strings.Builder
	for _, name := range slices.Backward(f.path) {
		pointer.WriteString("/" + escape.Replace(clipped(name, maxNameBytes)))
		if pointer.Len() > maxPointerBytes {
			break
		}
	}
	return &Fault{Pointer: clipped(pointer.String(), maxPointerBytes), Text: f.text}
}

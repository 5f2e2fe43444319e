package api

import (
	"fmt"
	"net/http"
	"slices"

	"github.com/perdure/perdure"
)

// Disclosure is how much an error tells (ER4).
type Disclosure string

// The disclosures, from the narrowest on.
const (
	Generic  Disclosure = "generic"  // one code, processing_error
	Standard Disclosure = "standard" // code and fields; the default
	Detailed Disclosure = "detailed" // also the text of errors inside, cut
)

var disclosures = []Disclosure{Generic, Standard, Detailed}

func (d Disclosure) valid() bool { return d == "" || slices.Contains(disclosures, d) }

// narrow takes the request's own wish, which may only narrow what the server discloses.
func narrow(r *http.Request, req *request) error {
	wish := Disclosure(r.Header.Get("Perdure-Disclosure"))
	if !wish.valid() {
		return fmt.Errorf("%w Perdure-Disclosure: generic, standard or detailed", perdure.Invalid)
	}
	if wish != "" && slices.Index(disclosures, wish) < slices.Index(disclosures, req.disclosure) {
		req.disclosure = wish
	}
	return nil
}

// Disclosed is an event as a reader sees it who is told no more than d; empty: standard.
func Disclosed(e perdure.Event, d Disclosure) perdure.Event { return disclosed(e, d) }

// disclosed is an event as a reader may see it: without the workers that fence tasks and, under generic, without
// what the provider said.
func disclosed(e perdure.Event, d Disclosure) perdure.Event {
	const code = "processing_error"
	switch f := e.Fact.(type) {
	case perdure.TaskCreated:
		f.Task.Worker = ""
		e.Fact = f
	case perdure.TaskUpdated:
		f.Task.Worker = ""
		e.Fact = f
	case perdure.TurnFailed:
		if d == Generic {
			f.Code, f.Error = code, generic
			e.Fact = f
		}
	case perdure.ReasonCompleted:
		if d == Generic && (f.Code != "" || f.Error != "") {
			f.Code, f.Error = code, generic
			e.Fact = f
		}
	case perdure.Generation:
		if d == Generic && f.Error != "" {
			f.Error = generic
			e.Fact = f
		}
	}
	return e
}

package api

import (
	"fmt"
	"net/http"
	"slices"

	"github.com/perdure/perdure"
)

// Disclosure is the level of detail in errors (ER4).
type Disclosure string

// The disclosure levels, from the least to the most detailed.
const (
	Generic  Disclosure = "generic"  // always the code processing_error
	Standard Disclosure = "standard" // code and fields; the default
	Detailed Disclosure = "detailed" // also the shortened text of internal errors
)

var disclosures = []Disclosure{Generic, Standard, Detailed}

func (d Disclosure) valid() bool { return d == "" || slices.Contains(disclosures, d) }

// applyDisclosure applies the level that the request asks for. A request can only reduce what the
// server discloses.
func applyDisclosure(r *http.Request, req *request) error {
	requested := Disclosure(r.Header.Get("Perdure-Disclosure"))
	if !requested.valid() {
		return fmt.Errorf("%w Perdure-Disclosure: use generic, standard or detailed", perdure.Invalid)
	}
	if requested != "" && slices.Index(disclosures, requested) < slices.Index(disclosures, req.disclosure) {
		req.disclosure = requested
	}
	return nil
}

// Disclose returns an event as shown under disclosure level d; empty: standard.
func Disclose(e perdure.Event, d Disclosure) perdure.Event { return disclose(e, d) }

// disclose returns an event without the workers that fence tasks and, under generic, without the
// error text of the provider.
func disclose(e perdure.Event, d Disclosure) perdure.Event {
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

package perdure

import (
	"errors"

	"github.com/perdure/perdure/internal/strictjson"
)

// DecodeJSON decodes one JSON value from outside into the variable that into points to. It is
// strict, so that all components that read the same text see the same value: text that is not one
// JSON value in UTF-8, a duplicate key, a field that is unknown or spelled in another case, a value
// of the wrong type, a number that does not fit, and more than 1,000 levels are Invalid. The error
// says what is wrong and where, on one line.
//
// An integer field accepts no fraction and no exponent. In an any, numbers are json.Number. null
// leaves the variable unchanged, as in encoding/json.
//
// Any other error means that into is not a non-nil pointer, or that a type's own decoder panicked.
// After an error the variable may be partly filled.
func DecodeJSON(text []byte, into any) error { return invalidJSON(strictjson.Decode(text, into)) }

// DecodeKnownJSON is DecodeJSON for formats that others define, such as a provider's answer.
// Unknown fields are checked and skipped. A field in another spelling counts as unknown.
func DecodeKnownJSON(text []byte, into any) error {
	return invalidJSON(strictjson.DecodeKnown(text, into))
}

// jsonError gives a fault in JSON its kind.
type jsonError struct{ fault *strictjson.Fault }

// Error returns the place and the fault on one line.
func (e *jsonError) Error() string { return e.fault.Error() }

// Unwrap returns Invalid and the fault.
func (e *jsonError) Unwrap() []error { return []error{Invalid, e.fault} }

// invalidJSON makes an error Invalid if it is a fault in the text. Other errors have no kind.
func invalidJSON(err error) error {
	var fault *strictjson.Fault
	if errors.As(err, &fault) {
		return &jsonError{fault}
	}
	return err
}

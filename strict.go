package perdure

import (
	"bytes"
	"encoding/json"
	"fmt"
)

// DecodeJSON reads one JSON value from outside into what into points to. Invalid: text that is no JSON, is cut
// off or is followed by more, a key twice, a field that is not known or is spelled in another case, a number
// that does not fit.
func DecodeJSON(text []byte, into any) error {
	return decodeJSON(text, into, true)
}

// DecodeKnownJSON is DecodeJSON for what others define, such as a provider's answer: fields that are not
// known are skipped. A key twice is still Invalid.
func DecodeKnownJSON(text []byte, into any) error {
	return decodeJSON(text, into, false)
}

func decodeJSON(text []byte, into any, strict bool) error {
	canonical, err := CanonicalJSON(text)
	if err != nil {
		return err
	}
	dec := json.NewDecoder(bytes.NewReader(canonical))
	dec.UseNumber()
	if strict {
		dec.DisallowUnknownFields()
	}
	if err := dec.Decode(into); err != nil {
		return fmt.Errorf("%w JSON: %w", Invalid, err)
	}
	return nil
}

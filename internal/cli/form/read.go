package form

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"

	"go.yaml.in/yaml/v3"

	"github.com/perdure/perdure"
)

// Read reads one value that is written as YAML, of which JSON is a part, into what into points to. What is known of it, and what is
// refused, is as in [perdure.DecodeJSON]. Invalid: what is wrong with the text.
func Read(text []byte, into any) error {
	if start := bytes.TrimLeft(text, " \t\r\n"); len(start) > 0 && start[0] == '{' {
		return perdure.DecodeJSON(text, into)
	}
	var value any
	documents := yaml.NewDecoder(bytes.NewReader(text))
	err := documents.Decode(&value)
	switch {
	case errors.Is(err, io.EOF):
		return fmt.Errorf("%w text: it is empty", perdure.Invalid)
	case err != nil:
		return fmt.Errorf("%w YAML: %w", perdure.Invalid, err)
	}
	if err := documents.Decode(new(any)); !errors.Is(err, io.EOF) {
		return fmt.Errorf("%w YAML: there is more than one document", perdure.Invalid)
	}
	encoded, err := json.Marshal(value)
	if err != nil { // a key that is no text
		return fmt.Errorf("%w YAML: %w", perdure.Invalid, err)
	}
	return perdure.DecodeJSON(encoded, into)
}

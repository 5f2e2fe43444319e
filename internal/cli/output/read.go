package output

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"

	"go.yaml.in/yaml/v3"

	"github.com/perdure/perdure"
)

// Read decodes one YAML value into the value that into points to. JSON is valid YAML. Unknown and
// duplicate fields are refused as in [perdure.DecodeJSON]. Invalid: the text is wrong.
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
	if err != nil { // a key that is not a string
		return fmt.Errorf("%w YAML: %w", perdure.Invalid, err)
	}
	return perdure.DecodeJSON(encoded, into)
}

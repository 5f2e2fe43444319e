package sqlstore

import (
	"bytes"
	"encoding/json"
)

// encode encodes a record. It does not escape HTML characters, so that text in a raw message keeps
// its bytes.
func encode(v any) ([]byte, error) {
	var out bytes.Buffer
	enc := json.NewEncoder(&out)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		return nil, err
	}
	return bytes.TrimSuffix(out.Bytes(), []byte("\n")), nil
}

// decode decodes a record. Fields that a later version added are ignored.
func decode(body []byte, into any) error { return json.Unmarshal(body, into) }

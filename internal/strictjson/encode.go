package strictjson

import (
	"bytes"
	"encoding/json"
)

// Encode is json.Marshal without HTML escapes. A text keeps the bytes that it has in other records,
// and a person can read it.
func Encode(v any) ([]byte, error) {
	var out bytes.Buffer
	enc := json.NewEncoder(&out)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		return nil, err
	}
	return bytes.TrimSuffix(out.Bytes(), []byte{'\n'}), nil
}

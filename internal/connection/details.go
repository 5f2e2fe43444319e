package connection

import (
	"encoding/json"

	"github.com/perdure/perdure"
)

// into returns metadata with the details. Other fields of the metadata stay.
func (d Details) into(metadata []byte) json.RawMessage {
	own, _ := json.Marshal(d) // strings, times and flags only: it cannot fail
	var fields, old map[string]json.RawMessage
	if perdure.DecodeKnownJSON(own, &fields) != nil {
		return own
	}
	if len(metadata) > 0 && perdure.DecodeKnownJSON(metadata, &old) == nil {
		for _, name := range []string{"hosts", "scopes", "oauth", "flow", "expires_at", "connected_at", "refresh_at", "refreshing_at", "failed_at", "expired"} {
			delete(old, name)
		}
		for name, value := range old {
			fields[name] = value
		}
	}
	if len(fields) == 0 {
		return nil
	}
	merged, _ := json.Marshal(fields) // valid JSON only: it cannot fail
	return merged
}

package mcptool

import (
	"encoding/json"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"

	"github.com/perdure/perdure"
)

// line is what counts of a message here.
type line struct {
	id     jsonrpc.ID // what it says, however it is written; not valid: a notification
	method string     // empty: an answer
	result json.RawMessage
	params json.RawMessage
}

// readLine understands a message, if the SDK does, too: it ends a connection over one that it does not.
func readLine(text []byte) (line, error) {
	var whole struct{}
	if err := perdure.DecodeKnownJSON(text, &whole); err != nil {
		return line{}, err
	}
	m, err := jsonrpc.DecodeMessage(text)
	switch m := m.(type) {
	case *jsonrpc.Request:
		return line{id: m.ID, method: m.Method, params: m.Params}, nil
	case *jsonrpc.Response:
		return line{id: m.ID, result: m.Result}, nil
	}
	return line{}, err
}

// idOf is what an id says.
func idOf(text json.RawMessage) (jsonrpc.ID, bool) {
	var id any
	if perdure.DecodeJSON(text, &id) != nil {
		return jsonrpc.ID{}, false
	}
	if n, ok := id.(json.Number); ok {
		id, _ = n.Float64() // as the SDK reads numbers
	}
	made, err := jsonrpc.MakeID(id)
	return made, err == nil && made.IsValid()
}

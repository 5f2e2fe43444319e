package mcptool

import (
	"encoding/json"
	"errors"
	"net/http"
	"strconv"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/perdure/perdure"
)

// Names of the Tasks extension (SEP-2663) and related metadata.
const (
	extension    = "io.modelcontextprotocol/tasks"
	methodGet    = "tasks/get"
	methodUpdate = "tasks/update"
	methodCancel = "tasks/cancel"
	// Idempotency key of a call; a server with the extension of this name treats equal keys as one
	// call.
	metaKey     = "io.github.perdure/key"
	metaTrace   = "traceparent"               // the span of a call (SEP-414)
	metaCreated = "io.github.perdure/created" // internal: the task that a call became
)

// headerMismatch is the error code for headers that differ from the body (M7).
const headerMismatch = -32020

var errTooLong = errors.New("the answer of the MCP server is larger than 16 MiB")

// maxBody is the maximum size of an answer to a call, or of an event of a stream.
const maxBody = 16 << 20

// plainResult converts a result of type task, which the SDK does not know, to an ordinary one with
// the task in its metadata.
func plainResult(result json.RawMessage) (plain json.RawMessage, isTask bool) {
	var kind struct {
		Type string `json:"resultType"`
	}
	if perdure.DecodeKnownJSON(result, &kind) != nil || kind.Type != "task" {
		return result, false
	}
	return mustJSON(map[string]any{"resultType": "complete", "content": []any{}, "_meta": map[string]any{metaCreated: result}}), true
}

// exact restores the numbers of a result as the server wrote them: the SDK decodes them as floats,
// with only 53 bits of precision.
func exact(r *mcp.CallToolResult, written json.RawMessage) {
	var as struct {
		Structured json.RawMessage            `json:"structuredContent"`
		Meta       map[string]json.RawMessage `json:"_meta"`
	}
	if perdure.DecodeKnownJSON(written, &as) != nil {
		return
	}
	if r.StructuredContent != nil && as.Structured != nil {
		r.StructuredContent = as.Structured
	}
	for key := range r.Meta {
		if value, ok := as.Meta[key]; ok {
			r.Meta[key] = value
		}
	}
}

// maxBackOff is the maximum time for which a server's request not to be contacted is honoured.
const maxBackOff = time.Hour

// retryAfter parses a Retry-After header: seconds or a date. 0: there is none.
func retryAfter(text string, now time.Time) time.Duration {
	if seconds, err := strconv.Atoi(text); err == nil {
		return time.Duration(min(max(seconds, 0), int(maxBackOff/time.Second))) * time.Second
	}
	if at, err := http.ParseTime(text); err == nil {
		return min(max(at.Sub(now), 0), maxBackOff)
	}
	return 0
}

// Package session is the tools by which a model works with what is its session's own: values and secrets (TL38), databases
// (SQ1), and what runs beside it (RS1). Each set comes with a capability of its own and is in no defaults (TL30).
//
// It may import the root and tool. The one thing to know: the tools keep nothing. What a session has is behind the ports of
// tool.Env, which are bound to it (EN3). The value of a secret goes in, and comes out only where that was granted: the runtime
// takes it out of the call before that is recorded, and masks it in whatever a tool of the session says (SE3, SE4).
package session

import (
	"context"
	"errors"
	"strings"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/tool"
)

// StorageCapability is what brings kv_store and secret_store into a session.
const StorageCapability = "session_storage"

// The two tools of storage. Calls of one step run one after another, since a later one may read what an earlier one wrote.
const (
	valueName  = "kv_store"
	secretName = "secret_store"
	storageRow = "session_storage" // the concurrency class
)

// StorageTools returns kv_store and secret_store, in the order in which models are told of them.
func StorageTools() []tool.Tool { return []tool.Tool{ValueStore(), SecretStore()} }

// storage is the port's name in the text for its absence (EN2).
const storage = "Session storage store"

// worded is the result of a port's error: what the model can mend is told, with the words of the kind left out.
func worded(ctx context.Context, err error) tool.Result {
	for _, kind := range []perdure.Kind{perdure.Limit, perdure.Invalid, perdure.Unavailable} {
		if errors.Is(err, kind) && ctx.Err() == nil {
			text := err.Error()
			if at := strings.Index(text, string(kind)); at >= 0 && kind != perdure.Invalid {
				text = strings.TrimPrefix(text[at+len(kind):], ": ")
			}
			return tool.Error(text)
		}
	}
	if cause := perdure.CauseOf(ctx); cause != "" {
		return tool.Internal(cause) // the runtime words it
	}
	return tool.Internal(err)
}

// needs is the fault of a call without an argument that its operation needs; nil: it has it.
func needs(operation, argument string, has bool) *tool.Result {
	if has {
		return nil
	}
	r := tool.Failf("operation %s needs %s: nothing was done", operation, argument)
	return &r
}

// Package session is the tools with which a model works with its own session: values and secrets
// (TL38), databases (SQ1), and resources beside it (RS1). Each set has its own capability and is
// available only by choice (TL30).
//
// It may import the root and tool. The one thing to know: the tools have no state. The data of a
// session is behind the ports of tool.Env, which are bound to the session (EN3). The value of a
// secret comes out again only with a permission: the runtime removes it from the call before that
// is recorded, and masks it in the output of every tool of the session (SE3, SE4).
package session

import (
	"context"
	"errors"
	"strings"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/tool"
)

// StorageCapability is the capability of kv_store and secret_store.
const StorageCapability = "session_storage"

// The two storage tools. Calls of one step run one after another, because a later one may read what
// an earlier one wrote.
const (
	valueName          = "kv_store"
	secretName         = "secret_store"
	storageConcurrency = "session_storage" // concurrency class
)

// StorageTools returns kv_store and secret_store, in the order in which they are listed to models.
func StorageTools() []tool.Tool { return []tool.Tool{ValueStore(), SecretStore()} }

// storage is the name of the port in the error for its absence (EN2).
const storage = "Session storage store"

// portError is the result of an error of a port. If the model can correct the error, it gets the
// text without the kind.
func portError(ctx context.Context, err error) tool.Result {
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

// missingArgument returns the error for an operation without a required argument; nil: the argument
// is present.
func missingArgument(operation, argument string, has bool) *tool.Result {
	if has {
		return nil
	}
	r := tool.Failf("operation %s requires %s; nothing was done", operation, argument)
	return &r
}

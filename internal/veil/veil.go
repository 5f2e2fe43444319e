// Package veil keeps what is secret of a call out of all that is recorded of it: the arguments that its tool declares secret,
// and the values of its session's secrets in what the tool reports and returns.
//
// It may import the root and tool. The one thing to know: a secret argument leaves the model's message before that is
// committed, and from then on it is in the memory of this process only. A call that is taken up by another process has lost
// it, and is answered with that ([Gone]) instead of being run with something else.
package veil

import (
	"encoding/json"
	"sync"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/internal/redact"
	"github.com/perdure/perdure/tool"
)

// mark stands where a secret argument was.
const mark = `"` + redact.Mark + `"`

// Vault holds the secret arguments of calls that were asked for and have not ended. The zero value is empty. Safe for
// concurrent use.
type Vault struct {
	mu   sync.Mutex
	held map[perdure.SessionID]map[perdure.CallID]json.RawMessage // guarded by mu; whole arguments
}

// Take returns arguments without what the schema of their tool declares secret, and whether there was any. What it takes out
// is held for the call. Arguments that have the mark already in such a place keep what was held for it before.
func (v *Vault) Take(key perdure.CallKey, schema, args json.RawMessage) (json.RawMessage, bool) {
	fields := fieldsOf(schema)
	if fields.none() {
		return args, false
	}
	shown, some := fields.mask(args)
	if !some {
		return args, false
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.held == nil {
		v.held = map[perdure.SessionID]map[perdure.CallID]json.RawMessage{}
	}
	calls := v.held[key.Session]
	if calls == nil {
		calls = map[perdure.CallID]json.RawMessage{}
		v.held[key.Session] = calls
	}
	calls[key.Call] = fill(args, calls[key.Call])
	return shown, true
}

// Fill returns the arguments of a call with what was taken out of them, and what that was, to be masked.
func (v *Vault) Fill(key perdure.CallKey, schema, args json.RawMessage) (whole json.RawMessage, secrets *redact.Set) {
	fields := fieldsOf(schema)
	if fields.none() {
		return args, nil
	}
	v.mu.Lock()
	held := v.held[key.Session][key.Call]
	v.mu.Unlock()
	whole = fill(args, held)
	return whole, fields.secrets(whole)
}

// Drop forgets a call.
func (v *Vault) Drop(key perdure.CallKey) {
	v.mu.Lock()
	defer v.mu.Unlock()
	delete(v.held[key.Session], key.Call)
	if len(v.held[key.Session]) == 0 {
		delete(v.held, key.Session)
	}
}

// DropSession forgets all calls of a session: no turn of it runs.
func (v *Vault) DropSession(id perdure.SessionID) {
	v.mu.Lock()
	defer v.mu.Unlock()
	delete(v.held, id)
}

// Gone returns the result of a call whose secret arguments are lost, since the process that had them is dead; nil: it has
// them all.
func Gone(schema, args json.RawMessage) *tool.Result {
	fields := fieldsOf(schema)
	if fields.none() || !fields.marked(args) {
		return nil
	}
	r := tool.Error("The value is gone: it is never stored with a call, and the runtime restarted before the call had used it, " +
		"or it was given in a call that runs later. Nothing was done. Ask for it again, and make the call anew.")
	return &r
}

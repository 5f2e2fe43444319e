// Package secretargs keeps the secrets of a call out of everything that is recorded about it: the
// arguments that its tool declares secret, and the values of its session's secrets in arguments,
// reports and results.
//
// It may import the root, tool and internal/redact. The one thing to know: a secret argument is
// removed from the model's message before the message is committed. From then on it exists only in
// the memory of this process. If another process continues the call, the argument is lost, and the
// call gets an error ([SlotReleased]) instead of running without it.
package secretargs

import (
	"encoding/json"
	"maps"
	"sync"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/internal/redact"
	"github.com/perdure/perdure/tool"
)

// mark replaces a secret argument.
const mark = `"` + redact.Mark + `"`

// escapedMark is mark in HTML-safe JSON.
const escapedMark = `"\u003credacted\u003e"`

// Vault holds the secret arguments of calls that have not ended. The zero value is empty. Safe for
// concurrent use.
type Vault struct {
	mu   sync.Mutex
	held map[perdure.SessionID]map[perdure.CallID]heldArgs // guarded by mu
}

// heldArgs is the full arguments of a call.
type heldArgs struct {
	args        json.RawMessage
	acrossTurns bool // the call belongs to no turn, so the end of a turn does not drop it
}

// Remove replaces the arguments that the schema declares secret, and reports whether there were
// any. The full arguments are held for the call. If an argument is already the mark, the value that
// was held for it before is kept.
func (v *Vault) Remove(key perdure.CallKey, schema, args json.RawMessage) (json.RawMessage, bool) {
	fields := fieldsOf(schema)
	if fields.isEmpty() {
		return args, false
	}
	shown, some := fields.mask(args)
	if !some {
		return args, false
	}
	v.hold(key, args)
	return shown, true
}

// hold stores the full arguments of a call. Marks in them are filled from what was held before.
func (v *Vault) hold(key perdure.CallKey, args json.RawMessage) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.held == nil {
		v.held = map[perdure.SessionID]map[perdure.CallID]heldArgs{}
	}
	calls := v.held[key.Session]
	if calls == nil {
		calls = map[perdure.CallID]heldArgs{}
		v.held[key.Session] = calls
	}
	one := calls[key.Call]
	one.args = fill(args, one.args)
	calls[key.Call] = one
}

// KeepAcrossTurns keeps what is held for a call when a turn of its session ends. It does nothing if
// nothing is held.
func (v *Vault) KeepAcrossTurns(key perdure.CallKey) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if one, there := v.held[key.Session][key.Call]; there {
		one.acrossTurns = true
		v.held[key.Session][key.Call] = one
	}
}

// HideAll is Take for arguments of unknown structure: the mark replaces all of them.
func (v *Vault) HideAll(key perdure.CallKey, args json.RawMessage) json.RawMessage {
	v.hold(key, args)
	return json.RawMessage(mark)
}

// Fill returns the full arguments of a call, and the secrets in them, to be masked.
func (v *Vault) Fill(key perdure.CallKey, schema, args json.RawMessage) (full json.RawMessage, secrets *redact.Set) {
	fields := fieldsOf(schema)
	if fields.isEmpty() && !hides(args) {
		return args, nil
	}
	v.mu.Lock()
	held := v.held[key.Session][key.Call].args
	v.mu.Unlock()
	full = fill(args, held)
	if fields.isEmpty() {
		return full, nil
	}
	return full, fields.secrets(full)
}

// Drop drops what is held for a call.
func (v *Vault) Drop(key perdure.CallKey) {
	v.mu.Lock()
	defer v.mu.Unlock()
	delete(v.held[key.Session], key.Call)
	if len(v.held[key.Session]) == 0 {
		delete(v.held, key.Session)
	}
}

// DropTurn drops the calls of a session whose turn has ended, except those that continue as tasks
// and those marked with Stay.
func (v *Vault) DropTurn(id perdure.SessionID, continues func(perdure.CallID) bool) {
	v.mu.Lock()
	defer v.mu.Unlock()
	maps.DeleteFunc(v.held[id], func(call perdure.CallID, one heldArgs) bool { return !one.acrossTurns && !continues(call) })
	if len(v.held[id]) == 0 {
		delete(v.held, id)
	}
}

// DropSession drops all calls of a session.
func (v *Vault) DropSession(id perdure.SessionID) {
	v.mu.Lock()
	defer v.mu.Unlock()
	delete(v.held, id)
}

// DropAll drops everything.
func (v *Vault) DropAll() {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.held = nil
}

// HasSecrets reports whether a schema declares anything secret.
func HasSecrets(schema json.RawMessage) bool { return !fieldsOf(schema).isEmpty() }

// SecretsOf returns the secret arguments, to be masked; nil: there are none.
func SecretsOf(schema, args json.RawMessage) *redact.Set {
	fields := fieldsOf(schema)
	if fields.isEmpty() {
		return nil
	}
	return fields.secrets(args)
}

// SafeFault masks the secrets in a validation error. If a part of a secret would be left, because
// the text was cut or quotes only a part, the whole text is replaced.
func SafeFault(schema, args json.RawMessage, text string) string {
	fields := fieldsOf(schema)
	if fields.isEmpty() {
		return text
	}
	text = fields.secrets(args).Mask(text)
	if fields.leftIn(args, text) {
		return "Invalid arguments: a secret argument does not match its schema. The details are withheld, because " +
			"they would reveal the secret."
	}
	return text
}

// CheckLost returns the result of a call that has lost secrets, because the process that held them
// is gone; nil: it has them all.
func CheckLost(schema, args json.RawMessage) *tool.Result {
	fields := fieldsOf(schema)
	if !HasKnownMark(args) && (fields.isEmpty() || !fields.marked(args)) {
		return nil
	}
	r := LostResult()
	return &r
}

// LostResult is the result of a call whose secret values are lost.
func LostResult() tool.Result {
	return tool.Error("The value is gone: the value of a secret is never stored with a call. Either the runtime " +
		"restarted before the call used it, or it was given to a call that runs later. The call was not run. Ask for " +
		"the value again, and repeat the call.")
}

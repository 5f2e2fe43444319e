// Package veil keeps what is secret of a call out of all that is recorded of it: the arguments that its tool declares secret,
// and the values of its session's secrets in what the tool reports and returns.
//
// It may import the root, tool and internal/redact. The one thing to know: a secret argument leaves the model's message before that is
// committed, and from then on it is in the memory of this process only. A call that is taken up by another process has lost
// it, and is answered with that ([Gone]) instead of being run with something else.
package veil

import (
	"encoding/json"
	"maps"
	"sync"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/internal/redact"
	"github.com/perdure/perdure/tool"
)

// mark stands where a secret argument was.
const mark = `"` + redact.Mark + `"`

// escapedMark is the mark as JSON for HTML has it.
const escapedMark = `"\u003credacted\u003e"`

// Vault holds the secret arguments of calls that were asked for and have not ended. The zero value is empty. Safe for
// concurrent use.
type Vault struct {
	mu   sync.Mutex
	held map[perdure.SessionID]map[perdure.CallID]kept // guarded by mu
}

// kept is the whole arguments of a call.
type kept struct {
	args  json.RawMessage
	stays bool // when a turn of its session ends: it is of none
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
	v.hold(key, args)
	return shown, true
}

// hold keeps arguments for a call. Where they have the mark, what was held before stands for it.
func (v *Vault) hold(key perdure.CallKey, args json.RawMessage) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.held == nil {
		v.held = map[perdure.SessionID]map[perdure.CallID]kept{}
	}
	calls := v.held[key.Session]
	if calls == nil {
		calls = map[perdure.CallID]kept{}
		v.held[key.Session] = calls
	}
	one := calls[key.Call]
	one.args = fill(args, one.args)
	calls[key.Call] = one
}

// Stay keeps what is held for a call when turns of its session end. Nothing is held: nothing stays.
func (v *Vault) Stay(key perdure.CallKey) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if one, there := v.held[key.Session][key.Call]; there {
		one.stays = true
		v.held[key.Session][key.Call] = one
	}
}

// Hide is Take for arguments of which nobody can say what is secret: the mark stands for the whole.
func (v *Vault) Hide(key perdure.CallKey, args json.RawMessage) json.RawMessage {
	v.hold(key, args)
	return json.RawMessage(mark)
}

// Fill returns the arguments of a call with what was taken out of them, and what that was, to be masked.
func (v *Vault) Fill(key perdure.CallKey, schema, args json.RawMessage) (whole json.RawMessage, secrets *redact.Set) {
	fields := fieldsOf(schema)
	if fields.none() && !hides(args) {
		return args, nil
	}
	v.mu.Lock()
	held := v.held[key.Session][key.Call].args
	v.mu.Unlock()
	whole = fill(args, held)
	if fields.none() {
		return whole, nil
	}
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

// DropTurn forgets the calls of a session whose turn has ended, but for those that live on and those that stay.
func (v *Vault) DropTurn(id perdure.SessionID, lives func(perdure.CallID) bool) {
	v.mu.Lock()
	defer v.mu.Unlock()
	maps.DeleteFunc(v.held[id], func(call perdure.CallID, one kept) bool { return !one.stays && !lives(call) })
	if len(v.held[id]) == 0 {
		delete(v.held, id)
	}
}

// DropSession forgets all calls of a session.
func (v *Vault) DropSession(id perdure.SessionID) {
	v.mu.Lock()
	defer v.mu.Unlock()
	delete(v.held, id)
}

// DropAll forgets all calls: this process carries none of them on.
func (v *Vault) DropAll() {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.held = nil
}

// Has reports whether a schema declares anything secret.
func Has(schema json.RawMessage) bool { return !fieldsOf(schema).none() }

// SecretsOf returns what is secret of arguments, to be masked; nil: nothing is.
func SecretsOf(schema, args json.RawMessage) *redact.Set {
	fields := fieldsOf(schema)
	if fields.none() {
		return nil
	}
	return fields.secrets(args)
}

// Fault is a text that says what is wrong with arguments, without what is secret of them. Where a part of a secret would be
// left, since such a text is cut, or tells only of a part, none of it is.
func Fault(schema, args json.RawMessage, text string) string {
	fields := fieldsOf(schema)
	if fields.none() {
		return text
	}
	text = fields.secrets(args).Mask(text)
	if fields.leftIn(args, text) {
		return "Invalid arguments: a secret one does not fit its schema. What it is cannot be told without it."
	}
	return text
}

// Gone returns the result of a call whose secret arguments, or values of the session's secrets in the others, are lost, since the process that had them is dead; nil: it has
// them all.
func Gone(schema, args json.RawMessage) *tool.Result {
	fields := fieldsOf(schema)
	if !Stands(args) && (fields.none() || !fields.marked(args)) {
		return nil
	}
	r := Lost()
	return &r
}

// Lost is the result of a call whose arguments are not there any more.
func Lost() tool.Result {
	return tool.Error("The value is gone: it is never stored with a call, and the runtime restarted before the call had used it, " +
		"or it was given in a call that runs later. The call was not run. Ask for it again, and make the call anew.")
}

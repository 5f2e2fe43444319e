package veil

import (
	"bytes"
	"encoding/json"
	"strings"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/internal/redact"
	"github.com/perdure/perdure/tool"
)

// KnownMark stands where a call has a value that is one of its session's secrets, in an argument that its tool does not
// declare secret. It is another mark than that of a declared one, so that who writes "<redacted>" means just that.
const KnownMark = "<redacted secret>"

// escapedKnownMark is the mark as JSON for HTML has it.
const escapedKnownMark = `\u003credacted secret\u003e`

// UnfitKnown is the result of a call whose arguments do not fit their schema, where that is the fault of a secret in them.
const UnfitKnown = "Invalid arguments: one that has a secret in it does not fit its schema. What it is cannot be told without it."

// Stands reports whether a value of the session's secrets was taken out of a text.
func Stands[T ~string | ~[]byte](text T) bool {
	return strings.Contains(string(text), KnownMark) || strings.Contains(string(text), escapedKnownMark)
}

// Without is a text without the values of a session's secrets. known may be nil: there are none.
func Without(known tool.Known, text string) string {
	if known == nil || text == "" || known.Mask(text) == text {
		return text
	}
	parts := strings.Split(text, redact.Mark) // what was written so was written so
	for i, part := range parts {
		parts[i] = strings.ReplaceAll(known.Mask(part), redact.Mark, KnownMark)
	}
	hidden := strings.Join(parts, redact.Mark)
	if known.Mask(hidden) != hidden { // it is a secret that has a mark in itself
		return KnownMark
	}
	return hidden
}

// WithoutJSON is arguments without the values of a session's secrets, and whether there were any.
func WithoutJSON(known tool.Known, args json.RawMessage) (shown json.RawMessage, some bool) {
	text := Without(known, string(args))
	if text == string(args) {
		return args, false
	}
	var whole any
	if perdure.DecodeKnownJSON(json.RawMessage(text), &whole) != nil { // it was none, or a secret is a number or a piece of its signs
		return json.RawMessage(`"` + KnownMark + `"`), true
	}
	return json.RawMessage(text), true
}

// TakeKnown returns arguments without the values of the session's secrets, and whether there were any. The whole is held for the
// call.
func (v *Vault) TakeKnown(key perdure.CallKey, known tool.Known, args json.RawMessage) (json.RawMessage, bool) {
	shown, some := WithoutJSON(known, args)
	if some {
		v.hold(key, args)
	}
	return shown, some
}

// Known returns the arguments of a call with the values of the session's secrets that were taken out of them, and nothing else:
// what its tool declares secret stays hidden. A policy that judges a command has to see the whole of it.
func (v *Vault) Known(key perdure.CallKey, schema, args json.RawMessage) json.RawMessage {
	if !Stands(args) {
		return args
	}
	whole, _ := v.Fill(key, schema, args)
	if fields := fieldsOf(schema); !fields.none() {
		whole, _ = fields.mask(whole)
	}
	return whole
}

// Kept reports whether each argument from which a value was taken stands as it was recorded. Whoever writes another one around
// the mark means other arguments, and nobody can say which part of what is held belongs there.
func Kept(recorded, now json.RawMessage) bool {
	if !Stands(now) {
		return true
	}
	before, had := objectOf(recorded)
	after, ok := objectOf(now)
	if !had || !ok {
		return bytes.Equal(recorded, now)
	}
	for name, value := range after {
		if Stands(name) || Stands(value) && !sameJSON(before[name], value) {
			return false
		}
	}
	return true
}

func sameJSON(a, b json.RawMessage) bool {
	one, err := perdure.CanonicalJSON(a)
	other, otherErr := perdure.CanonicalJSON(b)
	return err == nil && otherErr == nil && bytes.Equal(one, other)
}

// hides reports whether something is missing in a value: the mark stands in its place, or one of a session's secret within it.
func hides(value json.RawMessage) bool { return isMark(bytes.TrimSpace(value)) || Stands(value) }

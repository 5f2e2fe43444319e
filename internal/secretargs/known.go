package secretargs

import (
	"bytes"
	"encoding/json"
	"strings"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/internal/redact"
	"github.com/perdure/perdure/internal/strictjson"
	"github.com/perdure/perdure/tool"
)

// KnownMark replaces the value of a session's secret in an argument that the tool does not declare
// secret. It differs from the mark of declared secrets, so that an argument that is literally
// "<redacted>" keeps its meaning.
const KnownMark = "<redacted secret>"

// escapedKnownMark is KnownMark in HTML-safe JSON.
const escapedKnownMark = `\u003credacted secret\u003e`

// UnusableKnown is the result of a call whose arguments do not match their schema because of a
// secret in them.
const UnusableKnown = "Invalid arguments: an argument that contains a secret does not match its schema. The details are " +
	"withheld, because they would reveal the secret."

// HasKnownMark reports whether a text contains the mark of a session's secret.
func HasKnownMark[T ~string | ~[]byte](text T) bool {
	return strings.Contains(string(text), KnownMark) || strings.Contains(string(text), escapedKnownMark)
}

// MaskKnown returns a text with the values of a session's secrets replaced. known may be nil: there
// are none.
func MaskKnown(known tool.SecretMasker, text string) string {
	if known == nil || text == "" || known.Mask(text) == text {
		return text
	}
	parts := strings.Split(text, redact.Mark) // a mark in the original text stays
	for i, part := range parts {
		parts[i] = strings.ReplaceAll(known.Mask(part), redact.Mark, KnownMark)
	}
	hidden := strings.Join(parts, redact.Mark)
	if known.Mask(hidden) != hidden { // the mark completes a secret
		return KnownMark
	}
	return hidden
}

// MaskKnownJSON replaces the values of a session's secrets in arguments, and reports whether there
// were any.
func MaskKnownJSON(known tool.SecretMasker, args json.RawMessage) (shown json.RawMessage, some bool) {
	text := MaskKnown(known, string(args))
	if text == string(args) {
		return args, false
	}
	var decoded any
	if perdure.DecodeKnownJSON(json.RawMessage(text), &decoded) != nil {
		// the text was not valid JSON, or the secret included JSON syntax
		return json.RawMessage(`"` + KnownMark + `"`), true
	}
	return json.RawMessage(text), true
}

// RemoveKnown replaces the values of the session's secrets in arguments, and reports whether there
// were any. The full arguments are held for the call.
func (v *Vault) RemoveKnown(key perdure.CallKey, known tool.SecretMasker, args json.RawMessage) (json.RawMessage, bool) {
	shown, some := MaskKnownJSON(known, args)
	if some {
		v.hold(key, args)
	}
	return shown, some
}

// Known returns the arguments of a call with the values of the session's secrets filled in. What
// the tool declares secret stays masked. Policies need this: they must see the full command that
// they judge.
func (v *Vault) Known(key perdure.CallKey, schema, args json.RawMessage) json.RawMessage {
	if !HasKnownMark(args) {
		return args
	}
	full, _ := v.Fill(key, schema, args)
	if fields := fieldsOf(schema); !fields.isEmpty() {
		full, _ = fields.mask(full)
	}
	return full
}

// MarksIntact reports whether every argument with a mark is unchanged from the recorded one. If a
// caller edits the text around a mark, it is not known which part of the held value belongs there.
func MarksIntact(recorded, now json.RawMessage) bool {
	if !HasKnownMark(now) {
		return true
	}
	before, had := objectOf(recorded)
	after, ok := objectOf(now)
	if !had || !ok {
		return bytes.Equal(recorded, now)
	}
	for name, value := range after {
		if HasKnownMark(name) || HasKnownMark(value) && !sameJSON(before[name], value) {
			return false
		}
	}
	return true
}

func sameJSON(a, b json.RawMessage) bool {
	one, err := strictjson.Canonical(a)
	other, otherErr := strictjson.Canonical(b)
	return err == nil && otherErr == nil && bytes.Equal(one, other)
}

// hides reports whether a value is incomplete: it is the mark, or contains the mark of a session's
// secret.
func hides(value json.RawMessage) bool { return isMark(bytes.TrimSpace(value)) || HasKnownMark(value) }

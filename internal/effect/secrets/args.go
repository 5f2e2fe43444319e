package secrets

import (
	"encoding/json"
	"slices"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/internal/secretargs"
	"github.com/perdure/perdure/tool"
)

// Extract removes from the arguments of a call what must not be recorded, and holds it in
// the vault for the call: arguments that the tool declares secret, and values of the session's
// secrets anywhere.
func (sec *Secrets) Extract(key perdure.CallKey, t tool.Tool, args json.RawMessage) (json.RawMessage, bool) {
	return sec.extractSecretsInto(&sec.Vault, key, t, args)
}

// Recorded returns the arguments of a call as they would be recorded. It holds nothing.
func (sec *Secrets) Recorded(id perdure.SessionID, t tool.Tool, args json.RawMessage) json.RawMessage {
	var dropped secretargs.Vault
	shown, _ := sec.extractSecretsInto(&dropped, perdure.CallKey{Session: id}, t, args)
	return shown
}

func (sec *Secrets) extractSecretsInto(v *secretargs.Vault, key perdure.CallKey, t tool.Tool,
	args json.RawMessage) (json.RawMessage, bool) {
	shown, some := sec.extractDeclared(v, key, t, args)
	shown, more := v.RemoveKnown(key, sec.Known(key.Session), shown)
	return shown, some || more
}

// extractDeclared removes from the arguments of a call what its tool declares secret, and holds it.
// Secrets inside an order for a background run are removed and not held: the run is created later,
// by a caller that has them. An order that cannot be parsed is held as a whole; it is refused.
func (sec *Secrets) extractDeclared(v *secretargs.Vault, key perdure.CallKey, t tool.Tool,
	args json.RawMessage) (json.RawMessage, bool) {
	spec := t.Spec()
	if spec.Hints.CapabilityID != tool.BackgroundCapability {
		return v.Remove(key, spec.Parameters, args)
	}
	if !sec.hasSecretArgs() {
		return args, false
	}
	shown, _, some := secretargs.MaskOrder(spec.Parameters, args, sec.orderSchema)
	if shown == nil && some {
		return v.HideAll(key, args), true
	}
	return shown, some
}

// orderSchema returns the parameters of the tool that an order names. A tool that takes orders
// itself cannot be ordered.
func (sec *Secrets) orderSchema(name string) (json.RawMessage, bool) {
	t, ok := sec.toolset.Find(name)
	if !ok || t.Spec().Hints.CapabilityID == tool.BackgroundCapability {
		return nil, false
	}
	return t.Spec().Parameters, true
}

// hasSecretArgs reports whether any tool has secret arguments.
func (sec *Secrets) hasSecretArgs() bool {
	return slices.ContainsFunc(sec.core.Tools.Names(), func(name string) bool {
		t, ok := sec.toolset.Find(name)
		return ok && secretargs.HasSecrets(t.Spec().Parameters)
	})
}

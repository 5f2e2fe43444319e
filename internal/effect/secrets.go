package effect

import (
	"context"
	"encoding/json"
	"slices"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/internal/redact"
	"github.com/perdure/perdure/internal/secretargs"
	"github.com/perdure/perdure/store"
	"github.com/perdure/perdure/tool"
)

// redactMessage removes secrets from a response before any of it is recorded: secret arguments from
// its calls, and the values of these arguments and of the session's secrets from its texts.
// Thinking that contains a secret is dropped, because a changed text would not match its signature.
func (e *Effects) redactMessage(s *perdure.Session, m perdure.Message) perdure.Message {
	unsaid := e.secretsIn(s, m)
	for _, v := range unsaid {
		for i, part := range m.Parts {
			if part.Type == perdure.PartText {
				m.Parts[i].Text = v.Mask(part.Text)
			}
		}
		if v.Mask(m.Thinking) != m.Thinking {
			m.Thinking, m.Signature = "", ""
		}
	}
	for i, part := range m.Parts {
		if part.Type != perdure.PartToolCall || part.Call == nil {
			continue
		}
		call := *part.Call
		key := perdure.CallKey{Session: s.ID, Call: call.ID}
		t, ok := e.tool(call.Name)
		some := false
		if ok {
			call.Arguments, some = e.extractSecrets(key, t, call.Arguments)
		} else if e.hasSecretArgs() { // the model may have misspelled the name of a tool with secret arguments
			call, some = e.redactUnknownCall(key, call, unsaid), true
		}
		if some {
			m.Parts[i].Call = &call
		}
	}
	return m
}

// extractSecrets removes from the arguments of a call what must not be recorded, and holds it in
// the vault for the call: arguments that the tool declares secret, and values of the session's
// secrets anywhere.
func (e *Effects) extractSecrets(key perdure.CallKey, t tool.Tool, args json.RawMessage) (json.RawMessage, bool) {
	return e.extractSecretsInto(&e.vault, key, t, args)
}

// recordedArgs returns the arguments of a call as they would be recorded. It holds nothing.
func (e *Effects) recordedArgs(id perdure.SessionID, t tool.Tool, args json.RawMessage) json.RawMessage {
	var dropped secretargs.Vault
	shown, _ := e.extractSecretsInto(&dropped, perdure.CallKey{Session: id}, t, args)
	return shown
}

func (e *Effects) extractSecretsInto(v *secretargs.Vault, key perdure.CallKey, t tool.Tool,
	args json.RawMessage) (json.RawMessage, bool) {
	shown, some := e.extractDeclared(v, key, t, args)
	shown, more := v.RemoveKnown(key, e.knownSecrets(key.Session), shown)
	return shown, some || more
}

// extractDeclared removes from the arguments of a call what its tool declares secret, and holds it.
// Secrets inside an order for a background run are removed and not held: the run is created later,
// by a caller that has them. An order that cannot be parsed is held as a whole; it is refused.
func (e *Effects) extractDeclared(v *secretargs.Vault, key perdure.CallKey, t tool.Tool,
	args json.RawMessage) (json.RawMessage, bool) {
	spec := t.Spec()
	if spec.Hints.CapabilityID != tool.BackgroundCapability {
		return v.Remove(key, spec.Parameters, args)
	}
	if !e.hasSecretArgs() {
		return args, false
	}
	shown, _, some := secretargs.MaskOrder(spec.Parameters, args, e.orderSchema)
	if shown == nil && some {
		return v.HideAll(key, args), true
	}
	return shown, some
}

// orderSchema returns the parameters of the tool that an order names. A tool that takes orders
// itself cannot be ordered.
func (e *Effects) orderSchema(name string) (json.RawMessage, bool) {
	t, ok := e.tool(name)
	if !ok || t.Spec().Hints.CapabilityID == tool.BackgroundCapability {
		return nil, false
	}
	return t.Spec().Parameters, true
}

// unknownTool replaces the name of an unknown tool that contains a secret.
const unknownTool = "unknown_tool"

// redactUnknownCall returns a call of an unknown tool as it may be recorded.
func (e *Effects) redactUnknownCall(key perdure.CallKey, call perdure.ToolCall, unsaid []*secretargs.Masker) perdure.ToolCall {
	for _, v := range unsaid {
		if v.Mask(call.Name) != call.Name {
			call.Name = unknownTool
		}
	}
	if text := string(call.Arguments); text != "" && text != "{}" {
		call.Arguments = e.vault.HideAll(key, call.Arguments)
	}
	return call
}

// hasSecretArgs reports whether any tool has secret arguments.
func (e *Effects) hasSecretArgs() bool {
	return slices.ContainsFunc(e.core.Tools.Names(), func(name string) bool {
		t, ok := e.tool(name)
		return ok && secretargs.HasSecrets(t.Spec().Parameters)
	})
}

// invoke runs a tool, unless some of its secret arguments are lost.
func invoke(ctx context.Context, t tool.Tool, call tool.Call, env tool.Env) tool.Result {
	if gone := secretargs.CheckLost(t.Spec().Parameters, call.Args); gone != nil {
		return *gone
	}
	return t.Run(ctx, call, env)
}

// maskedArgs is the arguments of a call as recorded, and the secrets missing from them; nil: none.
type maskedArgs struct {
	recorded json.RawMessage
	own      *redact.Set
}

// runMasked runs the work of an execution and masks secrets in what it reports and returns.
func (e *Effects) runMasked(ctx context.Context, t tool.Tool, h maskedArgs, env tool.Env,
	work func(tool.Env) tool.Result) tool.Result {
	env.Call.Granted = e.grantedSecrets(ctx, t, h.recorded, env.Call)
	trusted := t.Spec().Trusted
	v := secretargs.New(env.SecretMasker, h.own)
	if v == nil {
		r := work(env)
		r.Untrusted = r.Untrusted || !trusted
		return r
	}
	sink := v.Sink(env.Report())
	defer sink.Close()
	env.Sink, env.Files = sink, masked(env.Files, v.Mask)
	if out, ok := env.Egress.(journaledEgress); ok {
		out.mask = v.Mask
		env.Egress = out
	}
	if env.Dialog != nil {
		env.Dialog = v.Dialog(env.Dialog)
	}
	if env.Utility != nil {
		env.Utility = v.Utility(env.Utility)
	}
	r := work(env)
	r.RevealsSecret = r.RevealsSecret && len(env.Call.Granted) > 0
	r.Untrusted = r.Untrusted || !trusted
	return v.Result(r)
}

// grantedSecrets returns the secrets that a call may show to the model. A policy must allow them
// explicitly, or a person must have approved them; the absence of a policy is not enough.
func (e *Effects) grantedSecrets(ctx context.Context, t tool.Tool, recorded json.RawMessage,
	call tool.Call) (granted []perdure.Permission) {
	guarded, ok := t.(tool.Guarded)
	if !ok {
		return nil
	}
	call.Args = recorded
	var wanted []perdure.Permission
	if e.core.Guarded("permissions", func() error { wanted = guarded.Permissions(call); return nil }) != nil {
		return nil
	}
	for _, p := range wanted {
		if p.Kind != tool.ReadSecret {
			continue
		}
		decision, _, err := e.core.Gate().Decide(ctx, call, p)
		if err == nil && (decision == perdure.Allow || decision != perdure.Deny && e.approved(ctx, call, p)) {
			granted = append(granted, p)
		}
	}
	return granted
}

// approved reports whether a person approved a permission of a call.
func (e *Effects) approved(ctx context.Context, call tool.Call, p perdure.Permission) bool {
	var found []perdure.Approval
	err := e.core.Store.View(ctx, func(r store.Reader) (err error) {
		found, err = r.Approvals().List(store.ApprovalFilter{Session: call.Session, Call: call.ID,
			State: perdure.ApprovalApproved})
		return err
	})
	return err == nil && slices.ContainsFunc(found, func(a perdure.Approval) bool {
		return p.In(a.Permissions)
	})
}

package effect

import (
	"context"
	"encoding/json"
	"slices"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/internal/redact"
	"github.com/perdure/perdure/internal/veil"
	"github.com/perdure/perdure/store"
	"github.com/perdure/perdure/tool"
)

// sealed takes the secret arguments out of the calls of an answer before anything of it is recorded, and what they and the
// session's secrets are out of its texts. Thinking that tells one is left out, since with another text its signature is none.
func (e *Effects) sealed(s *perdure.Session, m perdure.Message) perdure.Message {
	unsaid := e.unsaid(s, m)
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
			call.Arguments, some = e.taken(key, t, call.Arguments)
		} else if e.keepsSecrets() { // it may be a name that the model got wrong
			call, some = e.unknownCall(key, call, unsaid), true
		}
		if some {
			m.Parts[i].Call = &call
		}
	}
	return m
}

// taken takes out of the arguments of a call what may be recorded nowhere, and holds it for the call: what its tool declares
// secret, and the values of the session's secrets wherever they stand.
func (e *Effects) taken(key perdure.CallKey, t tool.Tool, args json.RawMessage) (json.RawMessage, bool) {
	return e.takenInto(&e.vault, key, t, args)
}

// recorded is the arguments of a call of a session as they would be recorded. Nothing is held.
func (e *Effects) recorded(id perdure.SessionID, t tool.Tool, args json.RawMessage) json.RawMessage {
	var dropped veil.Vault
	shown, _ := e.takenInto(&dropped, perdure.CallKey{Session: id}, t, args)
	return shown
}

func (e *Effects) takenInto(v *veil.Vault, key perdure.CallKey, t tool.Tool, args json.RawMessage) (json.RawMessage, bool) {
	shown, some := e.declared(v, key, t, args)
	shown, more := v.TakeKnown(key, e.known(key.Session), shown)
	return shown, some || more
}

// declared takes out of the arguments of a call what its tool declares secret, and holds it. What an order for a
// background run has of that is not held: such a run is made later, by whoever has it then. An order that nobody can read is
// held whole: it is refused.
func (e *Effects) declared(v *veil.Vault, key perdure.CallKey, t tool.Tool, args json.RawMessage) (json.RawMessage, bool) {
	spec := t.Spec()
	if spec.Hints.CapabilityID != backgroundCapability {
		return v.Take(key, spec.Parameters, args)
	}
	if !e.keepsSecrets() {
		return args, false
	}
	shown, _, some := veil.Order(spec.Parameters, args, e.ordered)
	if shown == nil && some {
		return v.Hide(key, args), true
	}
	return shown, some
}

// ordered is the schema of a tool that an order may name. None that takes orders itself is.
func (e *Effects) ordered(name string) (json.RawMessage, bool) {
	t, ok := e.tool(name)
	if !ok || t.Spec().Hints.CapabilityID == backgroundCapability {
		return nil, false
	}
	return t.Spec().Parameters, true
}

// unknownTool stands where a model called a tool by a secret.
const unknownTool = "unknown_tool"

// unknownCall is a call of a tool that is not here, as it may be recorded.
func (e *Effects) unknownCall(key perdure.CallKey, call perdure.ToolCall, unsaid []*veil.Veil) perdure.ToolCall {
	for _, v := range unsaid {
		if v.Mask(call.Name) != call.Name {
			call.Name = unknownTool
		}
	}
	if text := string(call.Arguments); text != "" && text != "{}" {
		call.Arguments = e.vault.Hide(key, call.Arguments)
	}
	return call
}

// keepsSecrets reports whether some tool has secret arguments.
func (e *Effects) keepsSecrets() bool {
	return slices.ContainsFunc(e.cfg.Tools.Names(), func(name string) bool {
		t, ok := e.tool(name)
		return ok && veil.Has(t.Spec().Parameters)
	})
}

// enter runs a tool, unless what it is to be run with is lost.
func enter(ctx context.Context, t tool.Tool, call tool.Call, env tool.Env) tool.Result {
	if gone := veil.Gone(t.Spec().Parameters, call.Args); gone != nil {
		return *gone
	}
	return t.Run(ctx, call, env)
}

// hidden is the arguments of a call as they are recorded, and what is missing from them; nil: nothing is.
type hidden struct {
	recorded json.RawMessage
	own      *redact.Set
}

// veiled does the work of an execution, and keeps secrets out of what it reports and returns (SE4).
func (e *Effects) veiled(ctx context.Context, t tool.Tool, h hidden, env tool.Env, work func(tool.Env) tool.Result) tool.Result {
	env.Call.Granted = e.granted(ctx, t, h.recorded, env.Call)
	trusted := t.Spec().Trusted
	v := veil.New(env.Known, h.own)
	if v == nil {
		r := work(env)
		r.Untrusted = r.Untrusted || !trusted
		return r
	}
	sink := v.Sink(env.Report())
	defer sink.Close()
	env.Sink, env.Files = sink, masked(env.Files, v.Mask)
	if out, ok := env.Egress.(watched); ok {
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
	r.Reveals = r.Reveals && len(env.Call.Granted) > 0
	r.Untrusted = r.Untrusted || !trusted
	return v.Result(r)
}

// granted is which secrets a call may show to the model: those that the policy allows in so many words, or that a person
// said yes to (SE3). That nobody minds is not enough.
func (e *Effects) granted(ctx context.Context, t tool.Tool, recorded json.RawMessage, call tool.Call) (granted []perdure.Permission) {
	guarded, ok := t.(tool.Guarded)
	if !ok {
		return nil
	}
	call.Args = recorded
	var wanted []perdure.Permission
	if e.guarded("permissions", func() error { wanted = guarded.Permissions(call); return nil }) != nil {
		return nil
	}
	for _, p := range wanted {
		if p.Kind != tool.ReadSecret {
			continue
		}
		said, _, err := e.gate().Decide(ctx, call, p)
		if err == nil && (said == perdure.Allow || said != perdure.Deny && e.approved(ctx, call, p)) {
			granted = append(granted, p)
		}
	}
	return granted
}

// approved reports whether a person said yes to a permission of a call.
func (e *Effects) approved(ctx context.Context, call tool.Call, p perdure.Permission) bool {
	var found []perdure.Approval
	err := e.cfg.Store.View(ctx, func(r store.Reader) (err error) {
		found, err = r.Approvals(store.ApprovalFilter{Session: call.Session, Call: call.ID, State: perdure.ApprovalApproved})
		return err
	})
	return err == nil && slices.ContainsFunc(found, func(a perdure.Approval) bool {
		return p.In(a.Permissions)
	})
}

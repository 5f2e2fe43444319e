package environment

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

// Invoke runs a tool, unless some of its secret arguments are lost.
func (en *Environment) Invoke(ctx context.Context, t tool.Tool, call tool.Call, env tool.Env) tool.Result {
	if gone := secretargs.CheckLost(t.Spec().Parameters, call.Args); gone != nil {
		return *gone
	}
	// the engine's own tools for background work need not be in the registry
	if by := en.core.Ports.Executor; by != nil && en.core.Tools.Has(call.Tool) {
		return tool.ResultOf(by.Execute(ctx, call, env))
	}
	return t.Run(ctx, call, env)
}

// InvokeBackground runs a tool as an attempt of a task, unless some of its secret arguments are
// lost.
func (en *Environment) InvokeBackground(ctx context.Context, t tool.Background, call tool.Call, env tool.Env) tool.Result {
	if gone := secretargs.CheckLost(t.Spec().Parameters, call.Args); gone != nil {
		return *gone
	}
	if by, ok := en.core.Ports.Executor.(tool.BackgroundExecutor); ok {
		return tool.ResultOf(by.ExecuteBackground(ctx, call, env, env.Report()))
	}
	return t.RunBackground(ctx, call, env, env.Report())
}

// MaskedArgs is the arguments of a call as recorded, and the secrets missing from them; nil: none.
type MaskedArgs struct {
	Recorded json.RawMessage
	Own      *redact.Set
	Rules    []perdure.PermissionRule // of the agent that makes the call
}

// RunMasked runs the work of an execution and masks secrets in what it reports and returns.
func (en *Environment) RunMasked(ctx context.Context, t tool.Tool, h MaskedArgs, env tool.Env,
	work func(tool.Env) tool.Result) tool.Result {
	env.Call.Granted = en.grantedSecrets(ctx, t, h, env.Call)
	trusted := t.Spec().Trusted
	if known, ok := env.SecretMasker.(interface{ Pin() (unpin func()) }); ok {
		defer known.Pin()() // a token that the tool is given must be masked in its result
	}
	v := secretargs.New(env.SecretMasker, h.Own)
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
	if env.Events != nil {
		env.Events = v.Events(env.Events)
	}
	if env.Utility != nil {
		env.Utility = v.Utility(env.Utility)
	}
	r := work(env)
	r.RevealsSecret = r.RevealsSecret && slices.ContainsFunc(env.Call.Granted, func(p perdure.Permission) bool {
		return p.Kind == tool.ReadSecret
	})
	r.Untrusted = r.Untrusted || !trusted
	return v.Result(r)
}

// grantedSecrets returns the secrets that a call may show to the model, or give to a command. A
// policy must allow them explicitly, or a person must have approved them; the absence of a policy
// is not enough.
func (en *Environment) grantedSecrets(ctx context.Context, t tool.Tool, h MaskedArgs,
	call tool.Call) (granted []perdure.Permission) {
	guarded, ok := t.(tool.Guarded)
	if !ok {
		return nil
	}
	call.Args = h.Recorded
	var wanted []perdure.Permission
	if en.core.Guarded("permissions", func() error { wanted = guarded.Permissions(call); return nil }) != nil {
		return nil
	}
	gate := en.core.Gate()
	gate.Rules = h.Rules
	for _, p := range wanted {
		if !tool.MustBeGranted(p) {
			continue
		}
		decision, _, err := gate.Decide(ctx, call, p)
		if err == nil && (decision == perdure.Allow || decision != perdure.Deny && en.approved(ctx, call, p)) {
			granted = append(granted, p)
		}
	}
	return granted
}

// approved reports whether a person approved a permission of a call.
func (en *Environment) approved(ctx context.Context, call tool.Call, p perdure.Permission) bool {
	var found []perdure.Approval
	err := en.core.Store.View(ctx, func(r store.Reader) (err error) {
		found, err = r.Approvals().List(store.ApprovalFilter{Session: call.Session, Call: call.ID,
			State: perdure.ApprovalApproved})
		return err
	})
	return err == nil && slices.ContainsFunc(found, func(a perdure.Approval) bool {
		return p.In(a.Permissions)
	})
}

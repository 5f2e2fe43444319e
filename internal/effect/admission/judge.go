package admission

import (
	"bytes"
	"context"
	"encoding/json"
	"time"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/dispatch"
	"github.com/perdure/perdure/internal/secretargs"
	"github.com/perdure/perdure/tool"
)

// Judgement is what hooks and policies decided about a call before it is claimed.
type Judgement struct {
	Args        json.RawMessage      // as rewritten by hooks
	Permissions []perdure.Permission // an approval is needed for these; none: the call may run
	Refusal     *tool.Result         // if set, the call may not run
}

// Judge passes a call through the hooks and then asks the policies, which see the rewritten call.
// All permissions are evaluated before anybody is asked, so that a denial wins whatever the order.
// read says that the model has read untrusted input.
//
// Hooks and policies see secret values in the arguments; the judgement, which is recorded, has them
// masked again.
func (a *Admission) Judge(ctx context.Context, agent perdure.Agent, t tool.Tool, call tool.Call, read bool) Judgement {
	recorded := call.Args
	call.Args = a.secrets.Vault.Known(perdure.CallKey{Session: call.Session, Call: call.ID}, t.Spec().Parameters, recorded)
	full := call.Args
	j := a.judgeUnmasked(ctx, agent, t, call, read)
	if bytes.Equal(j.Args, full) {
		j.Args = recorded
	}
	known := a.secrets.Known(call.Session) // even if the arguments had none: a hook may have added a secret
	for i, p := range j.Permissions {
		j.Permissions[i].Target, j.Permissions[i].Reason = secretargs.MaskKnown(known, p.Target), secretargs.MaskKnown(known, p.Reason)
	}
	if j.Refusal != nil {
		j.Refusal.Text = secretargs.MaskKnown(known, j.Refusal.Text)
	}
	return j
}

// judgeUnmasked is judge with secret values in place, except those that the tool declares secret.
func (a *Admission) judgeUnmasked(ctx context.Context, agent perdure.Agent, t tool.Tool, call tool.Call, read bool) Judgement {
	var more []dispatch.RequiredPermission
	if agent.AskEffects && t.Spec().Class != perdure.Pure {
		more = append(more, dispatch.RequiredPermission{MinDecision: perdure.Ask, Permission: perdure.Permission{
			Kind: "effect", Target: call.Tool, Reason: "this session asks for approval before each effect",
		}})
	}
	if read && !t.Spec().SessionOnly {
		wish := dispatch.RequiredPermission{MinDecision: perdure.Allow, Permission: perdure.Permission{
			Kind:   tool.ReadUntrusted,
			Target: call.Tool, Reason: "the model has read untrusted input and may follow instructions in it",
		}}
		if agent.AskUntrusted {
			wish.MinDecision = perdure.Ask
		}
		more = append(more, wish)
	}
	gate := a.core.Gate()
	gate.Rules = agent.Permissions
	j := gate.Check(ctx, t, call, func(rewritten tool.Call) *tool.Result { return a.ArgumentFault(t, rewritten) }, more...)
	if agent.DryRun { // nobody is asked
		j.NeedsApproval = nil
	}
	return Judgement{Args: j.Args, Permissions: j.NeedsApproval, Refusal: j.Refusal}
}

// route asks the host in which lane a call runs. If the host's function fails, it has no say.
func (a *Admission) route(call tool.Call) (route dispatch.Route) {
	if a.core.Policies.Route == nil {
		return route
	}
	err := a.core.Guarded("route", func() error { route = a.core.Policies.Route(call); return nil })
	if err != nil {
		a.core.Log.Error("routing policy failed", "call", call.ID, "tool", call.Tool, "error", tool.Chain(err))
		return dispatch.Route{}
	}
	return route
}

// softBudgetOf returns the soft budget of a tool: what the deployment sets for this tool, else its
// own, else the session's, else the deployment's for all. The agent can shorten it for single
// tools.
func (a *Admission) softBudgetOf(agent perdure.Agent, spec tool.Spec) time.Duration {
	soft := a.core.Timing.SoftBudget
	switch own := a.core.Timing.SoftBudgets[spec.Name]; {
	case own != 0:
		soft = own
	case spec.SoftBudget != 0:
		soft = spec.SoftBudget
	case agent.SoftBudgetMS != 0:
		soft = time.Duration(agent.SoftBudgetMS) * time.Millisecond
	}
	soft = max(soft, tool.Never)
	limit := time.Duration(agent.Limits.SoftBudgetsMS[spec.Name]) * time.Millisecond
	if limit > 0 && (soft == tool.Never || limit < soft) {
		return limit
	}
	return soft
}

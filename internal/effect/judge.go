package effect

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"sync/atomic"
	"time"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/dispatch"
	"github.com/perdure/perdure/internal/sessionfile"
	"github.com/perdure/perdure/internal/veil"
	"github.com/perdure/perdure/store"
	"github.com/perdure/perdure/tool"
)

// judged is what hooks and policies make of a call before it is claimed.
type judged struct {
	args        json.RawMessage      // as they are executed
	permissions []perdure.Permission // a person is asked for them; none: it may run
	refusal     *tool.Result         // it may not
}

// judge passes a call through the hooks and asks the policies, which see it after all rewriting. Every permission is
// looked at before anybody is asked: a denial ends it, whatever the order (AP1).
// read says that the model read what came from outside. They see the values of the session's secrets that stand in its
// arguments, of which nothing is recorded.
func (e *Effects) judge(ctx context.Context, agent perdure.Agent, t tool.Tool, call tool.Call, read bool) judged {
	recorded := call.Args
	call.Args = e.vault.Known(perdure.CallKey{Session: call.Session, Call: call.ID}, t.Spec().Parameters, recorded)
	whole := call.Args
	j := e.judgeWhole(ctx, agent, t, call, read)
	if bytes.Equal(j.args, whole) {
		j.args = recorded
	}
	known := e.known(call.Session) // also where the arguments had none: a hook may have put one there
	for i, p := range j.permissions {
		j.permissions[i].Target, j.permissions[i].Reason = veil.Without(known, p.Target), veil.Without(known, p.Reason)
	}
	if j.refusal != nil {
		j.refusal.Text = veil.Without(known, j.refusal.Text)
	}
	return j
}

// judgeWhole is judge for a call as it would run, but for what its tool declares secret.
func (e *Effects) judgeWhole(ctx context.Context, agent perdure.Agent, t tool.Tool, call tool.Call, read bool) judged {
	var more []dispatch.Wish
	if agent.AskEffects && t.Spec().Class != perdure.Pure {
		more = append(more, dispatch.Wish{Least: perdure.Ask, Permission: perdure.Permission{
			Kind: "effect", Target: call.Tool, Reason: "in this session a person is asked before each effect",
		}})
	}
	if read && !t.Spec().Inside {
		wish := dispatch.Wish{Least: perdure.Allow, Permission: perdure.Permission{
			Kind: tool.ReadUntrusted, Target: call.Tool, Reason: "the model read what came from outside, and may follow what it says",
		}}
		if agent.AskUntrusted {
			wish.Least = perdure.Ask
		}
		more = append(more, wish)
	}
	j := e.gate().Judge(ctx, t, call, func(rewritten tool.Call) *tool.Result { return e.fault(t, rewritten) }, more...)
	if agent.DryRun { // nobody is asked (AP13)
		j.Asks = nil
	}
	return judged{args: j.Args, permissions: j.Asks, refusal: j.Refusal}
}

// gate is what judges the calls of this worker.
func (e *Effects) gate() dispatch.Gate {
	return dispatch.Gate{Hooks: e.cfg.Hooks, HookTime: e.cfg.Grace, Permit: e.cfg.Permit, Log: e.cfg.Log}
}

// maxDenials is how many denials of one execution the journal tells.
const maxDenials = 32

// watched is the way out of one execution. The journal of its session tells what it was not let do (EG6).
type watched struct {
	tool.Egress
	e    *Effects
	by   tool.Call
	mask func(string) string // of what is told; nil: nothing is secret
	left *atomic.Int64       // denials that are still told
}

// watch is the way out for a call of a session; nil: there is none.
func (e *Effects) watch(by tool.Call) tool.Egress {
	if e.cfg.Egress == nil {
		return nil
	}
	w := watched{Egress: e.cfg.Egress, e: e, by: by, left: new(atomic.Int64)}
	w.left.Store(maxDenials)
	return w
}

// Do implements tool.Egress.
func (w watched) Do(ctx context.Context, req perdure.WebRequest) (perdure.WebResponse, error) {
	resp, err := w.Egress.Do(ctx, req)
	var denial *perdure.EgressError
	if errors.As(err, &denial) && denial.Code == perdure.EgressDenied && w.left.Add(-1) >= 0 {
		w.tell(perdure.RequestDenied{Host: denial.Host, Layer: denial.Layer, Rule: denial.Rule, Why: denial.Text})
	}
	return resp, err
}

// tell records a denial. The request stays denied whether or not that can be told.
func (w watched) tell(fact perdure.RequestDenied) {
	if w.mask != nil {
		fact.Host, fact.Why = w.mask(fact.Host), w.mask(fact.Why)
	}
	ctx, cancel := settleContext(context.Background())
	defer cancel()
	err := w.e.work.InTx(ctx, func(tx store.Tx) error {
		return tx.Append(w.by.Session, []perdure.Event{sessionfile.Told(w.by, "", tx.Now(), fact)})
	})
	if err != nil && !errors.Is(err, perdure.NotFound) { // else the session is gone, and its journal with it
		w.e.cfg.Log.Warn("a denial is not in the journal", "session", w.by.Session, "call", w.by.ID, "host", fact.Host, "error", err)
	}
}

// route asks the host which way a call goes (LN2). A host that fails has said nothing.
func (e *Effects) route(call tool.Call) (route dispatch.Route) {
	if e.cfg.Route == nil {
		return route
	}
	err := e.guarded("route", func() error { route = e.cfg.Route(call); return nil })
	if err != nil {
		e.cfg.Log.Error("the routing policy failed", "call", call.ID, "tool", call.Tool, "error", tool.Chain(err))
		return dispatch.Route{}
	}
	return route
}

// budgetOf is the soft budget of a tool: its own, else the session's, else the deployment's (LN2).
func (e *Effects) budgetOf(agent perdure.Agent, spec tool.Spec) time.Duration {
	switch {
	case spec.SoftBudget != 0:
		return spec.SoftBudget
	case agent.SoftBudgetMS != 0:
		return max(time.Duration(agent.SoftBudgetMS)*time.Millisecond, tool.Never)
	}
	return e.cfg.SoftBudget
}

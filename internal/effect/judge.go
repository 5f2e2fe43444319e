package effect

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/dispatch"
	"github.com/perdure/perdure/internal/sessionfile"
	"github.com/perdure/perdure/internal/veil"
	"github.com/perdure/perdure/store"
	"github.com/perdure/perdure/tool"
)

// hookRounds is how often the hooks may rewrite arguments before the call is blocked (TL35).
const hookRounds = 2

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
	j := judged{args: call.Args}
	deferred, refusal := e.before(ctx, t, &call)
	if refusal != nil {
		return judged{args: call.Args, refusal: refusal}
	}
	if !bytes.Equal(j.args, call.Args) {
		j.args = call.Args
	}
	wanted := append([]perdure.Permission{{Kind: "tool", Target: call.Tool}}, deferred...)
	if guarded, ok := t.(tool.Guarded); ok {
		err := e.guarded("permissions", func() error { wanted = append(wanted, guarded.Permissions(call)...); return nil })
		if err != nil {
			return e.refused(j, call, "its permissions cannot be told", err)
		}
	}
	effects := -1 // where the question about the effect stands; -1: nobody asks
	if agent.AskEffects && t.Spec().Class != perdure.Pure {
		effects = len(wanted)
		wanted = append(wanted, perdure.Permission{Kind: "effect", Target: call.Tool, Reason: "in this session a person is asked before each effect"})
	}
	outside := -1 // likewise, about what was read
	if read && !t.Spec().Inside {
		outside = len(wanted)
		wanted = append(wanted, perdure.Permission{Kind: tool.ReadUntrusted, Target: call.Tool, Reason: "the model read what came from outside, and may follow what it says"})
	}
	for i, p := range wanted {
		base := perdure.Allow
		if i == 0 && t.Spec().Policy == tool.PolicyRequiresApproval || i > 0 && i <= len(deferred) || i == effects || i == outside && agent.AskUntrusted {
			base = perdure.Ask
		}
		decision, why, err := e.permit(ctx, call, p)
		switch {
		case err != nil:
			return e.refused(j, call, "its policy failed", err)
		case decision == perdure.Deny:
			r := denial(why)
			j.refusal, j.permissions = &r, nil
			return j
		case !decision.Valid():
			return e.refused(j, call, "its policy failed", fmt.Errorf("%w decision %q", perdure.Invalid, decision))
		case base.Careful(decision) == perdure.Ask && !agent.DryRun: // in a dry run nobody is asked (AP13)
			p.Reason = orElse(p.Reason, why)
			j.permissions = append(j.permissions, p)
		}
	}
	return j
}

// permit asks the host's policy.
func (e *Effects) permit(ctx context.Context, call tool.Call, p perdure.Permission) (d perdure.Decision, why string, err error) {
	if e.cfg.Permit == nil {
		return perdure.Undecided, "", nil
	}
	err = e.guarded("permit", func() (err error) {
		d, why, err = e.cfg.Permit(ctx, call, p)
		return err
	})
	return d, why, err
}

// refused is a call whose check failed: it does not run (AP1).
func (e *Effects) refused(j judged, call tool.Call, what string, err error) judged {
	e.cfg.Log.Error("a call is refused", "session", call.Session, "call", call.ID, "tool", call.Tool, "why", what, "error", tool.Chain(err))
	r := denial("it cannot be checked")
	j.refusal, j.permissions = &r, nil
	return j
}

func denial(why string) tool.Result {
	r := tool.Failf("Permission denied: %s", orElse(why, "the policy does not allow it"))
	r.ErrorAs, r.Refused = perdure.ErrorDenied, true
	return r
}

// before runs the hooks until none changes the arguments any more, checking them after each round.
func (e *Effects) before(ctx context.Context, t tool.Tool, call *tool.Call) (deferred []perdure.Permission, refusal *tool.Result) {
	for round := 0; len(e.cfg.Hooks) > 0; round++ {
		seen := call.Args
		deferred = nil
		for _, hook := range e.cfg.Hooks {
			var said tool.Before
			err := e.guarded("before", func() (err error) {
				said, err = hook.BeforeTool(ctx, *call)
				return err
			})
			switch {
			case err != nil:
				return nil, e.refused(judged{}, *call, "a hook failed", err).refusal
			case said.Block != "":
				return nil, blocked(said.Block)
			}
			deferred = append(deferred, said.Permissions...)
			if said.Args != nil {
				call.Args = said.Args
			}
		}
		if bytes.Equal(seen, call.Args) {
			return deferred, nil
		}
		if fault := e.fault(t, *call); fault != nil {
			fault.ErrorAs, fault.Refused = perdure.ErrorRejected, true
			return nil, fault
		}
		if round+1 >= hookRounds {
			return nil, blocked(fmt.Sprintf("the hooks do not agree on its arguments after %d rounds", hookRounds))
		}
	}
	return deferred, nil
}

func blocked(why string) *tool.Result {
	r := tool.Failf("The call was blocked: %s", why)
	r.ErrorAs, r.Refused = perdure.ErrorDenied, true
	return &r
}

// after shows the hooks a result before anything of it is stored, and says whether its output is withheld.
func (e *Effects) after(ctx context.Context, call tool.Call, r tool.Result) (tool.Result, bool) {
	if len(e.cfg.Hooks) == 0 {
		return r, false
	}
	ctx, cancel := context.WithTimeout(ctx, e.cfg.Grace)
	defer cancel()
	withheld := false
	for _, hook := range e.cfg.Hooks {
		var said tool.After
		err := e.guarded("after", func() (err error) {
			said, err = hook.AfterTool(ctx, call, r)
			return err
		})
		if err != nil {
			r, withheld = tool.Internal(fmt.Errorf("a hook failed: %w", err)), true
			continue
		}
		if said.Result != nil {
			untrusted := r.Untrusted
			r = *said.Result
			r.Untrusted = r.Untrusted || untrusted
		}
		withheld = withheld || said.WithholdLog
	}
	return r, withheld
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

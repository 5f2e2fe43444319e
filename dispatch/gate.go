package dispatch

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"runtime/debug"
	"time"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/tool"
)

// maxHookRounds is how often the hooks may rewrite the arguments before the call is blocked.
const maxHookRounds = 2

// Gate checks a call before it runs. The hooks come first, then the host's policy, which sees the
// call after all rewriting. The engines and ForRegistry use the same gate. The zero value has no
// hooks and no policy: only tools with the policy requires_approval need an approval. Safe for
// concurrent use if its hooks and its policy are.
type Gate struct {
	Hooks       []tool.Hook
	HookTimeout time.Duration // time that all hooks together have for one result; 0: DefaultGrace
	Permit      tool.Permit   // nil: only the tools' own policies apply
	// Rules of the agent that makes the call. Of them and Permit, the more restrictive decides.
	Rules []perdure.PermissionRule
	Log   *slog.Logger // of checks that fail or panic; nil: discarded
}

// RequiredPermission is a permission that a call needs in addition to those of its tool and the
// hooks.
type RequiredPermission struct {
	Permission  perdure.Permission
	MinDecision perdure.Decision // applies if the policy is less restrictive: perdure.Ask or perdure.Allow
}

// GateResult is the outcome of a Gate's check.
type GateResult struct {
	Args          []byte               // the arguments to run with
	NeedsApproval []perdure.Permission // need one approval for all of them; none: the call may run
	Allowed       []perdure.Permission // what the policy allowed explicitly
	Refusal       *tool.Result         // not nil: the call must not run, and Asks is empty
}

// Check passes a call through the hooks and asks the policy about each permission that it needs:
// for the tool itself, from the hooks, from a [tool.Guarded] tool, and from more. A denial ends the
// check before any approval is requested, whatever its position. A check that fails or panics
// counts as a denial. check validates arguments that a hook rewrote; it returns nil if they are
// valid.
func (g Gate) Check(ctx context.Context, t tool.Tool, call tool.Call, check func(tool.Call) *tool.Result, more ...RequiredPermission) GateResult {
	j := GateResult{Args: call.Args}
	deferred, refusal := g.before(ctx, &call, check)
	if refusal != nil {
		return GateResult{Args: call.Args, Refusal: refusal}
	}
	if !bytes.Equal(j.Args, call.Args) {
		j.Args = call.Args
	}
	wishes, err := g.requiredPermissions(t, call, deferred, more)
	if err != nil {
		j.Refusal = g.checkFailed(call, "its permissions could not be determined", err)
		return j
	}
	for _, w := range wishes {
		p := w.Permission
		decision, why, err := g.Decide(ctx, call, p)
		switch {
		case err != nil:
			return GateResult{Args: j.Args, Refusal: g.checkFailed(call, "its policy failed", err)}
		case decision == perdure.Deny:
			return GateResult{Args: j.Args, Refusal: forbidden(why)}
		case !decision.Valid():
			return GateResult{Args: j.Args, Refusal: g.checkFailed(call, "its policy failed", fmt.Errorf("%w decision %q", perdure.Invalid, decision))}
		case w.MinDecision.Careful(decision) == perdure.Ask:
			p.Reason = cmp.Or(p.Reason, why)
			j.NeedsApproval = append(j.NeedsApproval, p)
		case decision == perdure.Allow:
			j.Allowed = append(j.Allowed, p)
		}
	}
	return j
}

// requiredPermissions returns the permissions that a call needs, in the order in which they are
// checked.
func (g Gate) requiredPermissions(t tool.Tool, call tool.Call, deferred []perdure.Permission, more []RequiredPermission) ([]RequiredPermission, error) {
	itself := RequiredPermission{perdure.Permission{Kind: "tool", Target: call.Tool}, perdure.Allow}
	if t.Spec().Policy == tool.PolicyRequiresApproval {
		itself.MinDecision = perdure.Ask
	}
	wishes := []RequiredPermission{itself}
	for _, p := range deferred {
		wishes = append(wishes, RequiredPermission{p, perdure.Ask})
	}
	if guarded, ok := t.(tool.Guarded); ok {
		err := g.callHost("permissions", func() error {
			for _, p := range guarded.Permissions(call) {
				wishes = append(wishes, RequiredPermission{p, perdure.Allow})
			}
			return nil
		})
		if err != nil {
			return nil, err
		}
	}
	return append(wishes, more...), nil
}

// Decide asks the policy and the rules about one permission. The error is the policy's own or
// reports its panic.
func (g Gate) Decide(ctx context.Context, call tool.Call, p perdure.Permission) (d perdure.Decision, why string, err error) {
	ruled := p.Decide(g.Rules)
	if g.Permit != nil {
		err = g.callHost("permit", func() (err error) {
			d, why, err = g.Permit(ctx, call, p)
			return err
		})
		if err != nil || !d.Valid() || d == perdure.Deny {
			return d, why, err
		}
	}
	if ruled == perdure.Deny {
		why = "the permissions of the agent do not allow it"
	}
	return d.Careful(ruled), why, nil
}

// before runs the hooks until none of them changes the arguments, and validates these after each
// round.
func (g Gate) before(ctx context.Context, call *tool.Call, check func(tool.Call) *tool.Result) (deferred []perdure.Permission, refusal *tool.Result) {
	for round := 0; len(g.Hooks) > 0; round++ {
		seen := call.Args
		deferred = nil
		for _, hook := range g.Hooks {
			var said tool.Before
			err := g.callHost("before", func() (err error) {
				said, err = hook.BeforeTool(ctx, *call)
				return err
			})
			switch {
			case err != nil:
				return nil, g.checkFailed(*call, "a hook failed", err)
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
		if fault := check(*call); fault != nil {
			fault.ErrorKind, fault.Refused = perdure.ErrorRejected, true
			return nil, fault
		}
		if round+1 >= maxHookRounds {
			return nil, blocked(fmt.Sprintf("its arguments still change after %d rounds of hooks", maxHookRounds))
		}
	}
	return deferred, nil
}

// After passes a result through the hooks before anybody else sees it, and reports whether the
// output of the call must be withheld. A hook that fails, panics or exceeds HookTimeout turns the
// result into an internal error.
func (g Gate) After(ctx context.Context, call tool.Call, r tool.Result) (result tool.Result, withheld bool) {
	if len(g.Hooks) == 0 {
		return r, false
	}
	if g.HookTimeout <= 0 {
		g.HookTimeout = DefaultGrace
	}
	ctx, cancel := context.WithTimeout(ctx, g.HookTimeout)
	defer cancel()
	for _, hook := range g.Hooks {
		var said tool.After
		err := g.callHost("after", func() (err error) {
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

// checkFailed returns the result of a call whose check failed. The call does not run.
func (g Gate) checkFailed(call tool.Call, what string, err error) *tool.Result {
	g.log().Error("call refused", "session", call.Session, "call", call.ID, "tool", call.Tool, "why", what,
		"error", tool.Chain(err))
	return forbidden("the call could not be checked")
}

// forbidden returns the result of a call that the policy denies.
func forbidden(why string) *tool.Result {
	why = cmp.Or(why, "the policy does not allow it")
	r := tool.Failf("Permission denied: %s", why)
	r.ErrorKind, r.Refused = perdure.ErrorDenied, true
	return &r
}

// blocked returns the result of a call that a hook blocks.
func blocked(why string) *tool.Result {
	r := tool.Failf("The call was blocked: %s", why)
	r.ErrorKind, r.Refused = perdure.ErrorDenied, true
	return &r
}

// callHost calls a function of the host. A panic becomes an error, and its stack only goes to the
// log.
func (g Gate) callHost(what string, fn func() error) (err error) {
	defer func() {
		if p := recover(); p != nil {
			g.log().Error("panic recovered", "in", what, "panic", fmt.Sprint(p), "stack", string(debug.Stack()))
			err = fmt.Errorf("%s: panic: %v", what, p)
		}
	}()
	return fn()
}

func (g Gate) log() *slog.Logger {
	if g.Log == nil {
		return slog.New(slog.DiscardHandler)
	}
	return g.Log
}

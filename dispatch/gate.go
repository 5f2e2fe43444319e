package dispatch

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"runtime/debug"
	"time"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/tool"
)

// hookRounds is how often the hooks may rewrite arguments before the call is blocked (TL35).
const hookRounds = 2

// Gate judges a call before it runs: first the hooks, then the host's policy, which sees the call after all rewriting. The
// engines and ForRegistry judge with the same one. The zero value has no hooks and no policy: a person is asked about tools
// whose policy requires it, and about nothing else. Safe for concurrent use, if its hooks and its policy are.
type Gate struct {
	Hooks    []tool.Hook
	HookTime time.Duration // that the hooks together may look at one result; 0: DefaultGrace
	Permit   tool.Permit   // nil: nothing is asked about that its tool does not ask about
	Log      *slog.Logger  // of checks that fail or panic; nil: discarded
}

// Wish is a permission that a call needs beside those that its tool and the hooks name.
type Wish struct {
	Permission perdure.Permission
	Least      perdure.Decision // what counts when the policy is less careful: perdure.Ask or perdure.Allow
}

// Judgement is what a Gate makes of a call.
type Judgement struct {
	Args    []byte               // as the call is to run with them
	Asks    []perdure.Permission // a person is asked for them, all at once; none: the call may run
	Allowed []perdure.Permission // what the policy allowed expressly
	Refusal *tool.Result         // not nil: the call may not run, and Asks is empty
}

// Judge passes a call through the hooks and asks the policy about each permission that it needs: for the tool itself, what the
// hooks ask for, what a [tool.Guarded] tool names, and more. A denial ends it, whatever the order, before anybody is asked;
// so does a check that fails or panics (AP1). check says what is wrong with arguments that a hook rewrote; nil: nothing is.
func (g Gate) Judge(ctx context.Context, t tool.Tool, call tool.Call, check func(tool.Call) *tool.Result, more ...Wish) Judgement {
	j := Judgement{Args: call.Args}
	deferred, refusal := g.before(ctx, &call, check)
	if refusal != nil {
		return Judgement{Args: call.Args, Refusal: refusal}
	}
	if !bytes.Equal(j.Args, call.Args) {
		j.Args = call.Args
	}
	wishes, err := g.wishes(t, call, deferred, more)
	if err != nil {
		j.Refusal = g.failed(call, "its permissions cannot be told", err)
		return j
	}
	for _, w := range wishes {
		p := w.Permission
		decision, why, err := g.Decide(ctx, call, p)
		switch {
		case err != nil:
			return Judgement{Args: j.Args, Refusal: g.failed(call, "its policy failed", err)}
		case decision == perdure.Deny:
			return Judgement{Args: j.Args, Refusal: forbidden(why)}
		case !decision.Valid():
			return Judgement{Args: j.Args, Refusal: g.failed(call, "its policy failed", fmt.Errorf("%w decision %q", perdure.Invalid, decision))}
		case w.Least.Careful(decision) == perdure.Ask:
			if p.Reason == "" {
				p.Reason = why
			}
			j.Asks = append(j.Asks, p)
		case decision == perdure.Allow:
			j.Allowed = append(j.Allowed, p)
		}
	}
	return j
}

// wishes are the permissions that a call needs, in the order in which they are judged.
func (g Gate) wishes(t tool.Tool, call tool.Call, deferred []perdure.Permission, more []Wish) ([]Wish, error) {
	itself := Wish{perdure.Permission{Kind: "tool", Target: call.Tool}, perdure.Allow}
	if t.Spec().Policy == tool.PolicyRequiresApproval {
		itself.Least = perdure.Ask
	}
	wishes := []Wish{itself}
	for _, p := range deferred {
		wishes = append(wishes, Wish{p, perdure.Ask})
	}
	if guarded, ok := t.(tool.Guarded); ok {
		err := g.guarded("permissions", func() error {
			for _, p := range guarded.Permissions(call) {
				wishes = append(wishes, Wish{p, perdure.Allow})
			}
			return nil
		})
		if err != nil {
			return nil, err
		}
	}
	return append(wishes, more...), nil
}

// Decide asks the policy about one permission. The error is the policy's own, or says that it panicked.
func (g Gate) Decide(ctx context.Context, call tool.Call, p perdure.Permission) (d perdure.Decision, why string, err error) {
	if g.Permit == nil {
		return perdure.Undecided, "", nil
	}
	err = g.guarded("permit", func() (err error) {
		d, why, err = g.Permit(ctx, call, p)
		return err
	})
	return d, why, err
}

// before runs the hooks until none changes the arguments any more, checking them after each round.
func (g Gate) before(ctx context.Context, call *tool.Call, check func(tool.Call) *tool.Result) (deferred []perdure.Permission, refusal *tool.Result) {
	for round := 0; len(g.Hooks) > 0; round++ {
		seen := call.Args
		deferred = nil
		for _, hook := range g.Hooks {
			var said tool.Before
			err := g.guarded("before", func() (err error) {
				said, err = hook.BeforeTool(ctx, *call)
				return err
			})
			switch {
			case err != nil:
				return nil, g.failed(*call, "a hook failed", err)
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
			fault.ErrorAs, fault.Refused = perdure.ErrorRejected, true
			return nil, fault
		}
		if round+1 >= hookRounds {
			return nil, blocked(fmt.Sprintf("the hooks do not agree on its arguments after %d rounds", hookRounds))
		}
	}
	return deferred, nil
}

// After shows the hooks a result before anybody else has it, and says whether the output of the call is withheld. A hook that
// fails, panics or is not done in HookTime makes the result an internal error.
func (g Gate) After(ctx context.Context, call tool.Call, r tool.Result) (result tool.Result, withheld bool) {
	if len(g.Hooks) == 0 {
		return r, false
	}
	if g.HookTime <= 0 {
		g.HookTime = DefaultGrace
	}
	ctx, cancel := context.WithTimeout(ctx, g.HookTime)
	defer cancel()
	for _, hook := range g.Hooks {
		var said tool.After
		err := g.guarded("after", func() (err error) {
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

// failed is the result of a call whose check failed: it does not run (AP1).
func (g Gate) failed(call tool.Call, what string, err error) *tool.Result {
	g.log().Error("a call is refused", "session", call.Session, "call", call.ID, "tool", call.Tool, "why", what, "error", tool.Chain(err))
	return forbidden("it cannot be checked")
}

// forbidden is the result of a call that the policy does not allow.
func forbidden(why string) *tool.Result {
	if why == "" {
		why = "the policy does not allow it"
	}
	r := tool.Failf("Permission denied: %s", why)
	r.ErrorAs, r.Refused = perdure.ErrorDenied, true
	return &r
}

// blocked is the result of a call that a hook refuses.
func blocked(why string) *tool.Result {
	r := tool.Failf("The call was blocked: %s", why)
	r.ErrorAs, r.Refused = perdure.ErrorDenied, true
	return &r
}

// guarded calls a function of the host. A panic is an error, and its stack goes to the log only.
func (g Gate) guarded(what string, fn func() error) (err error) {
	defer func() {
		if p := recover(); p != nil {
			g.log().Error("a panic was caught", "in", what, "panic", fmt.Sprint(p), "stack", string(debug.Stack()))
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

package dispatch

import (
	"context"
	"time"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/tool"
)

// ForRegistry is [Gate.ForRegistry] of a Gate without hooks and policy.
func ForRegistry(tools *tool.Registry, env func(tool.Call) tool.Env) LoopConfig {
	return Gate{}.ForRegistry(tools, env)
}

// ForRegistry returns a config that runs the tools of a registry as the engines do: unknown names and arguments that do not fit
// are refused, the gate judges each call, and its hooks see each result. An approved call is judged again with what it runs with:
// a permission that nobody allowed is asked for when a person replaced the arguments, and is a denial otherwise. A tool that the
// client answers (tool.PolicyClientSide) is refused, since a loop has no client. env, which may be nil, says what a call may
// reach; it is called by many goroutines at once. What a tool reports is a sign of life, see [Sink], and placeholders name tools
// of the registry only.
func (g Gate) ForRegistry(tools *tool.Registry, env func(tool.Call) tool.Env) LoopConfig {
	if env == nil {
		env = func(tool.Call) tool.Env { return tool.Env{} }
	}
	return LoopConfig{
		Execute: func(ctx context.Context, call tool.Call, approved *perdure.Approval) Outcome {
			t, ok := tools.Get(call.Tool)
			if !ok {
				return Outcome{Result: unfit("Tool not found: " + call.Tool)}
			}
			question, refusal := g.admit(ctx, tools, t, &call, approved)
			switch {
			case refusal != nil:
				return Outcome{Result: *refusal}
			case question != nil:
				return Outcome{Approval: question, Args: call.Args}
			}
			reach := env(call)
			reach.Sink = Sink(ctx, reach.Sink)
			result, err := tools.Execute(ctx, call, reach)
			if err != nil { // it was taken out in this moment
				return Outcome{Result: unfit(err.Error())}
			}
			result, _ = g.After(context.WithoutCancel(ctx), call, result)
			return Outcome{Result: result}
		},
		Offers: tools.Has,
		Spec: func(name string) tool.Spec {
			if t, ok := tools.Get(name); ok {
				return t.Spec()
			}
			return tool.Spec{}
		},
		Deadline: func(call tool.Call) time.Duration {
			if t, ok := tools.Get(call.Tool); ok {
				return tool.DeadlineOf(t, call.Args)
			}
			return 0
		},
		Kill: func(call tool.Call, force bool) {
			if t, ok := tools.Get(call.Tool); ok {
				if killer, ok := t.(tool.Killer); ok {
					killer.Kill(call, force)
				}
			}
		},
	}
}

// unfit is the result of a call that cannot be made.
func unfit(text string) tool.Result {
	r := tool.Error(text)
	r.Refused = true
	return r
}

// admit decides whether a call runs: nothing says that it does, with the arguments that stand in call then.
func (g Gate) admit(ctx context.Context, tools *tool.Registry, t tool.Tool, call *tool.Call, approved *perdure.Approval) (*perdure.Approval, *tool.Result) {
	check := func(call tool.Call) *tool.Result {
		if own, ok := t.(tool.SelfValidating); ok && own.ValidatesItself() {
			return nil
		}
		return tools.Validate(call.Tool, call.Args)
	}
	if fault := check(*call); fault != nil {
		return nil, fault
	}
	if t.Spec().Policy == tool.PolicyClientSide {
		r := unfit(call.Tool + " is answered by the client, and this loop has no client that answers calls.")
		r.ErrorAs = perdure.ErrorDenied
		return nil, &r
	}
	judged, was := g.Judge(ctx, t, *call, check), callHash(*call)
	if judged.Refusal != nil {
		return nil, judged.Refusal
	}
	call.Args = judged.Args
	granted := judged.Allowed
	if len(judged.Asks) > 0 {
		if approved == nil {
			return question(*call, judged.Asks), nil
		}
		patched := len(approved.NewArgs) > 0
		for _, p := range judged.Asks {
			switch {
			case p.In(approved.Permissions):
				granted = append(granted, p)
			case patched: // all of them again: the answer has to stand by itself
				return question(*call, judged.Asks), nil
			default:
				return nil, deniedBecause(perdure.TextNotMatching)
			}
		}
		if !patched && callHash(*call) != was { // the person saw other arguments than the hooks make of them now
			return nil, deniedBecause(perdure.TextNotMatching)
		}
	}
	for _, p := range granted {
		if p.Kind == tool.ReadSecret {
			call.Granted = append(call.Granted, p)
		}
	}
	return nil, nil
}

// question asks a person for the permissions of a call. The dispatcher binds it to the arguments.
func question(call tool.Call, asks []perdure.Permission) *perdure.Approval {
	return &perdure.Approval{Permissions: asks, Kind: "tool", Why: asks[0].Reason, Summary: "Run " + call.Tool}
}

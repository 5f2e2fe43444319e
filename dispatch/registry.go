package dispatch

import (
	"context"
	"time"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/tool"
)

// ForRegistry is [Gate.ForRegistry] of a Gate without hooks and without a policy.
func ForRegistry(tools *tool.Registry, env func(tool.Call) tool.Env) LoopConfig {
	return Gate{}.ForRegistry(tools, env)
}

// ForRegistry returns a config that runs the tools of a registry as the engines do. Unknown
// names and invalid arguments are refused. The gate checks each call, and its hooks see each
// result. An approved call is checked again with the arguments it runs with: a permission that
// nobody approved needs another approval if a person replaced the arguments, and is a denial
// otherwise. A client-side tool (tool.PolicyClientSide) is refused, because a loop has no client.
//
// env returns the ports of a call. It may be nil, and many goroutines call it at once. Reports of a
// tool are signs of life, see [Sink]. Placeholders mention only tools of the registry.
func (g Gate) ForRegistry(tools *tool.Registry, env func(tool.Call) tool.Env) LoopConfig {
	if env == nil {
		env = func(tool.Call) tool.Env { return tool.Env{} }
	}
	return LoopConfig{
		Execute: func(ctx context.Context, call tool.Call, approved *perdure.Approval) Outcome {
			t, ok := tools.Get(call.Tool)
			if !ok {
				return Outcome{Result: refusedResult("Tool not found: " + call.Tool)}
			}
			question, refusal := g.admit(ctx, tools, t, &call, approved)
			switch {
			case refusal != nil:
				return Outcome{Result: *refusal}
			case question != nil:
				return Outcome{Approval: question, Args: call.Args}
			}
			ports := env(call)
			ports.Sink = Sink(ctx, ports.Sink)
			result, err := tools.Execute(ctx, call, ports)
			if err != nil { // it was unregistered meanwhile
				return Outcome{Result: refusedResult(err.Error())}
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

// refusedResult returns the result of a call that cannot run.
func refusedResult(text string) tool.Result {
	r := tool.Error(text)
	r.Refused = true
	return r
}

// admit decides whether a call runs. If it returns nothing, the call runs with the arguments in
// call.
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
		r := refusedResult(call.Tool + " must be executed by a client, and this loop has no client.")
		r.ErrorKind = perdure.ErrorDenied
		return nil, &r
	}
	judged, was := g.Check(ctx, t, *call, check), callHash(*call)
	if judged.Refusal != nil {
		return nil, judged.Refusal
	}
	call.Args = judged.Args
	granted := judged.Allowed
	if len(judged.NeedsApproval) > 0 {
		if approved == nil {
			return approvalRequest(*call, judged.NeedsApproval), nil
		}
		patched := len(approved.NewArgs) > 0
		for _, p := range judged.NeedsApproval {
			switch {
			case p.In(approved.Permissions):
				granted = append(granted, p)
			case patched: // a new approval covers all of them, because it is bound to the new arguments
				return approvalRequest(*call, judged.NeedsApproval), nil
			default:
				return nil, deniedResult(perdure.TextNotMatching)
			}
		}
		if !patched && callHash(*call) != was { // the hooks rewrite the arguments differently from what the person saw
			return nil, deniedResult(perdure.TextNotMatching)
		}
	}
	for _, p := range granted {
		if tool.MustBeGranted(p) {
			call.Granted = append(call.Granted, p)
		}
	}
	return nil, nil
}

// approvalRequest returns the approval request for the permissions of a call. The dispatcher binds
// it to the arguments.
func approvalRequest(call tool.Call, asks []perdure.Permission) *perdure.Approval {
	return &perdure.Approval{Permissions: asks, Kind: "tool", Reason: asks[0].Reason, Summary: "Run " + call.Tool}
}

package dispatch

import (
	"context"
	"time"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/tool"
)

// ForRegistry returns a config that runs the tools of a registry: unknown names and arguments that do not fit are refused,
// and a tool whose policy requires it is asked about first. env, which may be nil, says what a call may reach.
func ForRegistry(tools *tool.Registry, env func(tool.Call) tool.Env) LoopConfig {
	if env == nil {
		env = func(tool.Call) tool.Env { return tool.Env{} }
	}
	return LoopConfig{
		Execute: func(ctx context.Context, call tool.Call, approved *perdure.Approval) Outcome {
			t, ok := tools.Get(call.Tool)
			if !ok {
				r := tool.Error("Tool not found: " + call.Tool)
				r.Refused = true
				return Outcome{Result: r}
			}
			if own, ok := t.(tool.SelfValidating); !ok || !own.ValidatesItself() {
				if refused := tools.Validate(call.Tool, call.Args); refused != nil {
					return Outcome{Result: *refused}
				}
			}
			if t.Spec().Policy == tool.PolicyRequiresApproval && approved == nil {
				return Outcome{Approval: question(call)}
			}
			result, err := tools.Execute(ctx, call, env(call))
			if err != nil { // it was taken out in this moment
				result = tool.Error(err.Error())
				result.Refused = true
			}
			return Outcome{Result: result}
		},
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

// question asks a person about a call, bound to its arguments.
func question(call tool.Call) *perdure.Approval {
	args := call.Args
	if len(args) == 0 {
		args = []byte("{}")
	}
	hash, err := perdure.Fingerprint(call.Tool, args)
	if err != nil { // the arguments bind it then
		hash = string(args)
	}
	return &perdure.Approval{ArgsHash: hash, Permissions: []perdure.Permission{{Kind: "tool", Target: call.Tool}}, Kind: "tool", Summary: "Run " + call.Tool}
}

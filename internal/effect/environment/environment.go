package environment

import (
	"cmp"
	"time"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/internal/effect/core"
	"github.com/perdure/perdure/tool"
)

// Caller is work that may start and reach other work.
type Caller struct {
	Owner *core.Owner
	// at is the journaled time of the message that holds the call, which is the same on every
	// replay.
	At   time.Time
	Turn perdure.TurnID // of the call
	Call perdure.CallID // the call itself, or the call that the work belongs to
	// repeats is the call or task of unknown outcome that the call knowingly repeats as a new
	// effect; empty: none.
	Repeats string
	// read says that the calling model has read untrusted input. Background work cannot tell, so
	// there it is always true.
	Read bool
	// byModel says that a model makes the call, in its turn. Only such a call may create schedules:
	// their ids derive from a message, and a background run has none.
	ByModel bool
}

// Ports gives work the ports through which it starts and reaches other work. The stories above
// implement it.
type Ports interface {
	// Bind sets the ports of env for a caller.
	Bind(env *tool.Env, by *Caller)
}

// Env is what work of a caller may reach. All its ports are bound to the caller's session.
func (en *Environment) Env(from *Caller, call tool.Call, sink tool.Sink) tool.Env {
	agent := &from.Owner.Agent
	call.Org, call.User = from.Owner.Org, from.Owner.User
	by := call
	by.Session = from.Owner.Session
	files, _ := en.files(by)
	var ports tool.Ports
	if en.core.Ports != nil {
		ports = en.core.Ports(from.Owner.Session, call)
	}
	if agent.DryRun { // a dry run must leave nothing behind
		ports.Payments = nil
	}
	env := tool.Env{
		Call: call, Sink: sink, Registry: en.core.Tools, Files: files,
		Egress: en.egressFor(by), Ports: ports,
		Locale: cmp.Or(agent.Locale, "en"), Timezone: cmp.Or(agent.Timezone, "UTC"), DryRun: agent.DryRun,
		Network: agent.Network, Visible: en.toolset.Names(*agent, from.Owner.HasDetachedWork), Now: time.Now,
	}
	en.ports.Bind(&env, from)
	return env
}

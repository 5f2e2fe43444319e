// Package environment is what running work reaches: the files of its session, the network, and the
// ports of tool.Env. It also runs work with its secrets masked, and writes what a result is too
// large for.
//
// It may import the root, store and tool, of internal: redact, secretargs and sessionfile, and of
// internal/effect: core, secrets and toolset.
//
// The one thing to know: every change of a file and every denied request is recorded in the
// journal, with secrets masked.
package environment

import (
	"cmp"
	"time"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/internal/effect/core"
	"github.com/perdure/perdure/internal/effect/secrets"
	"github.com/perdure/perdure/internal/effect/toolset"
	"github.com/perdure/perdure/store"
	"github.com/perdure/perdure/tool"
)

// Environment gives work what it reaches.
type Environment struct {
	core    *core.Core
	toolset *toolset.Toolset
	secrets *secrets.Secrets
	ports   Ports
}

// New returns an environment whose work reaches other work through ports.
func New(c *core.Core, tools *toolset.Toolset, sec *secrets.Secrets, ports Ports) *Environment {
	return &Environment{core: c, toolset: tools, secrets: sec, ports: ports}
}

// Caller is work that may start and reach other work.
type Caller struct {
	Owner *core.Owner
	// At is the journaled time of the message that holds the call, which is the same on every
	// replay.
	At   time.Time
	Turn perdure.TurnID // of the call
	Call perdure.CallID // the call itself, or the call that the work belongs to
	// Token is that of the ledger row of Call. It fences everything that the call writes.
	Token perdure.Token
	// Repeats is the call or task of unknown outcome that the call knowingly repeats as a new
	// effect; empty: none.
	Repeats string
	// Read says that the calling model has read untrusted input. Background work cannot tell, so
	// there it is always true.
	Read bool
	// ByModel says that a model makes the call, in its turn. Only such a call may create schedules:
	// their ids derive from a message, and a background run has none.
	ByModel bool
}

// Fence is the fence of what the call writes beside its result. Lost: the call has ended, or
// another worker has taken it over.
func (c *Caller) Fence(r store.Reader) error {
	return core.CallFence(perdure.CallKey{Session: c.Owner.Session, Call: c.Call}, c.Token)(r)
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
	call = from.Owner.Calls(call)
	by := call
	by.Session = from.Owner.Session
	files, _ := en.files(by, from.Fence)
	var ports tool.Ports
	if en.core.Ports.Open != nil {
		ports = en.core.Ports.Open(from.Owner.Session, call)
	}
	if agent.DryRun { // a dry run must leave nothing behind
		ports.Payments = nil
	}
	env := tool.Env{
		Call: call, Sink: sink, Registry: en.core.Tools, Files: files,
		Egress: en.egressFor(by, ports), Events: en.eventsFor(by, sink), Ports: ports,
		Locale: cmp.Or(agent.Locale, "en"), Timezone: cmp.Or(agent.Timezone, "UTC"), DryRun: agent.DryRun,
		Network: agent.Network, Visible: en.toolset.Names(*agent, from.Owner.HasDetachedWork), Now: time.Now,
	}
	en.ports.Bind(&env, from)
	return env
}

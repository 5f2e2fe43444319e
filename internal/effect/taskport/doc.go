// Package taskport gives a call the tasks of its session and of the sessions below it.
//
// It may import the root, store and tool, internal/secretargs, and of internal/effect: admission,
// core, environment, secrets, taskrecord, taskrun and toolset.
//
// The one thing to know: a port reaches down the tree of sessions only. A subagent cannot see the
// tasks of its parent or its siblings.
package taskport

import (
	"github.com/perdure/perdure/internal/effect/admission"
	"github.com/perdure/perdure/internal/effect/core"
	"github.com/perdure/perdure/internal/effect/environment"
	"github.com/perdure/perdure/internal/effect/secrets"
	"github.com/perdure/perdure/internal/effect/taskrecord"
	"github.com/perdure/perdure/internal/effect/taskrun"
	"github.com/perdure/perdure/internal/effect/toolset"
)

// Ports makes the ports of calls.
type Ports struct {
	core      *core.Core
	toolset   *toolset.Toolset
	secrets   *secrets.Secrets
	admission *admission.Admission
	records   *taskrecord.Records
	tasks     *taskrun.Tasks
}

// New returns ports to tasks.
func New(p taskrun.Parts, a *admission.Admission, tasks *taskrun.Tasks) *Ports {
	return &Ports{core: p.Core, toolset: p.Toolset, secrets: p.Secrets, admission: a, records: p.Records, tasks: tasks}
}

// For returns the port of a caller.
func (p *Ports) For(by *environment.Caller) *Port { return &Port{ports: p, Caller: by} }

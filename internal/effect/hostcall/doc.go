// Package hostcall runs calls that no model makes: an MCP client or a program makes them. Each is a
// task that its caller reads by a handle.
//
// It may import the root, store and tool, of internal: secretargs and telemetry, and of
// internal/effect: admission, core, secrets, taskrecord, taskrun and toolset.
//
// The one thing to know: a caller that lost the reply of a call and repeats it joins the call, and
// starts no second one.
package hostcall

import (
	"github.com/perdure/perdure/internal/effect/admission"
	"github.com/perdure/perdure/internal/effect/core"
	"github.com/perdure/perdure/internal/effect/secrets"
	"github.com/perdure/perdure/internal/effect/taskrecord"
	"github.com/perdure/perdure/internal/effect/taskrun"
	"github.com/perdure/perdure/internal/effect/toolset"
)

// Calls runs the calls of hosts.
type Calls struct {
	core      *core.Core
	toolset   *toolset.Toolset
	secrets   *secrets.Secrets
	admission *admission.Admission
	records   *taskrecord.Records
	tasks     *taskrun.Tasks
	// undelivered finds calls again whose reply was never written in full.
	undelivered hostCalls
}

// New returns the calls of hosts. Each runs as one of tasks.
func New(p taskrun.Parts, a *admission.Admission, tasks *taskrun.Tasks) *Calls {
	return &Calls{core: p.Core, toolset: p.Toolset, secrets: p.Secrets, admission: a, records: p.Records, tasks: tasks}
}

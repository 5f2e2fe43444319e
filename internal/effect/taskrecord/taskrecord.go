// Package taskrecord changes the records of tasks: rows, events, approvals, schedules and costs,
// always inside a transaction of the caller.
//
// It may import the root, budget, dispatch, store and tool, internal/meter, and of internal/effect:
// admission, core, secrets and toolset.
//
// The one thing to know: nothing here runs work or waits. A change of a task and its events are one
// commit, and the journal is appended to first, which locks the session before the task.
package taskrecord

import (
	"sync"

	"github.com/perdure/perdure/internal/effect/admission"
	"github.com/perdure/perdure/internal/effect/core"
	"github.com/perdure/perdure/internal/effect/secrets"
	"github.com/perdure/perdure/internal/effect/toolset"
)

// Records changes the records of tasks.
type Records struct {
	core      *core.Core
	toolset   *toolset.Toolset
	secrets   *secrets.Secrets
	admission *admission.Admission
	// detached maps the tasks of calls that left their turns in this process to the id of their
	// work in the runner: perdure.TaskID to string.
	detached sync.Map
}

// New returns the records of a configuration.
func New(c *core.Core, tools *toolset.Toolset, sec *secrets.Secrets, a *admission.Admission) *Records {
	return &Records{core: c, toolset: tools, secrets: sec, admission: a}
}

// Package schedule starts the runs of schedules, and ends schedules with their monitors and runs.
//
// It may import the root, dispatch, store and tool, internal/secretargs, and of internal/effect:
// admission, core, environment, secrets, taskrecord, taskrun and toolset.
//
// The one thing to know: the ids of a run derive from the schedule and the nominal time, so a fire
// that is repeated starts no second run.
package schedule

import (
	"github.com/perdure/perdure/internal/effect/admission"
	"github.com/perdure/perdure/internal/effect/core"
	"github.com/perdure/perdure/internal/effect/environment"
	"github.com/perdure/perdure/internal/effect/secrets"
	"github.com/perdure/perdure/internal/effect/taskrecord"
	"github.com/perdure/perdure/internal/effect/taskrun"
	"github.com/perdure/perdure/internal/effect/toolset"
)

// Schedules starts the runs of schedules, and ends schedules.
type Schedules struct {
	core      *core.Core
	toolset   *toolset.Toolset
	secrets   *secrets.Secrets
	admission *admission.Admission
	records   *taskrecord.Records
	tasks     *taskrun.Tasks
}

// New returns the schedules of this process. Each run is one of tasks.
func New(p taskrun.Parts, a *admission.Admission, tasks *taskrun.Tasks) *Schedules {
	return &Schedules{core: p.Core, toolset: p.Toolset, secrets: p.Secrets, admission: a, records: p.Records, tasks: tasks}
}

// For returns the port of a caller.
func (ss *Schedules) For(by *environment.Caller) *Port { return &Port{schedules: ss, Caller: by} }

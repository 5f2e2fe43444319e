// Package approval records the decisions of persons, and lets the work that waits for them continue.
//
// It may import the root and store, internal/secretargs, and of internal/effect: core, secrets,
// taskrecord, taskrun and toolset.
//
// The one thing to know: the first committed decision wins.
package approval

import (
	"github.com/perdure/perdure/internal/effect/core"
	"github.com/perdure/perdure/internal/effect/secrets"
	"github.com/perdure/perdure/internal/effect/taskrecord"
	"github.com/perdure/perdure/internal/effect/taskrun"
	"github.com/perdure/perdure/internal/effect/toolset"
)

// Approvals closes approvals.
type Approvals struct {
	core    *core.Core
	toolset *toolset.Toolset
	secrets *secrets.Secrets
	records *taskrecord.Records
	tasks   *taskrun.Tasks
}

// New returns the approvals of calls and tasks.
func New(p taskrun.Parts, tasks *taskrun.Tasks) *Approvals {
	return &Approvals{core: p.Core, toolset: p.Toolset, secrets: p.Secrets, records: p.Records, tasks: tasks}
}

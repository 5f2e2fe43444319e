// Package foreground runs the calls that a turn waits for, takes them over after a crash, settles
// them, and lets them leave their turn as tasks.
//
// It may import the root, dispatch, store and tool, of internal: redact, strictjson and telemetry,
// and of internal/effect: admission, core, environment, secrets, taskrecord, taskrun and toolset.
//
// The one thing to know: a call that was claimed and not settled is never simply run again. Its
// tool and its effect class decide.
package foreground

import (
	"sync"

	"github.com/perdure/perdure/internal/effect/admission"
	"github.com/perdure/perdure/internal/effect/core"
	"github.com/perdure/perdure/internal/effect/environment"
	"github.com/perdure/perdure/internal/effect/secrets"
	"github.com/perdure/perdure/internal/effect/taskrecord"
	"github.com/perdure/perdure/internal/effect/taskrun"
	"github.com/perdure/perdure/internal/effect/toolset"
)

// Calls runs foreground calls.
type Calls struct {
	core        *core.Core
	toolset     *toolset.Toolset
	secrets     *secrets.Secrets
	environment *environment.Environment
	admission   *admission.Admission
	records     *taskrecord.Records
	tasks       *taskrun.Tasks

	// unstarted holds the tokens of claims and take-overs that this process committed, or may have
	// committed, and has not acted on yet. If the answer of such a commit is lost, the token in the
	// ledger shows that the claim is ours. It maps perdure.Token to perdure.TakeOver, which is
	// empty for a claim.
	unstarted sync.Map
	// running holds the running foreground calls: perdure.CallKey to *callRun.
	running sync.Map
}

// New returns the foreground calls of this process. A call that leaves its turn is one of tasks.
func New(p taskrun.Parts, a *admission.Admission, tasks *taskrun.Tasks) *Calls {
	return &Calls{core: p.Core, toolset: p.Toolset, secrets: p.Secrets, environment: p.Environment, admission: a,
		records: p.Records, tasks: tasks}
}

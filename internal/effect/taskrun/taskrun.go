// Package taskrun runs tasks: it starts and queues them, passes on their output, ends them, cancels
// them, and takes them over from dead workers.
//
// It may import the root, dispatch, store and tool, of internal: redact, secretargs, sessionfile
// and telemetry, and of internal/effect: core, environment, secrets, taskrecord and toolset.
//
// The one thing to know: every write of an attempt is fenced by its number. A write that finds
// another attempt in the row ends the work.
package taskrun

import (
	"context"
	"sync"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/internal/effect/core"
	"github.com/perdure/perdure/internal/effect/environment"
	"github.com/perdure/perdure/internal/effect/secrets"
	"github.com/perdure/perdure/internal/effect/taskrecord"
	"github.com/perdure/perdure/internal/effect/toolset"
)

// Subagents adopts the tasks of subagents.
type Subagents interface {
	// Adopt takes over the task of a subagent from a dead worker. No work ran there.
	Adopt(ctx context.Context, task perdure.Task) error
}

// Parts is what Tasks builds on.
type Parts struct {
	Core        *core.Core
	Toolset     *toolset.Toolset
	Secrets     *secrets.Secrets
	Environment *environment.Environment
	Records     *taskrecord.Records
}

// Tasks runs tasks.
type Tasks struct {
	core        *core.Core
	toolset     *toolset.Toolset
	secrets     *secrets.Secrets
	environment *environment.Environment
	records     *taskrecord.Records
	subagents   Subagents

	// Starting holds the tasks whose start is being committed.
	Starting StartingTasks
	// endWaiters notifies goroutines of this process that wait for the end of a task.
	endWaiters taskEnds
	// running holds the attempts that run here, if the store is shared: perdure.TaskID to *taskRun.
	running sync.Map
	// ending holds the tasks that were taken over and are being ended: perdure.TaskID to true.
	ending   sync.Map
	granting taskLocks
}

// New returns tasks over its parts. The tasks of subagents are adopted by subagents.
func New(p Parts, subagents Subagents) *Tasks {
	return &Tasks{core: p.Core, toolset: p.Toolset, secrets: p.Secrets, environment: p.Environment,
		records: p.Records, subagents: subagents, granting: newTaskLocks()}
}

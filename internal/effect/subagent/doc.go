// Package subagent starts subagents, passes messages between a session and its subagents, and keeps
// the parent's record of a subagent up to date.
//
// It may import the root, store and tool, of internal: secretargs and telemetry, and of
// internal/effect: core, environment, secrets, taskrecord and taskrun.
//
// The one thing to know: the journal of the subagent decides. The parent's record only follows it,
// so a crash between the two commits loses nothing.
package subagent

import (
	"github.com/perdure/perdure/internal/effect/core"
	"github.com/perdure/perdure/internal/effect/environment"
	"github.com/perdure/perdure/internal/effect/secrets"
	"github.com/perdure/perdure/internal/effect/taskrecord"
	"github.com/perdure/perdure/internal/effect/taskrun"
	"github.com/perdure/perdure/tool"
)

// Subagents starts and follows subagents.
type Subagents struct {
	core        *core.Core
	secrets     *secrets.Secrets
	environment *environment.Environment
	records     *taskrecord.Records
	tasks       *taskrun.Tasks
}

// New returns subagents whose records are among tasks.
func New(p taskrun.Parts, tasks *taskrun.Tasks) *Subagents {
	return &Subagents{core: p.Core, secrets: p.Secrets, environment: p.Environment, records: p.Records, tasks: tasks}
}

// For returns the port of a caller. tasks reaches the tasks of the same session.
func (s *Subagents) For(by *environment.Caller, tasks tool.Tasks) *Port {
	return &Port{subagents: s, Caller: by, tasks: tasks}
}

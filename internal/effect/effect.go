// Package effect carries out the commands of the root: it drives sessions, step by step, and
// commits the outcome of each command together with the decisions that follow from it. The packages
// below it do the work of a command, one story each; core holds what they share.
//
// It may import the root, budget, store and tool, of internal: meter and sessioncache, and the
// packages below internal/effect. None of them imports it.
//
// The one thing to know: the order of the steps of a call is fixed in this package and those below
// it. Claim the call, run it, settle it together with its event. Nothing is shown to anybody before
// it is committed.
//
// An engine drives a session in a loop. Acquire acquires the session and returns the commands that
// are due. The engine lets Calls().Start, Generation().Ask and the like carry them out, hands the
// outcomes to Commit, and gets the next commands. A commit that leaves nothing to do also releases
// the session.
package effect

import (
	"context"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/internal/effect/admission"
	"github.com/perdure/perdure/internal/effect/approval"
	"github.com/perdure/perdure/internal/effect/cleanup"
	"github.com/perdure/perdure/internal/effect/core"
	"github.com/perdure/perdure/internal/effect/environment"
	"github.com/perdure/perdure/internal/effect/foreground"
	"github.com/perdure/perdure/internal/effect/generation"
	"github.com/perdure/perdure/internal/effect/hostcall"
	"github.com/perdure/perdure/internal/effect/schedule"
	"github.com/perdure/perdure/internal/effect/secrets"
	"github.com/perdure/perdure/internal/effect/subagent"
	"github.com/perdure/perdure/internal/effect/taskport"
	"github.com/perdure/perdure/internal/effect/taskprocess"
	"github.com/perdure/perdure/internal/effect/taskrecord"
	"github.com/perdure/perdure/internal/effect/taskrun"
	"github.com/perdure/perdure/internal/effect/toolset"
	"github.com/perdure/perdure/store"
	"github.com/perdure/perdure/tool"
)

// Effects carries out commands. It is safe for concurrent use.
type Effects struct {
	core        *core.Core
	toolset     *toolset.Toolset
	secrets     *secrets.Secrets
	environment *environment.Environment
	admission   *admission.Admission
	generation  *generation.Generator
	records     *taskrecord.Records
	tasks       *taskrun.Tasks
	taskPorts   *taskport.Ports
	processes   *taskprocess.Processes
	subagents   *subagent.Subagents
	approvals   *approval.Approvals
	calls       *foreground.Calls
	hostCalls   *hostcall.Calls
	schedules   *schedule.Schedules
	cleanup     *cleanup.Cleanup
}

// New returns the effects of a configuration. Invalid: a required field is missing.
func New(cfg core.Config) (*Effects, error) {
	c, err := core.New(cfg)
	if err != nil {
		return nil, err
	}
	e := &Effects{core: c}
	e.toolset = toolset.New(c)
	e.secrets = secrets.New(c, e.toolset)
	e.environment = environment.New(c, e.toolset, e.secrets, above{e})
	e.admission = admission.New(c, e.toolset, e.secrets)
	e.generation = generation.New(c, e.toolset, e.secrets, e.admission)
	e.records = taskrecord.New(c, e.toolset, e.secrets, e.admission)
	parts := taskrun.Parts{Core: c, Toolset: e.toolset, Secrets: e.secrets, Environment: e.environment,
		Records: e.records}
	e.tasks = taskrun.New(parts, above{e})
	e.taskPorts = taskport.New(parts, e.admission, e.tasks)
	e.processes = taskprocess.New(c, e.toolset, e.secrets)
	e.subagents = subagent.New(parts, e.tasks)
	e.approvals = approval.New(parts, e.tasks)
	e.calls = foreground.New(parts, e.admission, e.tasks)
	e.hostCalls = hostcall.New(parts, e.admission, e.tasks)
	e.schedules = schedule.New(parts, e.admission, e.tasks)
	e.cleanup = cleanup.New(c, e.toolset)
	return e, nil
}

// above implements what a story needs of the stories above it.
type above struct{ e *Effects }

// Bind implements environment.Ports.
func (a above) Bind(env *tool.Env, by *environment.Caller) {
	tasks := a.e.taskPorts.For(by)
	agents := a.e.subagents.For(by, tasks)
	env.Tasks, env.Agents, env.TaskMessenger = tasks, agents, agents
	if by.ByModel {
		env.Schedules = a.e.schedules.For(by)
	}
}

// Adopt implements taskrun.Subagents.
func (a above) Adopt(ctx context.Context, task perdure.Task) error {
	return a.e.subagents.Adopt(ctx, task)
}

// Admission decides about calls before they are claimed.
func (e *Effects) Admission() *admission.Admission { return e.admission }

// Generation asks the model.
func (e *Effects) Generation() *generation.Generator { return e.generation }

// Calls runs foreground calls.
func (e *Effects) Calls() *foreground.Calls { return e.calls }

// Tasks runs tasks.
func (e *Effects) Tasks() *taskrun.Tasks { return e.tasks }

// Processes shows the processes of tasks.
func (e *Effects) Processes() *taskprocess.Processes { return e.processes }

// Records changes the records of tasks.
func (e *Effects) Records() *taskrecord.Records { return e.records }

// Subagents starts and follows subagents.
func (e *Effects) Subagents() *subagent.Subagents { return e.subagents }

// Approvals closes approvals.
func (e *Effects) Approvals() *approval.Approvals { return e.approvals }

// HostCalls runs the calls of hosts.
func (e *Effects) HostCalls() *hostcall.Calls { return e.hostCalls }

// Schedules starts the runs of schedules.
func (e *Effects) Schedules() *schedule.Schedules { return e.schedules }

// Cleanup prunes tasks and cleans up after them.
func (e *Effects) Cleanup() *cleanup.Cleanup { return e.cleanup }

// Fold folds a session from its cache, snapshot and journal. The caller may change the result.
// NotFound: no such session.
func (e *Effects) Fold(r store.Reader, id perdure.SessionID) (*perdure.Session, error) {
	return e.core.Fold(r, id)
}

// FoldInPages is Fold in several views, so that a long journal keeps no view open. ctx ends it
// between two of them.
func (e *Effects) FoldInPages(ctx context.Context, id perdure.SessionID) (*perdure.Session, error) {
	return e.core.FoldInPages(ctx, id)
}

// LeaseHolds is the fence of the writes of this worker's work. Lost: the lease has expired.
func (e *Effects) LeaseHolds(r store.Reader) error { return e.core.LeaseHolds(r) }

// UseGrant uses a grant for a work. StaleGrant: a later grant was used.
func (e *Effects) UseGrant(tx store.Tx, g core.Grant, w store.Work) error {
	return e.core.Use(tx, g, w)
}

// HomeOfWork returns the only home that can continue a session: that of its files, or that at which
// running calls left what no other can judge. Empty: every home can.
func (e *Effects) HomeOfWork(r store.Reader, row store.Session) (perdure.HomeID, error) {
	if e.core.FilesElsewhere(row) {
		return row.Home, nil
	}
	calls, err := r.Calls().List(store.CallFilter{Session: row.ID, State: perdure.CallRunning})
	for _, call := range calls {
		if call.Task == "" && e.core.RemainsAt(r, call.Home) == perdure.RemainsElsewhere {
			return call.Home, nil
		}
	}
	return "", err
}

// OtherWorkerAlive reports whether another worker is alive by its lease.
func (e *Effects) OtherWorkerAlive(r store.Reader, id perdure.WorkerID) bool {
	return e.core.OtherWorkerAlive(r, id)
}

// FilesOf opens the files of a session as its model sees them, for a caller that is not a call of
// the session. Changes are recorded in the journal under that actor. Unavailable: the files cannot
// be opened.
func (e *Effects) FilesOf(id perdure.SessionID, actor string) (tool.Files, error) {
	return e.environment.FilesOf(id, actor)
}

// HomeOfNew is the home of a new session of an agent; empty: it has none yet.
func (e *Effects) HomeOfNew(a perdure.Agent) perdure.HomeID { return e.core.HomeOfNew(a) }

// FilesElsewhere reports whether the files of a session are at another home.
func (e *Effects) FilesElsewhere(s store.Session) bool { return e.core.FilesElsewhere(s) }

// CheckFiles refuses what needs the files of a session that are at another home: Conflict.
func (e *Effects) CheckFiles(r store.Reader, s store.Session) error { return e.core.CheckFiles(r, s) }

// Forget drops what this process remembers of a session that was removed.
func (e *Effects) Forget(id perdure.SessionID) {
	e.core.Folds.Drop(id)
	e.secrets.Vault.DropSession(id)
}

// ReleaseSession drops what this process holds for a released session. Its secret arguments are
// lost: the process that continues the session does not have them.
func (e *Effects) ReleaseSession(id perdure.SessionID) {
	e.secrets.Vault.DropSession(id)
	e.core.Telemetry.Leave(id)
}

// ReleaseAll drops the secret arguments of all sessions: this process drives none any more.
func (e *Effects) ReleaseAll() { e.secrets.Vault.DropAll() }

// Wait returns when no goroutine of Effects writes any more. Call it after the runner has stopped.
func (e *Effects) Wait() { e.core.Group.Wait() }

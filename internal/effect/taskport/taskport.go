// Package taskport gives a call the tasks of its session and of the sessions below it.
//
// It may import the root, store and tool, internal/secretargs, and of internal/effect: admission,
// core, environment, secrets, taskrecord, taskrun and toolset.
//
// The one thing to know: a port reaches down the tree of sessions only. A subagent cannot see the
// tasks of its parent or its siblings.
package taskport

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/internal/effect/admission"
	"github.com/perdure/perdure/internal/effect/core"
	"github.com/perdure/perdure/internal/effect/environment"
	"github.com/perdure/perdure/internal/effect/secrets"
	"github.com/perdure/perdure/internal/effect/taskrecord"
	"github.com/perdure/perdure/internal/effect/taskrun"
	"github.com/perdure/perdure/internal/effect/toolset"
	"github.com/perdure/perdure/internal/secretargs"
	"github.com/perdure/perdure/store"
	"github.com/perdure/perdure/tool"
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
func (ps *Ports) For(by *environment.Caller) *Port { return &Port{ports: ps, Caller: by} }

// Port gives a call access to the tasks of its session and of the sessions below it. It reaches
// down the tree only: a subagent cannot see the tasks of its parent or its siblings.
type Port struct {
	ports *Ports
	*environment.Caller
}

var _ tool.Tasks = (*Port)(nil)

// Spawn starts a background run of a tool.
func (p *Port) Spawn(ctx context.Context, s tool.SpawnRequest) (tool.SpawnResult, error) {
	target, ok := p.ports.toolset.Lookup(p.Owner.Agent, p.Owner.HasDetachedWork, s.Tool)
	if !ok {
		return tool.SpawnResult{}, fmt.Errorf("spawn %s: %w", s.Tool, perdure.NotFound)
	}
	spec := target.Spec()
	var err error
	var dropped secretargs.Vault // secrets in the request of a run are recorded nowhere
	known := p.ports.secrets.Known(p.Owner.Session)
	s.Title = secretargs.MaskKnown(known, s.Title)
	s.Args, _ = dropped.Remove(perdure.CallKey{}, spec.Parameters, s.Args)
	if s.Args, _ = secretargs.MaskKnownJSON(known, s.Args); secretargs.IsMasked(s.Args) || secretargs.HasKnownMark(s.Args) {
		return tool.SpawnResult{}, &tool.Denied{Result: secretargs.LostResult()}
	}
	task := perdure.Task{
		Session: p.Owner.Session, RootSession: p.Owner.Root(), Kind: taskrecord.KindOf(target), Turn: p.Turn, Call: p.Call,
		Origin: perdure.OriginSpawned, Tool: s.Tool, DisplayName: s.Title, Class: spec.Class,
		Lane: perdure.Background, StallMS: p.ports.toolset.StallFor(spec).Milliseconds(),
		Spec: perdure.TaskSpec{Tool: s.Tool, Arguments: s.Args,
			Reattachable: spec.Class.Repeatable(), SignalOnCompletion: s.NotifyEnd},
		Delivery: perdure.ToLoop, Wake: perdure.WakeContinue, Metadata: p.Owner.Request,
	}
	if !s.NotifyEnd {
		task.Delivery, task.Wake = perdure.Manual, perdure.WakeNone
	}
	// The target tool is judged as itself, before anything runs in the background.
	j := p.ports.admission.Judge(ctx, p.Owner.Agent, target, p.Owner.Calls(tool.Call{Session: p.Owner.Session, Turn: p.Turn,
		ID: p.Call, Tool: s.Tool, Args: s.Args, Class: spec.Class}), p.Read)
	if j.Refusal != nil {
		return tool.SpawnResult{}, &tool.Denied{Result: *j.Refusal}
	}
	if held := p.ports.admission.RateLimited(ctx, p.Owner.Session, p.Owner.Agent, target); held != nil {
		return tool.SpawnResult{}, &tool.Denied{Result: *held}
	}
	task.Spec.Arguments, _ = dropped.Remove(perdure.CallKey{}, spec.Parameters, j.Args)
	if task.Spec.Arguments, _ = secretargs.MaskKnownJSON(known, task.Spec.Arguments); secretargs.HasKnownMark(task.Spec.Arguments) {
		// added by a hook
		return tool.SpawnResult{}, &tool.Denied{Result: secretargs.LostResult()}
	}
	if task.ArgsHash, err = perdure.Fingerprint(s.Tool, task.Spec.Arguments); err != nil {
		return tool.SpawnResult{}, err
	}
	spawned, err := p.ports.tasks.Spawn(ctx, taskrecord.Request{Owner: p.Owner, At: p.At, Task: task, Permissions: j.Permissions,
		Repeats: p.Repeats, Fence: p.Fence})
	var same *admission.DuplicateError
	if errors.As(err, &same) {
		answer := tool.Error(same.Answer(p.Call).Error)
		answer.ErrorKind, answer.Refused = perdure.ErrorRejected, true
		return tool.SpawnResult{}, &tool.Denied{Result: answer}
	}
	return spawned, err
}

// Task finds a task by task id or run id.
func (p *Port) Task(ctx context.Context, id string) (perdure.Task, error) {
	if strings.HasPrefix(id, "task_") {
		var task perdure.Task
		err := p.ports.core.Store.View(ctx, func(r store.Reader) (err error) {
			if task, err = r.Tasks().Get("", perdure.TaskID(id)); err == nil && !p.reaches(r, task.Session) {
				task, err = perdure.Task{}, fmt.Errorf("task %s: %w", id, perdure.NotFound)
			}
			return err
		})
		return task, err
	}
	tasks, err := p.List(ctx)
	if err != nil {
		return perdure.Task{}, err
	}
	for _, task := range tasks {
		if id != "" && string(task.Run) == id {
			return task, nil
		}
	}
	return perdure.Task{}, fmt.Errorf("task %s: %w", id, perdure.NotFound)
}

// reaches reports whether a session is the port's own or below it.
func (p *Port) reaches(r store.Reader, id perdure.SessionID) bool {
	for id != p.Owner.Session {
		row, err := r.Sessions().Get(id)
		if err != nil || row.Parent == "" {
			return false
		}
		id = row.Parent
	}
	return true
}

// List returns the tasks of the session and of the sessions below it, in the order of creation.
func (p *Port) List(ctx context.Context) (tasks []perdure.Task, err error) {
	err = p.ports.core.Store.View(ctx, func(r store.Reader) error {
		if tasks, err = r.Tasks().List(store.TaskFilter{Session: p.Owner.Session}); err != nil {
			return err
		}
		handles, err := r.Spawns().List(p.Owner.Root())
		below := map[perdure.SessionID]bool{p.Owner.Session: true}
		for _, handle := range handles { // a child is always claimed after its parent
			if handle.Child == "" || !below[handle.Key.Session] || err != nil {
				continue
			}
			below[handle.Child] = true
			var more []perdure.Task
			more, err = r.Tasks().List(store.TaskFilter{Session: handle.Child})
			tasks = append(tasks, more...)
		}
		return err
	})
	slices.SortStableFunc(tasks, func(a, b perdure.Task) int { return a.CreatedAt.Compare(b.CreatedAt) })
	return tasks, err
}

// Cancel cancels a task, and waits up to the grace period for its end.
func (p *Port) Cancel(ctx context.Context, id, why string) (perdure.CancelReceipt, perdure.Task, error) {
	task, err := p.Task(ctx, id)
	if err != nil {
		return perdure.CancelReceipt{}, task, err
	}
	receipt, err := p.ports.tasks.Cancel(ctx, task.ID, taskrecord.CancelIntent{By: "agent",
		Why: secretargs.MaskKnown(p.ports.secrets.Known(p.Owner.Session), why)})
	if err != nil {
		return receipt, task, err
	}
	if receipt.RequestedAt.IsZero() { // it had ended before
		task, err = p.Task(ctx, id)
		return receipt, task, err
	}
	tasks, err := p.Wait(ctx, tool.WaitRequest{IDs: []string{string(task.ID)}, Timeout: p.ports.core.Timing.Grace + time.Second})
	if err != nil {
		return receipt, task, err
	}
	return p.ports.tasks.ReceiptOf(ctx, tasks[0], receipt), tasks[0], nil
}

// Wait returns when any or all of the tasks have ended or wait for input, or when the time is over.
func (p *Port) Wait(ctx context.Context, w tool.WaitRequest) ([]perdure.Task, error) {
	ctx, cancel := context.WithTimeout(ctx, max(w.Timeout, 0))
	defer cancel()
	sessions := []perdure.SessionID{p.Owner.Session}
	for _, id := range w.IDs {
		if task, err := p.Task(ctx, id); err == nil && !slices.Contains(sessions, task.Session) {
			sessions = append(sessions, task.Session)
		}
	}
	return p.ports.tasks.WaitTasks(ctx, sessions, func(ctx context.Context) ([]perdure.Task, bool, error) {
		var tasks []perdure.Task
		ended := 0
		for _, id := range w.IDs {
			task, err := p.Task(ctx, id)
			if err != nil {
				return nil, false, err
			}
			tasks = append(tasks, task)
			if task.State.Terminal() || task.AwaitsInput() {
				ended++
			}
		}
		return tasks, ended == len(tasks) || !w.All && ended > 0, nil
	})
}

// Log returns output from a byte offset.
func (p *Port) Log(ctx context.Context, id string, offset int64, max int) (tool.LogPage, error) {
	task, err := p.Task(ctx, id)
	if err != nil {
		return tool.LogPage{}, err
	}
	var page tool.LogPage
	err = p.ports.core.Store.View(ctx, func(r store.Reader) error {
		chunks, from, end, err := LogFrom(r, task.ID, offset, max)
		var gone *perdure.LogRotated
		if errors.As(err, &gone) { // the page says at which offset it starts
			chunks, from, end, err = LogFrom(r, task.ID, gone.First, max)
		}
		page = tool.LogPage{Offset: from, Next: from, LogLen: end}
		for _, c := range chunks {
			page.Bytes = append(page.Bytes, c.Bytes...)
			page.Next = c.Offset + int64(len(c.Bytes))
		}
		return err
	})
	return page, err
}

// LogFrom reads a task's output from an offset. A negative offset counts from the end.
func LogFrom(r store.Reader, id perdure.TaskID, offset int64,
	limit int) (chunks []store.LogChunk, from, end int64, err error) {
	if offset < 0 {
		if _, end, err = r.Tasks().ReadLog(id, 0, 0); err != nil {
			return nil, 0, 0, err
		}
		offset = max(end+offset, 0)
	}
	chunks, end, err = r.Tasks().ReadLog(id, offset, limit)
	return chunks, offset, end, err
}

// Package subagent starts subagents, passes messages between a session and its subagents, and keeps
// the parent's record of a subagent up to date.
//
// It may import the root, store and tool, of internal: secretargs, sessionfile and telemetry, and
// of internal/effect: core, environment, secrets, taskrecord and taskrun.
//
// The one thing to know: the journal of the subagent decides. The parent's record only follows it,
// so a crash between the two commits loses nothing.
package subagent

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/internal/effect/core"
	"github.com/perdure/perdure/internal/effect/environment"
	"github.com/perdure/perdure/internal/effect/secrets"
	"github.com/perdure/perdure/internal/effect/taskrecord"
	"github.com/perdure/perdure/internal/effect/taskrun"
	"github.com/perdure/perdure/internal/secretargs"
	"github.com/perdure/perdure/internal/sessionfile"
	"github.com/perdure/perdure/internal/telemetry"
	"github.com/perdure/perdure/store"
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
func (su *Subagents) For(by *environment.Caller, tasks tool.Tasks) *Port {
	return &Port{subagents: su, Caller: by, tasks: tasks}
}

// childSpec is a subagent as it was requested.
type childSpec struct {
	order tool.SubagentRequest
	agent perdure.Agent
	files []tool.InitialFile // that the store has; the host's are written before
	task  perdure.Task       // the task in the parent session
	spawn store.Spawn        // the handle of the call
	child perdure.SessionID
	clean bool   // the parent's model has read no untrusted input
	trace string // traceparent of the call; empty: none
}

// createSession adds the subagent's session with its first message, and with its files.
func (b childSpec) createSession(tx store.Tx, parent *core.Owner, files *sessionfile.Files, home perdure.HomeID) error {
	if _, err := tx.Sessions().Get(b.child); !errors.Is(err, perdure.NotFound) {
		return err // it exists
	}
	of, err := tx.Sessions().Get(parent.Session)
	if err != nil {
		return err
	}
	now := tx.Now()
	row := store.Session{
		ID: b.child, Parent: parent.Session, Root: parent.Root(), Org: of.Org, User: of.User, Title: b.agent.Title,
		Labels: b.agent.Labels, Status: perdure.SessionStarted, Home: home, CreatedAt: now, UpdatedAt: now,
	}
	rand.Read(row.Secret[:]) // never fails
	if err := tx.Sessions().Create(row); err != nil {
		return err
	}
	text := b.order.Prompt
	if len(b.order.Schema) > 0 {
		text += "\n\nAnswer with JSON only, which matches this schema:\n" + string(b.order.Schema)
	}
	for _, f := range b.files {
		if err := files.SeedIn(tx, f); err != nil {
			return fmt.Errorf("initial file %s: %w", f.Path, err)
		}
	}
	events := []perdure.Event{
		{Session: b.child, Actor: "runtime", Fact: perdure.SessionCreated{Agent: b.agent, Lineage: &perdure.Lineage{
			Parent: parent.Session, Root: parent.Root(), Call: b.spawn.Key.Call, Task: b.task.ID, Depth: b.spawn.Depth,
			BudgetAgents: parent.Agent.BudgetAgents(parent.Lineage),
		}}},
		parentMessage(b.child, string(b.spawn.Key.Call), text, !b.clean),
	}
	events[1].At, events[1].Trace = now, b.trace
	core.Stamp(events, now)
	return tx.Journal().Append(b.child, events)
}

// Port gives a call the subagents of its session.
type Port struct {
	subagents *Subagents
	*environment.Caller
	tasks tool.Tasks // of the same session
}

var (
	_ tool.Agents        = (*Port)(nil)
	_ tool.TaskMessenger = (*Port)(nil)
)

// Start creates a subagent. Handle, child session and the parent's task are one commit, so none
// exists without the others. A call that runs again finds what it created before.
func (p *Port) Start(ctx context.Context, o tool.SubagentRequest) (task perdure.Task, err error) {
	known := p.subagents.secrets.Known(p.Owner.Session)
	o.Name, o.Prompt = secretargs.MaskKnown(known, o.Name), secretargs.MaskKnown(known, o.Prompt)
	o.Schema, _ = secretargs.MaskKnownJSON(known, o.Schema)
	row, err := p.subagents.core.SessionRow(ctx, p.Owner.Session)
	if err != nil {
		return task, fmt.Errorf("start subagent: %w", err)
	}
	b, err := p.childSpec(ctx, o, row.Secret)
	if err != nil {
		return task, err
	}
	b.trace = telemetry.TraceParent(ctx)
	err = p.subagents.core.Work.InTx(context.WithoutCancel(ctx), func(tx store.Tx) (err error) {
		if err = p.Fence(tx.Reader()); err == nil {
			task, err = p.createChild(tx, b)
		}
		return err
	})
	var refused *tool.Denied
	if err != nil && !core.RefusedWrite(err) && !errors.As(err, &refused) { // the answer of the commit may be lost
		found := p.subagents.core.ReadBack(ctx, func(r store.Reader) (err error) {
			handle, err := r.Spawns().Get(b.spawn.Key)
			if err == nil {
				task, err = r.Tasks().Get(p.Owner.Session, handle.Task)
			}
			return err
		})
		if found == nil {
			err = nil
		}
	}
	if err != nil {
		return task, fmt.Errorf("start subagent: %w", err)
	}
	p.subagents.core.Wake(task.Links.ChildSession)
	return task, nil
}

// childSpec fills in the derived ids, which are the same on every replay, and the agent. A replay
// of a call whose subagent exists needs no agent: the subagent keeps the one that it began with,
// even if the directory has another one of the name by now, or none.
func (p *Port) childSpec(ctx context.Context, o tool.SubagentRequest, secret perdure.Secret) (childSpec, error) {
	key := perdure.CallKey{Session: p.Owner.Session, Call: p.Call}
	task := taskrecord.Request{Owner: p.Owner, At: p.At, Task: perdure.Task{
		Session: p.Owner.Session, RootSession: p.Owner.Root(), Kind: perdure.KindSubagent, Turn: p.Turn,
		Call: p.Call, Origin: perdure.OriginSubagent,
		DisplayName: o.Name, Class: perdure.Idempotent, Lane: perdure.Foreground,
		State: perdure.TaskRunning, StateDetail: "Starting",
		Attempt: 1, Executions: 1, Worker: p.subagents.core.Worker, Delivery: perdure.ToLoop,
		Wake: perdure.WakeContinue, Delivered: perdure.NotDelivered,
	}}.WithIDs(secret)
	if o.Background {
		task.Lane = perdure.Background
	}
	b := childSpec{order: o, clean: !p.Read, task: task,
		child: perdure.DeriveID[perdure.SessionID](secret, p.At, string(key.Session), string(key.Call))}
	b.task.Links.ChildSession = b.child
	b.spawn = store.Spawn{
		Key: key, Root: p.Owner.Root(), Depth: p.Owner.Depth() + 1, Task: task.ID, Name: o.Name, Prompt: o.Prompt,
		Schema: o.Schema, Token: core.NewToken(),
	}
	started, err := p.started(ctx, key)
	if err != nil || started {
		return b, err
	}
	if b.agent, b.files, err = p.childAgent(ctx, o); err == nil {
		err = p.seedHostFiles(ctx, &b)
	}
	return b, err
}

// createChild is the commit of Start.
func (p *Port) createChild(tx store.Tx, b childSpec) (perdure.Task, error) {
	row, err := tx.Calls().Get(b.spawn.Key)
	if err != nil || row.State != perdure.CallRunning || row.Worker != p.subagents.core.Worker {
		return b.task, errors.Join(perdure.Lost, err) // the call was settled, or another worker owns it
	}
	if row.Task != "" { // the call is a task already: it was routed, or it left its turn before this commit
		b.task.ID, b.spawn.Task = row.Task, row.Task
	}
	known, err := tx.Spawns().Get(b.spawn.Key)
	switch {
	case err == nil && known.State != store.SpawnPending:
		return tx.Tasks().Get(b.task.Session, known.Task)
	case errors.Is(err, perdure.NotFound):
		if err = p.checkWanted(tx, b); err == nil {
			err = p.admit(tx, b)
		}
	}
	if err != nil {
		return b.task, err
	}
	_, handle, err := tx.Spawns().Claim(b.spawn)
	if err != nil {
		return b.task, err
	}
	b.task.Tool, b.task.ArgsHash = row.Tool, row.Fingerprint
	b.task.Spec = perdure.TaskSpec{Tool: row.Tool, Arguments: row.Args, Reattachable: true, SignalOnCompletion: true}
	task, err := p.recordParentTask(tx, b)
	if err != nil {
		return task, err
	}
	if err := b.createSession(tx, p.Owner, sessionfile.New(p.subagents.core.Store, b.child, false), p.subagents.core.HomeOfNew(b.agent)); err != nil {
		return task, err
	}
	return task, tx.Spawns().RegisterChild(handle.Key, handle.Token, b.child)
}

// checkWanted refuses a subagent if its call, which is a task by now, was canceled, or if its
// parent session was stopped. The commit of that cancel could not see the subagent.
func (p *Port) checkWanted(tx store.Tx, b childSpec) error {
	late := &tool.Denied{Result: tool.Error("No subagent was started: this work has been canceled.")}
	late.Result.ErrorKind = perdure.ErrorCanceled
	switch known, err := tx.Tasks().Get(b.task.Session, b.task.ID); {
	case err == nil && (known.CancelRequested() || known.State.Terminal()):
		return late
	case err != nil && !errors.Is(err, perdure.NotFound):
		return err
	}
	if p.Owner.Lineage == nil {
		return nil
	}
	session, err := p.subagents.core.Fold(tx.Reader(), p.Owner.Session)
	if err == nil && session.Stopped != nil {
		return late
	}
	return err
}

// admit refuses a subagent beyond a limit. The count is taken in the commit that adds the subagent.
func (p *Port) admit(tx store.Tx, b childSpec) error {
	refuse := func(what string, limit, now int) error {
		return &tool.Denied{Result: tool.Failf("No subagent was started: %s is limited to %d, and it is %d.", what,
			limit, now)}
	}
	limits := p.subagents.core.LimitsFor(p.Owner.Agent)
	if b.spawn.Depth > limits.SubagentDepth {
		return refuse("the depth of subagents", limits.SubagentDepth, p.Owner.Depth())
	}
	count, err := tx.Spawns().Count(b.spawn.Root)
	switch {
	case err != nil:
		return err
	case limits.SubagentsLive > 0 && count.Live >= limits.SubagentsLive:
		return refuse("the number of running subagents", limits.SubagentsLive, count.Live)
	case limits.SubagentsTotal > 0 && count.Total >= limits.SubagentsTotal:
		return refuse("the total number of subagents", limits.SubagentsTotal, count.Total)
	}
	return nil
}

// recordParentTask adds the parent's task, or links the task that the call has become.
func (p *Port) recordParentTask(tx store.Tx, b childSpec) (perdure.Task, error) {
	known, err := tx.Tasks().Get(b.task.Session, b.task.ID)
	if err == nil {
		change, err := p.subagents.records.Update(tx, known, perdure.TaskUpdate{Attempt: known.Attempt, Links: b.task.Links})
		if err == nil && change.Answer != perdure.Updated {
			err = perdure.Lost
		}
		return change.Task, err
	}
	if !errors.Is(err, perdure.NotFound) {
		return b.task, err
	}
	now := tx.Now()
	b.task.CreatedAt, b.task.UpdatedAt, b.task.StartedAt, b.task.HeartbeatAt = now, now, now, now
	events := []perdure.Event{taskrecord.Event(b.task, perdure.TaskCreated{Task: b.task})}
	core.Stamp(events, now)
	if err := tx.Journal().Append(b.task.Session, events); err != nil {
		return b.task, err
	}
	task, _, err := tx.Tasks().Create(b.task)
	return task, err
}

// Await waits for the end of a subagent, even while the store cannot be read. It holds no slot of
// the process in the meantime: the runs of the subagent may need it, and both would wait for each
// other.
func (p *Port) Await(ctx context.Context, id perdure.TaskID) (task perdure.Task, result []byte, err error) {
	for attempt := 1; ; attempt++ {
		task, result, err = p.await(ctx, id)
		switch {
		case ctx.Err() != nil && !task.State.Terminal():
			p.abandonChild(ctx)
			return task, nil, context.Cause(ctx)
		case !errors.Is(err, perdure.Unavailable) || ctx.Err() != nil:
			return task, result, err
		}
		select {
		case <-time.After(perdure.RetryDelay(min(attempt, 5), 0, string(id)) / 10):
		case <-ctx.Done():
		}
	}
}

// await waits once. While a person considers a question of the subagent, the clocks of the call are
// paused.
func (p *Port) await(ctx context.Context, id perdure.TaskID) (task perdure.Task, result []byte, err error) {
	_, err = p.subagents.tasks.WaitTasks(ctx, []perdure.SessionID{p.Owner.Session},
		func(ctx context.Context) ([]perdure.Task, bool, error) {
			now, err := p.tasks.Task(ctx, string(id))
			if err != nil {
				return nil, false, err
			}
			task = now
			if p.subagents.core.Runner.Yield(p.workID(task)) {
				p.subagents.core.StartQueued()
			}
			if task.AwaitsInput() {
				p.subagents.core.Runner.Pause(p.workID(task))
			} else {
				p.subagents.core.Runner.Resume(p.workID(task))
			}
			return nil, task.State.Terminal(), nil
		})
	if err != nil || !task.State.Terminal() {
		return task, nil, err
	}
	err = p.subagents.core.Store.View(context.WithoutCancel(ctx), func(r store.Reader) error {
		handle, err := r.Spawns().Get(perdure.CallKey{Session: p.Owner.Session, Call: p.Call})
		result = handle.Result
		return err
	})
	return task, result, err
}

// workID returns the id of the work that waits for a subagent: that of the call, or that of the
// task if the call was routed.
func (p *Port) workID(task perdure.Task) string {
	if task.Origin == perdure.OriginRouted {
		return string(task.ID)
	}
	return perdure.CallKey{Session: p.Owner.Session, Call: p.Call}.String()
}

// abandonChild cancels a subagent whose call ended first, because its turn was interrupted or its
// deadline passed. A background subagent is canceled separately, and stopping the engine cancels
// nothing.
func (p *Port) abandonChild(ctx context.Context) {
	cause := perdure.CauseOf(ctx)
	if cause == "" || cause == perdure.CauseShutdown || cause == perdure.CauseSuperseded {
		return
	}
	p.subagents.tasks.Abandon(ctx, perdure.CallKey{Session: p.Owner.Session, Call: p.Call}, string(cause))
}

// SendToParent sends a message to the parent: an outbound message of the parent's task.
func (p *Port) SendToParent(ctx context.Context, text string) error {
	from := p.Owner.Lineage
	if from == nil {
		return fmt.Errorf("tell the parent: %w: the session is not a subagent", perdure.Conflict)
	}
	row, err := p.subagents.core.SessionRow(ctx, p.Owner.Session)
	if err != nil {
		return fmt.Errorf("tell the parent: %w", err)
	}
	m := perdure.TaskMessage{Task: from.Task, Direction: perdure.Outbound,
		Text: secretargs.MaskKnown(p.subagents.secrets.Known(p.Owner.Session), text)}
	// one call sends one message
	m.ID = perdure.DeriveID[perdure.TaskMessageID](row.Secret, p.Owner.Created, string(p.Owner.Session), string(p.Call))
	err = p.subagents.core.Work.InTx(context.WithoutCancel(ctx), func(tx store.Tx) error {
		task, err := tx.Tasks().Get(from.Parent, from.Task)
		if err != nil {
			return err
		}
		messages, err := tx.Tasks().Messages(task.ID, "", 0)
		if err != nil || slices.ContainsFunc(messages, func(known perdure.TaskMessage) bool {
			return known.ID == m.ID
		}) {
			return err
		}
		if task.State.Terminal() {
			return fmt.Errorf("%w: already settled", perdure.Conflict)
		}
		m.CreatedAt = tx.Now()
		if _, err := p.subagents.records.Update(tx, task, perdure.TaskUpdate{Attempt: task.Attempt},
			p.subagents.records.MessageNotice(task, m, "")); err != nil {
			return err
		}
		return tx.Tasks().AddMessage(m)
	})
	if err != nil && p.subagents.tasks.WasSent(ctx, from.Task, m.ID, err) {
		err = nil
	}
	if err != nil {
		return fmt.Errorf("tell the parent: %w", err)
	}
	p.subagents.core.Wake(from.Parent)
	return nil
}

// Send implements tool.TaskMessenger: it sends a message of the model to a task of its session.
func (p *Port) Send(ctx context.Context, id string, m perdure.TaskMessage) (perdure.TaskMessageID, error) {
	task, err := p.tasks.Task(ctx, id)
	if err != nil {
		return "", err
	}
	row, err := p.subagents.core.SessionRow(ctx, p.Owner.Session)
	if err != nil {
		return "", err
	}
	known := p.subagents.secrets.Known(p.Owner.Session)
	m.By, m.Text = "agent", secretargs.MaskKnown(known, m.Text)
	m.Data, _ = secretargs.MaskKnownJSON(known, m.Data)
	// one call sends one message
	m.ID = perdure.DeriveID[perdure.TaskMessageID](row.Secret, p.Owner.Created, string(p.Owner.Session), string(p.Call))
	if task.Links.ChildSession != "" && m.InReplyTo == "" {
		return p.subagents.tellChild(ctx, task.ID, m)
	}
	return p.subagents.tasks.Send(ctx, task.ID, m)
}

// parentMessage returns a message from the parent. Messages with the same key are one message. The
// message may repeat what the parent's model has read, so it can be untrusted.
func parentMessage(child perdure.SessionID, key, text string, untrusted bool) perdure.Event {
	message := perdure.Text(text)
	message.Parts[0].Untrusted = untrusted
	message.ID = core.NewMessageID()
	return perdure.Event{Session: child, Actor: "parent",
		Fact: perdure.MessageReceived{Message: message, Mode: perdure.ModeSteer, Source: "parent",
			Key: "parent:" + key}}
}

package effect

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/internal/telemetry"
	"github.com/perdure/perdure/internal/veil"
	"github.com/perdure/perdure/store"
	"github.com/perdure/perdure/tool"
)

var _ tool.Agents = (*taskPort)(nil)

// birth is a subagent as it was asked for.
type birth struct {
	order tool.AgentOrder
	agent perdure.Agent
	task  perdure.Task // the parent's record
	spawn store.Spawn  // the handle
	child perdure.SessionID
	clean bool   // the parent's model read nothing from outside
	trace string // the traceparent of the call; empty: nobody traces it
}

// Start makes a subagent. Handle, child and the parent's record are one commit, so none of them is there without the
// others; a call that runs again finds what it made before (SA2, I9).
func (p *taskPort) Start(ctx context.Context, o tool.AgentOrder) (task perdure.Task, err error) {
	known := p.e.known(p.owner.session)
	o.Name, o.Prompt = veil.Without(known, o.Name), veil.Without(known, o.Prompt)
	o.Schema, _ = veil.WithoutJSON(known, o.Schema)
	agent, err := p.childAgent(o)
	if err != nil {
		return task, err
	}
	row, err := p.e.sessionRow(ctx, p.owner.session)
	if err != nil {
		return task, fmt.Errorf("start subagent: %w", err)
	}
	b := p.birth(o, agent, row.Secret)
	b.trace = telemetry.Parent(ctx)
	err = p.e.work.InTx(context.WithoutCancel(ctx), func(tx store.Tx) (err error) {
		task, err = p.bear(tx, b)
		return err
	})
	var refused *tool.Denied
	if err != nil && !refusedWrite(err) && !errors.As(err, &refused) { // the answer of the commit may be lost
		found := p.e.readBack(ctx, func(r store.Reader) (err error) {
			handle, err := r.Spawn(b.spawn.Key)
			if err == nil {
				task, err = r.Task(p.owner.session, handle.Task)
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
	p.e.cfg.Wake(task.Links.ChildSession)
	return task, nil
}

// childAgent is the agent that the subagent is, with no right that its parent does not have (SA6).
func (p *taskPort) childAgent(o tool.AgentOrder) (perdure.Agent, error) {
	wanted := p.owner.agent
	if o.Agent != "" {
		named, ok := p.e.cfg.Agents[o.Agent]
		if !ok {
			return wanted, &tool.Denied{Result: tool.Failf("There is no agent %q.", o.Agent)}
		}
		wanted = named
	}
	if len(o.Schema) > 0 {
		if fault := tool.CheckSchema(o.Schema); fault != "" {
			return wanted, &tool.Denied{Result: tool.Failf("result_schema is no JSON Schema: %s", fault)}
		}
	}
	parent := p.owner.agent
	if parent.Tools == nil && wanted.Tools != nil { // what must be chosen is not among all of them (TL30)
		parent.Tools = p.e.cfg.Tools.Defaults()
	}
	agent := parent.Child(wanted)
	agent.Title = o.Name
	agent.Metadata = p.owner.agent.Metadata // the host's own: its workspace, for one
	return agent, nil
}

// birth gives the subagent its derived ids: the same on every replay (N4).
func (p *taskPort) birth(o tool.AgentOrder, agent perdure.Agent, secret perdure.Secret) birth {
	key := perdure.CallKey{Session: p.owner.session, Call: p.call}
	task := spawnOrder{owner: p.owner, at: p.at, task: perdure.Task{
		Session: p.owner.session, RootSession: p.owner.root(), Kind: perdure.KindSubagent, Turn: p.turn, Call: p.call, Origin: perdure.OriginSubagent,
		DisplayName: o.Name, Class: perdure.Idempotent, Lane: perdure.Foreground, State: perdure.TaskRunning, StateDetail: "Starting",
		Attempt: 1, Executions: 1, Worker: p.e.cfg.Worker, Delivery: perdure.ToLoop, Wake: perdure.WakeContinue, Delivered: perdure.NotDelivered,
	}}.named(secret)
	if o.Background {
		task.Lane = perdure.Background
	}
	b := birth{order: o, agent: agent, clean: !p.read, task: task, child: perdure.DeriveID[perdure.SessionID](secret, p.at, string(key.Session), string(key.Call))}
	b.task.Links.ChildSession = b.child
	b.spawn = store.Spawn{
		Key: key, Root: p.owner.root(), Depth: p.owner.depth() + 1, Task: task.ID, Name: o.Name, Prompt: o.Prompt, Schema: o.Schema, Token: newToken(),
	}
	return b
}

// bear is the commit of Start.
func (p *taskPort) bear(tx store.Tx, b birth) (perdure.Task, error) {
	row, err := tx.Call(b.spawn.Key)
	if err != nil || row.State != perdure.CallRunning || row.Worker != p.e.cfg.Worker {
		return b.task, errors.Join(perdure.Lost, err) // it was settled, or another has it
	}
	if row.Task != "" { // the call is a task already: the host routed it, or it left its turn before this
		b.task.ID, b.spawn.Task = row.Task, row.Task
	}
	known, err := tx.Spawn(b.spawn.Key)
	switch {
	case err == nil && known.State != store.SpawnPending:
		return tx.Task(b.task.Session, known.Task)
	case errors.Is(err, perdure.NotFound):
		if err = p.wanted(tx, b); err == nil {
			err = p.admit(tx, b)
		}
	}
	if err != nil {
		return b.task, err
	}
	_, handle, err := tx.ClaimSpawn(b.spawn)
	if err != nil {
		return b.task, err
	}
	b.task.Tool, b.task.ArgsHash = row.Tool, row.Fingerprint
	b.task.Spec = perdure.TaskSpec{Tool: row.Tool, Arguments: row.Args, Reattachable: true, SignalOnCompletion: true}
	task, err := p.record(tx, b)
	if err != nil {
		return task, err
	}
	if err := b.makeChild(tx, p.owner); err != nil {
		return task, err
	}
	return task, tx.RegisterChild(handle.Key, handle.Token, b.child)
}

// wanted refuses a subagent that nobody wants any more: its call, which is a task by now, was canceled, or the session that
// asks was stopped. The cancel's own commit could not see it (SA11).
func (p *taskPort) wanted(tx store.Tx, b birth) error {
	late := &tool.Denied{Result: tool.Error("No subagent was started: this work was canceled.")}
	late.Result.ErrorAs = perdure.ErrorCanceled
	switch known, err := tx.Task(b.task.Session, b.task.ID); {
	case err == nil && (known.CancelRequested() || known.State.Terminal()):
		return late
	case err != nil && !errors.Is(err, perdure.NotFound):
		return err
	}
	if p.owner.lineage == nil {
		return nil
	}
	session, err := p.e.Fold(tx, p.owner.session)
	if err == nil && session.Stopped != nil {
		return late
	}
	return err
}

// admit refuses a subagent that is one too many. The count is taken in the commit that adds it (SA4, SA5).
func (p *taskPort) admit(tx store.Tx, b birth) error {
	refuse := func(what string, most, now int) error {
		return &tool.Denied{Result: tool.Failf("No subagent was started: %s is limited to %d, and it is %d.", what, most, now)}
	}
	cfg := p.e.cfg
	if b.spawn.Depth > cfg.SubagentDepth {
		return refuse("the depth of subagents", cfg.SubagentDepth, p.owner.depth())
	}
	count, err := tx.CountSpawns(b.spawn.Root)
	switch {
	case err != nil:
		return err
	case cfg.SubagentsLive > 0 && count.Live >= cfg.SubagentsLive:
		return refuse("the number of subagents at work", cfg.SubagentsLive, count.Live)
	case cfg.SubagentsTotal > 0 && count.Total >= cfg.SubagentsTotal:
		return refuse("the number of subagents in all", cfg.SubagentsTotal, count.Total)
	}
	return nil
}

// record adds the parent's record, or links the one that the call became when the host routed it.
func (p *taskPort) record(tx store.Tx, b birth) (perdure.Task, error) {
	known, err := tx.Task(b.task.Session, b.task.ID)
	if err == nil {
		change, err := p.e.updateTask(tx, known, perdure.TaskUpdate{Attempt: known.Attempt, Links: b.task.Links})
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
	events := []perdure.Event{taskEvent(b.task, perdure.TaskCreated{Task: b.task})}
	stamp(events, now)
	if err := tx.Append(b.task.Session, events); err != nil {
		return b.task, err
	}
	task, _, err := tx.CreateTask(b.task)
	return task, err
}

// makeChild adds the subagent's session with what it is asked.
func (b birth) makeChild(tx store.Tx, parent *owner) error {
	if _, err := tx.Session(b.child); !errors.Is(err, perdure.NotFound) {
		return err // it is there
	}
	of, err := tx.Session(parent.session)
	if err != nil {
		return err
	}
	now := tx.Now()
	row := store.Session{
		ID: b.child, Parent: parent.session, Root: parent.root(), Org: of.Org, User: of.User, Title: b.agent.Title, Labels: b.agent.Labels, Status: perdure.SessionStarted, CreatedAt: now, UpdatedAt: now,
	}
	rand.Read(row.Secret[:]) // never fails
	if err := tx.CreateSession(row); err != nil {
		return err
	}
	text := b.order.Prompt
	if len(b.order.Schema) > 0 {
		text += "\n\nAnswer with JSON only, which matches this schema:\n" + string(b.order.Schema)
	}
	events := []perdure.Event{
		{Session: b.child, Actor: "runtime", Fact: perdure.SessionCreated{Agent: b.agent, Lineage: &perdure.Lineage{
			Parent: parent.session, Root: parent.root(), Call: b.spawn.Key.Call, Task: b.task.ID, Depth: b.spawn.Depth,
			Payers: parent.agent.Payers(parent.lineage),
		}}},
		wordOfParent(b.child, string(b.spawn.Key.Call), text, !b.clean),
	}
	events[1].At, events[1].Trace = now, b.trace
	stamp(events, now)
	return tx.Append(b.child, events)
}

// wordOfParent is a message from the parent. The same key is one message. What the parent's model read may speak out of it.
func wordOfParent(child perdure.SessionID, key, text string, untrusted bool) perdure.Event {
	message := perdure.Text(text)
	message.Parts[0].Untrusted = untrusted
	message.ID = NewMessageID()
	return perdure.Event{Session: child, Actor: "parent", Fact: perdure.MessageReceived{Message: message, Mode: perdure.ModeSteer, Source: "parent", Key: "parent:" + key}}
}

// Await waits for a subagent's end, also while the store cannot be read. It holds none of the process's places: the
// subagent's own runs may need them, and would wait for this one.
func (p *taskPort) Await(ctx context.Context, id perdure.TaskID) (task perdure.Task, result []byte, err error) {
	for attempt := 1; ; attempt++ {
		task, result, err = p.await(ctx, id)
		switch {
		case ctx.Err() != nil && !task.State.Terminal():
			p.abandon(ctx)
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

// await waits once. While a person thinks about what the subagent asked, the clocks of the call stand still (LN3).
func (p *taskPort) await(ctx context.Context, id perdure.TaskID) (task perdure.Task, result []byte, err error) {
	_, err = p.e.waitTasks(ctx, []perdure.SessionID{p.owner.session}, func(ctx context.Context) ([]perdure.Task, bool, error) {
		now, err := p.Task(ctx, string(id))
		if err != nil {
			return nil, false, err
		}
		task = now
		if p.e.cfg.Runner.Yield(p.work(task)) {
			p.e.cfg.Freed()
		}
		if task.Waits() {
			p.e.cfg.Runner.Pause(p.work(task))
		} else {
			p.e.cfg.Runner.Resume(p.work(task))
		}
		return nil, task.State.Terminal(), nil
	})
	if err != nil || !task.State.Terminal() {
		return task, nil, err
	}
	err = p.e.cfg.Store.View(context.WithoutCancel(ctx), func(r store.Reader) error {
		handle, err := r.Spawn(perdure.CallKey{Session: p.owner.session, Call: p.call})
		result = handle.Result
		return err
	})
	return task, result, err
}

// work names the work of the call that waits for a subagent: the host may have made a task of it from the start.
func (p *taskPort) work(task perdure.Task) string {
	if task.Origin == perdure.OriginRouted {
		return string(task.ID)
	}
	return perdure.CallKey{Session: p.owner.session, Call: p.call}.String()
}

// abandon cancels a subagent whose call ended before it, while the turn waited for it, or because its time was up. One that
// goes on in the background has a cancel of its own, and the end of the runtime ends nothing.
func (p *taskPort) abandon(ctx context.Context) {
	cause := perdure.CauseOf(ctx)
	if cause == "" || cause == perdure.CauseShutdown || cause == perdure.CauseSuperseded {
		return
	}
	p.e.forsake(ctx, perdure.CallKey{Session: p.owner.session, Call: p.call}, string(cause))
}

// Tell sends a word to the parent: an outbound message of its record (TK11).
func (p *taskPort) Tell(ctx context.Context, text string) error {
	from := p.owner.lineage
	if from == nil {
		return fmt.Errorf("tell the parent: %w: the session is no subagent", perdure.Conflict)
	}
	row, err := p.e.sessionRow(ctx, p.owner.session)
	if err != nil {
		return fmt.Errorf("tell the parent: %w", err)
	}
	m := perdure.TaskMessage{Task: from.Task, Direction: perdure.Outbound, Text: veil.Without(p.e.known(p.owner.session), text)}
	m.ID = perdure.DeriveID[perdure.TaskMessageID](row.Secret, p.owner.created, string(p.owner.session), string(p.call)) // one call, one message
	err = p.e.work.InTx(context.WithoutCancel(ctx), func(tx store.Tx) error {
		task, err := tx.Task(from.Parent, from.Task)
		if err != nil {
			return err
		}
		messages, err := tx.TaskMessages(task.ID, "", 0)
		if err != nil || slices.ContainsFunc(messages, func(known perdure.TaskMessage) bool { return known.ID == m.ID }) {
			return err
		}
		if task.State.Terminal() {
			return fmt.Errorf("%w: already settled", perdure.Conflict)
		}
		m.CreatedAt = tx.Now()
		if _, err := p.e.updateTask(tx, task, perdure.TaskUpdate{Attempt: task.Attempt}, p.e.notice(task, m, "")); err != nil {
			return err
		}
		return tx.AddTaskMessage(m)
	})
	if err != nil && p.e.wasSent(ctx, from.Task, m.ID, err) {
		err = nil
	}
	if err != nil {
		return fmt.Errorf("tell the parent: %w", err)
	}
	p.e.cfg.Wake(from.Parent)
	return nil
}

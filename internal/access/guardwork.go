package access

import (
	"context"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/engine"
)

// Approvals lists the approvals of the principal's org.
func (g *Guard) Approvals(ctx context.Context, f engine.ApprovalFilter) ([]perdure.Approval, error) {
	ctx, _, _, err := g.authorizeScope(ctx, Read)
	if err != nil {
		return nil, err
	}
	list, err := g.inner.Approvals(ctx, f)
	return ownOnly(ctx, g, list, err, func(a perdure.Approval) perdure.SessionID { return a.Session })
}

// Approval returns an approval.
func (g *Guard) Approval(ctx context.Context, id perdure.ApprovalID) (perdure.Approval, error) {
	ctx, err := g.approval(ctx, Read, id)
	if err != nil {
		return perdure.Approval{}, err
	}
	return g.inner.Approval(ctx, id)
}

// DecideApproval records a person's verdict.
func (g *Guard) DecideApproval(
	ctx context.Context, id perdure.ApprovalID, v perdure.Verdict,
) (perdure.Approval, error) {
	ctx, err := g.approval(ctx, Approve, id)
	if err != nil {
		return perdure.Approval{}, err
	}
	return g.inner.DecideApproval(ctx, id, v)
}

// AnswerCall records the client's result of a call.
func (g *Guard) AnswerCall(ctx context.Context, key perdure.CallKey, by string, result perdure.ToolResult) error {
	ctx, err := g.session(ctx, Write, key.Session)
	if err != nil {
		return err
	}
	return g.inner.AnswerCall(ctx, key, by, result)
}

// DetachCall lets a running foreground call continue as a task.
func (g *Guard) DetachCall(ctx context.Context, key perdure.CallKey, by string) (perdure.Task, error) {
	ctx, err := g.session(ctx, Write, key.Session)
	if err != nil {
		return perdure.Task{}, err
	}
	return g.inner.DetachCall(ctx, key, by)
}

// Calls lists the calls of a session.
func (g *Guard) Calls(ctx context.Context, id perdure.SessionID) ([]perdure.Call, error) {
	ctx, err := g.session(ctx, Read, id)
	if err != nil {
		return nil, err
	}
	return g.inner.Calls(ctx, id)
}

// ResolveCall records a person's resolution of a call whose outcome is unknown.
func (g *Guard) ResolveCall(ctx context.Context, key perdure.CallKey, word engine.Resolution) error {
	ctx, err := g.session(ctx, Approve, key.Session)
	if err != nil {
		return err
	}
	return g.inner.ResolveCall(ctx, key, word)
}

// StartCall starts a call of a session.
func (g *Guard) StartCall(ctx context.Context, o engine.HostCallRequest) (engine.HostCall, error) {
	ctx, err := g.session(ctx, Write, o.Session)
	if err != nil {
		return engine.HostCall{}, err
	}
	return g.inner.StartCall(ctx, o)
}

// FindCall returns a call by its handle.
func (g *Guard) FindCall(ctx context.Context, key perdure.CallKey) (engine.HostCall, error) {
	ctx, err := g.session(ctx, Read, key.Session)
	if err != nil {
		return engine.HostCall{}, err
	}
	return g.inner.FindCall(ctx, key)
}

// WaitCall waits until a call of a session has ended or awaits input.
func (g *Guard) WaitCall(ctx context.Context, id perdure.SessionID, made engine.HostCall) (engine.HostCall, error) {
	var err error
	if made.Task != nil { // the engine checks that the task belongs to the session
		ctx, err = g.task(ctx, Read, made.Task.ID)
	} else {
		ctx, err = g.session(ctx, Read, id)
	}
	if err != nil {
		return made, err
	}
	return g.inner.WaitCall(ctx, id, made)
}

// AcknowledgeCall records that the caller has received the complete reply.
func (g *Guard) AcknowledgeCall(ctx context.Context, key perdure.CallKey) error {
	ctx, err := g.session(ctx, Write, key.Session)
	if err != nil {
		return err
	}
	return g.inner.AcknowledgeCall(ctx, key)
}

// Task returns a task.
func (g *Guard) Task(ctx context.Context, id perdure.TaskID) (perdure.Task, error) {
	ctx, err := g.task(ctx, Read, id)
	if err != nil {
		return perdure.Task{}, err
	}
	return g.inner.Task(ctx, id)
}

// Tasks lists the tasks of a session, or of the principal's org.
func (g *Guard) Tasks(ctx context.Context, id perdure.SessionID) ([]perdure.Task, error) {
	ctx, _, _, err := g.authorizeScope(ctx, Read)
	if err != nil {
		return nil, err
	}
	list, err := g.inner.Tasks(ctx, id)
	return ownOnly(ctx, g, list, err, func(t perdure.Task) perdure.SessionID { return t.Session })
}

// TaskLog returns output of a task.
func (g *Guard) TaskLog(ctx context.Context, id perdure.TaskID, offset int64, max int) (engine.Log, error) {
	ctx, err := g.task(ctx, Read, id)
	if err != nil {
		return engine.Log{}, err
	}
	return g.inner.TaskLog(ctx, id, offset, max)
}

// WaitTask returns when the task has ended or awaits input.
func (g *Guard) WaitTask(ctx context.Context, id perdure.TaskID) (perdure.Task, error) {
	ctx, err := g.task(ctx, Read, id)
	if err != nil {
		return perdure.Task{}, err
	}
	return g.inner.WaitTask(ctx, id)
}

// CancelTask requests the end of a task.
func (g *Guard) CancelTask(ctx context.Context, id perdure.TaskID, by, why string) (perdure.CancelReceipt, error) {
	ctx, err := g.task(ctx, Write, id)
	if err != nil {
		return perdure.CancelReceipt{}, err
	}
	return g.inner.CancelTask(ctx, id, by, why)
}

// CancelTasks requests the end of the tasks of a session.
func (g *Guard) CancelTasks(ctx context.Context, id perdure.SessionID, by, why string) (int, error) {
	ctx, err := g.session(ctx, Write, id)
	if err != nil {
		return 0, err
	}
	return g.inner.CancelTasks(ctx, id, by, why)
}

// ResolveTask records a person's resolution of a task whose outcome is unknown.
func (g *Guard) ResolveTask(ctx context.Context, id perdure.TaskID, word engine.Resolution) error {
	ctx, err := g.task(ctx, Approve, id)
	if err != nil {
		return err
	}
	return g.inner.ResolveTask(ctx, id, word)
}

// DrainReady returns the ended tasks of a session whose delivery is manual.
func (g *Guard) DrainReady(ctx context.Context, id perdure.SessionID) ([]perdure.Task, error) {
	ctx, err := g.session(ctx, Write, id)
	if err != nil {
		return nil, err
	}
	return g.inner.DrainReady(ctx, id)
}

// SetDelivery changes how the result of a live task is delivered.
func (g *Guard) SetDelivery(
	ctx context.Context, id perdure.TaskID, delivery perdure.Delivery, wake perdure.Wake,
) (perdure.Task, error) {
	ctx, err := g.task(ctx, Write, id)
	if err != nil {
		return perdure.Task{}, err
	}
	return g.inner.SetDelivery(ctx, id, delivery, wake)
}

// SendTask sends a message to a task. It cannot approve anything: an approval request accepts no
// message.
func (g *Guard) SendTask(ctx context.Context, id perdure.TaskID, m perdure.TaskMessage) (perdure.TaskMessageID, error) {
	ctx, err := g.task(ctx, Write, id)
	if err != nil {
		return "", err
	}
	return g.inner.SendTask(ctx, id, m)
}

// TaskMessages returns messages of a task.
func (g *Guard) TaskMessages(
	ctx context.Context, id perdure.TaskID, after perdure.TaskMessageID, limit int,
) ([]perdure.TaskMessage, error) {
	ctx, err := g.task(ctx, Read, id)
	if err != nil {
		return nil, err
	}
	return g.inner.TaskMessages(ctx, id, after, limit)
}

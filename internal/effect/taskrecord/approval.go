package taskrecord

import (
	"cmp"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/internal/effect/core"
	"github.com/perdure/perdure/store"
)

// ApprovalOf returns the approval request for the permissions of a task. It expires as the agent of
// its session allows.
func (rs *Records) ApprovalOf(tx store.Tx, task perdure.Task, permissions []perdure.Permission, why string) (perdure.Approval, error) {
	now := tx.Now()
	a := perdure.Approval{
		Session: task.Session, Call: task.Call, Task: task.ID, Tool: task.Tool, Args: task.Spec.Arguments,
		ArgsHash: task.ArgsHash, Class: task.Class,
		Permissions: permissions, Kind: "task", Reason: cmp.Or(permissions[0].Reason, why), Summary: task.DisplayName,
		RequestedAt: now, State: perdure.ApprovalOpen,
	}
	agent, err := core.AgentOf(tx.Reader(), task.Session)
	if expiry := rs.core.ApprovalExpiry(agent); expiry > 0 {
		a.ExpiresAt = now.Add(expiry)
	}
	return a, err
}

// VoidApprovals closes the open approvals of a task that no longer waits for them, except one.
func (rs *Records) VoidApprovals(tx store.Tx, task perdure.Task, by string, except perdure.ApprovalID) error {
	open, err := tx.Approvals().List(store.ApprovalFilter{Session: task.Session, State: perdure.ApprovalOpen, Call: task.Call})
	if err != nil {
		return err
	}
	for _, a := range open {
		if a.Task != task.ID || a.ID == except {
			continue
		}
		resolved := perdure.ApprovalResolved{Approval: a.ID, State: perdure.ApprovalVoid, By: by}
		events := []perdure.Event{{Session: a.Session, Actor: by, Call: a.Call, Task: a.Task, Fact: resolved}}
		core.Stamp(events, tx.Now())
		if err := tx.Journal().Append(a.Session, events); err != nil {
			return err
		}
		if err := tx.Approvals().Put(a.Resolved(resolved, tx.Now())); err != nil {
			return err
		}
	}
	return nil
}

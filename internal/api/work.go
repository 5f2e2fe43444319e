package api

import (
	"context"
	"encoding/json"
	"time"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/engine"
)

// workList is the list with the counts, and the id of its item.
const workList = "work"

// failedSince is for how long failed tasks count, as in ps.
const failedSince = 24 * time.Hour

// work counts the current work by what somebody has to do about it.
type work struct {
	Running  int `json:"running" doc:"Sessions with a turn, and tasks that run or are queued."`
	NeedsYou int `json:"needs_you" doc:"Open approvals, tasks that wait for an answer, and paused sessions."`
	// Approvals are part of NeedsYou.
	Approvals int `json:"approvals" doc:"Open approvals, which needs_you contains."`

	Unknown int `json:"unknown" doc:"Tasks whose outcome is unknown, and foreground calls of the newest 200 sessions."`
	Failed  int `json:"failed" doc:"Tasks that failed within the last 24 hours."`
}

// workTopic is the one row of the list work.
type workTopic struct {
	ID string `json:"id"`
	work
}

func (a *API) registerWork() {
	read(a, operation{id: "get-work", path: "/v1/work", policy: reads, summary: "Count the current work by what somebody has to do about it"},
		func(ctx context.Context, _ *struct{}) (*single[work], error) {
			now, err := a.work(ctx)
			return &single[work]{now}, err
		})
}

// work counts the current work of the caller's org.
func (a *API) work(ctx context.Context) (now work, err error) {
	open, err := a.cfg.Engine.Approvals().List(ctx, engine.ApprovalFilter{State: perdure.ApprovalOpen})
	if err != nil {
		return now, err
	}
	now.NeedsYou, now.Approvals = len(open), len(open)
	for _, status := range []perdure.SessionStatus{perdure.SessionActive, perdure.SessionPaused} {
		sessions, err := a.cfg.Engine.Sessions().ListWhere(ctx, engine.SessionFilter{Status: status})
		if err != nil {
			return now, err
		}
		if status == perdure.SessionActive {
			now.Running += len(sessions)
		} else {
			now.NeedsYou += len(sessions)
		}
	}
	counts, err := a.cfg.Engine.Tasks().Overview(ctx)
	if err != nil {
		return now, err
	}
	now.Running += counts.States[perdure.TaskQueued] + counts.States[perdure.TaskRunning]
	tasks, err := a.cfg.Engine.Tasks().ListWhere(ctx, engine.TaskQuery{
		States: []perdure.TaskState{perdure.TaskAwaitingInput, perdure.TaskUnknown, perdure.TaskFailed},
	})
	if err != nil {
		return now, err
	}
	unknown := map[perdure.SessionID]int{}
	for _, t := range tasks {
		switch {
		case t.State == perdure.TaskUnknown:
			unknown[t.Session]++
			now.Unknown++
		case t.State == perdure.TaskAwaitingInput && !t.AwaitsApproval(): // an open approval counts by itself
			now.NeedsYou++
		case t.State == perdure.TaskFailed && time.Since(t.FinishedAt) < failedSince:
			now.Failed++
		}
	}
	newest, err := a.cfg.Engine.Sessions().List(ctx, maxFeedRows)
	for _, s := range newest {
		now.Unknown += max(0, s.Unknown-unknown[s.ID]) // an unknown task has an unknown call, too
	}
	return now, err
}

// workRows reads the list work.
func (a *API) workRows(ctx context.Context) ([]row, error) {
	now, err := a.work(ctx)
	if err != nil {
		return nil, err
	}
	text, err := json.Marshal(workTopic{workList, now})
	return []row{{workList, text}}, err
}

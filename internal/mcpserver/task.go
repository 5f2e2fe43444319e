package mcpserver

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/perdure/perdure"
)

// taskParams is the union of the parameters of the task methods.
type taskParams struct {
	mcp.ParamsBase
	TaskID         string                     `json:"taskId"`
	InputResponses map[string]json.RawMessage `json:"inputResponses"`
	Cursor         string                     `json:"cursor"`
}

// taskDetail is the result of tasks/get on 2026-07-28: the task with its result or its open
// questions.
type taskDetail struct {
	mcp.ResultBase
	ResultType string `json:"resultType"`
	taskState
	Result        json.RawMessage         `json:"result,omitempty"`
	Error         *jsonrpc.Error          `json:"error,omitempty"`
	InputRequests map[string]inputRequest `json:"inputRequests,omitempty"`
}

// legacyGot is the result of tasks/get on 2025-11-25: only the state.
type legacyGot struct {
	mcp.ResultBase
	legacyState
}

// legacyPage is the result of tasks/list.
type legacyPage struct {
	mcp.ResultBase
	Tasks []legacyState `json:"tasks"`
	Next  string        `json:"nextCursor,omitempty"`
}

// ack is an empty result.
type ack struct {
	mcp.ResultBase
	ResultType string `json:"resultType,omitempty"`
}

// taskMethods registers the task methods.
func (s *Server) taskMethods() error {
	for method, answer := range map[string]func(context.Context, peer, *taskParams) (mcp.Result, error){
		methodGet: s.getTask, methodUpdate: s.updateTask, methodCancel: s.cancelTask, methodResult: s.taskResult, methodList: s.listTasks,
	} {
		err := mcp.AddReceivingCustomMethod(s.mcp, method, func(ctx context.Context, _ *mcp.ServerSession, params *taskParams) (mcp.Result, error) {
			if params == nil {
				params = &taskParams{}
			}
			p := peerOf(ctx)
			if newer := method == methodUpdate; p.modern && (method == methodResult || method == methodList) || !p.modern && newer {
				return nil, &jsonrpc.Error{Code: jsonrpc.CodeMethodNotFound, Message: method + " does not exist in this version of the protocol"}
			}
			result, err := answer(ctx, p, params)
			return result, s.rpcError(err)
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// noTask is the error for an unknown, a foreign and an expired task alike (M5).
func noTask() error {
	return &jsonrpc.Error{Code: jsonrpc.CodeInvalidParams, Message: "no such task"}
}

// findOwn finds a call by its task handle among those of the caller (M5).
func (s *Server) findOwn(ctx context.Context, p peer, id string) (trackedCall, error) {
	call, ok := callID(id)
	if !ok {
		return trackedCall{}, noTask()
	}
	session, err := s.session(ctx, p.Principal)
	if err != nil {
		return trackedCall{}, err
	}
	made, err := s.find(ctx, perdure.CallKey{Session: session, Call: call})
	switch {
	case errors.Is(err, perdure.NotFound), err == nil && made.Task == nil:
		return trackedCall{}, noTask()
	case err != nil:
		return trackedCall{}, err
	case made.Task.State.Terminal() && time.Since(made.Task.FinishedAt) > s.cfg.ResultTTL:
		return trackedCall{}, noTask()
	}
	return made, nil
}

// getTask answers tasks/get.
func (s *Server) getTask(ctx context.Context, p peer, params *taskParams) (mcp.Result, error) {
	made, err := s.findOwn(ctx, p, params.TaskID)
	if err == nil {
		made, err = s.delayPoll(ctx, made)
	}
	if err != nil {
		return nil, err
	}
	if !p.modern {
		notifier{s}.startNotifying(p, made)
		return &legacyGot{legacyState: s.legacyState(p, made)}, nil
	}
	return s.taskDetails(ctx, p, made)
}

// taskDetails returns a task with its result or its open questions.
func (s *Server) taskDetails(ctx context.Context, p peer, made trackedCall) (*taskDetail, error) {
	got := &taskDetail{ResultType: "complete", taskState: s.state(p, made)}
	switch got.Status {
	case stateCompleted:
		made, err := s.withImages(ctx, made)
		var fields json.RawMessage
		if err == nil {
			fields, err = s.resultOf(s.toolOf(*made.Task), made)
		}
		if err != nil {
			return nil, err
		}
		got.Result = fields
	case stateFailed:
		var failure *jsonrpc.Error
		if !errors.As(protocolFault(made), &failure) {
			failure = &jsonrpc.Error{Code: jsonrpc.CodeInternalError, Message: oneLine(made.Task.Summary)}
		}
		got.Error = failure
	case stateInput:
		open, err := s.openParts(ctx, *made.Task)
		if err != nil {
			return nil, err
		}
		got.InputRequests = map[string]inputRequest{}
		for _, q := range open {
			got.InputRequests[q.key] = q.request()
		}
	}
	return got, nil
}

// updateTask answers tasks/update. Values under keys that are not open questions are ignored,
// whatever they are (M6).
func (s *Server) updateTask(ctx context.Context, p peer, params *taskParams) (mcp.Result, error) {
	made, err := s.findOwn(ctx, p, params.TaskID)
	if err != nil {
		return nil, err
	}
	open, err := s.openParts(ctx, *made.Task)
	if err != nil {
		return nil, err
	}
	given := map[string]answer{}
	for _, q := range open {
		text, ok := params.InputResponses[q.key]
		if !ok {
			continue
		}
		var a answer
		if err := perdure.DecodeKnownJSON(text, &a); err != nil {
			return nil, &jsonrpc.Error{Code: jsonrpc.CodeInvalidParams, Message: fmt.Sprintf("inputResponses.%s: %v", q.key, err)}
		}
		given[q.key] = a
	}
	if err := s.answer(ctx, p, *made.Task, given); err != nil {
		return nil, err
	}
	return &ack{ResultType: "complete"}, nil
}

// cancelTask answers tasks/cancel.
func (s *Server) cancelTask(ctx context.Context, p peer, params *taskParams) (mcp.Result, error) {
	made, err := s.findOwn(ctx, p, params.TaskID)
	if err != nil {
		return nil, err
	}
	ended := made.Task.State.Terminal()
	if ended && !p.modern {
		return nil, &jsonrpc.Error{Code: jsonrpc.CodeInvalidParams, Message: "the task has already ended"}
	}
	if !ended {
		if _, err := s.cfg.Engine.Tasks().Cancel(ctx, made.Task.ID, p.ID, "tasks/cancel"); err != nil {
			return nil, err
		}
	}
	if p.modern {
		return &ack{ResultType: "complete"}, nil
	}
	if made, err = s.find(ctx, made.key); err != nil {
		return nil, err
	}
	return &legacyGot{legacyState: s.legacyState(p, made)}, nil
}

// taskResult answers tasks/result of 2025-11-25. It waits for the end of the task and passes on its
// questions in the meantime.
func (s *Server) taskResult(ctx context.Context, p peer, params *taskParams) (mcp.Result, error) {
	made, err := s.findOwn(ctx, p, params.TaskID)
	if err != nil {
		return nil, err
	}
	made.progress = params.GetMeta()["progressToken"]
	stop := s.sendProgress(ctx, p, made)
	defer stop()
	for !made.Task.State.Terminal() {
		task, err := s.cfg.Engine.Tasks().Wait(ctx, made.Task.ID)
		if err != nil {
			return nil, err
		}
		if task.AwaitsInput() {
			if err := s.elicit(ctx, p, task, params.TaskID); err != nil {
				return nil, err
			}
		}
		if made, err = s.find(ctx, made.key); err != nil {
			return nil, err
		}
	}
	if made.Task.State == perdure.TaskCanceled {
		return nil, &jsonrpc.Error{Code: jsonrpc.CodeInvalidParams, Message: "the task was cancelled"}
	}
	result, err := s.callResult(ctx, p, s.toolOf(*made.Task), made)
	if v, ok := result.(*verbatim); ok {
		v.Meta[metaRelated] = map[string]string{"taskId": params.TaskID}
	}
	return result, err
}

// pageOfTasks is the number of tasks on a page.
const pageOfTasks = 50

// listTasks answers tasks/list of 2025-11-25: the caller's tasks, newest first.
func (s *Server) listTasks(ctx context.Context, p peer, params *taskParams) (mcp.Result, error) {
	made, next, err := s.ownTasks(ctx, p, params.Cursor)
	if err != nil {
		return nil, err
	}
	page := &legacyPage{Tasks: []legacyState{}, Next: next}
	for _, m := range made {
		page.Tasks = append(page.Tasks, s.legacyState(p, m))
	}
	return page, nil
}

// ownTasks returns a page of the caller's tasks, newest first. A cursor is the handle of the last
// task of the previous page.
func (s *Server) ownTasks(ctx context.Context, p peer, cursor string) (made []trackedCall, next string, err error) {
	session, err := s.session(ctx, p.Principal)
	if err != nil {
		return nil, "", err
	}
	tasks, err := s.cfg.Engine.Tasks().List(ctx, session)
	if err != nil {
		return nil, "", err
	}
	tasks = slices.DeleteFunc(tasks, func(t perdure.Task) bool {
		return !t.ReadByCaller() || t.State.Terminal() && time.Since(t.FinishedAt) > s.cfg.ResultTTL
	})
	slices.Reverse(tasks)
	if cursor != "" {
		i := slices.IndexFunc(tasks, func(t perdure.Task) bool { return taskID(t.Call) == cursor })
		if i < 0 {
			return nil, "", &jsonrpc.Error{Code: jsonrpc.CodeInvalidParams, Message: "the cursor does not belong to this list: " + strconv.Quote(cursor)}
		}
		tasks = tasks[i+1:]
	}
	for _, t := range tasks[:min(len(tasks), pageOfTasks)] {
		m, err := s.find(ctx, perdure.CallKey{Session: session, Call: t.Call})
		if err != nil {
			return nil, "", err
		}
		if m.Task != nil {
			made = append(made, m)
		}
	}
	if len(tasks) > pageOfTasks {
		next = taskID(tasks[pageOfTasks-1].Call)
	}
	return made, next, nil
}

package api

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"

	"github.com/perdure/perdure"
)

// newDelivery is the body of a change of how a task's end comes home (DL6, DL7).
type newDelivery struct {
	Delivery perdure.Delivery `json:"delivery,omitempty" enum:"to_loop,manual" doc:"As it is when it is not said."`
	Wake     perdure.Wake     `json:"wake,omitempty" enum:"none,notify,continue" doc:"As it is when it is not said."`
}

// drain is the body of a drain: there is nothing to say.
type drain struct{}

// canceledTasks is how many tasks were asked to end.
type canceledTasks struct {
	Body struct {
		Canceled int `json:"canceled"`
	}
}

// newTaskMessage is the body of a message to a task (TK11).
type newTaskMessage struct {
	Text      string                `json:"text,omitempty"`
	Data      json.RawMessage       `json:"data,omitempty" doc:"Any JSON, beside the text or instead of it."`
	InReplyTo perdure.RequestID     `json:"in_reply_to,omitempty" doc:"The question of the task that this answers."`
	ID        perdure.TaskMessageID `json:"id,omitempty" doc:"The message's own id, for callers that mint them. The same id is one message."`
}

// inputAnswer is the body of an answer to the question that a task waits with (TK12).
type inputAnswer struct {
	ID     perdure.RequestID `json:"id" doc:"The id of the task's input_request."`
	Answer json.RawMessage   `json:"answer" doc:"Any JSON; a string is text."`
}

type sentToTask struct {
	Body struct {
		MessageID perdure.TaskMessageID `json:"message_id"`
	}
}

func (a *API) deliveryOperations() {
	missing := []int{http.StatusNotFound}
	read(a, operation{
		id: "list-task-messages", path: "/v1/tasks/{id}/messages", policy: reads, summary: "List what a task was told and has said, the oldest first", errors: missing,
	}, a.listTaskMessages)
	write(a, operation{
		id: "send-task-message", path: "/v1/tasks/{id}/messages", policy: writes, summary: "Send a task a message", errors: missing,
	}, body[newTaskMessage]{example: newTaskMessage{Text: "Leave out the drafts."}}, a.sendTaskMessage)
	write(a, operation{
		id: "answer-task", path: "/v1/tasks/{id}/input", policy: writes, summary: "Answer the question that a task waits with", errors: missing,
	}, body[inputAnswer]{example: inputAnswer{ID: "req_019aa0000000700080000000000000aa", Answer: json.RawMessage(`"yes"`)}}, a.answerTask)
	write(a, operation{
		id: "set-task-delivery", path: "/v1/tasks/{id}/delivery", policy: writes, summary: "Change how the end of a live task comes home", errors: missing,
	}, body[newDelivery]{example: newDelivery{Delivery: perdure.Manual, Wake: perdure.WakeNone}}, a.setDelivery)
	write(a, operation{
		id: "drain-tasks", path: "/v1/sessions/{id}/tasks/drain", policy: writes, summary: "Take the ended tasks that are delivered by hand, each once", errors: missing,
	}, body[drain]{optional: true}, a.drainTasks)
	write(a, operation{
		id: "cancel-tasks", path: "/v1/sessions/{id}/tasks/cancel", policy: writes, summary: "Ask for the end of every live background task of a session",
		status: http.StatusAccepted, errors: missing,
	}, body[cancellation]{example: cancellation{Reason: "not needed any more"}, optional: true}, a.cancelTasks)
}

func (a *API) listTaskMessages(ctx context.Context, in *struct {
	OfTask
	After perdure.TaskMessageID `query:"after" doc:"Only those after this one: next of the page before."`
	Limit int                   `query:"limit" minimum:"1" maximum:"200" doc:"How many items at most; 50 when it is not said."`
}) (*page[perdure.TaskMessage], error) {
	if _, err := perdure.ParseID[perdure.TaskMessageID](string(in.After)); in.After != "" && err != nil {
		return nil, invalid("query.after", "%v", err)
	}
	limit := orDefault(in.Limit, defaultPage)
	messages, err := a.cfg.Engine.TaskMessages(ctx, in.ID, in.After, limit+1)
	if err != nil {
		return nil, err
	}
	return pageOf(messages, limit, func(m perdure.TaskMessage) string { return string(m.ID) }), nil
}

func (a *API) sendTaskMessage(ctx context.Context, in *OfTask, body newTaskMessage) (*sentToTask, error) {
	if body.Text == "" && len(body.Data) == 0 {
		return nil, invalid("", "a message needs a text or data")
	}
	if _, err := perdure.ParseID[perdure.TaskMessageID](string(body.ID)); body.ID != "" && err != nil {
		return nil, invalid("/id", "%v", err)
	}
	return a.tell(ctx, in.ID, perdure.TaskMessage{ID: body.ID, Text: body.Text, Data: body.Data, InReplyTo: body.InReplyTo})
}

// answerTask answers the question. A question that says what it expects is given a text as JSON, too.
func (a *API) answerTask(ctx context.Context, in *OfTask, body inputAnswer) (*sentToTask, error) {
	switch {
	case body.ID == "":
		return nil, invalid("/id", "it is required: the id of the task's input_request")
	case len(body.Answer) == 0:
		return nil, invalid("/answer", "it is required")
	}
	m := perdure.TaskMessage{Data: body.Answer, InReplyTo: body.ID}
	if body.Answer[0] == '"' {
		if err := perdure.DecodeJSON(body.Answer, &m.Text); err != nil {
			return nil, invalid("/answer", "%v", err)
		}
		t, err := a.cfg.Engine.Task(ctx, in.ID)
		if err != nil {
			return nil, err
		}
		if t.InputRequest == nil || len(t.InputRequest.Expected) == 0 {
			m.Data = nil
		}
	}
	return a.tell(ctx, in.ID, m)
}

// tell sends a message of whoever asks.
func (a *API) tell(ctx context.Context, id perdure.TaskID, m perdure.TaskMessage) (*sentToTask, error) {
	m.By = requestOf(ctx).actor
	if m.ID == "" {
		m.ID = newID[perdure.TaskMessageID](ctx)
	}
	sent, err := a.cfg.Engine.SendTask(ctx, id, m)
	out := &sentToTask{}
	out.Body.MessageID = sent
	return out, err
}

// setDelivery changes the delivery. A request with an idempotency key that was begun before, and finds the task ended
// with what it asks for, answers with the task.
func (a *API) setDelivery(ctx context.Context, in *OfTask, body newDelivery) (*oneTask, error) {
	t, refused := a.cfg.Engine.SetDelivery(ctx, in.ID, body.Delivery, body.Wake)
	if refused == nil || !(errors.Is(refused, perdure.Conflict) && requestOf(ctx).again) {
		return &oneTask{Body: shown(t)}, refused
	}
	t, err := a.cfg.Engine.Task(ctx, in.ID)
	if err == nil && (orDefault(body.Delivery, t.Delivery) != t.Delivery || orDefault(body.Wake, t.Wake) != t.Wake) {
		err = refused
	}
	return &oneTask{Body: shown(t)}, err
}

// drainTasks takes the tasks. A request with an idempotency key that was begun before has taken some whose answer never
// came: it gets what was taken since then once more, and what is ready now.
func (a *API) drainTasks(ctx context.Context, in *OfSession, _ drain) (*page[perdure.Task], error) {
	if _, err := a.cfg.Engine.Session(ctx, in.ID); err != nil {
		return nil, err
	}
	var taken []perdure.Task
	if req := requestOf(ctx); req.again {
		tasks, err := a.cfg.Engine.Tasks(ctx, in.ID)
		if err != nil {
			return nil, err
		}
		for _, t := range tasks {
			if t.Delivered == perdure.DeliveredDrained && !t.UpdatedAt.Before(req.at) {
				taken = append(taken, t)
			}
		}
	}
	ready, err := a.cfg.Engine.DrainReady(ctx, in.ID)
	if err != nil {
		return nil, err
	}
	taken = append(taken, ready...)
	return pageOf(allShown(taken), len(taken), nil), nil
}

// cancelTasks asks for the ends. A request with an idempotency key that was begun before counts those that it asked then.
func (a *API) cancelTasks(ctx context.Context, in *OfSession, body cancellation) (*canceledTasks, error) {
	if _, err := a.cfg.Engine.Session(ctx, in.ID); err != nil {
		return nil, err
	}
	req, before := requestOf(ctx), 0
	if req.again {
		tasks, err := a.cfg.Engine.Tasks(ctx, in.ID)
		if err != nil {
			return nil, err
		}
		for _, t := range tasks {
			if t.CancelRequested() && t.CancelBy == req.actor && t.CancelWhy == body.Reason && !t.CancelRequestedAt.Before(req.at) {
				before++
			}
		}
	}
	n, err := a.cfg.Engine.CancelTasks(ctx, in.ID, req.actor, body.Reason)
	out := &canceledTasks{}
	out.Body.Canceled = before + n
	return out, err
}

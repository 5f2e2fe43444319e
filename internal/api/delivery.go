package api

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"

	"github.com/perdure/perdure"
)

// newDelivery is the body of a change of the delivery of a task (DL6, DL7).
type newDelivery struct {
	Delivery perdure.Delivery `json:"delivery,omitempty" enum:"to_loop,manual" doc:"How the result is delivered; unchanged if absent."`
	Wake     perdure.Wake     `json:"wake,omitempty" enum:"none,notify,continue" doc:"What the delivery does to an idle session; unchanged if absent."`
}

// drain is the empty body of a drain.
type drain struct{}

// canceledTasks is the number of tasks whose cancel was requested.
type canceledTasks struct {
	Body struct {
		Canceled int `json:"canceled"`
	}
}

// newTaskMessage is the body of a message to a task (TK11).
type newTaskMessage struct {
	Text      string                `json:"text,omitempty"`
	Data      json.RawMessage       `json:"data,omitempty" doc:"Any JSON, in addition to the text or instead of it."`
	InReplyTo perdure.RequestID     `json:"in_reply_to,omitempty" doc:"The id of the task's question that this message answers."`
	ID        perdure.TaskMessageID `json:"id,omitempty" doc:"The id of the message, for callers that generate ids. Messages with the same id are one message."`
}

// inputAnswer is the body of an answer to the question for which a task waits (TK12).
type inputAnswer struct {
	ID     perdure.RequestID `json:"id" doc:"The id of the task's input_request."`
	Answer json.RawMessage   `json:"answer" doc:"Any JSON; a string is sent as text."`
}

type sentToTask struct {
	Body struct {
		MessageID perdure.TaskMessageID `json:"message_id"`
	}
}

func (a deliveryHandlers) register() {
	missing := []int{http.StatusNotFound}
	read(a.API, operation{
		id: "list-task-messages", path: "/v1/tasks/{id}/messages", policy: reads, summary: "List the messages to and from a task, oldest first", errors: missing,
	}, a.listTaskMessages)
	write(a.API, operation{
		id: "send-task-message", path: "/v1/tasks/{id}/messages", policy: writes, summary: "Send a message to a task", errors: missing,
		maxBody: a.cfg.Limits.Message,
	}, body[newTaskMessage]{example: newTaskMessage{Text: "Leave out the drafts."}}, a.sendTaskMessage)
	write(a.API, operation{
		id: "answer-task", path: "/v1/tasks/{id}/input", policy: writes, summary: "Answer the question for which a task waits", errors: missing,
	}, body[inputAnswer]{example: inputAnswer{ID: "req_019aa0000000700080000000000000aa", Answer: json.RawMessage(`"yes"`)}}, a.answerTask)
	write(a.API, operation{
		id: "set-task-delivery", path: "/v1/tasks/{id}/delivery", policy: writes, summary: "Change how the result of an unfinished task is delivered", errors: missing,
	}, body[newDelivery]{example: newDelivery{Delivery: perdure.Manual, Wake: perdure.WakeNone}}, a.setDelivery)
	write(a.API, operation{
		id: "drain-tasks", path: "/v1/sessions/{id}/tasks/drain", policy: writes, summary: "Drain the results of finished tasks with manual delivery, each once", errors: missing,
	}, body[drain]{optional: true}, a.drainTasks)
	write(a.API, operation{
		id: "cancel-tasks", path: "/v1/sessions/{id}/tasks/cancel", policy: writes, class: stopsWork, summary: "Request the cancel of every unfinished background task of a session",
		status: http.StatusAccepted, errors: missing,
	}, body[cancellation]{example: cancellation{Reason: "not needed any more"}, optional: true}, a.cancelTasks)
}

func (a deliveryHandlers) listTaskMessages(ctx context.Context, in *struct {
	OfTask
	After perdure.TaskMessageID `query:"after" doc:"Only messages after this one: next of the previous page."`
	Limit int                   `query:"limit" minimum:"1" maximum:"200" doc:"The maximum number of items; default 50."`
}) (*page[perdure.TaskMessage], error) {
	if _, err := perdure.ParseID[perdure.TaskMessageID](string(in.After)); in.After != "" && err != nil {
		return nil, invalid("query.after", "%v", err)
	}
	limit := orDefault(in.Limit, defaultPage)
	messages, err := a.cfg.Engine.Tasks().Messages(ctx, in.ID, in.After, limit+1)
	if err != nil {
		return nil, err
	}
	return pageOf(messages, limit, func(m perdure.TaskMessage) string { return string(m.ID) }), nil
}

func (a deliveryHandlers) sendTaskMessage(ctx context.Context, in *OfTask, body newTaskMessage) (*sentToTask, error) {
	if body.Text == "" && len(body.Data) == 0 {
		return nil, invalid("", "text or data is required")
	}
	if _, err := perdure.ParseID[perdure.TaskMessageID](string(body.ID)); body.ID != "" && err != nil {
		return nil, invalid("/id", "%v", err)
	}
	return a.sendToTask(ctx, in.ID, perdure.TaskMessage{ID: body.ID, Text: body.Text, Data: body.Data, InReplyTo: body.InReplyTo})
}

// answerTask answers the question. If the question declares a schema for the answer, a text is sent
// as JSON, too.
func (a deliveryHandlers) answerTask(ctx context.Context, in *OfTask, body inputAnswer) (*sentToTask, error) {
	switch {
	case body.ID == "":
		return nil, invalid("/id", "required: the id of the task's input_request")
	case len(body.Answer) == 0:
		return nil, invalid("/answer", "required")
	}
	m := perdure.TaskMessage{Data: body.Answer, InReplyTo: body.ID}
	if body.Answer[0] == '"' {
		if err := perdure.DecodeJSON(body.Answer, &m.Text); err != nil {
			return nil, invalid("/answer", "%v", err)
		}
		t, err := a.cfg.Engine.Tasks().Get(ctx, in.ID)
		if err != nil {
			return nil, err
		}
		if t.InputRequest == nil || len(t.InputRequest.Expected) == 0 {
			m.Data = nil
		}
	}
	return a.sendToTask(ctx, in.ID, m)
}

// sendToTask sends a message of the caller.
func (a deliveryHandlers) sendToTask(ctx context.Context, id perdure.TaskID, m perdure.TaskMessage) (*sentToTask, error) {
	m.By = requestOf(ctx).actor
	if m.ID == "" {
		m.ID = newID[perdure.TaskMessageID](ctx)
	}
	sent, err := a.cfg.Engine.Tasks().Send(ctx, id, m)
	out := &sentToTask{}
	out.Body.MessageID = sent
	return out, err
}

// setDelivery changes the delivery. If a request with an idempotency key was started before and the
// task has since ended with the requested delivery, the response is the task.
func (a deliveryHandlers) setDelivery(ctx context.Context, in *OfTask, body newDelivery) (*single[perdure.Task], error) {
	t, refused := a.cfg.Engine.Tasks().SetDelivery(ctx, in.ID, body.Delivery, body.Wake)
	if refused == nil || !(errors.Is(refused, perdure.Conflict) && requestOf(ctx).repeated) {
		return &single[perdure.Task]{withoutWorker(t)}, refused
	}
	t, err := a.cfg.Engine.Tasks().Get(ctx, in.ID)
	if err == nil && (orDefault(body.Delivery, t.Delivery) != t.Delivery || orDefault(body.Wake, t.Wake) != t.Wake) {
		err = refused
	}
	return &single[perdure.Task]{withoutWorker(t)}, err
}

// drainTasks drains the tasks. An earlier attempt under the same idempotency key may have drained
// results without an answer. A repeated request therefore also returns the results drained since
// the first attempt.
func (a deliveryHandlers) drainTasks(ctx context.Context, in *OfSession, _ drain) (*page[perdure.Task], error) {
	if _, err := a.cfg.Engine.Sessions().Get(ctx, in.ID); err != nil {
		return nil, err
	}
	var drained []perdure.Task
	if req := requestOf(ctx); req.repeated {
		tasks, err := a.cfg.Engine.Tasks().List(ctx, in.ID)
		if err != nil {
			return nil, err
		}
		for _, t := range tasks {
			if t.Delivered == perdure.DeliveredDrained && !t.UpdatedAt.Before(req.at) {
				drained = append(drained, t)
			}
		}
	}
	ready, err := a.cfg.Engine.Tasks().Drain(ctx, in.ID)
	if err != nil {
		return nil, err
	}
	drained = append(drained, ready...)
	return pageOf(allWithoutWorker(drained), len(drained), nil), nil
}

// cancelTasks requests the cancels. A repeated request with an idempotency key also counts the
// cancels of its first attempt.
func (a deliveryHandlers) cancelTasks(ctx context.Context, in *OfSession, body cancellation) (*canceledTasks, error) {
	if _, err := a.cfg.Engine.Sessions().Get(ctx, in.ID); err != nil {
		return nil, err
	}
	req, before := requestOf(ctx), 0
	if req.repeated {
		tasks, err := a.cfg.Engine.Tasks().List(ctx, in.ID)
		if err != nil {
			return nil, err
		}
		for _, t := range tasks {
			if t.CancelRequested() && t.CancelBy == req.actor && t.CancelWhy == body.Reason && !t.CancelRequestedAt.Before(req.at) {
				before++
			}
		}
	}
	n, err := a.cfg.Engine.Tasks().CancelAll(ctx, in.ID, req.actor, body.Reason)
	out := &canceledTasks{}
	out.Body.Canceled = before + n
	return out, err
}

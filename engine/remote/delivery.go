package remote

import (
	"cmp"
	"context"
	"encoding/json"
	"net/url"

	"github.com/google/uuid"

	"github.com/perdure/perdure"
)

// CancelAll requests the end of every live background task of a session.
func (e engineTasks) CancelAll(ctx context.Context, id perdure.SessionID, by, why string) (int, error) {
	var got struct {
		Canceled int `json:"canceled"`
	}
	r := request{
		what: "cancel the tasks of " + string(id), path: "/v1/sessions/" + segment(id) + "/tasks/cancel",
		body: reasonBody{why}, actor: by,
	}
	_, err := e.call(ctx, r, &got)
	return got.Canceled, err
}

// Drain returns the ended tasks of a session whose delivery is manual. After a cut-off
// response, the retry returns the same tasks.
func (e engineTasks) Drain(ctx context.Context, id perdure.SessionID) ([]perdure.Task, error) {
	r := request{
		what: "drain what is ready of " + string(id), path: "/v1/sessions/" + segment(id) + "/tasks/drain",
		body: struct{}{},
	}
	return unpaged[perdure.Task](ctx, e.Engine, r)
}

// SetDelivery changes how the result of a live task is delivered.
func (e engineTasks) SetDelivery(
	ctx context.Context, id perdure.TaskID, d perdure.Delivery, w perdure.Wake,
) (perdure.Task, error) {
	body := struct {
		Delivery perdure.Delivery `json:"delivery,omitempty"`
		Wake     perdure.Wake     `json:"wake,omitempty"`
	}{d, w}
	return fetch[perdure.Task](ctx, e.Engine, request{
		what: "set delivery of " + string(id), path: taskPath(id) + "/delivery", body: body,
	})
}

// Send sends a message to a task. The client creates the id of a message without one, so that a
// retry sends the same message.
func (e engineTasks) Send(
	ctx context.Context, id perdure.TaskID, m perdure.TaskMessage,
) (perdure.TaskMessageID, error) {
	body := struct {
		Text      string                `json:"text,omitempty"`
		Data      json.RawMessage       `json:"data,omitempty"`
		InReplyTo perdure.RequestID     `json:"in_reply_to,omitempty"`
		ID        perdure.TaskMessageID `json:"id"`
	}{m.Text, m.Data, m.InReplyTo, m.ID}
	body.ID = cmp.Or(body.ID, perdure.FormatID[perdure.TaskMessageID](uuid.Must(uuid.NewV7())))
	var got struct {
		ID perdure.TaskMessageID `json:"message_id"`
	}
	_, err := e.call(ctx, request{
		what: "send to task " + string(id), path: taskPath(id) + "/messages", body: body, actor: m.By,
	}, &got)
	return got.ID, err
}

// Messages returns messages of a task, oldest first.
func (e engineTasks) Messages(
	ctx context.Context, id perdure.TaskID, after perdure.TaskMessageID, limit int,
) ([]perdure.TaskMessage, error) {
	r := request{
		what: "messages of task " + string(id), path: taskPath(id) + "/messages", query: url.Values{}, cursorParam: "after",
	}
	if after != "" {
		r.query.Set(r.cursorParam, string(after))
	}
	return list[perdure.TaskMessage](ctx, e.Engine, r, limit)
}

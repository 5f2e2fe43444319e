package taskrecord

import (
	"errors"
	"fmt"
	"slices"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/internal/effect/core"
	"github.com/perdure/perdure/store"
)

// MessageNotice returns the event of a message that a task sent, with the notification for the
// model.
func (rs *Records) MessageNotice(task perdure.Task, m perdure.TaskMessage, request string) perdure.TaskMessageSent {
	sent := perdure.TaskMessageSent{Message: m, Wake: task.Wake}
	if task.Delivery != perdure.ToLoop {
		return sent
	}
	text := fmt.Sprintf("Message from a background run.\n- task_id: %s\n- tool: %s\n- message: %s", task.ID, task.Tool,
		m.PlainText())
	if request != "" {
		text = fmt.Sprintf("A background run is waiting for an answer.\n- task_id: %s\n- tool: %s\n- request_id: "+
			"%s\n- question: %s", task.ID, task.Tool, request, m.PlainText())
	}
	sent.Notification = perdure.Message{ID: core.NewMessageID(), Role: perdure.RoleNotification,
		Parts: []perdure.Part{{Type: perdure.PartText, Text: text, Untrusted: true}}, At: m.CreatedAt}
	if request != "" {
		sent.Notification.Metadata = map[string]string{perdure.MetaTask: string(task.ID), perdure.MetaRequest: request}
	}
	return sent
}

// AnswerTo finds the answer to a question.
func AnswerTo(r store.Reader, id perdure.TaskID,
	request perdure.RequestID) (m perdure.TaskMessage, found bool, err error) {
	messages, err := r.Tasks().Messages(id, "", 0)
	for _, m := range messages {
		if m.Direction == perdure.Inbound && m.InReplyTo == request {
			return m, true, err
		}
	}
	return m, false, err
}

// AlreadySent reports whether a message is in the inbox already.
func AlreadySent(r store.Reader, task perdure.TaskID, id perdure.TaskMessageID) (bool, error) {
	if id == "" {
		return false, nil
	}
	messages, err := r.Tasks().Messages(task, "", 0)
	return slices.ContainsFunc(messages, func(m perdure.TaskMessage) bool { return m.ID == id }), err
}

// AddToInbox adds a message to a task's inbox. An answer lets the task continue: it runs if there
// is a slot, otherwise it queues.
func (rs *Records) AddToInbox(tx store.Tx, task perdure.Task, m perdure.TaskMessage) error {
	u := perdure.TaskUpdate{Attempt: task.Attempt}
	if m.InReplyTo != "" {
		free, _, err := rs.slotFor(tx.Reader(), task.Session)
		if err != nil && !errors.Is(err, perdure.Limit) {
			return err
		}
		u.State = perdure.TaskQueued
		if free || task.OutsideSessionSlots() {
			u.State = perdure.TaskRunning
		}
	}
	if err := tx.Tasks().AddMessage(m); err != nil {
		return err
	}
	_, err := rs.Update(tx, task, u, perdure.TaskMessageReceived{Message: m})
	return err
}

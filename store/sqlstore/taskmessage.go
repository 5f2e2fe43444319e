package sqlstore

import (
	"fmt"

	"github.com/perdure/perdure"
)

// The statements of task messages.
const (
	taskMessageRow = `INSERT INTO task_message (id, task_id, direction, body, data, in_reply_to, created_us, sent_by, position)
		VALUES ($1, $2, $3, $4, $5, $6, $7, $8, `
	taskMessagePosition   = `(SELECT COALESCE(MAX(position), 0) + 1 FROM task_message WHERE task_id = $2)`
	taskMessageOnce       = `) ON CONFLICT (id) DO NOTHING`
	insertTaskMessage     = taskMessageRow + taskMessagePosition + taskMessageOnce
	insertTaskMessageNext = taskMessageRow + positionNext + taskMessageOnce

	listTaskMessages = `SELECT id, task_id, direction, body, data, in_reply_to, created_us, sent_by FROM task_message
		WHERE task_id = $1 AND position > COALESCE((SELECT position FROM task_message WHERE task_id = $1 AND id = $2), 0)
		ORDER BY position LIMIT $3`
)

// Messages returns the messages of a task after one, oldest first.
func (tx taskStore) Messages(id perdure.TaskID, after perdure.TaskMessageID, limit int) ([]perdure.TaskMessage, error) {
	err := tx.holdTask("", id)
	var found []perdure.TaskMessage
	if err == nil {
		found, err = list(tx.Tx, scanTaskMessage, listTaskMessages, id, after, orAll(limit))
	}
	return wrapped(found, err, "list messages of task %s", id)
}

// AddMessage adds a message. It locks the session of the task, so that positions are committed
// in order: otherwise a reader that continues after a message could miss an earlier one that was
// committed later.
func (tx taskStore) AddMessage(m perdure.TaskMessage) error {
	if err := tx.holdTask("", m.Task); err != nil {
		return fmt.Errorf("add message %s to task %s: %w", m.ID, m.Task, err)
	}
	n, err := tx.exec(tx.withPosition(insertTaskMessage, insertTaskMessageNext), m.ID, m.Task, m.Direction, bytesOf(m.Text),
		bytesOf(m.Data), m.InReplyTo, micros(m.CreatedAt), bytesOf(m.By))
	if err == nil && n == 0 {
		err = fmt.Errorf("%w: it exists already", perdure.Conflict)
	}
	return wrap(err, "add message %s to task %s", m.ID, m.Task)
}

func scanTaskMessage(r row) (perdure.TaskMessage, error) {
	var m perdure.TaskMessage
	var text, data, by []byte
	var created int64
	if err := r.Scan(&m.ID, &m.Task, &m.Direction, &text, &data, &m.InReplyTo, &created, &by); err != nil {
		return perdure.TaskMessage{}, err
	}
	if len(data) > 0 {
		m.Data = data
	}
	m.Text, m.By, m.CreatedAt = string(text), string(by), moment(created)
	return m, nil
}

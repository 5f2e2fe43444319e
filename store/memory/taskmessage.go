package memory

import (
	"fmt"
	"slices"

	"github.com/perdure/perdure"
)

// Messages returns the messages of a task after the given one, oldest first.
func (v taskStore) Messages(id perdure.TaskID, after perdure.TaskMessageID, limit int) ([]perdure.TaskMessage, error) {
	inbox, _ := v.inboxes.get(string(id))
	known := slices.IndexFunc(inbox, func(m perdure.TaskMessage) bool { return m.ID == after })
	found := slices.Clone(first(inbox[known+1:], limit))
	for i := range found {
		found[i].Data = clone(found[i].Data)
	}
	return found, nil
}

func (t taskStore) AddMessage(m perdure.TaskMessage) error {
	if t.messages.has(string(m.ID)) {
		return fmt.Errorf("add message %s to task %s: %w: it exists already", m.ID, m.Task, perdure.Conflict)
	}
	m.Data, m.CreatedAt = clone(m.Data), micro(m.CreatedAt)
	inbox, _ := t.inboxes.get(string(m.Task))
	t.inboxes = t.inboxes.put(string(m.Task), append(inbox, m)) // outside of what a snapshot sees of the same array
	t.messages = t.messages.put(string(m.ID), struct{}{})
	return nil
}

package cli

import (
	"cmp"
	"context"
	"fmt"
	"strings"
	"sync"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/engine"
)

// taskMessages finds the messages that others send to a task from now on. It is safe for concurrent
// use.
type taskMessages struct {
	tasks engine.Tasks
	task  perdure.TaskID

	mu   sync.Mutex                     // held while a message is sent, whose id is not known before
	read perdure.TaskMessageID          // guarded by mu; the last message that was read; empty: none
	own  map[perdure.TaskMessageID]bool // guarded by mu; messages of this user that were not read yet
}

// newTaskMessages begins after the messages that the task has.
func newTaskMessages(ctx context.Context, tasks engine.Tasks, id perdure.TaskID) (*taskMessages, error) {
	l := &taskMessages{tasks: tasks, task: id, own: map[perdure.TaskMessageID]bool{}}
	return l, l.fromOthers(ctx, func(perdure.TaskMessage) {})
}

// fromOthers calls show for each new message to the task that this user has not sent. While a
// message is being sent, it does nothing: the next call finds all.
func (l *taskMessages) fromOthers(ctx context.Context, show func(perdure.TaskMessage)) error {
	if !l.mu.TryLock() {
		return nil
	}
	defer l.mu.Unlock()
	all, err := l.tasks.Messages(ctx, l.task, l.read, 0)
	if err != nil {
		return fmt.Errorf("read the messages of task %s: %w", l.task, err)
	}
	for _, m := range all {
		l.read = m.ID
		if m.Direction == perdure.Inbound && !l.own[m.ID] {
			show(m)
		}
		delete(l.own, m.ID)
	}
	return nil
}

// senderOf names the sender of a message to people: the user of a token, else the token itself.
func senderOf(m perdure.TaskMessage) string {
	token, user, _ := strings.Cut(m.By, " ")
	if _, err := perdure.ParseID[perdure.TokenID](token); err == nil && user != "" {
		return user
	}
	return cmp.Or(m.By, "somebody")
}

// send sends a message of this user. The engine may be another one than that which is read.
func (l *taskMessages) send(ctx context.Context, to engine.Tasks, m perdure.TaskMessage) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	id, err := to.Send(ctx, l.task, m)
	if err == nil {
		l.own[id] = true
	}
	return err
}

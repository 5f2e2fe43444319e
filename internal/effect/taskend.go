package effect

import (
	"sync"

	"github.com/perdure/perdure"
)

// taskEnds tells who waits for a task that this process has committed its end: nobody else is woken by it, and nothing has to be
// read. The zero value knows nobody. It is safe for concurrent use.
type taskEnds struct {
	mu      sync.Mutex
	waiting map[perdure.TaskID][]chan perdure.Task // guarded by mu
}

// wait returns a channel that gets the task once it has ended here, and what ends the wait.
func (t *taskEnds) wait(id perdure.TaskID) (ended <-chan perdure.Task, leave func()) {
	mine := make(chan perdure.Task, 1) // it is told once, whether or not it still waits
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.waiting == nil {
		t.waiting = map[perdure.TaskID][]chan perdure.Task{}
	}
	t.waiting[id] = append(t.waiting[id], mine)
	return mine, func() { t.leave(id, mine) }
}

func (t *taskEnds) leave(id perdure.TaskID, mine chan perdure.Task) {
	t.mu.Lock()
	defer t.mu.Unlock()
	var others []chan perdure.Task
	for _, c := range t.waiting[id] {
		if c != mine {
			others = append(others, c)
		}
	}
	if t.waiting[id] = others; len(others) == 0 {
		delete(t.waiting, id)
	}
}

// tell passes on a task that has ended; its end is committed.
func (t *taskEnds) tell(task perdure.Task) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, c := range t.waiting[task.ID] {
		c <- task
	}
	delete(t.waiting, task.ID)
}

// TaskEnd returns a channel that gets a task when an attempt of it ends in this process, after the commit of that end. What else
// ends a task, or makes it wait, is only in the journal. leave ends the wait.
func (e *Effects) TaskEnd(id perdure.TaskID) (ended <-chan perdure.Task, leave func()) {
	return e.ends.wait(id)
}

// Runs reports whether a task's work goes on in this process, so that its end will be told, if it was not just now. Work that waits
// for an answer does not.
func (e *Effects) Runs(id perdure.TaskID) bool {
	work := e.workOf(id)
	return e.cfg.Runner.Running(work) && !e.cfg.Runner.Paused(work)
}

package effect

import (
	"bytes"
	"encoding/json"
	"sync"

	"github.com/perdure/perdure"
)

// TaskEnd is a task that has ended, as it was committed.
type TaskEnd struct {
	Task   perdure.Task
	Result *perdure.ToolResult // of its call; nil: it is to be read
}

// taskEnds tells who waits for a task that this process has committed its end: nobody else is woken by it, and nothing has to be
// read. The zero value knows nobody. It is safe for concurrent use.
type taskEnds struct {
	mu      sync.Mutex
	waiting map[perdure.TaskID][]chan TaskEnd // guarded by mu
}

// wait returns a channel that gets the task once it has ended here, and what ends the wait.
func (t *taskEnds) wait(id perdure.TaskID) (ended <-chan TaskEnd, leave func()) {
	mine := make(chan TaskEnd, 1) // it is told once, whether or not it still waits
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.waiting == nil {
		t.waiting = map[perdure.TaskID][]chan TaskEnd{}
	}
	t.waiting[id] = append(t.waiting[id], mine)
	return mine, func() { t.leave(id, mine) }
}

func (t *taskEnds) leave(id perdure.TaskID, mine chan TaskEnd) {
	t.mu.Lock()
	defer t.mu.Unlock()
	var others []chan TaskEnd
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
func (t *taskEnds) tell(end TaskEnd) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, c := range t.waiting[end.Task.ID] {
		c <- end
	}
	delete(t.waiting, end.Task.ID)
}

// recorded is the result of a host's call as it would be read back from the ledger; nil: it has to be read from there.
func recorded(ended perdure.Task, unknown bool, result perdure.ToolResult) *perdure.ToolResult {
	if !ended.Taken() || unknown {
		return nil
	}
	var body bytes.Buffer
	write := json.NewEncoder(&body)
	write.SetEscapeHTML(false)
	var r perdure.ToolResult
	if write.Encode(result) != nil || json.Unmarshal(body.Bytes(), &r) != nil {
		return nil
	}
	return &r
}

// AwaitTaskEnd returns a channel that gets a task when an attempt of it ends in this process, after the commit of that end. What else
// ends a task, or makes it wait, is only in the journal. leave ends the wait.
func (e *Effects) AwaitTaskEnd(id perdure.TaskID) (ended <-chan TaskEnd, leave func()) {
	return e.ends.wait(id)
}

// Runs reports whether a task's work goes on in this process, so that its end will be told, if it was not just now. Work that waits
// for an answer does not.
func (e *Effects) Runs(id perdure.TaskID) bool {
	work := e.workOf(id)
	return e.cfg.Runner.Running(work) && !e.cfg.Runner.Paused(work)
}

package taskrun

import (
	"bytes"
	"encoding/json"
	"sync"

	"github.com/perdure/perdure"
)

// TaskEnd is a task that has ended, as committed.
type TaskEnd struct {
	Task   perdure.Task
	Result *perdure.ToolResult // of its call; nil: read it from the ledger
}

// taskEnds passes the ends of tasks to goroutines of this process that wait for them. It wakes only
// those, and they need to read nothing. The zero value has no waiters. Safe for concurrent use.
type taskEnds struct {
	mu      sync.Mutex
	waiting map[perdure.TaskID][]chan TaskEnd // guarded by mu
}

// wait returns a channel that receives the task once it has ended here, and a function that ends
// the wait.
func (t *taskEnds) wait(id perdure.TaskID) (ended <-chan TaskEnd, leave func()) {
	mine := make(chan TaskEnd, 1) // one end is sent, whether or not anybody still receives
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

// notify passes on the end of a task, which is committed.
func (t *taskEnds) notify(end TaskEnd) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, c := range t.waiting[end.Task.ID] {
		c <- end
	}
	delete(t.waiting, end.Task.ID)
}

// readBackResult returns the result of a host's call as it would be read back from the ledger; nil:
// it must be read from there.
func readBackResult(ended perdure.Task, unknown bool, result perdure.ToolResult) *perdure.ToolResult {
	if !ended.ReadByCaller() || unknown {
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

// AwaitEnd returns a channel that receives a task when an attempt of it ends in this process,
// after the commit of that end. Other ends of a task, and its questions, are only in the journal.
// Call leave to end the wait.
func (ts *Tasks) AwaitEnd(id perdure.TaskID) (ended <-chan TaskEnd, leave func()) {
	return ts.endWaiters.wait(id)
}

// IsRunning reports whether a task's work runs in this process, so that AwaitEnd will report
// its end unless it has just ended. Work that waits for an answer does not count.
func (ts *Tasks) IsRunning(id perdure.TaskID) bool {
	work := ts.records.WorkID(id)
	return ts.core.Runner.Running(work) && !ts.core.Runner.Paused(work)
}

package taskrun

import (
	"testing"

	"github.com/perdure/perdure"
)

// TestTaskEnds passes the end of a task to each waiter of that task, and keeps nothing of waiters
// that left.
func TestTaskEnds(t *testing.T) {
	t.Parallel()
	var ends taskEnds
	first, leaveFirst := ends.wait("task_1")
	second, leaveSecond := ends.wait("task_1")
	other, leaveOther := ends.wait("task_2")
	_, leaves := ends.wait("task_1")
	leaves()

	ends.notify(TaskEnd{Task: perdure.Task{ID: "task_1", State: perdure.TaskSucceeded}})
	ends.notify(TaskEnd{Task: perdure.Task{ID: "task_1", State: perdure.TaskFailed}}) // there is no waiter any more

	for _, c := range []<-chan TaskEnd{first, second} {
		if got := (<-c).Task.State; got != perdure.TaskSucceeded {
			t.Errorf("got %s, want the first end", got)
		}
	}
	select {
	case got := <-other:
		t.Errorf("a waiter of another task got %s", got.Task.ID)
	default:
	}
	leaveFirst()
	leaveSecond()
	leaveOther()
	if len(ends.waiting) > 0 {
		t.Errorf("%d tasks are kept without a waiter", len(ends.waiting))
	}
}

package effect

import (
	"testing"

	"github.com/perdure/perdure"
)

// TestTaskEnds tells each who waits of the one task, and keeps nothing of those who left.
func TestTaskEnds(t *testing.T) {
	t.Parallel()
	var ends taskEnds
	first, leaveFirst := ends.wait("task_1")
	second, leaveSecond := ends.wait("task_1")
	other, leaveOther := ends.wait("task_2")
	_, leaves := ends.wait("task_1")
	leaves()

	ends.tell(TaskEnd{Task: perdure.Task{ID: "task_1", State: perdure.TaskSucceeded}})
	ends.tell(TaskEnd{Task: perdure.Task{ID: "task_1", State: perdure.TaskFailed}}) // nobody waits any more

	for _, c := range []<-chan TaskEnd{first, second} {
		if got := (<-c).Task.State; got != perdure.TaskSucceeded {
			t.Errorf("got %s, want the first end", got)
		}
	}
	select {
	case got := <-other:
		t.Errorf("who waits for another task was told of %s", got.Task.ID)
	default:
	}
	leaveFirst()
	leaveSecond()
	leaveOther()
	if len(ends.waiting) > 0 {
		t.Errorf("%d tasks are kept, though nobody waits", len(ends.waiting))
	}
}

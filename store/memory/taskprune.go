package memory

import (
	"slices"
	"time"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/store"
)

// Prune removes the tasks that ended first, with what belongs to them.
func (t taskStore) Prune(before time.Time, limit int) ([]perdure.Task, error) {
	pinned := t.pinnedTasks()
	old := t.tasksWhere(func(r row[perdure.Task]) bool { return store.Prunable(r.value, before) && !pinned[r.value.ID] })
	slices.SortStableFunc(old, func(a, b perdure.Task) int { return a.FinishedAt.Compare(b.FinishedAt) })
	old = first(old, limit)
	gone := map[perdure.TaskID]bool{}
	for _, task := range old {
		gone[task.ID] = true
		inbox, _ := t.inboxes.get(string(task.ID))
		for _, m := range inbox {
			t.messages = t.messages.remove(string(m.ID))
		}
		t.inboxes, t.logs = t.inboxes.remove(string(task.ID)), t.logs.remove(string(task.ID))
		t.tasks = t.tasks.remove(string(task.ID))
		t.grants = t.grants.remove(grantKey(store.Work{Session: task.Session, Task: task.ID}))
	}
	for key, r := range t.deliveries.from("") { // iterates over the tree as it was before
		if gone[r.value.Task] {
			t.deliveries = t.deliveries.remove(key)
		}
	}
	for key, r := range t.approvals.from("") { // likewise
		if gone[r.value.Task] {
			t.approvals = t.approvals.remove(key)
		}
	}
	return old, nil
}

// pinnedTasks returns the tasks that stay because of other rows: an undelivered end, or an open
// approval.
func (v *tx) pinnedTasks() map[perdure.TaskID]bool {
	pinned := map[perdure.TaskID]bool{}
	for _, r := range v.deliveries.from("") {
		pinned[r.value.Task] = pinned[r.value.Task] || !r.value.Claimed
	}
	for _, r := range v.approvals.from("") {
		pinned[r.value.Task] = pinned[r.value.Task] || r.value.State == perdure.ApprovalOpen
	}
	return pinned
}

package memory

import (
	"fmt"
	"maps"
	"slices"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/store"
)

func (v taskStore) Get(session perdure.SessionID, id perdure.TaskID) (perdure.Task, error) {
	r, ok := v.tasks.get(string(id))
	if !ok || session != "" && session != r.value.Session {
		return perdure.Task{}, fmt.Errorf("task %s: %w", id, perdure.NotFound)
	}
	return cloneTask(r.value), nil
}

// List lists records in the order of their creation, or in the reverse order.
func (v taskStore) List(filter store.TaskFilter) ([]perdure.Task, error) {
	for _, s := range filter.States {
		if !s.Valid() {
			return nil, fmt.Errorf("list tasks: %w state %q", perdure.Invalid, s)
		}
	}
	var after row[perdure.Task]
	if filter.After != "" {
		known := false
		if after, known = v.tasks.get(string(filter.After)); !known {
			return nil, nil
		}
	}
	follows := func(r row[perdure.Task]) bool {
		return filter.After == "" || filter.Newest && r.position < after.position || !filter.Newest && r.position > after.position
	}
	found := v.tasksWhere(func(r row[perdure.Task]) bool {
		t := r.value
		return follows(r) && (filter.Session == "" || filter.Session == t.Session) &&
			(len(filter.States) == 0 || slices.Contains(filter.States, t.State)) &&
			(filter.Worker == "" || filter.Worker == t.Worker) &&
			(filter.ExceptWorker == "" || filter.ExceptWorker != t.Worker) &&
			(filter.Home == "" || filter.Home == t.Home) &&
			(filter.Kind == "" || filter.Kind == t.Kind)
	})
	if filter.Newest {
		slices.Reverse(found)
	}
	return first(found, filter.Limit), nil
}

func (v taskStore) Count(state perdure.TaskState, session perdure.SessionID) ([]store.TaskCount, error) {
	if !state.Valid() {
		return nil, fmt.Errorf("count tasks: %w state %q", perdure.Invalid, state)
	}
	counts := map[perdure.SessionID]*row[store.TaskCount]{}
	for _, r := range v.tasks.from("") {
		if r.value.State != state || session != "" && session != r.value.Session {
			continue
		}
		if counts[r.value.Session] == nil {
			counts[r.value.Session] = &row[store.TaskCount]{r.position, store.TaskCount{Session: r.value.Session}}
		}
		count := counts[r.value.Session]
		count.position = min(count.position, r.position)
		count.value.N++
		if r.value.OutsideSessionSlots() {
			count.value.Detached++
		}
		if r.value.Origin == perdure.OriginSubagent {
			count.value.Agents++
		}
		if r.value.Kind == perdure.KindMonitor {
			count.value.Monitors++
		}
	}
	var found []row[store.TaskCount]
	for _, count := range counts {
		found = append(found, *count)
	}
	return inOrder(found), nil
}

func (v *tx) tasksWhere(wanted func(row[perdure.Task]) bool) []perdure.Task {
	var found []row[perdure.Task]
	for _, r := range v.tasks.from("") {
		if wanted(r) {
			r.value = cloneTask(r.value)
			found = append(found, r)
		}
	}
	return inOrder(found)
}

// Create adds a record, or returns the one with its id.
func (t taskStore) Create(record perdure.Task) (perdure.Task, bool, error) {
	if !record.State.Valid() {
		return perdure.Task{}, false, fmt.Errorf("create task %s: %w state %q", record.ID, perdure.Invalid,
			record.State)
	}
	if found, err := t.Tasks().Get("", record.ID); err == nil {
		return found, false, nil
	}
	record, err := storedTask(record)
	if err != nil {
		return perdure.Task{}, false, fmt.Errorf("create task %s: %w", record.ID, err)
	}
	t.tasks = t.tasks.put(string(record.ID), row[perdure.Task]{t.nextPosition(), record})
	return cloneTask(record), true, nil
}

func (t taskStore) Update(session perdure.SessionID, id perdure.TaskID,
	u perdure.TaskUpdate) (perdure.TaskChange, error) {
	before, err := t.Tasks().Get(session, id)
	if err != nil {
		return perdure.TaskChange{}, fmt.Errorf("update: %w", err)
	}
	change, err := before.Update(u, t.now)
	if err != nil {
		return change, fmt.Errorf("update task %s: %w", id, err)
	}
	if change.Answer != perdure.Updated {
		return change, nil
	}
	record, err := storedTask(change.Task)
	if err != nil {
		return perdure.TaskChange{Task: before}, fmt.Errorf("update task %s: %w", id, err)
	}
	t.replaceTask(record)
	change.Task = cloneTask(record)
	return change, nil
}

// replaceTask replaces the record of an existing task.
func (t *tx) replaceTask(record perdure.Task) {
	r, _ := t.tasks.get(string(record.ID))
	r.value = record
	t.tasks = t.tasks.put(string(record.ID), r)
}

// storedTask returns the record as a store keeps it.
func storedTask(t perdure.Task) (perdure.Task, error) {
	t.HeartbeatAt, t.DeadlineAt, t.CancelRequestedAt = micro(t.HeartbeatAt), micro(t.DeadlineAt),
		micro(t.CancelRequestedAt)
	t.CreatedAt, t.StartedAt, t.DetachedAt = micro(t.CreatedAt), micro(t.StartedAt), micro(t.DetachedAt)
	t.FinishedAt, t.UpdatedAt = micro(t.FinishedAt), micro(t.UpdatedAt)
	return stored(t)
}

func cloneTask(t perdure.Task) perdure.Task {
	t.Spec.Arguments = clone(t.Spec.Arguments)
	if t.Progress = pointerTo(t.Progress); t.Progress != nil {
		t.Progress.Current, t.Progress.Total = pointerTo(t.Progress.Current), pointerTo(t.Progress.Total)
	}
	if t.InputRequest = pointerTo(t.InputRequest); t.InputRequest != nil {
		t.InputRequest.Expected = clone(t.InputRequest.Expected)
	}
	t.Artifacts, t.Metadata = slices.Clone(t.Artifacts), maps.Clone(t.Metadata)
	t.Error = pointerTo(t.Error)
	t.Links.Resources = slices.Clone(t.Links.Resources)
	return t
}

package memory

import (
	"fmt"
	"time"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/store"
)

func (v workerStore) Get(id perdure.WorkerID) (store.Worker, error) {
	w, ok := v.workers.get(string(id))
	if !ok {
		return store.Worker{}, fmt.Errorf("worker %s: %w", id, perdure.NotFound)
	}
	return w, nil
}

// List lists all rows, by id.
func (v workerStore) List() ([]store.Worker, error) {
	var found []store.Worker
	for _, w := range v.workers.from("") {
		found = append(found, w)
	}
	return found, nil
}

func (t workerStore) Put(w store.Worker) error {
	w.StartedAt, w.LeaseUntil = micro(w.StartedAt), micro(w.LeaseUntil)
	t.workers = t.workers.put(string(w.ID), w)
	return nil
}

func (t workerStore) Renew(id perdure.WorkerID, lease time.Duration) (store.Heartbeat, error) {
	w, ok := t.workers.get(string(id))
	if !ok {
		return store.Heartbeat{}, fmt.Errorf("heartbeat of worker %s: %w: no such worker", id, perdure.Lost)
	}
	w.LeaseUntil = micro(t.now.Add(lease))
	t.workers = t.workers.put(string(id), w)
	var beat store.Heartbeat
	beat.Tasks = t.tasksWhere(func(task perdure.Task) bool { return task.Worker == id && task.State.Live() })
	for i := range beat.Tasks {
		task := &beat.Tasks[i]
		task.HeartbeatAt = t.now
		t.replaceTask(cloneTask(*task))
		if task.CancelRequested() {
			beat.Canceled = append(beat.Canceled, task.ID)
		}
	}
	return beat, nil
}

// MarkDead removes a worker whose lease has ended.
func (t workerStore) MarkDead(id perdure.WorkerID) error {
	if w, ok := t.workers.get(string(id)); ok && !w.LeaseUntil.After(t.now) {
		t.workers = t.workers.remove(string(id))
	}
	return nil
}

// Retire takes back one take-up from the worker's sessions, and removes the worker.
func (t workerStore) Retire(id perdure.WorkerID) error {
	for key, s := range t.sessions.from("") {
		if s.Worker == id && id != "" && s.Resumes > 0 {
			s.Resumes--
			t.sessions = t.sessions.put(key, s)
		}
	}
	return t.Workers().Remove(id)
}

// Elect always succeeds: one transaction at a time writes.
func (t workerStore) Elect(string) (bool, error) { return true, nil }

// Remove removes the worker with its lease.
func (t workerStore) Remove(id perdure.WorkerID) error {
	t.workers = t.workers.remove(string(id))
	return nil
}

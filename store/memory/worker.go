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

// Disconnected lists none: the store is in this process.
func (v workerStore) Disconnected(perdure.WorkerID) ([]store.Worker, error) { return nil, nil }

func (t workerStore) Put(w store.Worker) error {
	w.StartedAt, w.LeaseUntil = micro(w.StartedAt), micro(w.LeaseUntil)
	t.workers = t.workers.put(string(w.ID), w)
	if w.Home != "" {
		h, known := t.homes.get(string(w.Home))
		if !known {
			h = store.Home{ID: w.Home, SeenAt: w.StartedAt}
		}
		h.Host = w.Host
		t.homes = t.homes.put(string(h.ID), h)
	}
	return nil
}

func (v workerStore) Home(id perdure.HomeID) (store.Home, error) {
	h, ok := v.homes.get(string(id))
	if !ok {
		return store.Home{}, fmt.Errorf("home %s: %w", id, perdure.NotFound)
	}
	return v.withWorkers(h), nil
}

// Homes lists all homes, by id.
func (v workerStore) Homes() (found []store.Home, err error) {
	for _, h := range v.homes.from("") {
		found = append(found, v.withWorkers(h))
	}
	return found, nil
}

// Granted returns the number of the last grant of a work that was used.
func (v workerStore) Granted(w store.Work) (int64, error) {
	last, _ := v.grants.get(grantKey(w))
	return last.number, nil
}

// UseGrant records that a grant is used.
func (t workerStore) UseGrant(w store.Work, by perdure.WorkerID, number int64) error {
	last, _ := t.grants.get(grantKey(w))
	if number <= 0 || number < last.number || number == last.number && by != last.by {
		return fmt.Errorf("use grant %d of %s %s: %w: a later grant was used", number, w.Session, w.Task, perdure.Lost)
	}
	t.grants = t.grants.put(grantKey(w), grant{w, by, number})
	return nil
}

// grant is the last grant of a work that was used.
type grant struct {
	work   store.Work
	by     perdure.WorkerID
	number int64
}

func grantKey(w store.Work) string { return string(w.Session) + " " + string(w.Task) }

// withWorkers adds what the leases of a home's workers say.
func (v workerStore) withWorkers(h store.Home) store.Home {
	for _, w := range v.workers.from("") {
		if w.Home == h.ID && w.LeaseUntil.After(h.SeenAt) {
			h.SeenAt = w.LeaseUntil
		}
		h.Present = h.Present || w.Home == h.ID && w.LeaseUntil.After(v.now)
	}
	return h
}

// leave records when the home of a worker was last seen.
func (t workerStore) leave(home perdure.HomeID, at time.Time) {
	if h, ok := t.homes.get(string(home)); ok && at.After(h.SeenAt) {
		h.SeenAt = at
		t.homes = t.homes.put(string(home), h)
	}
}

func (t workerStore) Renew(id perdure.WorkerID, lease time.Duration) (store.Heartbeat, error) {
	w, ok := t.workers.get(string(id))
	if !ok {
		return store.Heartbeat{}, fmt.Errorf("heartbeat of worker %s: %w: no such worker", id, perdure.Lost)
	}
	w.LeaseUntil = micro(t.now.Add(lease))
	t.workers = t.workers.put(string(id), w)
	var beat store.Heartbeat
	beat.Tasks = t.tasksWhere(func(r row[perdure.Task]) bool { return r.value.Worker == id && r.value.State.Live() })
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
		t.leave(w.Home, w.LeaseUntil)
		t.workers = t.workers.remove(string(id))
	}
	return nil
}

// MarkDisconnected does nothing, since every worker is connected.
func (t workerStore) MarkDisconnected(perdure.WorkerID, time.Time) error { return nil }

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
	if w, ok := t.workers.get(string(id)); ok {
		t.leave(w.Home, t.now)
	}
	t.workers = t.workers.remove(string(id))
	return nil
}

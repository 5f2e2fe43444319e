package storetest

import (
	"errors"
	"fmt"
	"time"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/store"
)

func workerLaws() []law {
	return []law{
		{"keeps_every_field", workerFields},
		{"replaces_the_row", replaceWorker},
		{"lists_by_id", listWorkers},
		{"is_unknown_until_put", unknownWorker},
		{"beat_moves_the_lease", beatMovesLease},
		{"beat_of_a_removed_worker_is_lost", beatLost},
		{"beat_stamps_its_live_tasks_and_nothing_else", beatStamps},
		{"beat_tells_what_is_canceled", beatCanceled},
		{"remove_again_does_nothing", removeWorker},
		{"removes_no_live_worker", removeDeadWorker},
		{"a_worker_of_an_open_store_is_connected", connectedWorker},
		{"a_role_is_had_until_the_end", electWorker},
		{"survives_reopening", workerSurvives},
		{"a_grant_is_used_once_and_in_order", grantOrder},
		{"a_grant_is_used_again_by_the_same_worker", grantAgain},
		{"a_grant_is_used_by_one_of_two_at_once", grantTogether},
		{"a_refused_transaction_uses_no_grant", grantRefused},
		{"grants_go_with_their_session_and_task", grantsRemoved},
		{"a_home_is_present_while_a_worker_of_it_lives", homePresent},
		{"a_home_was_seen_until_its_last_lease", homeSeen},
		{"a_home_stays_when_its_workers_are_gone", homeStays},
		{"a_session_keeps_its_home", sessionHome},
		{"a_session_waits_for_its_home_until_it_is_acquired_or_moved", sessionAwaitsHome},
	}
}

// newWorker returns the row of a worker whose lease has ended.
func (s *subject) newWorker() store.Worker {
	w := filled[store.Worker]()
	w.ID = mint[perdure.WorkerID](s)
	return w
}

// newStoredWorker adds a worker.
func (s *subject) newStoredWorker() store.Worker {
	s.Helper()
	w := s.newWorker()
	s.write(func(tx store.Tx) error { return tx.Workers().Put(w) })
	return w
}

// worker returns a row.
func (s *subject) worker(id perdure.WorkerID) (w store.Worker) {
	s.Helper()
	s.read(func(r store.Reader) (err error) {
		w, err = r.Workers().Get(id)
		return err
	})
	return w
}

// beat renews a lease and returns the result, with the time.
func (s *subject) beat(id perdure.WorkerID, lease time.Duration) (beat store.Heartbeat, now time.Time) {
	s.Helper()
	s.write(func(tx store.Tx) (err error) {
		now = tx.Now()
		beat, err = tx.Workers().Renew(id, lease)
		return err
	})
	return beat, now
}

func workerFields(s *subject) {
	want := s.newWorker()
	given := want
	given.LeaseUntil = want.LeaseUntil.Add(999).In(time.FixedZone("east", 5*3600))

	s.write(func(tx store.Tx) error { return tx.Workers().Put(given) })

	s.same("row", s.worker(want.ID), want)
}

func replaceWorker(s *subject) {
	for i, text := range hostile() {
		w := s.newWorker()
		s.write(func(tx store.Tx) error { return tx.Workers().Put(store.Worker{ID: w.ID}) })
		w.Host, w.BootID, w.PID = text, text, i

		s.write(func(tx store.Tx) error { return tx.Workers().Put(w) })

		s.same("row", s.worker(w.ID), w)
	}
}

// A worker stays as long as the process that added it has the store open, whatever its lease says.
// Of an unknown one nothing is known.
func connectedWorker(s *subject) {
	w, unknown := s.newStoredWorker(), mint[perdure.WorkerID](s)

	for _, id := range []perdure.WorkerID{w.ID, unknown} {
		s.read(func(r store.Reader) error {
			gone, err := r.Workers().Disconnected(id)
			s.same("disconnected", len(gone), 0)
			return err
		})
		s.write(func(tx store.Tx) error { return tx.Workers().MarkDisconnected(id, w.LeaseUntil) })
	}

	s.same("row", s.worker(w.ID), w)
}

func listWorkers(s *subject) {
	var want []store.Worker
	for i := range 3 {
		w := s.newWorker()
		w.ID = perdure.WorkerID(fmt.Sprintf("worker_%d", i))
		want = append(want, w)
	}
	s.write(func(tx store.Tx) error {
		for _, i := range []int{1, 2, 0} {
			if err := tx.Workers().Put(want[i]); err != nil {
				return err
			}
		}
		return nil
	})

	s.read(func(r store.Reader) error {
		got, err := r.Workers().List()
		s.same("rows", got, want)
		return err
	})
}

func unknownWorker(s *subject) {
	s.newStoredWorker()
	id := mint[perdure.WorkerID](s)

	s.unknown(func(r store.Reader) error { _, err := r.Workers().Get(id); return err })
}

func beatMovesLease(s *subject) {
	want, other := s.newStoredWorker(), s.newStoredWorker()
	for _, lease := range []time.Duration{10 * time.Second, time.Microsecond, time.Hour} {
		beat, now := s.beat(want.ID, lease)

		want.LeaseUntil = now.Add(lease)
		s.same("beat", beat, store.Heartbeat{})
		s.same("row", s.worker(want.ID), want)
	}
	s.same("row of another", s.worker(other.ID), other)
}

func beatLost(s *subject) {
	removed, never := s.newStoredWorker().ID, mint[perdure.WorkerID](s)
	t := s.newTask(s.session())
	t.Worker = removed
	s.create(t)
	s.write(func(tx store.Tx) error { return tx.Workers().Remove(removed) })

	for _, id := range []perdure.WorkerID{removed, never} {
		s.refused(perdure.Lost, func(tx store.Tx) error { _, err := tx.Workers().Renew(id, time.Minute); return err })
		s.unknown(func(r store.Reader) error { _, err := r.Workers().Get(id); return err })
	}

	s.same("record", s.task(t.ID), t)
}

func beatStamps(s *subject) {
	mine, other := s.newStoredWorker(), s.newStoredWorker()
	session := s.session()
	s.append(session, 2)
	row := s.row(session)
	states := []perdure.TaskState{
		perdure.TaskQueued, perdure.TaskRunning, perdure.TaskAwaitingInput, perdure.TaskSucceeded,
		perdure.TaskFailed, perdure.TaskCanceled, perdure.TaskUnknown,
	}
	var want, stamped []perdure.Task
	for i, worker := range []perdure.WorkerID{mine.ID, other.ID, ""} {
		for k, state := range states {
			t := s.newTask(session)
			t.ID = perdure.TaskID(fmt.Sprintf("task_%d%d", i, 9-k)) // the ids descend: the order is that of creation
			t.Worker, t.State, t.HeartbeatAt = worker, state, moment(5)
			want = append(want, s.create(t))
		}
	}

	beat, now := s.beat(mine.ID, time.Minute)

	for i := range want {
		if want[i].Worker == mine.ID && want[i].State.Live() {
			want[i].HeartbeatAt = now
			stamped = append(stamped, want[i])
		}
		s.same("record", s.task(want[i].ID), want[i])
	}
	s.same("beat", beat, store.Heartbeat{Tasks: stamped})
	s.same("row of the session", s.row(session), row)
	s.checkSeqs(session, 2)
}

func beatCanceled(s *subject) {
	worker := s.newStoredWorker().ID
	session := s.session()
	var ids []perdure.TaskID
	for range 4 {
		t := s.newTask(session)
		t.Worker = worker
		ids = append(ids, s.create(t).ID)
	}
	for _, i := range []int{3, 1, 2} {
		s.update(perdure.Task{ID: ids[i]}, perdure.TaskUpdate{Attempt: 1,
			Cancel: &perdure.CancelRequest{At: moment(9), By: "user"}})
	}
	s.update(perdure.Task{ID: ids[2]}, perdure.TaskUpdate{Attempt: 1, State: perdure.TaskCanceled})

	beat, _ := s.beat(worker, time.Minute)

	s.same("canceled", beat.Canceled, []perdure.TaskID{ids[1], ids[3]})
	var live []perdure.TaskID
	for _, t := range beat.Tasks {
		live = append(live, t.ID)
	}
	s.same("live", live, []perdure.TaskID{ids[0], ids[1], ids[3]})
}

func removeWorker(s *subject) {
	one, other := s.newStoredWorker(), s.newStoredWorker()

	for range 2 {
		s.write(func(tx store.Tx) error { return tx.Workers().Remove(one.ID) })
		s.unknown(func(r store.Reader) error { _, err := r.Workers().Get(one.ID); return err })
	}

	s.same("row of another", s.worker(other.ID), other)
	s.write(func(tx store.Tx) error { return tx.Workers().Put(one) })
	s.same("row once it is back", s.worker(one.ID), one)
}

func removeDeadWorker(s *subject) {
	dead, other := s.newStoredWorker(), s.newStoredWorker()
	s.beat(dead.ID, time.Hour)
	alive := s.worker(dead.ID)

	s.write(func(tx store.Tx) error { return tx.Workers().MarkDead(dead.ID) })
	s.same("row while the lease holds", s.worker(dead.ID), alive)

	s.write(func(tx store.Tx) error { // to the microsecond: until then, and no longer
		alive.LeaseUntil = tx.Now()
		return errors.Join(tx.Workers().Put(alive), tx.Workers().MarkDead(dead.ID), tx.Workers().MarkDead(dead.ID))
	})
	s.unknown(func(r store.Reader) error { _, err := r.Workers().Get(dead.ID); return err })
	s.same("row of another", s.worker(other.ID), other)
}

// electWorker gets a role in one transaction after another, even after a failed one: no role
// outlives its transaction. That only one of two concurrent transactions gets a role is a law of
// the adapters that run transactions concurrently.
func electWorker(s *subject) {
	failed := errors.New("on purpose")
	for i, end := range []error{nil, failed, nil} {
		err := s.InTx(s.ctx, func(tx store.Tx) error {
			for _, role := range []string{"scan", "scan", "another"} {
				if has, err := tx.Workers().Elect(role); err != nil || !has {
					s.Errorf("transaction %d: role %s: %v, %v", i, role, has, err)
				}
			}
			return end
		})
		if !errors.Is(err, end) {
			s.Fatal(err)
		}
	}
}

func workerSurvives(s *subject) {
	worker := s.newStoredWorker()
	t := s.newTask(s.session())
	t.Worker = worker.ID
	s.create(t)
	s.beat(worker.ID, time.Minute)
	wantWorker, wantTask := s.worker(worker.ID), s.task(t.ID)

	s.reopen()

	s.same("row", s.worker(worker.ID), wantWorker)
	s.same("record", s.task(t.ID), wantTask)
}

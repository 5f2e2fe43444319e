package storetest

import (
	"fmt"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/store"
)

func countTasks(s *subject) {
	one, other, empty := s.session(), s.session(), s.session()
	for i, session := range []perdure.SessionID{other, one, other, other} {
		t := s.newTask(session)
		// the id does not determine the order
		t.ID, t.State = perdure.TaskID(fmt.Sprintf("task_%d", 9-i)), perdure.TaskQueued
		s.create(t)
	}
	s.create(s.newTask(one)) // a running one
	s.update(perdure.Task{ID: "task_9"}, perdure.TaskUpdate{Attempt: 1, State: perdure.TaskRunning})

	for _, c := range []struct {
		state   perdure.TaskState
		session perdure.SessionID
		want    []store.TaskCount
	}{
		// other's oldest task is running
		{perdure.TaskQueued, "", []store.TaskCount{{Session: one, N: 1}, {Session: other, N: 2}}},
		{perdure.TaskRunning, "", []store.TaskCount{{Session: other, N: 1}, {Session: one, N: 1}}},
		{perdure.TaskQueued, other, []store.TaskCount{{Session: other, N: 2}}},
		{perdure.TaskQueued, empty, nil},
		{perdure.TaskFailed, "", nil},
	} {
		var got []store.TaskCount
		s.read(func(r store.Reader) (err error) {
			got, err = r.Tasks().Count(c.state, c.session)
			return err
		})
		s.same(fmt.Sprintf("%s of %q", c.state, c.session), got, c.want)
	}
	s.refused(perdure.Invalid, func(tx store.Tx) error { _, err := tx.Tasks().Count("done", ""); return err })
}

func countDetached(s *subject) {
	one, other, third := s.session(), s.session(), s.session()
	tasks := []struct {
		session perdure.SessionID
		origin  perdure.Origin
	}{
		{one, perdure.OriginSpawned}, {other, perdure.OriginDetached}, {one, perdure.OriginDetached},
		{other, perdure.OriginDetached},
		{one, perdure.OriginDetached}, {one, perdure.OriginRouted}, {third, perdure.OriginHost}, {third, ""},
		{third, "Detached"},
		{third, perdure.OriginSubagent},
	}
	var all []perdure.Task
	for _, c := range tasks {
		t := s.newTask(c.session)
		t.Origin, t.Spec.Arguments = c.origin, []byte(`{"origin":"detached","tool":"detached"}`)
		all = append(all, s.create(t))
	}
	counts := func(state perdure.TaskState, session perdure.SessionID, want ...store.TaskCount) {
		s.Helper()
		s.read(func(r store.Reader) error {
			got, err := r.Tasks().Count(state, session)
			s.same(fmt.Sprintf("%s of %q", state, session), got, want)
			return err
		})
	}

	counts(perdure.TaskRunning, "", store.TaskCount{Session: one, N: 4, Detached: 2},
		store.TaskCount{Session: other, N: 2, Detached: 2}, store.TaskCount{Session: third, N: 4, Detached: 1,
			Agents: 1})
	counts(perdure.TaskRunning, other, store.TaskCount{Session: other, N: 2, Detached: 2})
	counts(perdure.TaskRunning, third, store.TaskCount{Session: third, N: 4, Detached: 1, Agents: 1})

	for _, i := range []int{0, 1, 2} {
		s.update(all[i], perdure.TaskUpdate{Attempt: 1, State: perdure.TaskSucceeded})
	}
	s.reopen()

	counts(perdure.TaskRunning, one, store.TaskCount{Session: one, N: 2, Detached: 1})
	counts(perdure.TaskRunning, other, store.TaskCount{Session: other, N: 1, Detached: 1})
	counts(perdure.TaskSucceeded, "", store.TaskCount{Session: one, N: 2, Detached: 1},
		store.TaskCount{Session: other, N: 1, Detached: 1})
}

package storetest

import (
	"fmt"
	"strings"
	"time"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/store"
)

func taskLaws() []law {
	return []law{
		{"keeps_every_field", taskFields},
		{"cuts_moments_to_utc_microseconds", taskMoments},
		{"keeps_hostile_text_as_its_json_has_it", hostileTasks},
		{"create_again_returns_the_stored_record", createTaskAgain},
		{"creates_once_for_many", createTaskRace},
		{"refuses_a_state_that_is_none", stateThatIsNone},
		{"refuses_what_is_no_json", taskWithoutJSON},
		{"hides_a_task_from_other_sessions", foreignTask},
		{"update_applies_the_rule_of_the_root", updateApplies},
		{"update_of_an_old_attempt_changes_nothing", updateLost},
		{"update_of_an_ended_task_changes_nothing", updateSettled},
		{"update_refuses_a_forbidden_step", updateForbidden},
		{"counts_concurrent_updates", updateRace},
		{"lets_one_of_many_attempts_win", attemptRace},
		{"lists_by_filter_in_the_order_of_creation", listTasks},
		{"counts_by_state_and_session", countTasks},
		{"counts_detached_calls_among_the_others", countDetached},
		{"keeps_the_tail_of_the_output", taskTail},
		{"gives_out_copies", taskCopies},
		{"survives_reopening", taskSurvives},
	}
}

// newTask returns a running task of a new session.
func (s *subject) newTask(session perdure.SessionID) perdure.Task {
	return perdure.Task{
		ID: mint[perdure.TaskID](s), Session: session, RootSession: session, Kind: perdure.KindBackgroundTool,
		Origin: perdure.OriginSpawned, Tool: "build", Spec: perdure.TaskSpec{Tool: "build", Arguments: []byte(`{}`)},
		Class: perdure.Pure, Lane: perdure.Background, State: perdure.TaskRunning, Attempt: 1, Executions: 1,
		Worker: mint[perdure.WorkerID](s), CreatedAt: moment(0), StartedAt: moment(1), UpdatedAt: moment(2),
	}
}

// create adds a task and returns the record as stored.
func (s *subject) create(t perdure.Task) (stored perdure.Task) {
	s.Helper()
	s.write(func(tx store.Tx) (err error) {
		var created bool
		stored, created, err = tx.Tasks().Create(t)
		if !created {
			s.Errorf("task %s was not created", t.ID)
		}
		return err
	})
	return stored
}

// task returns a record, whatever its session.
func (s *subject) task(id perdure.TaskID) (t perdure.Task) {
	s.Helper()
	s.read(func(r store.Reader) (err error) {
		t, err = r.Tasks().Get("", id)
		return err
	})
	return t
}

// update applies one write to a task and returns its change, with the time of the write.
func (s *subject) update(t perdure.Task, u perdure.TaskUpdate) (change perdure.TaskChange, now time.Time) {
	s.Helper()
	s.write(func(tx store.Tx) (err error) {
		now = tx.Now()
		change, err = tx.Tasks().Update(t.Session, t.ID, u)
		return err
	})
	return change, now
}

// filledTask returns a record with every field set.
func filledTask(s *subject) perdure.Task {
	t := filled[perdure.Task]()
	t.ID, t.Session, t.State = mint[perdure.TaskID](s), s.session(), perdure.TaskRunning
	return t
}

func taskFields(s *subject) {
	want := filledTask(s)

	s.same("answer", s.create(want), want)

	s.same("record", s.task(want.ID), want)
	s.reopen()
	s.same("record once reopened", s.task(want.ID), want)
}

func taskMoments(s *subject) {
	t := filledTask(s)
	t.DeadlineAt = moment(7).Add(999).In(time.FixedZone("east", 5*3600))

	s.same("answered and stored moment", []time.Time{s.create(t).DeadlineAt, s.task(t.ID).DeadlineAt},
		[]time.Time{moment(7), moment(7)})
}

func hostileTasks(s *subject) {
	session := s.session()
	for _, words := range hostile() {
		t := s.newTask(session)
		t.DisplayName, t.Tool, t.Call, t.Summary = words, words, perdure.CallID(words), words
		t.Artifacts = []perdure.Artifact{{Name: words}}

		s.create(t)

		s.same("record", s.task(t.ID), storedTask(s, t))
	}
}

func createTaskAgain(s *subject) {
	want := s.create(s.newTask(s.session()))
	again := s.newTask(want.Session)
	again.ID, again.State = want.ID, perdure.TaskQueued

	s.write(func(tx store.Tx) error {
		stored, created, err := tx.Tasks().Create(again)
		s.same("created", created, false)
		s.same("answer", stored, want)
		return err
	})

	s.same("record", s.task(want.ID), want)
	s.same("tasks", s.tasks(store.TaskFilter{}), []perdure.TaskID{want.ID})
}

func createTaskRace(s *subject) {
	t := s.newTask(s.session())

	winner := s.race(errOnPurpose, func(i int) error {
		mine, created := t, false
		mine.Attempt = i + 1
		err := s.InTx(s.ctx, func(tx store.Tx) (err error) {
			_, created, err = tx.Tasks().Create(mine)
			return err
		})
		if err == nil && !created {
			return errOnPurpose
		}
		return err
	})

	s.same("attempt", s.task(t.ID).Attempt, winner+1)
}

func stateThatIsNone(s *subject) {
	for _, state := range []perdure.TaskState{"", "done", "RUNNING"} {
		t := s.newTask(s.session())
		t.State = state

		s.refused(perdure.Invalid, func(tx store.Tx) error { _, _, err := tx.Tasks().Create(t); return err })

		s.unknown(func(r store.Reader) error { _, err := r.Tasks().Get("", t.ID); return err })
	}
	filter := store.TaskFilter{States: []perdure.TaskState{perdure.TaskRunning, "done"}}
	s.refused(perdure.Invalid, func(tx store.Tx) error { _, err := tx.Tasks().List(filter); return err })
}

func taskWithoutJSON(s *subject) {
	broken := s.newTask(s.session())
	broken.Spec.Arguments = []byte(`{"half":`)
	want := s.create(s.newTask(broken.Session))

	s.refused(perdure.Invalid, func(tx store.Tx) error { _, _, err := tx.Tasks().Create(broken); return err })
	s.refused(perdure.Invalid, func(tx store.Tx) error {
		question := &perdure.InputRequest{ID: "req_1", Expected: []byte(`nothing`)}
		_, err := tx.Tasks().Update("", want.ID, perdure.TaskUpdate{Attempt: 1, InputRequest: question})
		return err
	})

	s.unknown(func(r store.Reader) error { _, err := r.Tasks().Get("", broken.ID); return err })
	s.same("record", s.task(want.ID), want)
}

func foreignTask(s *subject) {
	t := s.create(s.newTask(s.session()))
	other, none := s.session(), mint[perdure.TaskID](s)

	s.unknown(func(r store.Reader) error { _, err := r.Tasks().Get(other, t.ID); return err })
	s.unknown(func(r store.Reader) error { _, err := r.Tasks().Get(t.Session, none); return err })
	s.unknown(func(r store.Reader) error { _, err := r.Tasks().Get("", none); return err })
	s.refused(perdure.NotFound, func(tx store.Tx) error {
		_, err := tx.Tasks().Update(other, t.ID, perdure.TaskUpdate{Attempt: 1, Summary: "theirs"})
		return err
	})
	s.refused(perdure.NotFound, func(tx store.Tx) error {
		_, err := tx.Tasks().Update(t.Session, none, perdure.TaskUpdate{Attempt: 1})
		return err
	})

	s.same("record", s.task(t.ID), t)
	s.read(func(r store.Reader) error {
		own, err := r.Tasks().Get(t.Session, t.ID)
		s.same("record in its session", own, t)
		return err
	})
	change, _ := s.update(perdure.Task{ID: t.ID}, perdure.TaskUpdate{Attempt: 1, Summary: "ours"})
	s.same("summary by an update in any session", change.Task.Summary, "ours")
}

// everyUpdate returns updates that a running attempt 1 may make, one for each field and transition.
func everyUpdate() []perdure.TaskUpdate {
	f := filled[perdure.TaskUpdate]()
	return []perdure.TaskUpdate{
		{}, {Detail: f.Detail}, {Progress: f.Progress}, {InputRequest: f.InputRequest}, {LogBytes: 99},
		{Summary: f.Summary},
		{ResultPath: f.ResultPath}, {LogPath: f.LogPath}, {Artifacts: f.Artifacts}, {Artifacts: []perdure.Artifact{}},
		{Links: f.Links}, {Error: f.Error}, {DeadlineAt: f.DeadlineAt}, {StartsExecution: true}, {Worker: "worker_2"},
		{IncrementAttempt: true, Worker: "worker_2", State: perdure.TaskQueued},
		{IncrementAttempt: true, Worker: "worker_2", StartsExecution: true},
		{Cancel: f.Cancel}, {Delivered: perdure.DeliveredRead}, {State: perdure.TaskRunning},
		{State: perdure.TaskSucceeded, Summary: f.Summary},
		{State: perdure.TaskFailed, Error: f.Error, LogBytes: 7}, {State: perdure.TaskCanceled},
		{State: perdure.TaskUnknown},
	}
}

func updateApplies(s *subject) {
	for _, u := range everyUpdate() {
		u.Attempt = 1
		t := filledTask(s)
		t.Attempt, t.FinishedAt, t.CancelRequestedAt = 1, time.Time{}, time.Time{}
		before := s.create(t)

		got, now := s.update(before, u)

		want, err := before.Update(u, now)
		if err != nil {
			s.Fatal(err)
		}
		s.same(fmt.Sprintf("answer to %+v", u), got, want)
		s.same(fmt.Sprintf("record after %+v", u), s.task(t.ID), want.Task)
	}
	ended := s.newTask(s.session())
	ended.State = perdure.TaskUnknown
	s.create(ended)
	for _, u := range []perdure.TaskUpdate{
		{Attempt: 1, Summary: "filled in", Delivered: perdure.DeliveredInjected,
			Artifacts: []perdure.Artifact{{Name: "late"}}},
		{Attempt: 1, State: perdure.TaskQueued, Rerun: true, IncrementAttempt: true, Worker: "worker_2"},
	} {
		before := s.task(ended.ID)

		got, now := s.update(before, u)

		want, err := before.Update(u, now)
		if err != nil {
			s.Fatal(err)
		}
		s.same(fmt.Sprintf("answer to %+v", u), got, want)
		s.same(fmt.Sprintf("record after %+v", u), s.task(ended.ID), want.Task)
	}
}

func updateLost(s *subject) {
	t := filledTask(s)
	t.Attempt = 3
	want := s.create(t)
	for _, u := range everyUpdate() {
		for _, attempt := range []int{0, 2, 4} {
			u.Attempt = attempt
			got, _ := s.update(want, u)
			s.same("answer", got, perdure.TaskChange{Task: want, Answer: perdure.UpdateLost, CancelRequested: true})
		}
	}
	s.same("record", s.task(t.ID), want)
}

func updateSettled(s *subject) {
	for _, state := range []perdure.TaskState{perdure.TaskSucceeded, perdure.TaskFailed, perdure.TaskCanceled,
		perdure.TaskUnknown} {
		t := filledTask(s)
		t.Attempt, t.State = 1, state
		want := s.create(t)
		for _, to := range []perdure.TaskState{perdure.TaskRunning, perdure.TaskQueued, perdure.TaskFailed,
			perdure.TaskSucceeded} {
			if to == state {
				continue
			}
			u := filled[perdure.TaskUpdate]()
			u.Attempt, u.State, u.Rerun, u.Resolve = 1, to, false, false

			got, _ := s.update(want, u)

			s.same("answer", got, perdure.TaskChange{Task: want, Answer: perdure.UpdateSettled, CancelRequested: true})
		}
		s.same("record", s.task(t.ID), want)
	}
}

func updateForbidden(s *subject) {
	t := s.newTask(s.session())
	t.State = perdure.TaskQueued
	want := s.create(t)
	for _, u := range []perdure.TaskUpdate{
		{State: perdure.TaskSucceeded, Summary: "too early"}, {State: "done", Detail: "no state"},
	} {
		u.Attempt = 1
		s.refused(perdure.Conflict, func(tx store.Tx) error { _, err := tx.Tasks().Update(t.Session, t.ID, u); return err })

		s.write(func(tx store.Tx) error { // a transaction may continue after it
			_, _ = tx.Tasks().Update(t.Session, t.ID, u)
			return nil
		})
	}
	s.same("record", s.task(t.ID), want)
}

func updateRace(s *subject) {
	t := s.create(s.newTask(s.session()))

	s.together(nParallel, func(int) error {
		return s.InTx(s.ctx, func(tx store.Tx) error {
			_, err := tx.Tasks().Update(t.Session, t.ID, perdure.TaskUpdate{Attempt: 1, StartsExecution: true})
			return err
		})
	})

	s.same("executions", s.task(t.ID).Executions, 1+nParallel)
}

func attemptRace(s *subject) {
	t := s.create(s.newTask(s.session()))

	winner := s.race(errOnPurpose, func(i int) error {
		var change perdure.TaskChange
		u := perdure.TaskUpdate{Attempt: 1, IncrementAttempt: true, State: perdure.TaskQueued,
			Worker: perdure.WorkerID(fmt.Sprint(i))}
		err := s.InTx(s.ctx, func(tx store.Tx) (err error) {
			change, err = tx.Tasks().Update(t.Session, t.ID, u)
			return err
		})
		if err == nil && change.Answer == perdure.UpdateLost {
			return errOnPurpose
		}
		return err
	})

	got := s.task(t.ID)
	s.same("attempt and worker", []any{got.Attempt, got.Worker}, []any{2, perdure.WorkerID(fmt.Sprint(winner))})
}

// tasks returns the ids of a list.
func (s *subject) tasks(filter store.TaskFilter) (ids []perdure.TaskID) {
	s.Helper()
	s.read(func(r store.Reader) error {
		tasks, err := r.Tasks().List(filter)
		for _, t := range tasks {
			ids = append(ids, t.ID)
		}
		return err
	})
	return ids
}

func listTasks(s *subject) {
	one, other := s.session(), s.session()
	states := []perdure.TaskState{
		perdure.TaskQueued, perdure.TaskRunning, perdure.TaskAwaitingInput, perdure.TaskSucceeded,
		perdure.TaskFailed, perdure.TaskCanceled, perdure.TaskUnknown,
	}
	var all []perdure.TaskID
	for i, state := range states {
		t := s.newTask([]perdure.SessionID{one, other}[i%2])
		t.State, t.Worker, t.Kind = state, []perdure.WorkerID{"worker_1", "worker_2", ""}[i%3], perdure.KindMonitor
		t.ID, t.CreatedAt = perdure.TaskID(fmt.Sprintf("task_%d", 9-i)), moment(9-i) // neither determines the order
		t.Home = []perdure.HomeID{"home_1", ""}[i%2]
		if i < 4 {
			t.Kind = perdure.KindBackgroundTool
		}
		all = append(all, s.create(t).ID)
	}
	s.update(perdure.Task{ID: all[1]}, perdure.TaskUpdate{Attempt: 1, Detail: "keeps its place"})
	pick := func(places ...int) (picked []perdure.TaskID) {
		for _, i := range places {
			picked = append(picked, all[i])
		}
		return picked
	}
	cases := []struct {
		filter store.TaskFilter
		want   []perdure.TaskID
	}{
		{store.TaskFilter{}, all},
		{store.TaskFilter{Session: one}, pick(0, 2, 4, 6)},
		{store.TaskFilter{Session: mint[perdure.SessionID](s)}, nil},
		{store.TaskFilter{States: states}, all},
		{store.TaskFilter{States: states[:3]}, pick(0, 1, 2)},
		{store.TaskFilter{States: []perdure.TaskState{perdure.TaskUnknown, perdure.TaskRunning, perdure.TaskUnknown}},
			pick(1, 6)},
		{store.TaskFilter{Worker: "worker_1"}, pick(0, 3, 6)},
		{store.TaskFilter{Worker: "worker_2", States: states[:3]}, pick(1)},
		{store.TaskFilter{ExceptWorker: "worker_1"}, pick(1, 2, 4, 5)},
		{store.TaskFilter{ExceptWorker: "worker_2", States: states[:3]}, pick(0, 2)},
		{store.TaskFilter{Home: "home_1", States: states[:3]}, pick(0, 2)},
		{store.TaskFilter{Kind: perdure.KindMonitor}, pick(4, 5, 6)},
		{store.TaskFilter{Session: other, Kind: perdure.KindMonitor}, pick(5)},
		{store.TaskFilter{Session: one, States: states[4:], Worker: "worker_1", Kind: perdure.KindMonitor}, pick(6)},
		{store.TaskFilter{Limit: 3}, all[:3]},
		{store.TaskFilter{Session: other, Limit: 2}, pick(1, 3)},
		{store.TaskFilter{Limit: 99}, all},
		{store.TaskFilter{Newest: true}, pick(6, 5, 4, 3, 2, 1, 0)},
		{store.TaskFilter{Newest: true, Limit: 2}, pick(6, 5)},
		{store.TaskFilter{Newest: true, Session: one, Limit: 3}, pick(6, 4, 2)},
		{store.TaskFilter{Newest: true, States: states[:3], Limit: 2}, pick(2, 1)},
		{store.TaskFilter{Newest: true, States: states[:1]}, pick(0)},
		{store.TaskFilter{Newest: true, After: all[3]}, pick(2, 1, 0)},
		{store.TaskFilter{Newest: true, After: all[2], States: states[:3], Limit: 1}, pick(1)},
		{store.TaskFilter{Newest: true, After: all[5], Session: one}, pick(4, 2, 0)},
		{store.TaskFilter{Newest: true, After: all[0]}, nil},
		{store.TaskFilter{After: all[3]}, pick(4, 5, 6)},
		{store.TaskFilter{After: all[1], Limit: 2}, pick(2, 3)},
		{store.TaskFilter{After: all[0], States: states[:3]}, pick(1, 2)},
		{store.TaskFilter{After: all[6]}, nil},
		{store.TaskFilter{After: mint[perdure.TaskID](s)}, nil},
		{store.TaskFilter{Newest: true, After: mint[perdure.TaskID](s)}, nil},
	}
	for _, c := range cases {
		s.same(fmt.Sprintf("%+v", c.filter), s.tasks(c.filter), c.want)
	}
}

func taskTail(s *subject) {
	t := s.newTask(s.session())
	t.Tail = "[stdout] of the first attempt"
	want := s.create(t)
	s.same("tail", s.task(t.ID).Tail, t.Tail)

	for _, tail := range []string{"[stderr] line\r\n\x1b[31m日本語 <&> \\n", strings.Repeat("🙂", 2_048)} {
		change, _ := s.update(want, perdure.TaskUpdate{Attempt: 1, Tail: tail, LogBytes: 9})

		s.same("tail that is answered", change.Task.Tail, tail)
		s.same("record", s.task(t.ID), change.Task)
		s.same("tail", s.task(t.ID).Tail, tail)
	}
	want = s.task(t.ID)
	s.update(want, perdure.TaskUpdate{Attempt: 1, State: perdure.TaskSucceeded})

	s.reopen()

	s.same("tail once it ended", s.task(t.ID).Tail, want.Tail)
}

func taskCopies(s *subject) {
	given, want := filledTask(s), filled[perdure.Task]() // equal, but without shared memory
	want.ID, want.Session, want.State = given.ID, given.Session, given.State

	scribble(s.create(given), given, s.task(want.ID))
	u := perdure.TaskUpdate{Attempt: want.Attempt, Progress: filled[perdure.TaskUpdate]().Progress}
	u.Progress.Label = "half way"
	change, _ := s.update(want, u)
	want.Progress, want.UpdatedAt = new(*u.Progress), change.Task.UpdatedAt
	want.Progress.Current, want.Progress.Total = new(*u.Progress.Current), new(*u.Progress.Total)
	scribble(u, change)
	s.read(func(r store.Reader) error {
		tasks, err := r.Tasks().List(store.TaskFilter{})
		scribble(tasks)
		return err
	})
	s.write(func(tx store.Tx) error {
		stored, _, err := tx.Tasks().Create(s.newTask(want.Session))
		scribble(stored)
		if err == nil {
			stored, _, err = tx.Tasks().Create(want)
			scribble(stored)
		}
		return err
	})

	s.same("record", s.task(want.ID), want)
}

func taskSurvives(s *subject) {
	t := s.create(s.newTask(s.session()))
	other := s.create(s.newTask(t.Session))
	s.update(t, perdure.TaskUpdate{Attempt: 1, State: perdure.TaskSucceeded, Summary: "done"})
	want := s.task(t.ID)

	s.reopen()

	s.same("record", s.task(t.ID), want)
	s.same("order", s.tasks(store.TaskFilter{}), []perdure.TaskID{t.ID, other.ID})
	third := s.create(s.newTask(t.Session))
	s.same("order after", s.tasks(store.TaskFilter{}), []perdure.TaskID{t.ID, other.ID, third.ID})
}

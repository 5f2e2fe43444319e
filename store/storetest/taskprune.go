package storetest

import (
	"errors"
	"fmt"
	"time"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/store"
)

func taskPruneLaws() []law {
	return []law{
		{"forgets_the_oldest_ends_in_batches", pruneOldEnds},
		{"forgets_what_is_older_than_the_moment", pruneEndsByAge},
		{"forgets_every_state_that_says_its_end", pruneStates},
		{"leaves_what_lives_or_is_unknown", pruneLeavesStates},
		{"leaves_what_has_to_come_home", pruneLeavesUndelivered},
		{"leaves_what_has_an_open_approval", pruneLeavesOpenApprovals},
		{"meets_what_may_go_behind_much_that_may_not", pruneBehindOthers},
		{"forgets_an_end_that_came_with_an_update", pruneAfterUpdate},
		{"forgets_what_belongs_to_the_task", pruneBelongings},
		{"leaves_what_belongs_to_others", pruneLeavesOthers},
		{"leaves_the_ledger_and_the_handles", pruneLeavesLedger},
		{"begins_a_pruned_task_anew", createPruned},
		{"goes_with_its_transaction", pruneAndOthers},
		{"survives_reopening", pruneSurvives},
	}
}

// endedTask adds a prunable task that ended at moment(n).
func (s *subject) endedTask(session perdure.SessionID, n int) perdure.Task {
	s.Helper()
	t := s.newTask(session)
	t.State, t.FinishedAt = perdure.TaskSucceeded, moment(n)
	return s.create(t)
}

// pruneTasks prunes tasks and returns their records.
func (s *subject) pruneTasks(before time.Time, limit int) (gone []perdure.Task) {
	s.Helper()
	s.write(func(tx store.Tx) (err error) {
		gone, err = tx.Tasks().Prune(before, limit)
		return err
	})
	return gone
}

// records returns all tasks.
func (s *subject) records() (found []perdure.Task) {
	s.Helper()
	s.read(func(r store.Reader) (err error) {
		found, err = r.Tasks().List(store.TaskFilter{})
		return err
	})
	return found
}

func pruneOldEnds(s *subject) {
	one, other := s.session(), s.session()
	a, b, c, d, e := s.endedTask(one, 30), s.endedTask(other, 10), s.endedTask(one, 20), s.endedTask(one, 10),
		s.endedTask(other, 40)

	// at the same moment, the one created first
	s.same("the first two", s.pruneTasks(moment(99), 2), []perdure.Task{b, d})
	s.same("left", s.records(), []perdure.Task{a, c, e})
	s.same("the next", s.pruneTasks(moment(99), 1), []perdure.Task{c})
	s.same("the others", s.pruneTasks(moment(99), 0), []perdure.Task{a, e})
	s.same("none", s.pruneTasks(moment(99), 0), []perdure.Task(nil))
	s.same("left at last", s.records(), []perdure.Task(nil))
}

func pruneEndsByAge(s *subject) {
	t, younger := s.endedTask(s.session(), 10), s.endedTask(s.session(), 11)

	for _, before := range []time.Time{{}, t.FinishedAt.Add(-time.Hour), t.FinishedAt, t.FinishedAt.Add(999)} {
		s.same("before "+before.String(), s.pruneTasks(before, 0), []perdure.Task(nil))
	}

	s.same("in another zone", s.pruneTasks(younger.FinishedAt.In(time.FixedZone("east", 5*3600)), 0), []perdure.Task{t})
	s.same("left", s.records(), []perdure.Task{younger})
}

func pruneStates(s *subject) {
	session := s.session()
	var want []perdure.Task
	for i, state := range []perdure.TaskState{perdure.TaskSucceeded, perdure.TaskFailed, perdure.TaskCanceled} {
		for j, home := range []perdure.Delivered{perdure.DeliveredInjected, perdure.DeliveredRead,
			perdure.DeliveredDrained, perdure.NotDelivered} {
			t := s.newTask(session)
			t.State, t.FinishedAt, t.Delivered, t.Delivery = state, moment(10*i+j), home, perdure.ToLoop
			if home == perdure.NotDelivered {
				t.Delivery = perdure.Manual
			}
			want = append(want, s.create(t))
		}
	}

	s.same("gone", s.pruneTasks(moment(99), 0), want)
	s.same("left", s.records(), []perdure.Task(nil))
}

func pruneLeavesStates(s *subject) {
	session := s.session()
	states := []perdure.TaskState{perdure.TaskQueued, perdure.TaskRunning, perdure.TaskAwaitingInput,
		perdure.TaskUnknown}
	var want []perdure.Task
	for _, state := range states {
		t := s.newTask(session)
		// the rerun of a resolved task may be unknown again
		t.State, t.FinishedAt, t.ResolvedAt = state, moment(1), moment(1)
		want = append(want, s.create(t))
	}
	endless := s.newTask(session) // without an end time
	endless.State = perdure.TaskFailed
	want = append(want, s.create(endless))

	s.same("gone", s.pruneTasks(moment(99), 0), []perdure.Task(nil))
	s.same("left", s.records(), want)

	// an operator resolved it
	s.update(want[3], perdure.TaskUpdate{Attempt: 1, State: perdure.TaskSucceeded, Resolve: true})
	s.same("the one that was unknown", len(s.pruneTasks(moment(99), 0)), 1)
	s.unknown(func(r store.Reader) error { _, err := r.Tasks().Get("", want[3].ID); return err })
}

func pruneLeavesUndelivered(s *subject) {
	session := s.session()
	waits := s.newTask(session)
	waits.State, waits.FinishedAt, waits.Delivery, waits.Delivered = perdure.TaskFailed, moment(1), perdure.ToLoop,
		perdure.NotDelivered
	waits = s.create(waits)
	undelivered := s.newTask(session)
	undelivered.State, undelivered.FinishedAt, undelivered.Delivery = perdure.TaskFailed, moment(2), perdure.ToLoop
	undelivered = s.create(undelivered)
	inOutbox, claimedOnce := s.endedTask(session, 3), s.endedTask(session, 4)
	s.deliver(ended(session, inOutbox.ID, 1, perdure.TaskSucceeded),
		ended(session, claimedOnce.ID, 1, perdure.TaskUnknown))
	s.claimDeliveriesOf(session, claimedOnce.ID)
	s.deliver(ended(session, claimedOnce.ID, 1, perdure.TaskSucceeded)) // after a resolve
	want := s.records()

	s.same("gone", s.pruneTasks(moment(99), 0), []perdure.Task(nil))
	s.same("left", s.records(), want)

	s.update(waits, perdure.TaskUpdate{Attempt: 1, Delivered: perdure.DeliveredInjected})
	s.update(undelivered, perdure.TaskUpdate{Attempt: 1, Delivered: perdure.DeliveredDrained})
	s.claimDeliveriesOf(session, inOutbox.ID)
	s.same("gone once they were delivered", len(s.pruneTasks(moment(99), 0)), 3)
	s.same("left at last", s.records(), []perdure.Task{claimedOnce})
}

func pruneLeavesOpenApprovals(s *subject) {
	t := s.endedTask(s.session(), 1)
	before, open, after := s.newApproval(t.Session), s.newApproval(t.Session), s.newApproval(t.Session)
	before.State, after.State = perdure.ApprovalDenied, perdure.ApprovalApproved
	before.Task, open.Task, after.Task = t.ID, t.ID, t.ID
	for _, a := range []perdure.Approval{before, open, after} {
		early := a
		early.Task = "task_other"
		s.ask(early) // the last record counts
		s.ask(a)
	}

	s.same("gone", s.pruneTasks(moment(99), 0), []perdure.Task(nil))
	s.same("left", s.records(), []perdure.Task{t})

	open.State = perdure.ApprovalVoid
	s.ask(open)
	s.same("gone once it is closed", s.pruneTasks(moment(99), 0), []perdure.Task{t})
}

// More tasks that must stay than fit into a page: prunable tasks after them are still found.
func pruneBehindOthers(s *subject) {
	session := s.session()
	var kept []perdure.Task
	s.write(func(tx store.Tx) error {
		for i := range 250 {
			t := s.newTask(session)
			t.State, t.FinishedAt, t.Delivery, t.Delivered = perdure.TaskFailed, moment(1), perdure.ToLoop,
				perdure.NotDelivered
			if i%2 == 0 {
				t.State = perdure.TaskUnknown
			}
			t, _, err := tx.Tasks().Create(t)
			if err != nil {
				return err
			}
			kept = append(kept, t)
		}
		return nil
	})
	behind := []perdure.Task{s.endedTask(session, 2), s.endedTask(session, 3)}

	s.same("first", s.pruneTasks(moment(99), 1), behind[:1])
	s.same("second", s.pruneTasks(moment(99), 1), behind[1:])
	s.same("none", s.pruneTasks(moment(99), 1), []perdure.Task(nil))
	s.same("left", s.records(), kept)
}

// The end is when the update made it, and a task that is run again has none until it ends again.
func pruneAfterUpdate(s *subject) {
	t := s.create(s.newTask(s.session()))
	_, now := s.update(t, perdure.TaskUpdate{Attempt: 1, State: perdure.TaskUnknown})
	_, again := s.update(t, perdure.TaskUpdate{Attempt: 1, State: perdure.TaskQueued, Rerun: true,
		IncrementAttempt: true})
	s.same("gone while it runs again", s.pruneTasks(again.Add(time.Hour), 0), []perdure.Task(nil))
	s.later(now)

	change, end := s.update(t, perdure.TaskUpdate{Attempt: 2, State: perdure.TaskFailed})

	s.same("gone at its end", s.pruneTasks(end, 0), []perdure.Task(nil))
	s.same("gone after its end", s.pruneTasks(end.Add(time.Microsecond), 0), []perdure.Task{change.Task})
}

// belongings adds something of every kind to a task, all of it prunable.
func (s *subject) belongings(t perdure.Task) (a perdure.Approval) {
	s.Helper()
	s.say(t.ID, 2)
	s.output(t.ID, "stdout", "output of "+string(t.ID))
	s.deliver(ended(t.Session, t.ID, 1, perdure.TaskSucceeded))
	s.claimDeliveriesOf(t.Session, t.ID)
	a = s.newApproval(t.Session)
	a.Task, a.State = t.ID, perdure.ApprovalApproved
	return s.ask(a)
}

func pruneBelongings(s *subject) {
	t := s.endedTask(s.session(), 1)
	approval := s.belongings(t)
	message := s.messages(t.ID, "", 0)[0]

	s.same("gone", s.pruneTasks(moment(99), 0), []perdure.Task{t})

	s.unknown(func(r store.Reader) error { _, err := r.Tasks().Get(t.Session, t.ID); return err })
	s.unknown(func(r store.Reader) error { _, _, err := r.Tasks().ReadLog(t.ID, 0, 100); return err })
	s.unknown(func(r store.Reader) error { _, err := r.Approvals().Get(approval.ID); return err })
	s.refused(perdure.NotFound, func(tx store.Tx) error {
		_, err := tx.Tasks().AppendLog(t.ID, 1, "stdout", []byte("late"))
		return err
	})
	s.same("messages", s.messages(t.ID, "", 0), []perdure.TaskMessage(nil))
	s.same("approvals", s.approvals(store.ApprovalFilter{}), []perdure.ApprovalID(nil))
	s.write(func(tx store.Tx) error { return tx.Tasks().AddMessage(message) }) // its id is free
	s.deliver(ended(t.Session, t.ID, 1, perdure.TaskSucceeded))                // and so is this end
	s.same("outbox", len(s.pending(t.Session)), 1)
}

func pruneLeavesOthers(s *subject) {
	session := s.session()
	gone, young, live := s.endedTask(session, 1), s.endedTask(session, 50), s.create(s.newTask(session))
	kept := []perdure.ApprovalID{s.belongings(young).ID, s.belongings(live).ID}
	s.belongings(gone)
	ofCall := s.newApproval(session) // of a call, and of no task
	ofCall.Task, ofCall.State = "", perdure.ApprovalApproved
	kept = append(kept, s.ask(ofCall).ID)
	s.deliver(ended(session, "task_other", 1, perdure.TaskFailed))

	s.same("gone", s.pruneTasks(moment(10), 0), []perdure.Task{gone})

	s.same("left", s.records(), []perdure.Task{young, live})
	s.same("approvals", s.approvals(store.ApprovalFilter{}), kept)
	s.same("outbox", len(s.pending(session)), 1)
	for _, t := range []perdure.Task{young, live} {
		s.same("messages", len(s.messages(t.ID, "", 0)), 2)
		chunks, _ := s.log(t.ID, 0, 100)
		s.same("log", string(s.whole(chunks, 0)), "output of "+string(t.ID))
		s.deliver(ended(session, t.ID, 1, perdure.TaskSucceeded)) // it was delivered, and is not delivered again
	}
	s.same("outbox as before", len(s.pending(session)), 1)
}

func pruneLeavesLedger(s *subject) {
	session := s.session()
	t := s.endedTask(session, 1)
	call := s.newCall(session)
	call.Task = t.ID
	_, call = s.claim(call, alive)
	handle := s.newSpawn(session)
	handle.Task = t.ID
	_, handle = s.claimSpawn(handle)
	s.append(session, 2)
	s.put(session, "/file", "content")

	s.same("gone", s.pruneTasks(moment(99), 0), []perdure.Task{t})

	s.same("call", s.call(call.Key), call)
	s.same("handle", s.spawn(handle.Key), handle)
	s.same("events", len(s.journal(session)), 2)
	s.read(func(r store.Reader) error { _, err := r.Files().Get(session, "/file"); return err })
}

func createPruned(s *subject) {
	old, stays := s.endedTask(s.session(), 1), s.create(s.newTask(s.session()))
	s.belongings(old)
	s.pruneTasks(moment(99), 0)
	fresh := s.newTask(s.session())
	fresh.ID = old.ID

	fresh = s.create(fresh)

	s.same("records", s.records(), []perdure.Task{stays, fresh})
	s.same("offset of the first output", s.output(fresh.ID, "stdout", "new"), int64(0))
	s.same("messages", len(s.messages(fresh.ID, "", 0)), 0)
}

func pruneAndOthers(s *subject) {
	session := s.session()
	t := s.endedTask(session, 1)
	s.belongings(t)
	fresh := s.newTask(session)
	work := func(tx store.Tx) error {
		_, _, created := tx.Tasks().Create(fresh)
		_, pruned := tx.Tasks().Prune(moment(99), 0)
		return errors.Join(created, pruned)
	}

	s.refused(errOnPurpose, func(tx store.Tx) error { return errors.Join(work(tx), errOnPurpose) })

	s.same("records", s.records(), []perdure.Task{t})
	chunks, _ := s.log(t.ID, 0, 100)
	s.same("log", string(s.whole(chunks, 0)), "output of "+string(t.ID))
	s.same("messages", len(s.messages(t.ID, "", 0)), 2)

	s.write(work)
	s.same("records at last", s.tasks(store.TaskFilter{}), []perdure.TaskID{fresh.ID})
}

func pruneSurvives(s *subject) {
	session := s.session()
	var want []perdure.Task
	for n := range 4 {
		want = append(want, s.endedTask(session, n))
		s.belongings(want[n])
	}
	s.pruneTasks(moment(2), 0)

	s.reopen()

	s.same("records", s.records(), want[2:])
	s.unknown(func(r store.Reader) error { _, _, err := r.Tasks().ReadLog(want[0].ID, 0, 1); return err })
	s.same("gone after reopening", s.pruneTasks(moment(3), 0), want[2:3])
	chunks, _ := s.log(want[3].ID, 0, 100)
	s.same("log", string(s.whole(chunks, 0)), fmt.Sprint("output of ", want[3].ID))
}

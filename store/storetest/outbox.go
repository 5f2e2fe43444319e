package storetest

import (
	"time"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/store"
)

func outboxLaws() []law {
	return []law{
		{"keeps_every_field", deliveryFields},
		{"adds_an_end_once", deliveryOnce},
		{"adds_other_ends_of_a_task", deliveryOfOtherEnds},
		{"lists_in_the_order_added", deliveryOrder},
		{"refuses_a_state_that_is_no_end", deliveryOfNoEnd},
		{"claims_all_rows_of_the_tasks_once", claimDeliveries},
		{"leaves_what_others_have", claimForeignDeliveries},
		{"lets_one_of_many_claims_win", claimDeliveryRace},
		{"survives_reopening", deliveriesSurvive},
	}
}

// ended returns the outbox row of a task's end.
func ended(session perdure.SessionID, task perdure.TaskID, attempt int, state perdure.TaskState) store.Delivery {
	return store.Delivery{Session: session, Task: task, Attempt: attempt, State: state, Settled: moment(attempt)}
}

// deliver adds rows to the outbox.
func (s *subject) deliver(rows ...store.Delivery) {
	s.Helper()
	s.write(func(tx store.Tx) error {
		for _, d := range rows {
			if err := tx.Tasks().AddDelivery(d); err != nil {
				return err
			}
		}
		return nil
	})
}

// pending returns the rows of a session that are not claimed.
func (s *subject) pending(session perdure.SessionID) (rows []store.Delivery) {
	s.Helper()
	s.read(func(r store.Reader) (err error) {
		rows, err = r.Tasks().Deliveries(session)
		return err
	})
	return rows
}

// claimDeliveriesOf claims the rows of tasks and returns their number.
func (s *subject) claimDeliveriesOf(session perdure.SessionID, tasks ...perdure.TaskID) (n int) {
	s.Helper()
	s.write(func(tx store.Tx) (err error) {
		n, err = tx.Tasks().ClaimDeliveries(session, tasks)
		return err
	})
	return n
}

func deliveryFields(s *subject) {
	given := filled[store.Delivery]()
	given.Session, given.State = s.session(), perdure.TaskFailed
	want := given
	want.Claimed = false // a new row is not claimed
	given.Settled = given.Settled.Add(999).In(time.FixedZone("east", 5*3600))

	s.deliver(given)

	s.same("rows", s.pending(given.Session), []store.Delivery{want})
}

func deliveryOnce(s *subject) {
	session := s.session()
	first := ended(session, "task_1", 1, perdure.TaskSucceeded)
	again := first
	again.Settled = moment(99)

	s.deliver(first, again)
	s.deliver(again)
	s.same("rows", s.pending(session), []store.Delivery{first})

	s.claimDeliveriesOf(session, "task_1")
	s.deliver(first)
	s.same("rows once it was delivered", s.pending(session), []store.Delivery{})
}

func deliveryOfOtherEnds(s *subject) {
	session := s.session()
	rows := []store.Delivery{
		// after a resolve
		ended(session, "task_1", 1, perdure.TaskUnknown), ended(session, "task_1", 1, perdure.TaskSucceeded),
		ended(session, "task_1", 2, perdure.TaskSucceeded), // after a rerun
	}
	s.deliver(rows[0])
	s.claimDeliveriesOf(session, "task_1")

	s.deliver(rows[1:]...)

	s.same("rows", s.pending(session), rows[1:])
}

func deliveryOrder(s *subject) {
	one, other := s.session(), s.session()
	rows := []store.Delivery{
		ended(one, "task_3", 3, perdure.TaskUnknown), ended(other, "task_2", 2, perdure.TaskFailed),
		ended(one, "task_1", 1, perdure.TaskCanceled), ended(one, "task_4", 1, perdure.TaskSucceeded),
	}
	for _, d := range rows {
		s.deliver(d)
	}

	s.same("of one", s.pending(one), []store.Delivery{rows[0], rows[2], rows[3]})
	s.same("of the other", s.pending(other), rows[1:2])
	s.same("of all", s.pending(""), rows)
	s.same("of none", s.pending(mint[perdure.SessionID](s)), []store.Delivery{})
}

func deliveryOfNoEnd(s *subject) {
	session := s.session()
	for _, state := range []perdure.TaskState{perdure.TaskRunning, perdure.TaskQueued, perdure.TaskAwaitingInput, "",
		"done"} {
		s.refused(perdure.Invalid, func(tx store.Tx) error {
			return tx.Tasks().AddDelivery(ended(session, "task_1", 1, state))
		})
	}
	s.same("rows", s.pending(session), []store.Delivery{})
}

func claimDeliveries(s *subject) {
	session := s.session()
	rows := []store.Delivery{
		ended(session, "task_1", 1, perdure.TaskUnknown), ended(session, "task_1", 1, perdure.TaskFailed),
		ended(session, "task_2", 1, perdure.TaskFailed), ended(session, "task_3", 1, perdure.TaskFailed),
	}
	s.deliver(rows...)

	s.same("claimed", s.claimDeliveriesOf(session, "task_1", "task_3", "task_1", "task_9"), 3)

	s.same("rows", s.pending(session), rows[2:3])
	s.same("claimed again", s.claimDeliveriesOf(session, "task_1", "task_3"), 0)
	s.same("claimed of no task", s.claimDeliveriesOf(session), 0)
	s.same("claimed of the last", s.claimDeliveriesOf(session, "task_2"), 1)
}

func claimForeignDeliveries(s *subject) {
	one, other := s.session(), s.session()
	rows := []store.Delivery{ended(one, "task_1", 1, perdure.TaskFailed), ended(one, "task_2", 1, perdure.TaskFailed)}
	s.deliver(rows...)

	s.same("claimed by another session", s.claimDeliveriesOf(other, "task_1", "task_2"), 0)

	s.same("rows", s.pending(one), rows)
}

func claimDeliveryRace(s *subject) {
	session := s.session()
	tasks := []perdure.TaskID{"task_1", "task_2", "task_3"}
	for _, id := range tasks {
		s.deliver(ended(session, id, 1, perdure.TaskSucceeded))
	}
	counts := make([]int, nParallel)

	s.together(nParallel, func(i int) error {
		return s.InTx(s.ctx, func(tx store.Tx) (err error) {
			counts[i], err = tx.Tasks().ClaimDeliveries(session, tasks)
			return err
		})
	})

	sum, takers := 0, 0
	for _, n := range counts {
		sum += n
		if n > 0 {
			takers++
		}
	}
	s.same("claimed rows and who claimed any", []int{sum, takers}, []int{3, 1})
}

func deliveriesSurvive(s *subject) {
	session := s.session()
	rows := []store.Delivery{ended(session, "task_2", 1, perdure.TaskFailed),
		ended(session, "task_1", 1, perdure.TaskFailed)}
	s.deliver(append(rows, ended(session, "task_3", 1, perdure.TaskFailed))...)
	s.claimDeliveriesOf(session, "task_3")

	s.reopen()

	s.same("rows", s.pending(session), rows)
	s.deliver(ended(session, "task_3", 1, perdure.TaskFailed))
	s.same("rows after it is added again", s.pending(session), rows)
}

package storetest

import (
	"errors"
	"strings"
	"time"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/store"
)

func bulkLaws() []law {
	return []law{
		{"keeps_every_field", bulkFields},
		{"is_unknown_until_created", unknownBulk},
		{"creates_one_of_an_org", createBulkAgain},
		{"lists_what_is_running_with_its_plan", runningBulks},
		{"drops_the_plan_when_it_ends", endedBulk},
		{"refuses_the_progress_of_another_worker", foreignBulk},
		{"is_taken_by_one_worker", takeBulkTogether},
		{"prunes_what_has_ended_the_oldest_first", pruneBulks},
		{"goes_with_its_transaction", bulkAndFail},
		{"survives_reopening", bulkSurvives},
	}
}

// newBulk returns a bulk that was not created yet.
func (s *subject) newBulk() store.Bulk {
	b := filled[store.Bulk]()
	b.ID = mint[perdure.BulkID](s)
	return b
}

// createBulk creates a bulk and returns the row that must be stored.
func (s *subject) createBulk(b store.Bulk, ended bool) store.Bulk {
	s.Helper()
	s.write(func(tx store.Tx) error {
		b.BeganAt, b.EndedAt = tx.Now(), time.Time{}
		if ended {
			b.EndedAt = tx.Now()
		}
		return tx.Bulks().Create(b, ended)
	})
	if ended {
		b.Plan = nil
	}
	return b
}

// saveBulk saves the progress of a bulk and returns the row that must be stored.
func (s *subject) saveBulk(b store.Bulk, progress string, ended bool) store.Bulk {
	s.Helper()
	b.Progress = []byte(progress)
	s.write(func(tx store.Tx) error {
		if ended {
			b.EndedAt = tx.Now()
		}
		return tx.Bulks().Save(b, ended)
	})
	if ended {
		b.Plan = nil
	}
	return b
}

// bulks lists the bulks with an id.
func (s *subject) bulks(id perdure.BulkID) (found []store.Bulk) {
	s.Helper()
	s.read(func(r store.Reader) (err error) {
		found, err = r.Bulks().List(id)
		return err
	})
	return found
}

// runningOf returns a running bulk with its plan; the zero value: it does not run.
func (s *subject) runningOf(id perdure.BulkID) (found store.Bulk) {
	s.Helper()
	s.read(func(r store.Reader) error {
		found = store.Bulk{}
		all, err := r.Bulks().Running()
		for _, b := range all {
			if b.ID == id {
				found = b
			}
		}
		return err
	})
	return found
}

func withoutPlan(b store.Bulk) store.Bulk {
	b.Plan = nil
	return b
}

func bulkFields(s *subject) {
	want := s.newBulk()
	want.Org, want.Plan = "o'rg\x00\xff", []byte(strings.Repeat("plan\x00", 1<<16))
	want = s.createBulk(want, false)

	s.same("running", s.runningOf(want.ID), want)
	s.same("listed", s.bulks(want.ID), []store.Bulk{withoutPlan(want)})
	want = s.saveBulk(want, "more", false)
	s.same("saved", s.runningOf(want.ID), want)

	empty := s.createBulk(store.Bulk{ID: mint[perdure.BulkID](s), Plan: []byte{}}, false)
	empty.Plan = nil
	s.same("empty", s.runningOf(empty.ID), empty)
}

func unknownBulk(s *subject) {
	b := s.newBulk()
	s.same("listed", len(s.bulks(b.ID)), 0)
	s.refused(perdure.NotFound, func(tx store.Tx) error { return tx.Bulks().Save(b, false) })
	s.refused(perdure.NotFound, func(tx store.Tx) error { return tx.Bulks().Save(b, true) })
	s.refused(perdure.NotFound, func(tx store.Tx) error { return tx.Bulks().Take(b, "worker_next") })
}

func createBulkAgain(s *subject) {
	want := s.createBulk(s.newBulk(), false)
	again := want
	again.Progress = []byte("again")
	s.refused(perdure.Conflict, func(tx store.Tx) error { return tx.Bulks().Create(again, true) })
	other := want
	other.Org = "a" + want.Org
	other = s.createBulk(other, false)
	listed := []store.Bulk{withoutPlan(want), withoutPlan(other)}
	if other.Org < want.Org {
		listed[0], listed[1] = listed[1], listed[0]
	}

	s.same("listed", s.bulks(want.ID), listed)
}

func runningBulks(s *subject) {
	first := s.createBulk(s.newBulk(), false)
	s.later(first.BeganAt)
	second := s.createBulk(s.newBulk(), false)
	ended := s.createBulk(s.newBulk(), true)

	var found []store.Bulk
	s.read(func(r store.Reader) (err error) {
		found, err = r.Bulks().Running()
		return err
	})

	s.same("running", found, []store.Bulk{first, second})
	s.same("ended at once", s.bulks(ended.ID), []store.Bulk{ended})
}

func endedBulk(s *subject) {
	b := s.createBulk(s.newBulk(), false)

	want := s.saveBulk(b, "all", true)

	s.same("listed", s.bulks(b.ID), []store.Bulk{want})
	s.same("running", s.runningOf(b.ID), store.Bulk{})
	s.refused(perdure.Lost, func(tx store.Tx) error { return tx.Bulks().Save(b, false) })
	s.refused(perdure.Lost, func(tx store.Tx) error { return tx.Bulks().Save(b, true) })
	s.refused(perdure.Lost, func(tx store.Tx) error { return tx.Bulks().Take(b, "worker_next") })
	s.same("after refused writes", s.bulks(b.ID), []store.Bulk{want})
}

func foreignBulk(s *subject) {
	b := s.createBulk(s.newBulk(), false)
	s.write(func(tx store.Tx) error { return tx.Bulks().Take(b, "worker_next") })
	want := b
	want.Worker = "worker_next"

	s.refused(perdure.Lost, func(tx store.Tx) error { return tx.Bulks().Save(b, false) })
	s.refused(perdure.Lost, func(tx store.Tx) error { return tx.Bulks().Save(b, true) })
	s.same("taken", s.runningOf(b.ID), want)
	want = s.saveBulk(want, "next", false)
	s.same("saved by its worker", s.runningOf(b.ID), want)
}

func takeBulkTogether(s *subject) {
	b := s.createBulk(s.newBulk(), false)
	won := make([]bool, nParallel)
	s.together(nParallel, func(i int) error {
		err := s.InTx(s.ctx, func(tx store.Tx) error { return tx.Bulks().Take(b, mint[perdure.WorkerID](s)) })
		if won[i] = err == nil; errors.Is(err, perdure.Lost) {
			return nil
		}
		return err
	})

	n := 0
	for _, one := range won {
		if one {
			n++
		}
	}
	s.same("workers that took it", n, 1)
}

func pruneBulks(s *subject) {
	var all []store.Bulk
	for range 3 {
		b := s.createBulk(s.newBulk(), true)
		s.later(b.EndedAt)
		all = append(all, b)
	}
	runs := s.createBulk(s.newBulk(), false)
	prune := func(before time.Time, limit int) (n int) {
		s.write(func(tx store.Tx) (err error) {
			n, err = tx.Bulks().Prune(before, limit)
			return err
		})
		return n
	}

	s.same("one", prune(all[2].EndedAt, 1), 1)
	s.same("the oldest", len(s.bulks(all[0].ID)), 0)
	s.same("the next", len(s.bulks(all[1].ID)), 1)
	s.same("all older ones", prune(all[2].EndedAt, 0), 1)
	s.same("one that ended then", len(s.bulks(all[2].ID)), 1)
	s.same("a running one", prune(runs.BeganAt.Add(time.Hour), 0), 1)
	s.same("running", s.runningOf(runs.ID), runs)
}

func bulkAndFail(s *subject) {
	kept := s.createBulk(s.newBulk(), false)
	fresh := s.newBulk()
	undone := errors.New("undone")
	err := s.InTx(s.ctx, func(tx store.Tx) error {
		saved := kept
		saved.Progress = []byte("undone")
		return errors.Join(tx.Bulks().Create(fresh, false), tx.Bulks().Save(saved, true), undone)
	})

	s.same("error", errors.Is(err, undone), true)
	s.same("created", len(s.bulks(fresh.ID)), 0)
	s.same("kept", s.runningOf(kept.ID), kept)
}

func bulkSurvives(s *subject) {
	runs, ended := s.createBulk(s.newBulk(), false), s.createBulk(s.newBulk(), true)

	s.reopen()

	s.same("running", s.runningOf(runs.ID), runs)
	s.same("ended", s.bulks(ended.ID), []store.Bulk{ended})
}

package storetest

import (
	"errors"
	"fmt"
	"time"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/store"
)

func cleanupLaws() []law {
	return []law{
		{"claims_what_has_expired", claimExpired},
		{"claims_what_its_task_left", claimOfTasks},
		{"spares_what_a_new_task_took_meanwhile", claimAfterWait},
		{"claims_failed_ones_up_to_a_number_of_attempts", claimFailedLeases},
		{"claims_what_a_cleaner_left", claimStaleLeases},
		{"claims_by_provider_and_limit", claimPages},
		{"lets_one_of_many_claim", claimLeaseRace},
		{"a_stale_cleaner_loses", staleCleaner},
		{"no_two_claims_have_one_fence", fences},
		{"ends_with_an_error_and_a_pause", endFailed},
	}
}

// claimLeases claims the due leases, which DueLeases lists before.
func (s *subject) claimLeases(due store.LeaseDue) (claimed []perdure.Lease) {
	s.Helper()
	s.write(func(tx store.Tx) (err error) {
		said, err := tx.Resources().DueLeases(due)
		if err != nil {
			return err
		}
		if claimed, err = tx.Resources().ClaimLeases(due); err != nil {
			return err
		}
		s.same("what is due", idsOf(said), idsOf(claimed))
		for i, l := range claimed {
			was := said[i]
			was.Status, was.Attempts, was.UpdatedAt, was.CleanupAt = perdure.LeaseCleaning, was.Attempts+1, tx.Now(),
				l.CleanupAt
			s.same("claim", l, was)
			if l.CleanupAt.Before(tx.Now()) {
				s.Errorf("got fence %s before %s", l.CleanupAt, tx.Now())
			}
		}
		return nil
	})
	return claimed
}

func idsOf(leases []perdure.Lease) (ids []perdure.LeaseID) {
	for _, l := range leases {
		ids = append(ids, l.ID)
	}
	return ids
}

// endCleanup ends a cleanup.
func (s *subject) endCleanup(l perdure.Lease, failure string, pause time.Duration) (after perdure.Lease) {
	s.Helper()
	s.write(func(tx store.Tx) (err error) {
		after, err = tx.Resources().EndCleanup(store.LeaseEnd{ID: l.ID, Claim: l.CleanupAt, Error: failure, RetryAfter: pause})
		return err
	})
	return after
}

func claimExpired(s *subject) {
	s.lease(s.newLease(s.session()), time.Hour)
	due := s.expired()

	first := s.claimLeases(store.LeaseDue{Provider: "cloud", StaleAfter: time.Hour})
	second := s.claimLeases(store.LeaseDue{Provider: "cloud", StaleAfter: time.Hour})

	s.same("first", idsOf(first), []perdure.LeaseID{due.ID})
	s.same("second", idsOf(second), none[perdure.LeaseID]())
	s.same("stored", s.storedLease(due), first[0])
	after := s.endCleanup(first[0], "", time.Hour)
	s.same("ended", []any{after.Status, after.ExpiresAt, after.CleanupAt},
		[]any{perdure.LeaseReleased, due.ExpiresAt, time.Time{}})
}

func claimOfTasks(s *subject) {
	session := s.session()
	live, over, kept := s.create(s.newTask(session)), s.create(s.newTask(session)), s.create(s.newTask(session))
	held := map[perdure.TaskID]perdure.Lease{}
	for _, id := range []perdure.TaskID{live.ID, over.ID, kept.ID, "task_gone"} {
		l := s.newLease(session)
		l.Task, l.Keep = id, id == kept.ID
		held[id] = s.lease(l, time.Hour)
	}
	due := store.LeaseDue{Provider: "cloud", StaleAfter: time.Hour}
	s.same("of a task that is gone", idsOf(s.claimLeases(due)), []perdure.LeaseID{held["task_gone"].ID})

	for _, task := range []perdure.Task{over, kept} {
		s.update(task, perdure.TaskUpdate{Attempt: 1, State: perdure.TaskCanceled})
	}

	s.same("of a task that ended", idsOf(s.claimLeases(due)), []perdure.LeaseID{held[over.ID].ID})
	s.same("no more", idsOf(s.claimLeases(due)), none[perdure.LeaseID]())
}

// claimAfterWait pins that a claim that waited for a lease sees the task that took it meanwhile.
func claimAfterWait(s *subject) {
	session := s.session()
	l := s.newLease(session)
	l.Task = "task_gone"
	l = s.lease(l, time.Hour)
	task := s.newTask(session)
	var claimed []perdure.Lease

	s.waits(func(tx store.Tx) error {
		_, err := tx.Resources().Lease(store.KeyOf(l))
		return err
	}, func(tx store.Tx) error {
		if _, _, err := tx.Tasks().Create(task); err != nil {
			return err
		}
		taken := l
		taken.Task = task.ID
		if _, err := tx.Resources().ReleaseLease(session, store.KeyOf(l)); err != nil {
			return err
		}
		_, err := tx.Resources().PutLease(taken, time.Hour)
		return err
	}, func(tx store.Tx) (err error) {
		claimed, err = tx.Resources().ClaimLeases(store.LeaseDue{Provider: "cloud", StaleAfter: time.Hour})
		return err
	})

	s.same("claimed of a running task", idsOf(claimed), none[perdure.LeaseID]())
}

func claimFailedLeases(s *subject) {
	l := s.expired()
	for range 3 {
		claimed := s.claimLeases(everyClaim)
		s.same("claimed", idsOf(claimed), []perdure.LeaseID{l.ID})
		s.endCleanup(claimed[0], "no", 0)
	}

	s.same("after three attempts", idsOf(s.claimLeases(everyClaim)), none[perdure.LeaseID]())

	more := everyClaim
	more.MaxAttempts = 4
	claimed := s.claimLeases(more)
	s.same("with four", idsOf(claimed), []perdure.LeaseID{l.ID})
	s.endCleanup(claimed[0], "no", time.Hour)
	more.MaxAttempts = 5
	s.same("in its pause", idsOf(s.claimLeases(more)), none[perdure.LeaseID]())
}

func claimStaleLeases(s *subject) {
	l := s.expired()
	first := s.claimLeases(everyClaim)
	s.same("first", idsOf(first), []perdure.LeaseID{l.ID})
	s.later(first[0].CleanupAt)

	short := everyClaim
	short.StaleAfter = time.Hour
	s.same("not stale", idsOf(s.claimLeases(short)), none[perdure.LeaseID]())
	short.StaleAfter = time.Microsecond
	s.same("stale", idsOf(s.claimLeases(short)), []perdure.LeaseID{l.ID})
	s.same("stale at once, above all attempts", idsOf(s.claimLeases(store.LeaseDue{Provider: "cloud", MaxAttempts: 1})),
		[]perdure.LeaseID{l.ID})
}

func claimPages(s *subject) {
	session := s.session()
	var want []perdure.LeaseID
	for i := range 5 {
		l := s.newLease(session)
		want = append([]perdure.LeaseID{l.ID}, want...)
		s.lease(l, time.Duration(-i)*time.Minute) // expired in descending order
	}
	other := s.newLease(session)
	other.Provider = "elsewhere"
	s.lease(other, 0)
	page := store.LeaseDue{Provider: "cloud", StaleAfter: time.Hour, Limit: 2}

	for _, part := range [][]perdure.LeaseID{want[:2], want[2:4], want[4:], nil} {
		s.same("page", idsOf(s.claimLeases(page)), part)
	}
	s.same("elsewhere", idsOf(s.claimLeases(store.LeaseDue{Provider: "elsewhere"})), []perdure.LeaseID{other.ID})
}

func claimLeaseRace(s *subject) {
	s.expired()
	s.race(perdure.Lost, func(int) error {
		return s.InTx(s.ctx, func(tx store.Tx) error {
			claimed, err := tx.Resources().ClaimLeases(store.LeaseDue{Provider: "cloud", StaleAfter: time.Hour})
			if err == nil && len(claimed) == 0 {
				err = perdure.Lost
			}
			return err
		})
	})
}

// A cleaner that was overtaken by a refresh, a release or another cleaner changes nothing (RS5).
func staleCleaner(s *subject) {
	overtake := map[string]func(perdure.Lease){
		"refresh":         func(l perdure.Lease) { s.lease(l, time.Hour) },
		"release":         func(l perdure.Lease) { s.write(releaseOf(l)) },
		"another cleaner": func(perdure.Lease) { s.claimLeases(everyClaim) },
		"refresh and another cleaner": func(l perdure.Lease) {
			s.write(func(tx store.Tx) error { // at the same moment
				_, err := tx.Resources().PutLease(l, 0)
				claimed, err2 := tx.Resources().ClaimLeases(everyClaim)
				s.same("claimed", idsOf(claimed), []perdure.LeaseID{l.ID})
				return errors.Join(err, err2)
			})
		},
	}
	for what, do := range overtake {
		s.expired()
		claimed := s.claimLeases(everyClaim)
		if len(claimed) != 1 {
			s.Fatalf("%s: got %d claims", what, len(claimed))
		}
		do(claimed[0])
		want := s.storedLease(claimed[0])

		for _, failure := range []string{"", "no"} {
			s.refused(perdure.Lost, func(tx store.Tx) error {
				_, err := tx.Resources().EndCleanup(store.LeaseEnd{ID: claimed[0].ID, Claim: claimed[0].CleanupAt, Error: failure})
				return err
			})
		}

		s.same(what, s.storedLease(claimed[0]), want)
		s.write(releaseOf(claimed[0]))
	}
	s.refused(perdure.Lost, func(tx store.Tx) error {
		_, err := tx.Resources().EndCleanup(store.LeaseEnd{ID: "resource_1"})
		return err
	})
}

func releaseOf(l perdure.Lease) func(store.Tx) error {
	return func(tx store.Tx) error {
		_, err := tx.Resources().ReleaseLease(l.Session, store.KeyOf(l))
		return err
	}
}

func fences(s *subject) {
	l, seen := s.expired(), map[time.Time]bool{}
	s.write(func(tx store.Tx) error {
		clear(seen)
		for range 5 {
			if _, err := tx.Resources().PutLease(l, 0); err != nil {
				return err
			}
			claimed, err := tx.Resources().ClaimLeases(everyClaim)
			if err != nil || len(claimed) != 1 || seen[claimed[0].CleanupAt] {
				return fmt.Errorf("got %+v, %v", claimed, err)
			}
			seen[claimed[0].CleanupAt] = true
		}
		return nil
	})
}

func endFailed(s *subject) {
	l := s.expired()
	claimed := s.claimLeases(everyClaim)
	var now time.Time
	var got perdure.Lease
	s.write(func(tx store.Tx) (err error) {
		now = tx.Now()
		got, err = tx.Resources().EndCleanup(store.LeaseEnd{ID: l.ID, Claim: claimed[0].CleanupAt, Error: "no", RetryAfter: time.Minute})
		return err
	})

	want := claimed[0]
	want.Status, want.LastError, want.ExpiresAt, want.UpdatedAt, want.CleanupAt = perdure.LeaseFailed, "no",
		now.Add(time.Minute), now, time.Time{}
	s.same("lease", got, want)
	s.same("stored", s.storedLease(l), want)
}

package storetest

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/store"
)

func leaseLaws() []law {
	return []law{
		{"keeps_every_field", leaseFields},
		{"keeps_hostile_text", hostileLeases},
		{"is_unknown_until_put", unknownLease},
		{"refuses_what_is_no_lease", leaseThatIsNone},
		{"is_refreshed_by_its_key", refreshLease},
		{"of_another_org_is_another_one", leaseOfAnotherOrg},
		{"stays_with_who_made_it", refreshByOthers},
		{"is_made_anew_once_released", leaseAnew},
		{"is_released_at_once_and_once", releaseLease},
		{"forgets_released_ones", pruneLeases},
		{"outlives_its_session", leaseOutlives},
		{"goes_with_its_transaction", leaseAndFail},
		{"gives_out_copies", leaseCopies},
		{"survives_reopening", leaseSurvives},
	}
}

// everyClaim selects leases where a claim counts as stale at once.
var everyClaim = store.LeaseDue{Provider: "cloud", MaxAttempts: 3}

// newLease returns a lease with every field set that the caller fills in. No task holds it.
func (s *subject) newLease(session perdure.SessionID) perdure.Lease {
	l := filled[perdure.Lease]()
	return perdure.Lease{
		ID: mint[perdure.LeaseID](s), Session: session, Org: "acme", Provider: "cloud",
		Type: "box", ExternalID: fmt.Sprintf("i-%d", s.minted.Add(1)),
		Name: l.Name, Owner: l.Owner, Metadata: l.Metadata,
	}
}

// lease puts a lease for a duration and returns it as stored.
func (s *subject) lease(l perdure.Lease, d time.Duration) (put perdure.Lease) {
	s.Helper()
	s.write(func(tx store.Tx) (err error) {
		put, err = tx.Resources().PutLease(l, d)
		s.checkMade(put.UpdatedAt, tx.Now())
		s.checkMade(put.ExpiresAt, tx.Now().Add(d))
		return err
	})
	return put
}

// expired returns a lease that is due.
func (s *subject) expired() perdure.Lease {
	s.Helper()
	return s.lease(s.newLease(s.session()), 0)
}

// storedLease returns a lease.
func (s *subject) storedLease(of perdure.Lease) (l perdure.Lease) {
	s.Helper()
	s.read(func(r store.Reader) (err error) {
		l, err = r.Resources().Lease(store.KeyOf(of))
		return err
	})
	return l
}

func leaseFields(s *subject) {
	given := s.newLease(s.session())
	given.Task, given.Keep = "task_1", true
	least := s.newLease(given.Session)
	least.Name, least.Owner, least.Metadata = "", "", nil
	for _, l := range []perdure.Lease{given, least} {
		got := s.lease(l, time.Minute)

		s.same("stored", s.storedLease(l), got)
		s.same("moments", got.CreatedAt, got.UpdatedAt)
		want := l
		want.Status, want.CreatedAt, want.UpdatedAt, want.ExpiresAt = perdure.LeaseActive, got.CreatedAt,
			got.UpdatedAt, got.ExpiresAt
		s.same("lease", got, want)
	}
	s.read(func(r store.Reader) error {
		found, err := r.Resources().Leases(given.Session)
		s.same("list", idsOf(found), []perdure.LeaseID{given.ID, least.ID})
		return err
	})
}

func hostileLeases(s *subject) {
	session := s.session()
	for _, words := range hostile() {
		l := s.newLease(session)
		l.Provider, l.Type, l.ExternalID = "p"+words, "t"+words, "x"+words
		l.Name, l.Owner, l.Metadata = words, words, []byte(words)
		if words == "" {
			l.Metadata = nil
		}

		want := s.lease(l, 0)

		s.same("lease", s.storedLease(l), want)
		s.same("bytes", []string{want.Provider, want.Type, want.ExternalID, want.Name, want.Owner,
			string(want.Metadata)},
			[]string{"p" + words, "t" + words, "x" + words, words, words, words})
		claimed := s.claimLeases(store.LeaseDue{Provider: l.Provider})
		s.same("claimed", idsOf(claimed), []perdure.LeaseID{l.ID})
		s.same("error", s.endCleanup(claimed[0], "e"+words, 0).LastError, "e"+words)
	}
}

func unknownLease(s *subject) {
	known := s.lease(s.newLease(s.session()), 0)
	for _, key := range []store.LeaseKey{
		{}, {Provider: known.Provider}, {Provider: known.Type, Type: known.Provider, ExternalID: known.ExternalID},
		{Provider: known.Provider, Type: known.Type, ExternalID: strings.ToUpper(known.ExternalID)},
		{Provider: known.Provider + known.Type[:1], Type: known.Type[1:], ExternalID: known.ExternalID},
	} {
		s.unknown(func(r store.Reader) error { _, err := r.Resources().Lease(key); return err })
	}
}

func leaseThatIsNone(s *subject) {
	good := s.newLease(s.session())
	long := strings.Repeat("x", store.MaxExternalIDBytes+1)
	for _, spoil := range []func(*perdure.Lease){
		func(l *perdure.Lease) {
			l.ID = ""
		}, func(l *perdure.Lease) { l.Session = "" }, func(l *perdure.Lease) { l.Provider = "" },
		func(l *perdure.Lease) {
			l.Type = ""
		}, func(l *perdure.Lease) { l.ExternalID = "" }, func(l *perdure.Lease) { l.ExternalID = long },
		func(l *perdure.Lease) {
			l.Provider = long[:store.MaxLeaseTextBytes+1]
		}, func(l *perdure.Lease) { l.Type = long[:store.MaxLeaseTextBytes+1] },
	} {
		bad := good
		spoil(&bad)
		s.refused(perdure.Invalid, func(tx store.Tx) error { _, err := tx.Resources().PutLease(bad, time.Minute); return err })
	}
	good.Provider, good.Type, good.ExternalID = long[:store.MaxLeaseTextBytes], long[:store.MaxLeaseTextBytes],
		long[:store.MaxExternalIDBytes]
	s.lease(good, time.Minute)
}

// A refresh of a lease that is not released makes it active, without attempts, with the data of the
// refresh.
func refreshLease(s *subject) {
	active, cleaning, failed := s.lease(s.newLease(s.session()), time.Minute), s.expired(), s.expired()
	for _, l := range s.claimLeases(everyClaim) {
		if l.ID == failed.ID {
			s.endCleanup(l, "no", 0)
		}
	}
	for _, was := range []perdure.Lease{active, cleaning, failed} {
		again := was
		again.ID, again.Name, again.Keep, again.Metadata = mint[perdure.LeaseID](s), "another name", true,
			[]byte(`{"n":2}`)

		got := s.lease(again, time.Hour)

		want := again
		want.ID, want.ExpiresAt, want.UpdatedAt = was.ID, got.ExpiresAt, got.UpdatedAt
		s.same("lease", got, want)
		s.same("stored", s.storedLease(was), want)
	}
	s.same("due", s.claimLeases(everyClaim), none[perdure.Lease]())
}

func refreshByOthers(s *subject) {
	first := s.newLease(s.session())
	first.Task = "task_1"
	first = s.lease(first, time.Minute)
	same := first
	same.Owner = "somebody else"
	s.same("held by its task", s.lease(same, time.Minute).Task, perdure.TaskID("task_1"))
	foreign := s.newLease(s.session())
	foreign.ExternalID, foreign.Task, foreign.Owner = first.ExternalID, "task_2", "somebody else"

	got := s.lease(foreign, time.Minute)

	s.same("who", []string{string(got.ID), string(got.Session), got.Owner, string(got.Task)},
		[]string{string(first.ID), string(first.Session), first.Owner, ""})
	s.same("held by two", s.lease(same, time.Minute).Task, perdure.TaskID(""))
	s.read(func(r store.Reader) error {
		found, err := r.Resources().Leases(foreign.Session)
		s.same("list of the other", idsOf(found), none[perdure.LeaseID]())
		return err
	})
	s.refused(perdure.NotFound, func(tx store.Tx) error {
		_, err := tx.Resources().ReleaseLease(foreign.Session, store.KeyOf(first))
		return err
	})
}

// none is an empty list.
func none[T any]() []T { return nil }

// leaseOfAnotherOrg: two orgs that give a resource the same name have two leases, and neither
// refreshes or releases the other's.
func leaseOfAnotherOrg(s *subject) {
	first := s.lease(s.newLease(s.session()), time.Minute)
	other := s.newLease(s.session())
	other.Org, other.ExternalID = "", first.ExternalID

	second := s.lease(other, time.Hour)

	s.same("whose", []string{second.Org, string(second.Session), string(second.ID)},
		[]string{"", string(other.Session), string(other.ID)})
	s.same("the first", s.storedLease(first), first)
	s.write(func(tx store.Tx) error {
		_, err := tx.Resources().ReleaseLease(second.Session, store.KeyOf(second))
		return err
	})
	s.same("the first after a release", s.storedLease(first), first)
}

func leaseAnew(s *subject) {
	first := s.lease(s.newLease(s.session()), time.Minute)
	before := s.lease(s.newLease(first.Session), time.Minute)
	s.write(func(tx store.Tx) error {
		_, err := tx.Resources().ReleaseLease(first.Session, store.KeyOf(first))
		return err
	})
	anew := s.newLease(s.session())
	anew.ExternalID, anew.Owner, anew.Task = first.ExternalID, "somebody else", "task_2"

	got := s.lease(anew, time.Minute)

	s.same("who", []string{string(got.ID), string(got.Session), got.Owner, string(got.Task), string(got.Status)},
		[]string{string(first.ID), string(anew.Session), "somebody else", "task_2", "active"})
	s.read(func(r store.Reader) error {
		theirs, err := r.Resources().Leases(first.Session)
		s.same("list of the first", idsOf(theirs), []perdure.LeaseID{before.ID})
		return err
	})
}

func releaseLease(s *subject) {
	for _, d := range []time.Duration{time.Hour, 0} {
		l := s.lease(s.newLease(s.session()), d)
		if d == 0 {
			s.claimLeases(everyClaim) // a lease in cleanup can be released too
		}
		var first, again perdure.Lease
		s.write(func(tx store.Tx) (err error) {
			first, err = tx.Resources().ReleaseLease(l.Session, store.KeyOf(l))
			return err
		})
		s.later(first.UpdatedAt)

		s.write(func(tx store.Tx) (err error) {
			again, err = tx.Resources().ReleaseLease(l.Session, store.KeyOf(l))
			return err
		})

		s.same("status", first.Status, perdure.LeaseReleased)
		s.same("again", again, first)
		s.same("due", s.claimLeases(everyClaim), none[perdure.Lease]())
		s.read(func(r store.Reader) error { // it stays visible (RS4)
			found, err := r.Resources().Leases(l.Session)
			s.same("list", found, []perdure.Lease{first})
			return err
		})
		s.refused(perdure.NotFound, func(tx store.Tx) error {
			_, err := tx.Resources().ReleaseLease(mint[perdure.SessionID](s), store.KeyOf(l))
			return err
		})
	}
}

func pruneLeases(s *subject) {
	var old []perdure.Lease
	for range 3 {
		l := s.lease(s.newLease(s.session()), time.Hour)
		s.write(releaseOf(l))
		old = append(old, s.storedLease(l))
		s.later(old[len(old)-1].UpdatedAt)
	}
	active := s.expired()
	prune := func(before time.Time, limit, want int) {
		s.Helper()
		s.write(func(tx store.Tx) error {
			n, err := tx.Resources().PruneLeases(before, limit)
			s.same("forgotten", n, want)
			return err
		})
	}
	prune(old[0].UpdatedAt, 0, 0)
	prune(active.UpdatedAt.Add(time.Hour), 1, 1)
	s.unknown(func(r store.Reader) error { _, err := r.Resources().Lease(store.KeyOf(old[0])); return err })
	s.storedLease(old[1])
	prune(old[2].UpdatedAt, 0, 1)
	prune(active.UpdatedAt.Add(time.Hour), 0, 1)
	s.storedLease(active)
}

func leaseOutlives(s *subject) {
	l := s.expired()

	s.remove(l.Session)

	want := l
	want.Session = ""
	s.same("lease", s.storedLease(l), want)
	s.same("claimed", idsOf(s.claimLeases(everyClaim)), []perdure.LeaseID{l.ID})
}

func leaseAndFail(s *subject) {
	old := s.expired()
	fresh := s.newLease(old.Session)
	for _, work := range []func(store.Tx) error{
		func(tx store.Tx) error { _, err := tx.Resources().PutLease(fresh, time.Hour); return err },
		releaseOf(old),
		func(tx store.Tx) error { _, err := tx.Resources().ClaimLeases(everyClaim); return err },
	} {
		s.refused(errOnPurpose, func(tx store.Tx) error { return errors.Join(work(tx), errOnPurpose) })
	}

	s.read(func(r store.Reader) error {
		found, err := r.Resources().Leases(old.Session)
		s.same("list", found, []perdure.Lease{old})
		return err
	})
}

func leaseCopies(s *subject) {
	given := s.newLease(s.session())
	given.ExternalID = "x"
	put := s.lease(given, 0)
	want := s.storedLease(put)
	want.Metadata = filled[perdure.Lease]().Metadata // without shared memory

	key := store.KeyOf(put)
	scribble(&given, &put)
	s.write(func(tx store.Tx) error {
		found, err := tx.Resources().Leases(want.Session)
		due, err2 := tx.Resources().DueLeases(everyClaim)
		scribble(found, due)
		return errors.Join(err, err2)
	})

	s.read(func(r store.Reader) error {
		got, err := r.Resources().Lease(key)
		s.same("lease", got, want)
		return err
	})
}

func leaseSurvives(s *subject) {
	l := s.expired()
	claimed := s.claimLeases(everyClaim)

	s.reopen()

	s.same("lease", s.storedLease(l), claimed[0])
	s.same("ended", s.endCleanup(claimed[0], "", 0).Status, perdure.LeaseReleased)
}

package storetest

import (
	"errors"
	"slices"
	"time"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/store"
)

// home returns the row of a home.
func (s *subject) home(id perdure.HomeID) (h store.Home) {
	s.Helper()
	s.read(func(r store.Reader) (err error) {
		h, err = r.Workers().Home(id)
		return err
	})
	return h
}

// workerAt adds a worker of a home with a lease from now on.
func (s *subject) workerAt(home perdure.HomeID, lease time.Duration) (w store.Worker) {
	s.Helper()
	s.write(func(tx store.Tx) error {
		w = store.Worker{ID: mint[perdure.WorkerID](s), Host: "machine", Home: home, StartedAt: tx.Now(), LeaseUntil: tx.Now().Add(lease)}
		return tx.Workers().Put(w)
	})
	w.StartedAt, w.LeaseUntil = w.StartedAt.Truncate(time.Microsecond), w.LeaseUntil.Truncate(time.Microsecond)
	return w
}

func homePresent(s *subject) {
	id, other := mint[perdure.HomeID](s), mint[perdure.HomeID](s)
	s.workerAt(other, time.Hour)
	s.unknown(func(r store.Reader) error { _, err := r.Workers().Home(id); return err })

	gone := s.workerAt(id, 0)
	s.same("with a lease that has ended", s.home(id), store.Home{ID: id, Host: "machine", SeenAt: gone.LeaseUntil})
	live := s.workerAt(id, time.Hour)
	s.same("with a lease that holds", s.home(id), store.Home{ID: id, Host: "machine", SeenAt: live.LeaseUntil, Present: true})
}

func homeSeen(s *subject) {
	id := mint[perdure.HomeID](s)
	first := s.workerAt(id, -time.Hour)
	last := s.workerAt(id, -time.Minute)
	want := last.LeaseUntil
	if want.Before(first.StartedAt) {
		want = first.StartedAt // a home is seen when its first worker registers
	}

	for _, w := range []store.Worker{last, first} {
		s.write(func(tx store.Tx) error { return tx.Workers().MarkDead(w.ID) })
		s.same("home", s.home(id), store.Home{ID: id, Host: "machine", SeenAt: want})
	}
	live := s.workerAt(id, time.Hour)
	s.write(func(tx store.Tx) error { return tx.Workers().MarkDead(live.ID) })
	s.same("a live worker is left alone", s.home(id), store.Home{ID: id, Host: "machine", SeenAt: live.LeaseUntil, Present: true})
}

func homeStays(s *subject) {
	id := mint[perdure.HomeID](s)
	for _, remove := range []func(store.Tx, perdure.WorkerID) error{
		func(tx store.Tx, w perdure.WorkerID) error { return tx.Workers().Remove(w) },
		func(tx store.Tx, w perdure.WorkerID) error { return tx.Workers().Retire(w) },
	} {
		w := s.workerAt(id, time.Hour)
		var now time.Time
		s.write(func(tx store.Tx) error {
			now = tx.Now().Truncate(time.Microsecond)
			return remove(tx, w.ID)
		})
		s.same("home", s.home(id), store.Home{ID: id, Host: "machine", SeenAt: now})
	}
	s.read(func(r store.Reader) error {
		all, err := r.Workers().Homes()
		s.same("homes", all, []store.Home{s.home(id)})
		return err
	})
}

// sessionAt adds a session whose files are at a home.
func (s *subject) sessionAt(home perdure.HomeID) perdure.SessionID {
	s.Helper()
	row := s.newSession()
	row.Home = home
	s.write(func(tx store.Tx) error { return tx.Sessions().Create(row) })
	return row.ID
}

// waiting lists the sessions that a filter matches.
func (s *subject) waiting(f store.SessionFilter) (ids []perdure.SessionID) {
	s.Helper()
	s.read(func(r store.Reader) error {
		ids = nil
		found, err := r.Sessions().List(f)
		for _, row := range found {
			ids = append(ids, row.ID)
		}
		return err
	})
	return ids
}

// sessionHome: a session has the home that it is created with or that is set later (RC25).
func sessionHome(s *subject) {
	one, other := mint[perdure.HomeID](s), mint[perdure.HomeID](s)
	created, later := s.sessionAt(one), s.session()
	s.same("home of a new session", s.row(created).Home, one)
	s.same("home of a session without files", s.row(later).Home, perdure.HomeID(""))

	for _, home := range []perdure.HomeID{one, other, ""} {
		want := s.row(later)
		want.Home = home
		s.write(func(tx store.Tx) error { return tx.Sessions().SetHome(later, home) })
		s.same("row", s.row(later), want)
	}
	s.take(created, mint[perdure.WorkerID](s))
	s.same("home after an acquisition", s.row(created).Home, one)
	s.refused(perdure.NotFound, func(tx store.Tx) error { return tx.Sessions().SetHome(mint[perdure.SessionID](s), one) })
}

// sessionAwaitsHome: the wait has one beginning, and ends when a worker acquires the session or an
// operator moves it (RC26, RC28).
func sessionAwaitsHome(s *subject) {
	one, other := mint[perdure.HomeID](s), mint[perdure.HomeID](s)
	first, moved, elsewhere, none := s.sessionAt(one), s.sessionAt(one), s.sessionAt(other), s.session()
	s.sessionAt(one) // does not wait
	var since time.Time
	for _, id := range []perdure.SessionID{first, moved, elsewhere, none, first} {
		s.write(func(tx store.Tx) error {
			if since.IsZero() {
				since = tx.Now().Truncate(time.Microsecond)
			}
			return tx.Sessions().AwaitHome(id)
		})
	}
	s.same("the beginning of the wait", s.row(first).WaitsSince, since)
	s.same("a session without a home", s.row(none).WaitsSince, time.Time{})
	s.sameSet("all that wait", s.waiting(store.SessionFilter{Waiting: true, Limit: 10}), first, moved, elsewhere)
	s.sameSet("what waits for a home", s.waiting(store.SessionFilter{Waiting: true, Home: one}), first, moved)

	s.take(first, mint[perdure.WorkerID](s))
	s.write(func(tx store.Tx) error { return tx.Sessions().SetHome(moved, other) })
	s.same("an acquired session", s.row(first).WaitsSince, time.Time{})
	s.same("a moved session", s.row(moved).WaitsSince, time.Time{})
	s.sameSet("what still waits", s.waiting(store.SessionFilter{Waiting: true}), elsewhere)
	s.refused(perdure.NotFound, func(tx store.Tx) error { return tx.Sessions().AwaitHome(mint[perdure.SessionID](s)) })
	for _, f := range []store.SessionFilter{{Waiting: true, HasDriver: true}, {Waiting: true, Roots: true}, {Home: one}} {
		if err := f.Check(); !errors.Is(err, perdure.Invalid) {
			s.Errorf("filter %+v: got %v, want an invalid filter", f, err)
		}
	}
}

// sameSet compares ids in any order.
func (s *subject) sameSet(what string, got []perdure.SessionID, want ...perdure.SessionID) {
	s.Helper()
	s.same(what, slices.Sorted(slices.Values(got)), slices.Sorted(slices.Values(want)))
}

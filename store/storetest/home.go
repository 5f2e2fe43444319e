package storetest

import (
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

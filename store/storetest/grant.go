package storetest

import (
	"errors"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/store"
)

// granted returns the number of the last grant that was used.
func (s *subject) granted(w store.Work) (number int64) {
	s.Helper()
	s.read(func(r store.Reader) (err error) {
		number, err = r.Workers().Granted(w)
		return err
	})
	return number
}

// useGrant uses a grant in a transaction of its own, as a worker of its own.
func (s *subject) useGrant(w store.Work, number int64) error {
	return s.useGrantBy(w, mint[perdure.WorkerID](s), number)
}

func (s *subject) useGrantBy(w store.Work, by perdure.WorkerID, number int64) error {
	return s.InTx(s.ctx, func(tx store.Tx) error { return tx.Workers().UseGrant(w, by, number) })
}

func grantAgain(s *subject) {
	w, one, other := store.Work{Session: s.session()}, mint[perdure.WorkerID](s), mint[perdure.WorkerID](s)
	s.ok(s.useGrantBy(w, one, 3))
	s.ok(s.useGrantBy(w, one, 3))
	for _, number := range []int64{2, 3} {
		if err := s.useGrantBy(w, other, number); !errors.Is(err, perdure.Lost) {
			s.Errorf("grant %d of another worker: got %v, want Lost", number, err)
		}
	}
	s.ok(s.useGrantBy(w, other, 4))
	if err := s.useGrantBy(w, one, 3); !errors.Is(err, perdure.Lost) {
		s.Errorf("after a later grant: got %v, want Lost", err)
	}
	s.same("the grant", s.granted(w), int64(4))
}

func grantOrder(s *subject) {
	id := s.session()
	session, task := store.Work{Session: id}, store.Work{Session: id, Task: mint[perdure.TaskID](s)}
	s.same("before the first", s.granted(session), int64(0))
	for _, c := range []struct {
		number int64
		want   error
	}{{0, perdure.Lost}, {-1, perdure.Lost}, {1, nil}, {1, perdure.Lost}, {7, nil}, {6, perdure.Lost}, {7, perdure.Lost}, {8, nil}} {
		if err := s.useGrant(session, c.number); !errors.Is(err, c.want) {
			s.Errorf("grant %d after %d: got %v, want %v", c.number, s.granted(session), err, c.want)
		}
	}
	s.same("of the session", s.granted(session), int64(8))
	s.same("of a task of it", s.granted(task), int64(0))
	s.ok(s.useGrant(task, 3))
	s.same("of the task", s.granted(task), int64(3))
	s.same("of the session", s.granted(session), int64(8))
}

func grantTogether(s *subject) {
	w := store.Work{Session: s.session()}
	used := make([]bool, nParallel)
	s.together(nParallel, func(i int) error {
		err := s.useGrant(w, 5)
		if used[i] = err == nil; errors.Is(err, perdure.Lost) {
			return nil
		}
		return err
	})
	n := 0
	for _, one := range used {
		if one {
			n++
		}
	}
	s.same("transactions that used it", n, 1)
	s.same("the grant", s.granted(w), int64(5))
}

func grantRefused(s *subject) {
	w := store.Work{Session: s.session()}
	err := s.InTx(s.ctx, func(tx store.Tx) error {
		if err := tx.Workers().UseGrant(w, mint[perdure.WorkerID](s), 2); err != nil {
			return err
		}
		return errOnPurpose
	})
	if !errors.Is(err, errOnPurpose) {
		s.Errorf("got %v, want %v", err, errOnPurpose)
	}
	s.same("the grant", s.granted(w), int64(0))
	s.ok(s.useGrant(w, 1))
}

func grantsRemoved(s *subject) {
	id, other := s.session(), s.session()
	t := s.endedTask(id, 10)
	session, task, kept := store.Work{Session: id}, store.Work{Session: id, Task: t.ID}, store.Work{Session: other}
	for _, w := range []store.Work{session, task, kept} {
		s.ok(s.useGrant(w, 4))
	}

	s.pruneTasks(moment(99), 0)
	s.same("of a pruned task", s.granted(task), int64(0))
	s.same("of its session", s.granted(session), int64(4))

	s.remove(id)
	s.same("of a removed session", s.granted(session), int64(0))
	s.same("of another", s.granted(kept), int64(4))
}

// ok reports an error.
func (s *subject) ok(err error) {
	s.Helper()
	if err != nil {
		s.Error(err)
	}
}

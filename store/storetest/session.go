package storetest

import (
	"slices"
	"time"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/store"
)

func sessionLaws() []law {
	return []law{
		{"creates_once", createSessionOnce},
		{"begins_at_zero", sessionBeginsAtZero},
		{"keeps_hostile_titles", hostileTitles},
		{"is_unknown_until_created", unknownSession},
		{"take_bumps_the_epoch", takeBumpsEpoch},
		{"take_counts_take_ups_without_an_event", takeCounts},
		{"take_gives_every_taker_another_epoch", takeRace},
		{"refuses_an_old_epoch", oldEpoch},
		{"the_lock_tells_the_last_seq", lockTellsSeq},
		{"release_clears_the_driver_and_notes_what_it_saw", releaseClears},
		{"lists_newest_first", listNewestFirst},
		{"lists_what_is_driven", listUnrested},
		{"keeps_its_lineage", sessionLineage},
		{"lists_children", listChildren},
		{"saves_title_and_status", saveSession},
		{"replaces_the_snapshot", replaceSnapshot},
		{"survives_reopening", sessionSurvives},
	}
}

// row returns a session's row.
func (s *subject) row(id perdure.SessionID) store.Session {
	s.Helper()
	var row store.Session
	s.read(func(r store.Reader) (err error) {
		row, err = r.Sessions().Get(id)
		return err
	})
	return row
}

// take makes a worker the driver.
func (s *subject) take(id perdure.SessionID, worker perdure.WorkerID) store.Session {
	s.Helper()
	var row store.Session
	s.write(func(tx store.Tx) (err error) {
		row, err = tx.Sessions().Acquire(id, worker)
		return err
	})
	return row
}

func createSessionOnce(s *subject) {
	want := s.newSession()
	again := want
	again.Title = "another"

	s.write(func(tx store.Tx) error { return tx.Sessions().Create(want) })

	s.refused(perdure.Conflict, func(tx store.Tx) error { return tx.Sessions().Create(again) })
	s.same("row", s.row(want.ID), want)
}

func sessionBeginsAtZero(s *subject) {
	given := filled[store.Session]()
	given.ID = mint[perdure.SessionID](s)
	given.CreatedAt = given.CreatedAt.Add(999).In(time.FixedZone("west", -3600))
	want := store.Session{
		ID: given.ID, Parent: given.Parent, Root: given.Root, Forked: given.Forked, Org: given.Org, User: given.User,
		Title: given.Title, Labels: given.Labels, Status: given.Status, Secret: given.Secret, Home: given.Home,
		CreatedAt: given.CreatedAt.Truncate(time.Microsecond).UTC(), UpdatedAt: given.UpdatedAt,
	}

	s.write(func(tx store.Tx) error { return tx.Sessions().Create(given) })

	s.same("row", s.row(given.ID), want)
}

func hostileTitles(s *subject) {
	for _, text := range hostile() {
		created, saved := s.newSession(), s.session()
		created.Title = text

		s.write(func(tx store.Tx) error { return tx.Sessions().Create(created) })
		s.write(func(tx store.Tx) error { return tx.Sessions().Update(saved, text, perdure.SessionIdle) })

		s.same("created title", s.row(created.ID).Title, text)
		s.same("saved title", s.row(saved).Title, text)
	}
}

func unknownSession(s *subject) {
	s.session()
	id := mint[perdure.SessionID](s)

	s.unknown(func(r store.Reader) error { _, err := r.Sessions().Get(id); return err })
	s.refused(perdure.NotFound, func(tx store.Tx) error { _, err := tx.Sessions().Acquire(id, "worker_1"); return err })
	s.refused(perdure.NotFound, func(tx store.Tx) error { _, err := tx.Sessions().Lock(id, 0); return err })
	s.refused(perdure.NotFound, func(tx store.Tx) error { return tx.Sessions().Release(id, 0) })
	s.refused(perdure.NotFound, func(tx store.Tx) error { return tx.Sessions().Update(id, "title", perdure.SessionIdle) })
}

func takeBumpsEpoch(s *subject) {
	id, other := s.session(), s.session()
	worker := mint[perdure.WorkerID](s)
	s.append(id, 2)
	want := s.row(id)

	for epoch := int64(1); epoch <= 3; epoch++ {
		s.append(id, 1)
		got := s.take(id, worker)

		want.Epoch, want.Worker, want.LastSeq, want.SeenSeq = epoch, worker, 2+epoch, 2+epoch
		s.same("answer", got, want)
		s.same("row", s.row(id), want)
	}
	s.same("epoch of another", s.row(other).Epoch, int64(0))
}

func takeCounts(s *subject) {
	id, fresh := s.session(), s.session()
	worker := mint[perdure.WorkerID](s)
	s.append(id, 1)
	var got []int
	take := func() { got = append(got, s.take(id, worker).Resumes) }

	take()
	take()
	s.write(func(tx store.Tx) error { return tx.Sessions().Release(id, 2) })
	take()
	s.append(id, 1)
	take()
	take()
	s.append(id, 1)
	s.write(func(tx store.Tx) error { return tx.Sessions().Release(id, 5) }) // it has seen the event
	take()

	s.same("take-ups", got, []int{0, 1, 2, 0, 1, 2})
	s.write(func(tx store.Tx) error { return tx.Workers().Retire(mint[perdure.WorkerID](s)) })
	s.same("after another's end", s.row(id).Resumes, 2)
	s.write(func(tx store.Tx) error { return tx.Workers().Retire(worker) }) // an orderly end
	take()
	s.write(func(tx store.Tx) error { return tx.Workers().Remove(worker) }) // not an orderly end
	take()
	s.same("after an end in order, and another one", got[6:], []int{2, 3})
	s.same("first taking of an empty journal", s.take(fresh, worker).Resumes, 0)
	s.same("second taking of an empty journal", s.take(fresh, worker).Resumes, 1)
}

func takeRace(s *subject) {
	id := s.session()
	epochs := make([]int64, nParallel)

	s.together(nParallel, func(i int) error {
		return s.InTx(s.ctx, func(tx store.Tx) error {
			row, err := tx.Sessions().Acquire(id, mint[perdure.WorkerID](s))
			epochs[i] = row.Epoch
			return err
		})
	})

	slices.Sort(epochs)
	for i, epoch := range epochs {
		s.same("epoch", epoch, int64(i+1))
	}
}

func oldEpoch(s *subject) {
	id := s.session()
	worker := mint[perdure.WorkerID](s)
	s.take(id, worker)
	s.take(id, worker)
	want := s.row(id)

	for _, epoch := range []int64{0, 1, 3, -1} {
		s.refused(perdure.Lost, func(tx store.Tx) error { _, err := tx.Sessions().Lock(id, epoch); return err })
		s.refused(perdure.Lost, func(tx store.Tx) error { return tx.Sessions().Release(id, epoch) })
	}

	s.same("row", s.row(id), want)
	s.write(func(tx store.Tx) error { _, err := tx.Sessions().Lock(id, 2); return err })
	s.same("row after the lock", s.row(id), want)
}

func lockTellsSeq(s *subject) {
	id := s.session()
	s.take(id, mint[perdure.WorkerID](s))

	for n := range int64(4) {
		var before, after int64
		s.write(func(tx store.Tx) (err error) {
			if before, err = tx.Sessions().Lock(id, 1); err != nil {
				return err
			}
			if err := tx.Journal().Append(id, s.events(2)); err != nil {
				return err
			}
			after, err = tx.Sessions().Lock(id, 1)
			return err
		})
		s.same("last seq before and after", []int64{before, after}, []int64{2 * n, 2*n + 2})
	}
}

func releaseClears(s *subject) {
	id := s.session()
	s.append(id, 1)
	s.take(id, mint[perdure.WorkerID](s))
	s.append(id, 2)
	want := s.row(id)
	s.same("unread while it is driven", want.Unread(), true)
	want.Worker, want.SeenSeq = "", 3

	for range 2 { // the second call has no effect
		s.write(func(tx store.Tx) error { return tx.Sessions().Release(id, 1) })

		s.same("row", s.row(id), want)
	}

	s.same("unread", want.Unread(), false)
	s.append(id, 1)
	s.same("unread after an event", s.row(id).Unread(), true)
}

// listed returns the ids of a list of sessions.
func (s *subject) listed(filter store.SessionFilter) []perdure.SessionID {
	s.Helper()
	var ids []perdure.SessionID
	s.read(func(r store.Reader) error {
		rows, err := r.Sessions().List(filter)
		for _, row := range rows {
			ids = append(ids, row.ID)
		}
		return err
	})
	return ids
}

func listNewestFirst(s *subject) {
	var rows []store.Session
	for _, n := range []int{5, 9, 5, 1} {
		row := s.newSession()
		row.CreatedAt = moment(n)
		rows = append(rows, row)
		s.write(func(tx store.Tx) error { return tx.Sessions().Create(row) })
	}
	s.append(rows[3].ID, 1) // later events do not change the order
	want := []perdure.SessionID{rows[1].ID, rows[2].ID, rows[0].ID, rows[3].ID}

	s.same("all", s.listed(store.SessionFilter{}), want)
	s.same("two", s.listed(store.SessionFilter{Limit: 2}), want[:2])
	s.same("more than there are", s.listed(store.SessionFilter{Limit: 9}), want)
	s.read(func(r store.Reader) error {
		got, err := r.Sessions().List(store.SessionFilter{Limit: 1})
		s.same("row", got, []store.Session{rows[1]})
		return err
	})
}

func listUnrested(s *subject) {
	driven, rested, never := s.session(), s.session(), s.session()
	worker := mint[perdure.WorkerID](s)
	s.take(driven, worker)
	s.take(rested, worker)
	s.write(func(tx store.Tx) error { return tx.Sessions().Release(rested, 1) })

	s.same("unrested", s.listed(store.SessionFilter{HasDriver: true}), []perdure.SessionID{driven})
	s.same("all", s.listed(store.SessionFilter{}), []perdure.SessionID{never, rested, driven})

	s.same("unread", s.listed(store.SessionFilter{Unread: true}), []perdure.SessionID(nil))
	for _, id := range []perdure.SessionID{driven, rested, never} {
		s.append(id, 1)
	}
	s.same("unread", s.listed(store.SessionFilter{Unread: true}), []perdure.SessionID{never, rested})
	s.same("one of them", s.listed(store.SessionFilter{Unread: true, Limit: 1}), []perdure.SessionID{never})

	s.take(rested, worker)
	s.same("unread", s.listed(store.SessionFilter{Unread: true}), []perdure.SessionID{never})
	s.same("one of two", s.listed(store.SessionFilter{HasDriver: true, Limit: 1}), []perdure.SessionID{rested})
}

// A root is the root of its own tree. A fork does not become the child of its original (SA1).
func sessionLineage(s *subject) {
	root, fork := s.newSession(), s.newSession()
	root.Root, fork.Root, fork.Forked = "", "", root.ID
	child, grandchild := s.newSession(), s.newSession()
	child.Parent, child.Root = root.ID, root.ID
	grandchild.Parent, grandchild.Root, grandchild.Forked = child.ID, root.ID, fork.ID
	want := []store.Session{root, fork, child, grandchild}
	for _, row := range want {
		s.write(func(tx store.Tx) error { return tx.Sessions().Create(row) })
	}
	want[0].Root, want[1].Root = root.ID, fork.ID
	check := func() {
		s.Helper()
		for _, row := range want {
			s.same("row", s.row(row.ID), row)
		}
	}

	check()
	s.reopen()
	check()

	worker := mint[perdure.WorkerID](s)
	taken := s.take(grandchild.ID, worker)
	s.write(func(tx store.Tx) error { return tx.Sessions().Update(grandchild.ID, "another", perdure.SessionActive) })
	s.write(func(tx store.Tx) error { return tx.Sessions().Release(grandchild.ID, 1) })
	for _, row := range []store.Session{taken, s.row(grandchild.ID)} {
		s.same("lineage", []perdure.SessionID{row.Parent, row.Root, row.Forked},
			[]perdure.SessionID{child.ID, root.ID, fork.ID})
	}
}

func listChildren(s *subject) {
	root, other := s.session(), s.session()
	born := func(parent perdure.SessionID, n int) perdure.SessionID {
		row := s.newSession()
		row.Parent, row.Root, row.CreatedAt = parent, root, moment(n)
		s.write(func(tx store.Tx) error { return tx.Sessions().Create(row) })
		return row.ID
	}
	old, young, middle := born(root, 1), born(root, 9), born(root, 5)
	grandchild, foreign := born(young, 7), born(other, 8)
	s.take(old, mint[perdure.WorkerID](s))
	s.take(grandchild, mint[perdure.WorkerID](s))

	s.same("children", s.listed(store.SessionFilter{Parent: root}), []perdure.SessionID{young, middle, old})
	s.same("two of them", s.listed(store.SessionFilter{Parent: root, Limit: 2}), []perdure.SessionID{young, middle})
	s.same("driven ones", s.listed(store.SessionFilter{Parent: root, HasDriver: true}), []perdure.SessionID{old})
	s.same("of a child", s.listed(store.SessionFilter{Parent: young}), []perdure.SessionID{grandchild})
	s.same("of another", s.listed(store.SessionFilter{Parent: other}), []perdure.SessionID{foreign})
	s.same("of an unknown parent", s.listed(store.SessionFilter{Parent: old}), []perdure.SessionID(nil))
	s.same("how many in all", len(s.listed(store.SessionFilter{})), 7)
}

func saveSession(s *subject) {
	id := s.session()
	s.append(id, 1)
	s.take(id, mint[perdure.WorkerID](s))
	want := s.row(id)
	want.Title, want.Status = "another title", perdure.SessionActive

	s.write(func(tx store.Tx) error {
		want.UpdatedAt = tx.Now()
		return tx.Sessions().Update(id, want.Title, want.Status)
	})

	s.same("row", s.row(id), want)
}

func replaceSnapshot(s *subject) {
	id, other := s.session(), s.session()
	snapshot := func() (got store.Snapshot) {
		s.Helper()
		s.read(func(r store.Reader) (err error) {
			got, err = r.Sessions().Snapshot(id)
			return err
		})
		return got
	}
	s.unknown(func(r store.Reader) error { _, err := r.Sessions().Snapshot(id); return err })

	for n, body := range []string{"first \x00\xff", "", "third"} {
		want := store.Snapshot{Seq: int64(10 - n), Version: n + 1, Body: []byte(body)}
		given := store.Snapshot{Seq: want.Seq, Version: want.Version, Body: []byte(body)}
		s.write(func(tx store.Tx) error { return tx.Sessions().PutSnapshot(id, given) })
		scribble(given, snapshot())

		s.same("snapshot", snapshot(), want)
	}
	s.unknown(func(r store.Reader) error { _, err := r.Sessions().Snapshot(other); return err })
}

func sessionSurvives(s *subject) {
	driven, rested := s.session(), s.session()
	worker := mint[perdure.WorkerID](s)
	s.append(driven, 1)
	s.take(driven, worker)
	s.take(driven, worker)
	s.write(func(tx store.Tx) error {
		return tx.Sessions().PutSnapshot(driven, store.Snapshot{Seq: 1, Version: 2, Body: []byte("fold")})
	})
	want := []store.Session{s.row(driven), s.row(rested)}

	s.reopen()

	s.same("rows", []store.Session{s.row(driven), s.row(rested)}, want)
	s.same("unrested", s.listed(store.SessionFilter{HasDriver: true}), []perdure.SessionID{driven})
	s.read(func(r store.Reader) error {
		got, err := r.Sessions().Snapshot(driven)
		s.same("snapshot", got, store.Snapshot{Seq: 1, Version: 2, Body: []byte("fold")})
		return err
	})
	s.same("take-ups", s.take(driven, worker).Resumes, 2)
}

package storetest

import (
	"encoding/json"
	"errors"
	"fmt"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/store"
)

func repairSpawn(s *subject) {
	root := s.session()
	other, want := s.runningSpawn(root), s.runningSpawn(root)

	for n := 1; n <= 3; n++ {
		want.Repairs = n
		s.write(func(tx store.Tx) error {
			got, err := tx.Spawns().Repair(want.Key, want.Token)
			s.same("repairs", got, n)
			return err
		})
		s.same("handle", s.spawn(want.Key), want)
	}

	s.together(nParallel, func(int) error {
		return s.InTx(s.ctx, func(tx store.Tx) error { _, err := tx.Spawns().Repair(want.Key, want.Token); return err })
	})
	s.same("repairs of many", s.spawn(want.Key).Repairs, 3+nParallel)
	s.same("handle of another", s.spawn(other.Key), other)
}

func repairLost(s *subject) {
	root := s.session()
	pending, running, settled := s.spawned(root), s.runningSpawn(root), s.finished(root)
	want := s.spawns(root)

	for _, h := range []store.Spawn{
		pending, settled, {Key: running.Key}, {Key: running.Key, Token: "token of another"},
		{Key: pending.Key, Token: running.Token},
	} {
		s.refused(perdure.Lost, func(tx store.Tx) error { _, err := tx.Spawns().Repair(h.Key, h.Token); return err })
	}

	s.same("handles", s.spawns(root), want)
}

func settleSpawn(s *subject) {
	root := s.session()
	other := s.runningSpawn(root)
	for _, c := range []struct {
		on     store.Spawn
		status perdure.TaskState
		result string
	}{
		{s.runningSpawn(root), perdure.TaskSucceeded, `{"answer": "<&>"}`},
		{s.runningSpawn(root), perdure.TaskUnknown, ""},
		{s.spawned(root), perdure.TaskCanceled, `null`}, // its child never began
		{s.spawned(root), perdure.TaskFailed, ""},
	} {
		want := c.on
		want.State, want.Status, want.Result = store.SpawnSettled, c.status, json.RawMessage(c.result)

		s.write(func(tx store.Tx) error {
			want.SettledAt = tx.Now()
			return tx.Spawns().Settle(want.Key, want.Token, c.status, json.RawMessage(c.result))
		})

		s.same("handle", s.spawn(want.Key), want)
	}
	s.same("handle of another", s.spawn(other.Key), other)
}

func settleSpawnAgain(s *subject) {
	root := s.session()
	for _, result := range []json.RawMessage{json.RawMessage(`{"n":1}`), nil, {}} {
		h := s.runningSpawn(root)
		settle := func(result json.RawMessage) error {
			return s.InTx(s.ctx, func(tx store.Tx) error {
				return tx.Spawns().Settle(h.Key, h.Token, perdure.TaskSucceeded, result)
			})
		}
		if err := settle(result); err != nil {
			s.Fatal(err)
		}
		want := s.spawn(h.Key)
		s.later(want.SettledAt)

		if err := errors.Join(settle(result), settle(append(json.RawMessage{}, result...))); err != nil {
			s.Errorf("got error %v from the same outcome", err)
		}

		s.same("handle", s.spawn(h.Key), want)
	}
}

func settleSpawnLost(s *subject) {
	root := s.session()
	pending, running, settled := s.spawned(root), s.runningSpawn(root), s.finished(root)
	want := s.spawns(root)

	for _, c := range []struct {
		want   error
		on     store.Spawn
		token  perdure.Token
		status perdure.TaskState
		result string
	}{
		{perdure.Lost, pending, "token of another", perdure.TaskCanceled, ""},
		{perdure.Lost, running, "token of another", perdure.TaskSucceeded, `{"n":1}`},
		{perdure.Lost, running, settled.Token, perdure.TaskSucceeded, `{"n":1}`},
		{perdure.Lost, settled, "token of another", settled.Status, string(settled.Result)},
		{perdure.Lost, settled, settled.Token, perdure.TaskFailed, string(settled.Result)},
		{perdure.Lost, settled, settled.Token, settled.Status, `{"n":2}`},
		{perdure.Lost, settled, settled.Token, settled.Status, `{"n": 1}`},
		{perdure.Lost, settled, settled.Token, settled.Status, ""},
		{perdure.Invalid, running, running.Token, perdure.TaskRunning, ""},
		{perdure.Invalid, running, running.Token, "", ""},
		{perdure.Invalid, running, running.Token, "done", ""},
	} {
		s.refused(c.want, func(tx store.Tx) error {
			return tx.Spawns().Settle(c.on.Key, c.token, c.status, json.RawMessage(c.result))
		})

		s.same("handles", s.spawns(root), want)
	}
}

func settleSpawnRace(s *subject) {
	h := s.runningSpawn(s.session())

	winner := s.race(perdure.Lost, func(i int) error {
		return s.InTx(s.ctx, func(tx store.Tx) error {
			return tx.Spawns().Settle(h.Key, h.Token, perdure.TaskSucceeded, fmt.Appendf(nil, `%d`, i))
		})
	})

	s.same("result", string(s.spawn(h.Key).Result), fmt.Sprint(winner))
}

// Parallel spawns, each admitted by the count in its own transaction, do not exceed the limit
// (SA4).
func spawnLimit(s *subject) {
	const limit = 5
	root, errFull := s.session(), errors.New("full")
	s.finished(root) // uses no slot
	s.runningSpawn(s.session())
	var calls []store.Spawn
	for range nParallel {
		calls = append(calls, s.newSpawn(root))
	}
	admitted := make([]bool, nParallel)

	s.together(nParallel, func(i int) error {
		err := s.InTx(s.ctx, func(tx store.Tx) error {
			before, err := tx.Spawns().Count(root)
			if err != nil {
				return err
			}
			if before.Live >= limit {
				return errFull
			}
			if _, _, err = tx.Spawns().Claim(calls[i]); err != nil {
				return err
			}
			after, err := tx.Spawns().Count(root)
			s.same("count after the claim", after, store.SpawnCount{Live: before.Live + 1, Total: before.Total + 1})
			return err
		})
		admitted[i] = err == nil
		if errors.Is(err, errFull) {
			return nil
		}
		return err
	})

	n := 0
	for i, in := range admitted {
		if in {
			n++
			continue
		}
		s.unknown(func(r store.Reader) error { _, err := r.Spawns().Get(calls[i].Key); return err })
	}
	s.same("admitted", n, limit)
	s.same("handles", len(s.spawns(root)), limit+1)
}

// Limits count all descendants: the call of a child is in the tree of its root (SA5).
func spawnsOfTrees(s *subject) {
	one, other := s.session(), s.session()
	child := s.runningSpawn(one)
	foreign := s.spawned(other)
	grandchild := s.newSpawn(one)
	grandchild.Key = perdure.CallKey{Session: child.Child, Call: "a call"} // the key does not determine the order
	grandchild.Depth = 2
	_, grandchild = s.claimSpawn(grandchild)
	ended := s.finished(one)

	s.same("one tree", s.spawns(one), []store.Spawn{child, grandchild, ended})
	s.same("another tree", s.spawns(other), []store.Spawn{foreign})
	s.same("of a child, which is no root", s.spawns(child.Child), []store.Spawn(nil))
	s.same("all", s.spawns(""), []store.Spawn{child, foreign, grandchild, ended})

	batch := s.session()
	s.write(func(tx store.Tx) error { // claims at the same moment
		_, _, first := tx.Spawns().Claim(store.Spawn{Key: perdure.CallKey{Session: batch, Call: "call b"}, Root: batch,
			Token: "token b"})
		_, _, second := tx.Spawns().Claim(store.Spawn{Key: perdure.CallKey{Session: batch, Call: "call a"}, Root: batch,
			Token: "token a"})
		return errors.Join(first, second)
	})
	claims := s.spawns(batch)
	s.same("claims of one moment", []perdure.Token{claims[0].Token, claims[1].Token},
		[]perdure.Token{"token b", "token a"})
}

func spawnAndOthers(s *subject) {
	root, fresh := s.session(), s.session()
	pending, running := s.spawned(root), s.runningSpawn(root)
	h := s.newSpawn(fresh)
	want := s.spawns("")
	work := func(tx store.Tx) error {
		_, _, claimed := tx.Spawns().Claim(h)
		_, repaired := tx.Spawns().Repair(running.Key, running.Token)
		return errors.Join(claimed, repaired, tx.Spawns().RegisterChild(pending.Key, pending.Token, "session_child"),
			tx.Spawns().Settle(running.Key, running.Token, perdure.TaskFailed, nil))
	}

	s.refused(errOnPurpose, func(tx store.Tx) error { return errors.Join(work(tx), errOnPurpose) })
	s.same("handles", s.spawns(""), want)
	s.unknown(func(r store.Reader) error { _, err := r.Spawns().OfChild("session_child"); return err })

	s.write(work)
	got := s.spawns("")
	s.same("states", []store.SpawnState{got[0].State, got[1].State, got[2].State},
		[]store.SpawnState{store.SpawnRunning, store.SpawnSettled, store.SpawnPending})
}

func spawnCopies(s *subject) {
	h := s.newSpawn(s.session())
	given := h.Schema
	_, answer := s.claimSpawn(h)
	want := answer
	want.Schema = json.RawMessage(`{"type":"object"}`)
	scribble(given, answer.Schema)
	s.same("handle", s.spawn(h.Key), want)

	result := json.RawMessage(`{"n":1}`)
	s.write(func(tx store.Tx) error {
		return errors.Join(tx.Spawns().RegisterChild(h.Key, h.Token, "session_child"),
			tx.Spawns().Settle(h.Key, h.Token, perdure.TaskSucceeded, result))
	})
	scribble(result)
	s.read(func(r store.Reader) error {
		one, err := r.Spawns().Get(h.Key)
		two, errChild := r.Spawns().OfChild("session_child")
		all, errAll := r.Spawns().List("")
		scribble(one.Schema, one.Result, two.Schema, two.Result, all[0].Schema, all[0].Result)
		return errors.Join(err, errChild, errAll)
	})

	got := s.spawn(h.Key)
	s.same("schema and result", []string{string(got.Schema), string(got.Result)},
		[]string{`{"type":"object"}`, `{"n":1}`})
}

func spawnSurvives(s *subject) {
	root := s.session()
	pending, running, settled := s.spawned(root), s.runningSpawn(root), s.finished(root)

	s.reopen()

	s.same("handles", s.spawns(root), []store.Spawn{pending, running, settled})
	s.write(func(tx store.Tx) error {
		return tx.Spawns().RegisterChild(pending.Key, pending.Token, mint[perdure.SessionID](s))
	})
	s.refused(perdure.Lost, func(tx store.Tx) error {
		return tx.Spawns().Settle(settled.Key, settled.Token, perdure.TaskFailed, nil)
	})
}

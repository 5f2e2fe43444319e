package storetest

import (
	"encoding/json"
	"errors"
	"fmt"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/store"
)

func spawnLaws() []law {
	return []law{
		{"claims_what_nobody_claimed", firstSpawn},
		{"answers_a_claim_by_the_handle_that_it_finds", spawnOutcomes},
		{"refuses_a_claim_without_a_token", spawnWithoutToken},
		{"lets_one_of_many_claims_win", spawnRace},
		{"keeps_calls_of_sessions_apart", spawnsOfSessions},
		{"keeps_hostile_text", hostileSpawns},
		{"is_unknown_until_claimed", unknownSpawn},
		{"register_makes_it_running_once", registerChild},
		{"register_refuses_what_moved_on", registerLost},
		{"register_refuses_the_child_of_another", foreignChild},
		{"lets_one_of_many_children_win", childRace},
		{"repair_counts_each_time", repairSpawn},
		{"repair_refuses_what_does_not_run", repairLost},
		{"settle_records_one_outcome", settleSpawn},
		{"settle_again_with_the_same_does_nothing", settleSpawnAgain},
		{"settle_refuses_what_moved_on", settleSpawnLost},
		{"lets_one_of_many_outcomes_win", settleSpawnRace},
		{"counts_what_the_transaction_claimed", spawnLimit},
		{"lists_and_counts_a_tree", spawnsOfTrees},
		{"goes_with_its_transaction", spawnAndOthers},
		{"gives_out_copies", spawnCopies},
		{"survives_reopening", spawnSurvives},
	}
}

// newSpawn returns the handle of a call that was never claimed, in a tree, as a caller fills it in.
func (s *subject) newSpawn(root perdure.SessionID) store.Spawn {
	n := s.minted.Add(1)
	return store.Spawn{
		Key:  perdure.CallKey{Session: root, Call: perdure.CallID(fmt.Sprintf("call %d", n))},
		Root: root, Depth: 1, Task: mint[perdure.TaskID](s), Name: "reader", Prompt: "read all of it",
		Schema: json.RawMessage(`{"type":"object"}`), Token: perdure.Token(fmt.Sprintf("token %d", n)),
	}
}

// claimSpawn claims a handle, whatever the outcome, and returns what the store returns.
func (s *subject) claimSpawn(h store.Spawn) (outcome store.SpawnOutcome, found store.Spawn) {
	s.Helper()
	s.write(func(tx store.Tx) (err error) {
		outcome, found, err = tx.Spawns().Claim(h)
		return err
	})
	return outcome, found
}

// spawned adds a pending handle to a tree.
func (s *subject) spawned(root perdure.SessionID) store.Spawn {
	s.Helper()
	outcome, found := s.claimSpawn(s.newSpawn(root))
	s.same("outcome", outcome, store.SpawnClaimed)
	return found
}

// runningSpawn adds a running handle to a tree.
func (s *subject) runningSpawn(root perdure.SessionID) store.Spawn {
	s.Helper()
	h := s.spawned(root)
	s.write(func(tx store.Tx) error { return tx.Spawns().RegisterChild(h.Key, h.Token, mint[perdure.SessionID](s)) })
	return s.spawn(h.Key)
}

// finished adds a settled handle to a tree.
func (s *subject) finished(root perdure.SessionID) store.Spawn {
	s.Helper()
	h := s.runningSpawn(root)
	s.write(func(tx store.Tx) error {
		return tx.Spawns().Settle(h.Key, h.Token, perdure.TaskSucceeded, json.RawMessage(`{"n":1}`))
	})
	return s.spawn(h.Key)
}

// spawn returns a handle.
func (s *subject) spawn(key perdure.CallKey) (h store.Spawn) {
	s.Helper()
	s.read(func(r store.Reader) (err error) {
		h, err = r.Spawns().Get(key)
		return err
	})
	return h
}

// spawns returns the handles of a tree, and requires that the counts match.
func (s *subject) spawns(root perdure.SessionID) (found []store.Spawn) {
	s.Helper()
	s.read(func(r store.Reader) (err error) {
		if found, err = r.Spawns().List(root); err != nil {
			return err
		}
		want := store.SpawnCount{Total: len(found)}
		for _, h := range found {
			if h.State.Live() {
				want.Live++
			}
		}
		got, err := r.Spawns().Count(root)
		s.same("count", got, want)
		return err
	})
	return found
}

func firstSpawn(s *subject) {
	given := filled[store.Spawn]()
	given.Key.Session = s.session()
	want := store.Spawn{
		Key: given.Key, Root: given.Root, Depth: given.Depth, Task: given.Task, Name: given.Name, Prompt: given.Prompt,
		Schema: given.Schema, Token: given.Token, State: store.SpawnPending,
	}

	s.write(func(tx store.Tx) error {
		want.CreatedAt = tx.Now()
		outcome, found, err := tx.Spawns().Claim(given)
		s.same("outcome", outcome, store.SpawnClaimed)
		s.same("answer", found, want)
		return err
	})

	s.same("handle", s.spawn(given.Key), want)
	s.same("list", s.spawns(given.Root), []store.Spawn{want})
}

func spawnOutcomes(s *subject) {
	root := s.session()
	for _, c := range []struct {
		found       store.Spawn
		mine, other store.SpawnOutcome
	}{
		{s.spawned(root), store.SpawnClaimed, store.SpawnClaimedPending},
		{s.runningSpawn(root), store.SpawnAlreadyRunning, store.SpawnAlreadyRunning},
		{s.finished(root), store.SpawnAlreadySettled, store.SpawnAlreadySettled},
	} {
		again := s.newSpawn(s.session())
		again.Key, again.Token = c.found.Key, c.found.Token
		outcome, found := s.claimSpawn(again)
		s.same(string(c.found.State)+" with its own token", outcome, c.mine)
		s.same("answer", found, c.found)

		again.Token = "token of another"
		outcome, found = s.claimSpawn(again)
		s.same(string(c.found.State)+" with another token", outcome, c.other)
		s.same("answer", found, c.found)
		s.same("handle", s.spawn(c.found.Key), c.found)
	}
}

func spawnWithoutToken(s *subject) {
	h := s.newSpawn(s.session())
	h.Token = ""

	s.refused(perdure.Invalid, func(tx store.Tx) error { _, _, err := tx.Spawns().Claim(h); return err })

	s.unknown(func(r store.Reader) error { _, err := r.Spawns().Get(h.Key); return err })
}

func spawnRace(s *subject) {
	h := s.newSpawn(s.session())

	winner := s.race(errOnPurpose, func(i int) error {
		mine := h
		mine.Token = perdure.Token(fmt.Sprint("token ", i))
		var outcome store.SpawnOutcome
		err := s.InTx(s.ctx, func(tx store.Tx) (err error) {
			outcome, _, err = tx.Spawns().Claim(mine)
			return err
		})
		if err == nil && outcome != store.SpawnClaimed {
			return errOnPurpose
		}
		return err
	})

	s.same("token", s.spawn(h.Key).Token, perdure.Token(fmt.Sprint("token ", winner)))
	s.same("how many", len(s.spawns(h.Root)), 1)
}

func spawnsOfSessions(s *subject) {
	one := s.spawned(s.session())
	other := s.newSpawn(s.session())
	other.Key.Call = one.Key.Call

	outcome, other := s.claimSpawn(other)

	s.same("outcome", outcome, store.SpawnClaimed)
	s.write(func(tx store.Tx) error { return tx.Spawns().RegisterChild(other.Key, other.Token, "session_child") })
	s.same("the first", s.spawn(one.Key), one)
}

func hostileSpawns(s *subject) {
	root := s.session()
	var want []store.Spawn
	for _, words := range hostile() {
		h := s.newSpawn(root)
		h.Key.Call, h.Name, h.Prompt = perdure.CallID(words), words, words
		h.Schema = json.RawMessage(words) // bytes of the caller, which a store does not parse
		outcome, found := s.claimSpawn(h)
		s.same("outcome", outcome, store.SpawnClaimed)
		s.write(func(tx store.Tx) error {
			return tx.Spawns().Settle(h.Key, h.Token, perdure.TaskFailed, json.RawMessage(words))
		})
		settled := s.spawn(h.Key)

		h.State, h.CreatedAt = store.SpawnPending, found.CreatedAt
		s.same("answer", found, h)
		h.State, h.Status, h.Result, h.SettledAt = store.SpawnSettled, perdure.TaskFailed, json.RawMessage(words),
			settled.SettledAt
		s.same("handle", settled, h)
		want = append(want, settled)
	}

	s.same("list", s.spawns(root), want)
}

func unknownSpawn(s *subject) {
	h := s.spawned(s.session()) // it has no child, and neither has any other
	for _, key := range []perdure.CallKey{{}, {Session: h.Key.Session}, {Call: h.Key.Call},
		{Session: s.session(), Call: h.Key.Call}} {
		s.unknown(func(r store.Reader) error { _, err := r.Spawns().Get(key); return err })
		s.refused(perdure.Lost, func(tx store.Tx) error { return tx.Spawns().RegisterChild(key, h.Token, "session_child") })
		s.refused(perdure.Lost, func(tx store.Tx) error { _, err := tx.Spawns().Repair(key, h.Token); return err })
		s.refused(perdure.Lost, func(tx store.Tx) error {
			return tx.Spawns().Settle(key, h.Token, perdure.TaskFailed, nil)
		})
	}
	for _, child := range []perdure.SessionID{"", h.Key.Session, "session_child"} {
		s.unknown(func(r store.Reader) error { _, err := r.Spawns().OfChild(child); return err })
	}
	s.same("of another tree", s.spawns(s.session()), []store.Spawn(nil))
}

func registerChild(s *subject) {
	root := s.session()
	other, want := s.runningSpawn(root), s.spawned(root)
	want.State, want.Child = store.SpawnRunning, mint[perdure.SessionID](s)

	for range 2 {
		s.write(func(tx store.Tx) error { return tx.Spawns().RegisterChild(want.Key, want.Token, want.Child) })

		s.same("handle", s.spawn(want.Key), want)
	}

	s.read(func(r store.Reader) error {
		one, err := r.Spawns().OfChild(want.Child)
		s.same("handle of the child", one, want)
		two, errOther := r.Spawns().OfChild(other.Child)
		s.same("handle of another child", two, other)
		return errors.Join(err, errOther)
	})
}

func registerLost(s *subject) {
	root := s.session()
	pending, running, settled := s.spawned(root), s.runningSpawn(root), s.finished(root)
	child := mint[perdure.SessionID](s)
	want := s.spawns(root)

	for _, c := range []struct {
		want  error
		on    store.Spawn
		token perdure.Token
		child perdure.SessionID
	}{
		{perdure.Lost, pending, "token of another", child},
		{perdure.Lost, pending, "token of another", running.Child},
		{perdure.Lost, running, "token of another", running.Child},
		{perdure.Lost, running, running.Token, child},
		{perdure.Lost, running, running.Token, settled.Child},
		{perdure.Lost, settled, settled.Token, settled.Child},
		{perdure.Lost, settled, settled.Token, child},
		{perdure.Lost, pending, running.Token, child},
		{perdure.Invalid, pending, pending.Token, ""},
	} {
		s.refused(c.want, func(tx store.Tx) error { return tx.Spawns().RegisterChild(c.on.Key, c.token, c.child) })

		s.same("handles", s.spawns(root), want)
	}
}

func foreignChild(s *subject) {
	for _, other := range []store.Spawn{s.runningSpawn(s.session()), s.finished(s.session())} {
		mine := s.spawned(s.session())

		s.refused(perdure.Conflict, func(tx store.Tx) error {
			return tx.Spawns().RegisterChild(mine.Key, mine.Token, other.Child)
		})

		s.same("handle", s.spawn(mine.Key), mine)
		s.write(func(tx store.Tx) error {
			return tx.Spawns().RegisterChild(mine.Key, mine.Token, mint[perdure.SessionID](s))
		})
		s.same("handle of the other", s.spawn(other.Key), other)
	}
}

// Two drivers with the same token register two children: only one succeeds.
func childRace(s *subject) {
	h := s.spawned(s.session())

	winner := s.race(perdure.Lost, func(i int) error {
		child := perdure.SessionID(fmt.Sprint("session_", i))
		return s.InTx(s.ctx, func(tx store.Tx) error { return tx.Spawns().RegisterChild(h.Key, h.Token, child) })
	})

	s.same("child", s.spawn(h.Key).Child, perdure.SessionID(fmt.Sprint("session_", winner)))
}

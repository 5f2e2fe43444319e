package storetest

import (
	"errors"
	"fmt"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/store"
)

func callLaws() []law {
	return []law{
		{"claims_what_nobody_claimed", firstClaim},
		{"answers_a_claim_by_the_row_that_it_finds", claimOutcomes},
		{"claims_again_with_the_same_token", claimAgain},
		{"asks_whether_the_stored_worker_lives", claimAsksForOwner},
		{"NoBypassToken", noBypassToken},
		{"lets_one_of_many_claims_win", claimRace},
		{"keeps_calls_of_sessions_apart", callsOfSessions},
		{"keeps_hostile_text", hostileCalls},
		{"is_unknown_until_claimed", unclaimedCall},
		{"take_stores_the_new_owner_and_nothing_else", takeCall},
		{"take_refuses_what_moved_on", takeLost},
		{"lets_one_of_many_takers_win", takeCallRace},
		{"bind_stores_the_task_and_nothing_else", bindCall},
		{"bind_refuses_what_moved_on", bindLost},
		{"bind_and_settle_together_leave_one_outcome", bindRace},
		{"lists_in_the_order_of_claims", listCalls},
		{"gives_out_copies", callCopies},
		{"survives_reopening", callSurvives},
	}
}

// newCall returns a call of a session that was never claimed, as a caller fills it in.
func (s *subject) newCall(session perdure.SessionID) perdure.Call {
	n := s.minted.Add(1)
	return perdure.Call{
		Key:  perdure.CallKey{Session: session, Call: perdure.CallID(fmt.Sprintf("call %d", n))},
		Turn: mint[perdure.TurnID](s), Tool: "charge", Args: []byte(`{"amount":1}`), Fingerprint: "sha256:1",
		Class: perdure.AtMostOnce, Token: perdure.Token(fmt.Sprintf("token %d", n)), Worker: mint[perdure.WorkerID](s), Epoch: 1,
	}
}

func alive(perdure.WorkerID) bool { return true }
func dead(perdure.WorkerID) bool  { return false }

// claim claims a call, whatever the outcome, and returns the row that the store returns.
func (s *subject) claim(call perdure.Call, live func(perdure.WorkerID) bool) (outcome perdure.ClaimOutcome, row perdure.Call) {
	s.Helper()
	s.write(func(tx store.Tx) (err error) {
		outcome, row, err = tx.Calls().Claim(call, live)
		return err
	})
	return outcome, row
}

// claimed adds a new call of a session to the ledger.
func (s *subject) claimed(session perdure.SessionID) perdure.Call {
	s.Helper()
	outcome, row := s.claim(s.newCall(session), alive)
	s.same("outcome", outcome, perdure.Claimed)
	return row
}

// call returns a row of the ledger.
func (s *subject) call(key perdure.CallKey) perdure.Call {
	s.Helper()
	var row perdure.Call
	s.read(func(r store.Reader) (err error) {
		row, err = r.Calls().Get(key)
		return err
	})
	return row
}

func firstClaim(s *subject) {
	call := filled[perdure.Call]()
	call.Key.Session = s.session()
	call.ResolvedBy = ""
	want := call
	want.State, want.Executions, want.Result = perdure.CallRunning, 1, nil
	want.SettledAt = perdure.Call{}.SettledAt
	var outcome perdure.ClaimOutcome
	var row perdure.Call

	s.write(func(tx store.Tx) (err error) {
		want.ClaimedAt = tx.Now()
		outcome, row, err = tx.Calls().Claim(call, dead)
		return err
	})

	s.same("outcome", outcome, perdure.Claimed)
	s.same("answer", row, want)
	s.same("row", s.call(call.Key), want)
}

func claimOutcomes(s *subject) {
	session := s.session()
	result := perdure.ToolResult{Result: []byte(`"done"`)}
	cases := []struct {
		found   perdure.CallState
		content string
		owner   func(perdure.WorkerID) bool
		want    perdure.ClaimOutcome
	}{
		{perdure.CallRunning, "same", alive, perdure.ClaimConflict},
		{perdure.CallRunning, "same", dead, perdure.ClaimAbandoned},
		{perdure.CallSettled, "same", alive, perdure.AlreadySettled},
		{perdure.CallSettled, "same", dead, perdure.AlreadySettled},
		{perdure.CallUnknown, "same", alive, perdure.AlreadyUnknown},
		{perdure.CallUnknown, "same", dead, perdure.AlreadyUnknown},
		{perdure.CallRunning, "other", alive, perdure.DeterminismViolation},
		{perdure.CallRunning, "other", dead, perdure.DeterminismViolation},
		{perdure.CallSettled, "other", dead, perdure.DeterminismViolation},
		{perdure.CallUnknown, "other", dead, perdure.DeterminismViolation},
	}
	for _, c := range cases {
		first := s.claimed(session)
		if c.found != perdure.CallRunning {
			s.write(func(tx store.Tx) error { return tx.Calls().Settle(first.Key, first.Token, c.found, result) })
		}
		want := s.call(first.Key)
		second := s.newCall(session)
		second.Key, second.Token, second.Worker, second.Epoch = first.Key, "other token", mint[perdure.WorkerID](s), 2
		if c.content == "other" {
			second.Fingerprint, second.Args = "sha256:2", []byte(`{"amount":2}`)
		}

		outcome, row := s.claim(second, c.owner)

		what := fmt.Sprintf("%s, %s content", c.found, c.content)
		s.same(what, outcome, c.want)
		s.same(what+": answer", row, want)
		s.same(what+": row", s.call(first.Key), want)
	}
}

// A lost answer is read back by claiming again (LG5).
func claimAgain(s *subject) {
	call := s.newCall(s.session())
	_, want := s.claim(call, alive)

	for _, live := range []func(perdure.WorkerID) bool{alive, dead} {
		outcome, row := s.claim(call, live)

		s.same("outcome", outcome, perdure.Claimed)
		s.same("answer", row, want)
	}

	s.same("row", s.call(call.Key), want)
	s.write(func(tx store.Tx) error {
		return tx.Calls().Settle(call.Key, call.Token, perdure.CallSettled, perdure.ToolResult{})
	})
	outcome, _ := s.claim(call, alive)
	s.same("outcome once settled", outcome, perdure.AlreadySettled)
}

func claimAsksForOwner(s *subject) {
	first := s.claimed(s.session())
	second := first
	second.Token, second.Worker = "other token", mint[perdure.WorkerID](s)

	outcome, _ := s.claim(second, func(id perdure.WorkerID) bool { return id == first.Worker })
	s.same("outcome while the owner is alive", outcome, perdure.ClaimConflict)

	outcome, _ = s.claim(second, func(id perdure.WorkerID) bool { return id != first.Worker })
	s.same("outcome once it is dead", outcome, perdure.ClaimAbandoned)
}

// noBypassToken checks that an empty token claims, settles, takes over and binds nothing, whatever
// the state of the row (LG6).
func noBypassToken(s *subject) {
	session := s.session()
	running, settled, unknown := s.claimed(session), s.claimed(session), s.claimed(session)
	s.settle(settled, perdure.CallSettled, text("done"))
	s.settle(unknown, perdure.CallUnknown, text("nobody knows"))
	for _, row := range []perdure.Call{running, settled, unknown} {
		want := s.call(row.Key)
		bare := want
		bare.Token = ""
		next := want
		next.Token, next.Executions = "taken", 2

		for _, live := range []func(perdure.WorkerID) bool{alive, dead} {
			s.refused(perdure.Invalid, func(tx store.Tx) error { _, _, err := tx.Calls().Claim(bare, live); return err })
		}
		fresh := s.newCall(session)
		fresh.Token = ""
		s.refused(perdure.Invalid, func(tx store.Tx) error { _, _, err := tx.Calls().Claim(fresh, alive); return err })
		s.refused(perdure.Invalid, func(tx store.Tx) error { return tx.Calls().TakeOver(want, bare) })
		bare.State = perdure.CallRunning
		s.refused(perdure.Invalid, func(tx store.Tx) error { return tx.Calls().Resolve(bare, "x") })
		for _, state := range []perdure.CallState{perdure.CallSettled, perdure.CallUnknown} {
			s.refused(perdure.Lost, func(tx store.Tx) error { return tx.Calls().Settle(row.Key, "", state, text("done")) })
		}
		s.refused(perdure.Lost, func(tx store.Tx) error { return tx.Calls().TakeOver(bare, next) })
		s.refused(perdure.Lost, func(tx store.Tx) error { return tx.Calls().Bind(row.Key, "", "task_1", 1) })

		s.same("row", s.call(row.Key), want)
	}
}

func claimRace(s *subject) {
	call := s.newCall(s.session())
	outcomes := make([]perdure.ClaimOutcome, nParallel)

	s.together(nParallel, func(i int) error {
		mine := call
		mine.Token = perdure.Token(fmt.Sprint(i))
		return s.InTx(s.ctx, func(tx store.Tx) (err error) {
			outcomes[i], _, err = tx.Calls().Claim(mine, alive)
			return err
		})
	})

	count := map[perdure.ClaimOutcome]int{}
	for i, outcome := range outcomes {
		count[outcome]++
		if outcome == perdure.Claimed {
			s.same("token", s.call(call.Key).Token, perdure.Token(fmt.Sprint(i)))
		}
	}
	s.same("outcomes", count, map[perdure.ClaimOutcome]int{perdure.Claimed: 1, perdure.ClaimConflict: nParallel - 1})
}

func callsOfSessions(s *subject) {
	one := s.claimed(s.session())
	other := s.newCall(s.session())
	other.Key.Call = one.Key.Call

	outcome, _ := s.claim(other, alive)

	s.same("outcome", outcome, perdure.Claimed)
	s.same("row", s.call(one.Key), one)
}

func hostileCalls(s *subject) {
	session := s.session()
	for _, text := range hostile() {
		call := s.newCall(session)
		call.Key.Call, call.Tool, call.Args = perdure.CallID(text), text, []byte(text)
		s.claim(call, alive)
		want := call.Key

		got := s.call(want)
		s.same("key", got.Key, want)
		s.same("tool and arguments", []string{got.Tool, string(got.Args)}, []string{text, text})
	}
}

func unclaimedCall(s *subject) {
	one := s.claimed(s.session())
	for _, key := range []perdure.CallKey{
		{Session: one.Key.Session, Call: "another"}, {Session: s.session(), Call: one.Key.Call}, {},
	} {
		s.unknown(func(r store.Reader) error { _, err := r.Calls().Get(key); return err })
		s.refused(perdure.NotFound, func(tx store.Tx) error {
			return tx.Calls().Settle(key, one.Token, perdure.CallSettled, perdure.ToolResult{})
		})
		s.refused(perdure.NotFound, func(tx store.Tx) error {
			return tx.Calls().Resolve(perdure.Call{Key: key, State: perdure.CallRunning, Token: "new"}, "operator")
		})
		s.refused(perdure.Lost, func(tx store.Tx) error {
			return tx.Calls().TakeOver(perdure.Call{Key: key, Token: one.Token}, perdure.Call{Key: key, Token: "new"})
		})
		s.refused(perdure.Lost, func(tx store.Tx) error { return tx.Calls().Bind(key, one.Token, "task_1", 1) })
	}
}

func takeCall(s *subject) {
	old := s.claimed(s.session())
	next := filled[perdure.Call]()
	next.Key = old.Key
	want := old
	want.Token, want.Worker, want.Home, want.Epoch = next.Token, next.Worker, next.Home, next.Epoch
	want.Attempt, want.Task, want.Executions = next.Attempt, next.Task, next.Executions

	s.write(func(tx store.Tx) error { return tx.Calls().TakeOver(old, next) })

	s.same("row", s.call(old.Key), want)
	s.refused(perdure.Lost, func(tx store.Tx) error {
		return tx.Calls().Settle(old.Key, old.Token, perdure.CallSettled, perdure.ToolResult{})
	})
	s.write(func(tx store.Tx) error {
		return tx.Calls().Settle(old.Key, next.Token, perdure.CallSettled, perdure.ToolResult{})
	})
}

func takeLost(s *subject) {
	session := s.session()
	moved, settled, unknown := s.claimed(session), s.claimed(session), s.claimed(session)
	taken := moved
	taken.Token, taken.Executions = "taken", 2
	s.write(func(tx store.Tx) error {
		if err := tx.Calls().TakeOver(moved, taken); err != nil {
			return err
		}
		if err := tx.Calls().Settle(settled.Key, settled.Token, perdure.CallSettled, perdure.ToolResult{}); err != nil {
			return err
		}
		return tx.Calls().Settle(unknown.Key, unknown.Token, perdure.CallUnknown, perdure.ToolResult{})
	})

	for _, old := range []perdure.Call{moved, settled, unknown} {
		want := s.call(old.Key)
		next := old
		next.Token, next.Executions = "late", 2

		s.refused(perdure.Lost, func(tx store.Tx) error { return tx.Calls().TakeOver(old, next) })

		s.same("row", s.call(old.Key), want)
	}
}

func takeCallRace(s *subject) {
	old := s.claimed(s.session())

	winner := s.race(perdure.Lost, func(i int) error {
		next := old
		next.Token, next.Executions = perdure.Token(fmt.Sprint(i)), old.Executions+1
		return s.InTx(s.ctx, func(tx store.Tx) error { return tx.Calls().TakeOver(old, next) })
	})

	s.same("token", s.call(old.Key).Token, perdure.Token(fmt.Sprint(winner)))
	s.same("executions", s.call(old.Key).Executions, 2)
}

func bindCall(s *subject) {
	session := s.session()
	want, other := s.claimed(session), s.claimed(session)
	task := mint[perdure.TaskID](s)
	for _, attempt := range []int{1, 1, 2} { // the second time has no effect
		s.write(func(tx store.Tx) error { return tx.Calls().Bind(want.Key, want.Token, task, attempt) })

		want.Task, want.Attempt = task, attempt
		s.same("row", s.call(want.Key), want)
	}
	s.same("row of another", s.call(other.Key), other)

	outcome, row := s.claim(want, alive) // the token owns it as before
	s.same("outcome of a claim", outcome, perdure.Claimed)
	s.same("answer of a claim", row, want)
	s.settle(want, perdure.CallSettled, text("done"))
	got := s.call(want.Key)
	s.same("state, task and attempt once settled", []any{got.State, got.Task, got.Attempt}, []any{perdure.CallSettled, task, 2})
}

func bindLost(s *subject) {
	session := s.session()
	moved, settled, unknown, running := s.claimed(session), s.claimed(session), s.claimed(session), s.claimed(session)
	taken := moved
	taken.Token, taken.Executions = "taken", 2
	s.write(func(tx store.Tx) error { return tx.Calls().TakeOver(moved, taken) })
	s.settle(settled, perdure.CallSettled, text("done"))
	s.settle(unknown, perdure.CallUnknown, text("nobody knows"))
	cases := []struct {
		key   perdure.CallKey
		token perdure.Token
	}{
		{moved.Key, moved.Token}, {settled.Key, settled.Token}, {unknown.Key, unknown.Token},
		{running.Key, ""}, {running.Key, moved.Token}, {running.Key, running.Token + " "},
	}
	for _, c := range cases {
		want := s.call(c.key)

		s.refused(perdure.Lost, func(tx store.Tx) error { return tx.Calls().Bind(c.key, c.token, "task_late", 1) })

		s.same("row", s.call(c.key), want)
		s.write(func(tx store.Tx) error { // an fn may ignore the refusal and continue
			if err := tx.Calls().Bind(c.key, c.token, "task_late", 1); !errors.Is(err, perdure.Lost) {
				return fmt.Errorf("got error %v, want %v", err, perdure.Lost)
			}
			return nil
		})
		s.same("row after a transaction that continued", s.call(c.key), want)
	}
}

// A call that is detached while it ends was either detached before its end, or not at all.
func bindRace(s *subject) {
	for range nParallel {
		call := s.claimed(s.session())
		var bound error

		s.together(2, func(i int) error {
			return s.InTx(s.ctx, func(tx store.Tx) error {
				if i == 0 {
					return tx.Calls().Settle(call.Key, call.Token, perdure.CallSettled, text("done"))
				}
				bound = tx.Calls().Bind(call.Key, call.Token, "task_1", 1)
				if errors.Is(bound, perdure.Lost) {
					return nil
				}
				return bound
			})
		})

		want := perdure.TaskID("task_1")
		if bound != nil {
			want = ""
		}
		got := s.call(call.Key)
		s.same("state and task", []any{got.State, got.Task}, []any{perdure.CallSettled, want})
	}
}

func listCalls(s *subject) {
	one, other := s.session(), s.session()
	var calls []perdure.Call
	for i := range 6 {
		session := one
		if i%3 == 2 {
			session = other
		}
		call := s.newCall(session)
		// the ids descend: the order is that of the claims
		call.Key.Call = perdure.CallID(fmt.Sprintf("call %d", 100-i))
		_, row := s.claim(call, alive)
		calls = append(calls, row)
	}
	s.write(func(tx store.Tx) error {
		return tx.Calls().Settle(calls[0].Key, calls[0].Token, perdure.CallSettled, perdure.ToolResult{})
	})
	s.write(func(tx store.Tx) error {
		return tx.Calls().Settle(calls[2].Key, calls[2].Token, perdure.CallUnknown, perdure.ToolResult{})
	})
	s.claim(calls[1], alive) // claimed again, it keeps its position
	for i := range calls {
		calls[i] = s.call(calls[i].Key)
	}
	pick := func(places ...int) (picked []perdure.Call) {
		for _, i := range places {
			picked = append(picked, calls[i])
		}
		return picked
	}
	cases := []struct {
		filter store.CallFilter
		want   []perdure.Call
	}{
		{store.CallFilter{}, calls},
		{store.CallFilter{Session: one}, pick(0, 1, 3, 4)},
		{store.CallFilter{Session: other}, pick(2, 5)},
		{store.CallFilter{State: perdure.CallRunning}, pick(1, 3, 4, 5)},
		{store.CallFilter{State: perdure.CallSettled}, pick(0)},
		{store.CallFilter{State: perdure.CallUnknown}, pick(2)},
		{store.CallFilter{Session: one, State: perdure.CallRunning}, pick(1, 3, 4)},
		{store.CallFilter{Session: other, State: perdure.CallSettled}, nil},
		{store.CallFilter{Session: mint[perdure.SessionID](s)}, nil},
	}
	for _, c := range cases {
		s.read(func(r store.Reader) error {
			got, err := r.Calls().List(c.filter)
			s.same(fmt.Sprintf("%+v", c.filter), got, c.want)
			return err
		})
	}
}

func callCopies(s *subject) {
	call := s.newCall(s.session())
	result := filled[perdure.ToolResult]()
	_, row := s.claim(call, alive)
	s.write(func(tx store.Tx) error { return tx.Calls().Settle(call.Key, call.Token, perdure.CallSettled, result) })
	want := s.call(call.Key)
	want.Args, want.Result = append([]byte(nil), want.Args...), new(filled[perdure.ToolResult]())
	want.Result.RawOutput = nil

	scribble(call, row, result, s.call(call.Key))
	s.read(func(r store.Reader) error {
		calls, err := r.Calls().List(store.CallFilter{})
		scribble(calls)
		return err
	})
	_, again := s.claim(s.call(call.Key), alive)
	scribble(again)

	s.same("row", s.call(call.Key), want)
}

func callSurvives(s *subject) {
	session := s.session()
	first, second := s.claimed(session), s.claimed(session)
	s.write(func(tx store.Tx) error {
		result := filled[perdure.ToolResult]()
		return tx.Calls().Settle(first.Key, first.Token, perdure.CallSettled, result)
	})
	want := []perdure.Call{s.call(first.Key), s.call(second.Key)}

	s.reopen()

	s.read(func(r store.Reader) error {
		got, err := r.Calls().List(store.CallFilter{})
		s.same("calls", got, want)
		return err
	})
	outcome, _ := s.claim(second, alive)
	s.same("outcome", outcome, perdure.Claimed)
}

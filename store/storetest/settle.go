package storetest

import (
	"fmt"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/store"
)

func settleLaws() []law {
	return []law{
		{"stores_the_whole_result", settleStores},
		{"does_nothing_for_the_same_result_again", settleAgain},
		{"refuses_another_result", settleOther},
		{"refuses_a_token_that_does_not_own_the_row", settleForeignToken},
		{"refuses_other_states", settleWrongState},
		{"refuses_a_result_that_is_no_json", settleWithoutJSON},
		{"makes_a_row_unknown", settleUnknown},
		{"lets_one_of_many_settlements_win", settleRace},
		{"keeps_hostile_results", hostileResults},
		{"resolve_settles_an_unknown_row", resolveSettles},
		{"resolve_reruns_an_unknown_row", resolveReruns},
		{"resolve_refuses_what_is_not_unknown", resolveConflict},
		{"resolve_refuses_other_states", resolveInvalid},
		{"lets_one_of_many_resolvers_win", resolveRace},
	}
}

// text returns a result with a text.
func text(words string) perdure.ToolResult {
	return perdure.ToolResult{CallID: "call", Result: fmt.Appendf(nil, "%q", words)}
}

// settle settles a call under its token.
func (s *subject) settle(call perdure.Call, state perdure.CallState, result perdure.ToolResult) {
	s.Helper()
	s.write(func(tx store.Tx) error { return tx.Calls().Settle(call.Key, call.Token, state, result) })
}

func settleStores(s *subject) {
	want := s.claimed(s.session())
	result := filled[perdure.ToolResult]()
	want.State, want.Result = perdure.CallSettled, new(result)
	want.Result.RawOutput = nil // never serialised

	s.write(func(tx store.Tx) error {
		want.SettledAt = tx.Now()
		return tx.Calls().Settle(want.Key, want.Token, perdure.CallSettled, result)
	})

	s.same("row", s.call(want.Key), want)
}

func settleAgain(s *subject) {
	for _, state := range []perdure.CallState{perdure.CallSettled, perdure.CallUnknown} {
		call := s.claimed(s.session())
		s.settle(call, state, filled[perdure.ToolResult]())
		want := s.call(call.Key)

		s.settle(call, state, filled[perdure.ToolResult]())

		s.same("row", s.call(call.Key), want)
	}
}

func settleOther(s *subject) {
	settled, unknown := s.claimed(s.session()), s.claimed(s.session())
	s.settle(settled, perdure.CallSettled, text("first"))
	s.settle(unknown, perdure.CallUnknown, text("first"))
	cases := []struct {
		call   perdure.Call
		state  perdure.CallState
		result perdure.ToolResult
	}{
		{settled, perdure.CallSettled, text("second")},
		{settled, perdure.CallSettled, perdure.ToolResult{}},
		{settled, perdure.CallUnknown, text("first")},
		{unknown, perdure.CallSettled, text("first")},
		{unknown, perdure.CallUnknown, text("second")},
	}
	for _, c := range cases {
		want := s.call(c.call.Key)

		s.refused(perdure.Lost, func(tx store.Tx) error {
			return tx.Calls().Settle(c.call.Key, c.call.Token, c.state, c.result)
		})

		s.same("row", s.call(c.call.Key), want)
	}
}

func settleForeignToken(s *subject) {
	running, settled := s.claimed(s.session()), s.claimed(s.session())
	s.settle(settled, perdure.CallSettled, text("first"))
	for _, call := range []perdure.Call{running, settled} {
		want := s.call(call.Key)
		for _, token := range []perdure.Token{"foreign", ""} {
			s.refused(perdure.Lost, func(tx store.Tx) error {
				return tx.Calls().Settle(call.Key, token, perdure.CallSettled, text("first"))
			})
		}
		s.same("row", s.call(call.Key), want)
	}
}

func settleWrongState(s *subject) {
	call := s.claimed(s.session())

	for _, state := range []perdure.CallState{perdure.CallRunning, "", "done"} {
		s.refused(perdure.Invalid, func(tx store.Tx) error {
			return tx.Calls().Settle(call.Key, call.Token, state, text("done"))
		})
	}

	s.same("row", s.call(call.Key), call)
}

func settleWithoutJSON(s *subject) {
	broken := perdure.ToolResult{Result: []byte(`{"half":`)}
	running, unknown := s.claimed(s.session()), s.unknownCall()
	next := unknown
	next.State, next.Result = perdure.CallSettled, &broken

	s.refused(perdure.Invalid, func(tx store.Tx) error {
		return tx.Calls().Settle(running.Key, running.Token, perdure.CallSettled, broken)
	})
	s.refused(perdure.Invalid, func(tx store.Tx) error { return tx.Calls().Resolve(next, "operator") })

	s.same("row", s.call(running.Key), running)
	s.same("unknown row", s.call(unknown.Key), unknown)
}

func settleUnknown(s *subject) {
	want := s.claimed(s.session())
	want.State, want.Result = perdure.CallUnknown, new(text("nobody knows"))

	s.write(func(tx store.Tx) error {
		want.SettledAt = tx.Now()
		return tx.Calls().Settle(want.Key, want.Token, perdure.CallUnknown, text("nobody knows"))
	})

	s.same("row", s.call(want.Key), want)
}

func settleRace(s *subject) {
	call := s.claimed(s.session())

	winner := s.race(perdure.Lost, func(i int) error {
		return s.InTx(s.ctx, func(tx store.Tx) error {
			return tx.Calls().Settle(call.Key, call.Token, perdure.CallSettled, text(fmt.Sprint(i)))
		})
	})

	s.same("result", s.call(call.Key).Result, new(text(fmt.Sprint(winner))))
}

// A stored result has the form of its JSON, and is the same result when it is settled again.
func hostileResults(s *subject) {
	for _, words := range hostile() {
		call := s.claimed(s.session())
		result := perdure.Failed(call.Key.Call, perdure.ErrorTool, words)

		s.settle(call, perdure.CallSettled, result)
		s.settle(call, perdure.CallSettled, result)

		s.same("result", *s.call(call.Key).Result, storedResult(s, result))
	}
}

// unknownCall adds a call whose outcome is unknown.
func (s *subject) unknownCall() perdure.Call {
	s.Helper()
	call := s.claimed(s.session())
	s.settle(call, perdure.CallUnknown, text("nobody knows"))
	return s.call(call.Key)
}

func resolveSettles(s *subject) {
	want := s.unknownCall()
	next := want
	next.State, next.Result = perdure.CallSettled, new(filled[perdure.ToolResult]())
	next.Token, next.Worker, next.Executions = "not stored", "not stored", 9
	want.State, want.Result, want.ResolvedBy = perdure.CallSettled, new(*next.Result), "operator \x00\xff"
	want.Result.RawOutput = nil

	s.write(func(tx store.Tx) error {
		want.SettledAt = tx.Now()
		return tx.Calls().Resolve(next, want.ResolvedBy)
	})

	s.same("row", s.call(want.Key), want)
	outcome, _ := s.claim(want, alive)
	s.same("outcome of a claim", outcome, perdure.AlreadySettled)
}

func resolveReruns(s *subject) {
	want := s.unknownCall()
	next := filled[perdure.Call]()
	next.Key, next.State = want.Key, perdure.CallRunning
	want.State, want.ResolvedBy, want.Result = perdure.CallRunning, "operator", nil
	want.Token, want.Worker, want.Home, want.Executions = next.Token, next.Worker, next.Home, next.Executions
	want.SettledAt = perdure.Call{}.SettledAt

	s.write(func(tx store.Tx) error { return tx.Calls().Resolve(next, "operator") })

	s.same("row", s.call(want.Key), want)
	s.settle(want, perdure.CallSettled, text("done"))
	s.same("who resolved it", s.call(want.Key).ResolvedBy, "operator")
}

func resolveConflict(s *subject) {
	running, settled := s.claimed(s.session()), s.claimed(s.session())
	s.settle(settled, perdure.CallSettled, text("done"))
	for _, call := range []perdure.Call{running, settled} {
		want := s.call(call.Key)
		for _, state := range []perdure.CallState{perdure.CallSettled, perdure.CallRunning} {
			next := call
			next.State, next.Result, next.Token = state, new(text("resolved")), "new"

			s.refused(perdure.Conflict, func(tx store.Tx) error { return tx.Calls().Resolve(next, "operator") })
		}
		s.same("row", s.call(call.Key), want)
	}
}

func resolveInvalid(s *subject) {
	call := s.unknownCall()
	for _, next := range []perdure.Call{
		{Key: call.Key, State: perdure.CallUnknown, Result: call.Result},
		{Key: call.Key, Result: call.Result},
		{Key: call.Key, State: perdure.CallSettled},
	} {
		s.refused(perdure.Invalid, func(tx store.Tx) error { return tx.Calls().Resolve(next, "operator") })
	}
	s.same("row", s.call(call.Key), call)
}

func resolveRace(s *subject) {
	call := s.unknownCall()

	winner := s.race(perdure.Conflict, func(i int) error {
		next := call
		next.State, next.Token, next.Executions = perdure.CallRunning, perdure.Token(fmt.Sprint(i)), 2
		return s.InTx(s.ctx, func(tx store.Tx) error { return tx.Calls().Resolve(next, "operator") })
	})

	s.same("token", s.call(call.Key).Token, perdure.Token(fmt.Sprint(winner)))
}

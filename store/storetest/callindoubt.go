package storetest

import (
	"fmt"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/store"
)

func callInDoubtLaws() []law {
	return []law{{"lists_the_calls_of_a_session_that_are_in_doubt", listInDoubt}}
}

// listInDoubt lists the calls without an outcome of their own: running ones, unknown ones, and
// resolved ones.
func listInDoubt(s *subject) {
	one, other := s.session(), s.session()
	running, unknown, settled, resolved, rerun, foreign := s.claimed(one), s.claimed(one), s.claimed(one),
		s.claimed(one), s.claimed(one), s.claimed(other)
	s.settle(settled, perdure.CallSettled, text("done"))
	for _, call := range []perdure.Call{unknown, resolved, rerun} {
		s.settle(call, perdure.CallUnknown, text("nobody knows"))
	}
	s.write(func(tx store.Tx) error {
		next, result := resolved, text("it happened")
		next.State, next.Result = perdure.CallSettled, &result
		return tx.Calls().Resolve(next, "operator")
	})
	s.write(func(tx store.Tx) error {
		next := rerun
		next.State, next.Result, next.Token, next.Executions = perdure.CallRunning, nil, "again", 2
		return tx.Calls().Resolve(next, "operator")
	})

	rows := func(calls ...perdure.Call) (all []perdure.Call) {
		for _, call := range calls {
			all = append(all, s.call(call.Key))
		}
		return all
	}
	for _, c := range []struct {
		session perdure.SessionID
		want    []perdure.Call
	}{{one, rows(running, unknown, resolved, rerun)}, {other, rows(foreign)}, {mint[perdure.SessionID](s), nil}} {
		filter := store.CallFilter{Session: c.session, InDoubt: true}
		s.read(func(r store.Reader) error {
			got, err := r.Calls().List(filter)
			s.same(fmt.Sprintf("%+v", filter), got, c.want)
			return err
		})
		s.write(func(tx store.Tx) error {
			got, err := tx.Calls().List(filter)
			s.same(fmt.Sprintf("%+v in a transaction", filter), got, c.want)
			return err
		})
	}
	for _, filter := range []store.CallFilter{{InDoubt: true},
		{Session: one, State: perdure.CallUnknown, InDoubt: true}} {
		s.refused(perdure.Invalid, func(tx store.Tx) error { _, err := tx.Calls().List(filter); return err })
	}
}

package storetest

import (
	"errors"
	"fmt"
	"time"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/store"
)

func approvalLaws() []law {
	return []law{
		{"keeps_every_field", approvalFields},
		{"cuts_moments_to_utc_microseconds", approvalMoments},
		{"keeps_hostile_text", hostileApprovals},
		{"is_unknown_until_put", unknownApproval},
		{"put_again_overwrites_all_but_the_place", putApprovalAgain},
		{"refuses_the_id_of_another_call", foreignApproval},
		{"lets_one_of_many_calls_have_an_id", approvalRace},
		{"lets_one_of_many_answers_win", answerRace},
		{"refuses_a_state_that_is_none", approvalStateThatIsNone},
		{"refuses_what_is_no_json", approvalWithoutJSON},
		{"lists_by_filter_in_the_order_of_requests", listApprovals},
		{"keeps_call_ids_apart_by_their_bytes", approvalsOfCalls},
		{"goes_with_its_transaction", approvalAndOthers},
		{"gives_out_copies", approvalCopies},
		{"survives_reopening", approvalSurvives},
	}
}

// newApproval returns an open approval of a new session, with every field set.
func (s *subject) newApproval(session perdure.SessionID) perdure.Approval {
	a := filled[perdure.Approval]()
	a.ID, a.Session, a.State = mint[perdure.ApprovalID](s), session, perdure.ApprovalOpen
	return a
}

// ask puts an approval and returns it.
func (s *subject) ask(a perdure.Approval) perdure.Approval {
	s.Helper()
	s.write(func(tx store.Tx) error { return tx.Approvals().Put(a) })
	return a
}

// approval returns a record.
func (s *subject) approval(id perdure.ApprovalID) (a perdure.Approval) {
	s.Helper()
	s.read(func(r store.Reader) (err error) {
		a, err = r.Approvals().Get(id)
		return err
	})
	return a
}

// approvals returns the ids of a list.
func (s *subject) approvals(filter store.ApprovalFilter) (ids []perdure.ApprovalID) {
	s.Helper()
	s.read(func(r store.Reader) error {
		found, err := r.Approvals().List(filter)
		for _, a := range found {
			ids = append(ids, a.ID)
		}
		return err
	})
	return ids
}

func approvalFields(s *subject) {
	session := s.session()
	least := perdure.Approval{ID: mint[perdure.ApprovalID](s), Session: session, Args: []byte(`{}`),
		State: perdure.ApprovalVoid}
	for _, want := range []perdure.Approval{s.newApproval(session), least} {
		s.write(func(tx store.Tx) error {
			if err := tx.Approvals().Put(want); err != nil {
				return err
			}
			got, err := tx.Approvals().Get(want.ID)
			s.same("record in its transaction", got, want)
			return err
		})

		s.same("record", s.approval(want.ID), want)
		s.read(func(r store.Reader) error {
			got, err := r.Approvals().List(store.ApprovalFilter{State: want.State})
			s.same("list", got, []perdure.Approval{want})
			return err
		})
	}
}

func approvalMoments(s *subject) {
	want := s.newApproval(s.session())
	want.RequestedAt, want.ExpiresAt, want.DecidedAt = moment(7), moment(8), moment(9)
	east, given := time.FixedZone("east", 5*3600), want
	given.RequestedAt, given.ExpiresAt, given.DecidedAt = moment(7).Add(999).In(east), moment(8).Add(1).In(east),
		moment(9).In(east)

	s.ask(given)

	s.same("record", s.approval(want.ID), want)
}

func hostileApprovals(s *subject) {
	session := s.session()
	for _, words := range hostile() {
		a := s.newApproval(session)
		a.Call, a.Tool, a.Reason, a.Note, a.DecidedBy = perdure.CallID(words), words, words, words, words
		a.Permissions = []perdure.Permission{{Kind: words, Target: words, Reason: words}}
		a.Metadata = map[string]string{words: words}

		s.ask(s.ask(a)) // its id is that of the same call

		want := throughJSON(s, perdure.ApprovalRequested{Approval: a}).Approval
		want.Call = a.Call // as in the ledger
		s.same("record", s.approval(a.ID), want)
	}
}

func unknownApproval(s *subject) {
	known := s.ask(s.newApproval(s.session()))
	for _, id := range []perdure.ApprovalID{"", mint[perdure.ApprovalID](s), perdure.ApprovalID(known.Session),
		known.ID + " "} {
		s.unknown(func(r store.Reader) error { _, err := r.Approvals().Get(id); return err })
	}
}

func putApprovalAgain(s *subject) {
	session := s.session()
	first, second := s.ask(s.newApproval(session)), s.ask(s.newApproval(session))
	states := []perdure.ApprovalState{
		perdure.ApprovalApproved, perdure.ApprovalDenied, perdure.ApprovalExpired, perdure.ApprovalVoid,
		perdure.ApprovalOpen,
	}
	for i, state := range states {
		want := perdure.Approval{ // every field of the old record is overwritten
			ID: first.ID, Session: session, Call: first.Call, Args: []byte(`null`),
			State: state, Tool: fmt.Sprint("tool ", i),
		}

		s.ask(want)

		s.same("record", s.approval(first.ID), want)
		s.same("record of another", s.approval(second.ID), second)
		s.same("order", s.approvals(store.ApprovalFilter{}), []perdure.ApprovalID{first.ID, second.ID})
		s.same("list of its state", s.approvals(store.ApprovalFilter{State: state})[0], first.ID)
	}
}

func foreignApproval(s *subject) {
	want := s.ask(s.newApproval(s.session()))
	otherCall, otherSession, lost := want, want, want
	otherCall.Call, otherSession.Session, lost.Call = "another call", s.session(), ""
	for _, a := range []perdure.Approval{otherCall, otherSession, lost} {
		a.State, a.DecidedBy = perdure.ApprovalApproved, "somebody"

		s.refused(perdure.Conflict, func(tx store.Tx) error { return tx.Approvals().Put(a) })

		s.same("record", s.approval(want.ID), want)
		s.write(func(tx store.Tx) error { // an fn may ignore the refusal and continue
			if err := tx.Approvals().Put(a); !errors.Is(err, perdure.Conflict) {
				return fmt.Errorf("got error %v, want %v", err, perdure.Conflict)
			}
			return nil
		})
	}
	s.same("record", s.approval(want.ID), want)
	s.same("list", s.approvals(store.ApprovalFilter{}), []perdure.ApprovalID{want.ID})
}

func approvalRace(s *subject) {
	a := s.newApproval(s.session())

	winner := s.race(perdure.Conflict, func(i int) error {
		mine := a
		mine.Call = perdure.CallID(fmt.Sprint(i))
		return s.InTx(s.ctx, func(tx store.Tx) error { return tx.Approvals().Put(mine) })
	})

	s.same("call", s.approval(a.ID).Call, perdure.CallID(fmt.Sprint(winner)))
}

// A transaction that reads an approval as open and closes it is the only one that does so (AP9).
func answerRace(s *subject) {
	a := s.ask(s.newApproval(s.session()))

	winner := s.race(errOnPurpose, func(i int) error {
		return s.InTx(s.ctx, func(tx store.Tx) error {
			if _, err := tx.Sessions().Lock(a.Session, 0); err != nil {
				return err
			}
			mine, err := tx.Approvals().Get(a.ID)
			if err != nil || mine.State != perdure.ApprovalOpen {
				return errors.Join(err, errOnPurpose)
			}
			mine.State, mine.DecidedBy = perdure.ApprovalDenied, fmt.Sprint(i)
			return tx.Approvals().Put(mine)
		})
	})

	s.same("who answered", s.approval(a.ID).DecidedBy, fmt.Sprint(winner))
}

func approvalStateThatIsNone(s *subject) {
	want := s.ask(s.newApproval(s.session()))
	for _, state := range []perdure.ApprovalState{"", "done", "OPEN"} {
		known, fresh := want, s.newApproval(want.Session)
		known.State, fresh.State = state, state

		s.refused(perdure.Invalid, func(tx store.Tx) error { return tx.Approvals().Put(known) })
		s.refused(perdure.Invalid, func(tx store.Tx) error { return tx.Approvals().Put(fresh) })

		s.same("record", s.approval(want.ID), want)
		s.unknown(func(r store.Reader) error { _, err := r.Approvals().Get(fresh.ID); return err })
		if state != "" {
			filter := store.ApprovalFilter{State: state}
			s.refused(perdure.Invalid, func(tx store.Tx) error { _, err := tx.Approvals().List(filter); return err })
		}
	}
}

func approvalWithoutJSON(s *subject) {
	want := s.ask(s.newApproval(s.session()))
	known, fresh := want, s.newApproval(want.Session)
	known.NewArgs, fresh.Args = []byte(`{"half":`), []byte(`nothing`)

	s.refused(perdure.Invalid, func(tx store.Tx) error { return tx.Approvals().Put(known) })
	s.refused(perdure.Invalid, func(tx store.Tx) error { return tx.Approvals().Put(fresh) })

	s.same("record", s.approval(want.ID), want)
	s.unknown(func(r store.Reader) error { _, err := r.Approvals().Get(fresh.ID); return err })
}

func listApprovals(s *subject) {
	one, other := s.session(), s.session()
	states := []perdure.ApprovalState{
		perdure.ApprovalOpen, perdure.ApprovalOpen, perdure.ApprovalApproved, perdure.ApprovalDenied,
		perdure.ApprovalOpen, perdure.ApprovalExpired, perdure.ApprovalVoid,
	}
	var all []perdure.ApprovalID
	for i := range states {
		a := s.newApproval([]perdure.SessionID{one, other}[i%2])
		a.Call = []perdure.CallID{"call_1", "call_1", "call_2"}[i%3]
		// neither determines the order
		a.ID, a.RequestedAt = perdure.ApprovalID(fmt.Sprintf("appr_%d", 9-i)), moment(9-i)
		all = append(all, s.ask(a).ID)
	}
	for i := len(states) - 1; i >= 0; i-- { // the answers arrive in another order
		a := s.approval(all[i])
		a.State = states[i]
		s.ask(a)
	}
	pick := func(places ...int) (picked []perdure.ApprovalID) {
		for _, i := range places {
			picked = append(picked, all[i])
		}
		return picked
	}
	cases := []struct {
		filter store.ApprovalFilter
		want   []perdure.ApprovalID
	}{
		{store.ApprovalFilter{}, all},
		{store.ApprovalFilter{Session: one}, pick(0, 2, 4, 6)},
		{store.ApprovalFilter{Session: mint[perdure.SessionID](s)}, nil},
		{store.ApprovalFilter{State: perdure.ApprovalOpen}, pick(0, 1, 4)},
		{store.ApprovalFilter{State: perdure.ApprovalVoid}, pick(6)},
		{store.ApprovalFilter{Call: "call_1"}, pick(0, 1, 3, 4, 6)},
		{store.ApprovalFilter{Call: "call_3"}, nil},
		{store.ApprovalFilter{Session: one, State: perdure.ApprovalOpen}, pick(0, 4)},
		{store.ApprovalFilter{Session: other, State: perdure.ApprovalDenied}, pick(3)},
		{store.ApprovalFilter{Session: one, State: perdure.ApprovalDenied}, nil},
		{store.ApprovalFilter{Session: one, Call: "call_1"}, pick(0, 4, 6)},
		{store.ApprovalFilter{Session: other, Call: "call_2"}, pick(5)},
		{store.ApprovalFilter{Call: "call_1", State: perdure.ApprovalOpen}, pick(0, 1, 4)},
		{store.ApprovalFilter{Session: one, Call: "call_1", State: perdure.ApprovalVoid}, pick(6)},
		{store.ApprovalFilter{Limit: 3}, all[:3]},
		{store.ApprovalFilter{State: perdure.ApprovalOpen, Limit: 2}, pick(0, 1)},
		{store.ApprovalFilter{Session: one, Call: "call_1", Limit: 2}, pick(0, 4)},
		{store.ApprovalFilter{Session: other, Limit: 1}, pick(1)},
		{store.ApprovalFilter{Limit: 99}, all},
	}
	for _, c := range cases {
		s.same(fmt.Sprintf("%+v", c.filter), s.approvals(c.filter), c.want)
	}
}

func approvalsOfCalls(s *subject) {
	session, byCall := s.session(), map[perdure.CallID]perdure.Approval{}
	for _, name := range requestNames() {
		if name == "" {
			continue // in a filter it means all states
		}
		a := s.newApproval(session)
		a.Call = perdure.CallID(name)
		byCall[a.Call] = a
	}
	s.write(func(tx store.Tx) error {
		for _, a := range byCall {
			if err := tx.Approvals().Put(a); err != nil {
				return err
			}
		}
		return nil
	})

	for call, want := range byCall {
		for _, of := range []perdure.SessionID{session, ""} {
			filter := store.ApprovalFilter{Session: of, Call: call}
			s.same(fmt.Sprintf("%+v", filter), s.approvals(filter), []perdure.ApprovalID{want.ID})
		}
	}
	mangled := byCall["invalid \xff\xfe utf-8"]
	mangled.Call = "invalid \ufffd\ufffd utf-8"
	s.refused(perdure.Conflict, func(tx store.Tx) error { return tx.Approvals().Put(mangled) })
}

// An approval and the events that belong to it are committed together, or neither.
func approvalAndOthers(s *subject) {
	session := s.session()
	open, fresh := s.ask(s.newApproval(session)), s.newApproval(session)
	closed, events := open, s.events(1)
	closed.State, closed.DecidedBy = perdure.ApprovalApproved, "user"
	work := func(tx store.Tx) error {
		return errors.Join(tx.Journal().Append(session, events), tx.Approvals().Put(fresh), tx.Approvals().Put(closed))
	}

	s.refused(errOnPurpose, func(tx store.Tx) error { return errors.Join(work(tx), errOnPurpose) })

	s.checkSeqs(session, 0)
	s.same("open ones", s.approvals(store.ApprovalFilter{State: perdure.ApprovalOpen}), []perdure.ApprovalID{open.ID})
	s.same("record", s.approval(open.ID), open)

	s.write(work)

	s.checkSeqs(session, 1)
	s.same("open ones", s.approvals(store.ApprovalFilter{State: perdure.ApprovalOpen}), []perdure.ApprovalID{fresh.ID})
	s.same("record", s.approval(open.ID), closed)
}

func approvalCopies(s *subject) {
	given, want := s.newApproval(s.session()), filled[perdure.Approval]() // equal, but without shared memory
	want.ID, want.Session, want.State = given.ID, given.Session, given.State

	s.write(func(tx store.Tx) error { return tx.Approvals().Put(given) })
	scribble(given, s.approval(want.ID))
	s.read(func(r store.Reader) error {
		found, err := r.Approvals().List(store.ApprovalFilter{})
		scribble(found)
		return err
	})

	s.same("record", s.approval(want.ID), want)
}

func approvalSurvives(s *subject) {
	session := s.session()
	open, denied := s.ask(s.newApproval(session)), s.ask(s.newApproval(session))
	denied.State, denied.DecidedBy, denied.Note = perdure.ApprovalDenied, "user", "no"
	s.ask(denied)

	s.reopen()

	s.same("open ones", s.approvals(store.ApprovalFilter{State: perdure.ApprovalOpen}), []perdure.ApprovalID{open.ID})
	s.same("record", s.approval(open.ID), open)
	s.same("record that was closed", s.approval(denied.ID), denied)
	third := s.ask(s.newApproval(session))
	s.same("order after", s.approvals(store.ApprovalFilter{}), []perdure.ApprovalID{open.ID, denied.ID, third.ID})
}

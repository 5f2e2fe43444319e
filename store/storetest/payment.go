package storetest

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/store"
)

func paymentLaws() []law {
	return []law{
		{"keeps_every_field", paymentFields},
		{"keeps_hostile_text", hostilePayments},
		{"refuses_what_is_no_payment", paymentThatIsNone},
		{"is_unknown_once_its_time_is_over", paymentLapses},
		{"refuses_a_request_again_unless_it_was_refused", paymentAgain},
		{"is_settled_by_its_executor", settlePayment},
		{"never_changes_what_is_known", paymentIsFinal},
		{"adds_up_what_counts", paymentSums},
		{"keeps_its_caps_under_concurrency", paymentConcurrent},
		{"is_recorded_once_under_concurrency", paymentRace},
		{"lists_the_newest_first", paymentList},
		{"outlives_its_session", paymentOutlives},
		{"goes_with_its_transaction", paymentAndFail},
		{"survives_reopening", paymentSurvives},
	}
}

// hour is how long the attempts of the laws are in flight, unless they say otherwise.
const hour = time.Hour

// newPayment returns the first attempt of a request of its own, with every field set that the
// caller fills in.
func (s *subject) newPayment(session perdure.SessionID) store.Payment {
	p := filled[store.Payment]()
	p.Hash, p.Session, p.Attempt, p.Token, p.Org = fmt.Sprintf("hash %d", s.minted.Add(1)), session, 1, "token",
		"an org"
	return p
}

// pay records an attempt and returns it as stored.
func (s *subject) pay(p store.Payment, d time.Duration) (put store.Payment) {
	s.Helper()
	s.write(func(tx store.Tx) (err error) {
		put, err = tx.Payments().Add(p, d)
		s.checkMade(put.CreatedAt, tx.Now())
		s.checkMade(put.Until, tx.Now().Add(d))
		return err
	})
	return put
}

// endOf returns an outcome of an attempt.
func endOf(p store.Payment, state store.PaymentState) store.PaymentEnd {
	return store.PaymentEnd{Hash: p.Hash, Attempt: p.Attempt, Token: p.Token, State: state, Receipt: "receipt ü",
		Note: "note", ResolvedBy: "somebody"}
}

// paid settles an attempt.
func (s *subject) paid(p store.Payment, state store.PaymentState) (end store.Payment) {
	s.Helper()
	s.write(func(tx store.Tx) (err error) {
		end, err = tx.Payments().Settle(endOf(p, state))
		return err
	})
	return end
}

// payment reads the last attempt of a request.
func (s *subject) payment(hash string) (p store.Payment) {
	s.Helper()
	s.read(func(r store.Reader) (err error) {
		p, err = r.Payments().Get(hash)
		return err
	})
	return p
}

// payments lists attempts.
func (s *subject) payments(filter store.PaymentFilter) (found []store.Payment) {
	s.Helper()
	s.read(func(r store.Reader) (err error) {
		found, err = r.Payments().List(filter)
		return err
	})
	return found
}

// spent adds up attempts.
func (s *subject) spent(scope store.PaymentScope) (sum int64) {
	s.Helper()
	s.read(func(r store.Reader) (err error) {
		sum, err = r.Payments().Sum(scope)
		return err
	})
	return sum
}

func paymentFields(s *subject) {
	want := s.newPayment(s.session())
	s.unknown(func(r store.Reader) error { _, err := r.Payments().Get(want.Hash); return err })

	put := s.pay(want, hour)

	want.State, want.Receipt, want.Note, want.ResolvedBy = store.PaymentInFlight, "", "", ""
	want.CreatedAt, want.Until, want.SettledAt = put.CreatedAt, put.Until, time.Time{}
	s.same("put", put, want)
	s.same("payment", s.payment(want.Hash), want)
	end := s.paid(put, store.PaymentPaid)
	want.State, want.Receipt, want.Note, want.ResolvedBy, want.SettledAt = store.PaymentPaid, "receipt ü", "note",
		"somebody", end.SettledAt
	s.same("settled", end, want)
	s.same("payment", s.payment(want.Hash), want)
	s.same("settled at all", end.SettledAt.Before(end.CreatedAt), false)
}

func hostilePayments(s *subject) {
	session := s.session()
	for i, text := range hostile() {
		if text == "" {
			continue
		}
		p := s.newPayment(session)
		p.Hash = fmt.Sprintf("%d %s", i, text)
		p.Org, p.Turn, p.Call, p.Tool, p.Capability, p.Host, p.Operation, p.Currency, p.ApprovedBy = text, text,
			perdure.CallID(text), text, text, text, text, text, text
		if p.Check() != nil { // a text is too long
			continue
		}
		put := s.pay(p, hour)
		end := endOf(put, store.PaymentPaid)
		end.Receipt, end.Note, end.ResolvedBy = text, text, text
		s.write(func(tx store.Tx) (err error) { put, err = tx.Payments().Settle(end); return err })

		s.same("payment", s.payment(p.Hash), put)
		s.same("sum", s.spent(store.PaymentScope{Org: text, Currency: text, Turn: text}), p.Micros)
	}
}

func paymentThatIsNone(s *subject) {
	session := s.session()
	for name, spoil := range map[string]func(*store.Payment){
		"no hash":      func(p *store.Payment) { p.Hash = "" },
		"no token":     func(p *store.Payment) { p.Token = "" },
		"no session":   func(p *store.Payment) { p.Session = "" },
		"no turn":      func(p *store.Payment) { p.Turn = "" },
		"no host":      func(p *store.Payment) { p.Host = "" },
		"long host":    func(p *store.Payment) { p.Host = strings.Repeat("h", store.MaxPaymentBytes+1) },
		"nothing":      func(p *store.Payment) { p.Micros = 0 },
		"a debt":       func(p *store.Payment) { p.Micros = -1 },
		"a fortune":    func(p *store.Payment) { p.Micros = store.MaxPaymentMicros + 1 },
		"no attempt":   func(p *store.Payment) { p.Attempt = 0 },
		"long company": func(p *store.Payment) { p.Org = strings.Repeat("o", store.MaxPaymentBytes+1) },
	} {
		p := s.newPayment(session)
		spoil(&p)
		if err := s.InTx(s.ctx, func(tx store.Tx) error {
			_, err := tx.Payments().Add(p, hour)
			return err
		}); !errors.Is(err, perdure.Invalid) {
			s.Errorf("%s: got %v, want %v", name, err, perdure.Invalid)
		}
	}
	p := s.pay(s.newPayment(session), hour)
	for _, state := range []store.PaymentState{"", "odd", store.PaymentInFlight} {
		s.refused(perdure.Invalid, func(tx store.Tx) error { _, err := tx.Payments().Settle(endOf(p, state)); return err })
	}
	s.refused(perdure.Invalid, func(tx store.Tx) error {
		_, err := tx.Payments().List(store.PaymentFilter{State: "odd"})
		return err
	})
	s.same("listed", s.payments(store.PaymentFilter{}), []store.Payment{p})
}

func paymentLapses(s *subject) {
	session := s.session()
	p := s.pay(s.newPayment(session), 0)
	flying := s.pay(s.newPayment(session), hour)

	want := p
	want.State = store.PaymentUnknown
	s.same("payment", s.payment(p.Hash), want)
	s.same("unknown ones", s.payments(store.PaymentFilter{State: store.PaymentUnknown}), []store.Payment{want})
	s.same("in flight", s.payments(store.PaymentFilter{State: store.PaymentInFlight}), []store.Payment{flying})
	next := p
	next.Attempt = 2
	s.refused(perdure.Conflict, func(tx store.Tx) error { _, err := tx.Payments().Add(next, hour); return err })
	s.same("its end", s.paid(p, store.PaymentPaid).State, store.PaymentPaid) // the answer arrived late
}

func paymentAgain(s *subject) {
	p := s.pay(s.newPayment(s.session()), hour)
	again := func(attempt int) func(store.Tx) error {
		next := p
		next.Attempt, next.Token = attempt, "another"
		return func(tx store.Tx) error { _, err := tx.Payments().Add(next, hour); return err }
	}
	s.refused(perdure.Conflict, again(1))
	s.refused(perdure.Conflict, again(2))
	s.paid(p, store.PaymentUnknown)
	s.refused(perdure.Conflict, again(2))
	s.paid(p, store.PaymentRefused)
	s.refused(perdure.Conflict, again(1))
	s.refused(perdure.Conflict, again(3))

	s.write(again(2))

	s.same("attempt", s.payment(p.Hash).Attempt, 2)
	second := s.payment(p.Hash)
	s.paid(second, store.PaymentPaid)
	s.refused(perdure.Conflict, again(3))
	s.same("attempts", len(s.payments(store.PaymentFilter{})), 2)
}

func settlePayment(s *subject) {
	p := s.pay(s.newPayment(s.session()), hour)
	other := endOf(p, store.PaymentPaid)
	other.Token = "another"
	s.refused(perdure.Lost, func(tx store.Tx) error { _, err := tx.Payments().Settle(other); return err })
	other.Hash = "none"
	s.refused(perdure.NotFound, func(tx store.Tx) error { _, err := tx.Payments().Settle(other); return err })
	s.same("payment", s.payment(p.Hash), p)

	unknown := s.paid(p, store.PaymentUnknown)
	s.same("not settled", unknown.SettledAt, time.Time{})
	s.same("note", unknown.Note, "note")

	first := s.paid(p, store.PaymentPaid)
	s.same("again", s.paid(p, store.PaymentPaid), first)
}

func paymentIsFinal(s *subject) {
	for _, state := range []store.PaymentState{store.PaymentPaid, store.PaymentRefused} {
		p := s.pay(s.newPayment(s.session()), hour)
		want := s.paid(p, state)
		for _, end := range []store.PaymentState{store.PaymentPaid, store.PaymentRefused, store.PaymentUnknown} {
			if end != state {
				s.refused(perdure.Conflict, func(tx store.Tx) error {
					_, err := tx.Payments().Settle(endOf(p, end))
					return err
				})
			}
		}
		other := endOf(p, state)
		other.Receipt = "another"
		s.refused(perdure.Conflict, func(tx store.Tx) error { _, err := tx.Payments().Settle(other); return err })
		s.same("payment", s.payment(p.Hash), want)
	}
}

func paymentSums(s *subject) {
	session := s.session()
	add := func(org, currency, turn string, micros int64, state store.PaymentState) store.Payment {
		p := s.newPayment(session)
		p.Org, p.Currency, p.Turn, p.Micros = org, currency, turn, micros
		p = s.pay(p, hour)
		if state != store.PaymentInFlight {
			p = s.paid(p, state)
		}
		return p
	}
	old := add("one", "usd", "turn", 1, store.PaymentPaid)
	s.later(old.CreatedAt)
	add("one", "usd", "turn", 10, store.PaymentInFlight)
	add("one", "usd", "turn", 100, store.PaymentUnknown)
	add("one", "usd", "turn", 1000, store.PaymentRefused)
	add("one", "usd", "other turn", 10_000, store.PaymentPaid)
	add("one", "eur", "turn", 100_000, store.PaymentPaid)
	add("other", "usd", "turn", 1_000_000, store.PaymentPaid)
	add("", "usd", "turn", store.MaxPaymentMicros, store.PaymentPaid)

	for want, scope := range map[int64]store.PaymentScope{
		10_111:                 {Org: "one", Currency: "usd"},
		111:                    {Org: "one", Currency: "usd", Turn: "turn"},
		110:                    {Org: "one", Currency: "usd", Turn: "turn", Since: old.CreatedAt},
		10_110:                 {Org: "one", Currency: "usd", Since: old.CreatedAt},
		100_000:                {Org: "one", Currency: "eur"},
		store.MaxPaymentMicros: {Currency: "usd"},
		0:                      {Org: "nobody", Currency: "usd"},
	} {
		s.same(fmt.Sprintf("%+v", scope), s.spent(scope), want)
	}
}

// paymentConcurrent has many transactions read the sum and then record a payment. Together they
// never exceed the limit.
func paymentConcurrent(s *subject) {
	session := s.session()
	const limit = 5
	payments := make([]store.Payment, nParallel)
	for i := range payments {
		payments[i] = s.newPayment(session)
		payments[i].Micros, payments[i].Currency = 1, "usd"
	}

	s.together(nParallel, func(i int) error {
		return s.InTx(s.ctx, func(tx store.Tx) error {
			sum, err := tx.Payments().Sum(store.PaymentScope{Org: "an org", Currency: "usd"})
			if err != nil || sum >= limit {
				return err
			}
			_, err = tx.Payments().Add(payments[i], hour)
			return err
		})
	})

	s.same("sum", s.spent(store.PaymentScope{Org: "an org", Currency: "usd"}), int64(limit))
}

func paymentRace(s *subject) {
	p := s.newPayment(s.session())

	winner := s.race(perdure.Conflict, func(i int) error {
		mine := p
		mine.Token, mine.Org = perdure.Token(fmt.Sprint("token ", i)), fmt.Sprint("org ", i)
		return s.InTx(s.ctx, func(tx store.Tx) error { _, err := tx.Payments().Add(mine, hour); return err })
	})

	s.same("token", s.payment(p.Hash).Token, perdure.Token(fmt.Sprint("token ", winner)))
	s.same("attempts", len(s.payments(store.PaymentFilter{})), 1)
}

func paymentList(s *subject) {
	one, other := s.session(), s.session()
	first := s.pay(s.newPayment(one), hour)
	second := s.paid(s.pay(s.newPayment(other), hour), store.PaymentPaid)
	third := s.newPayment(one)
	third.Org = ""
	third = s.pay(third, hour)

	s.same("all", s.payments(store.PaymentFilter{}), []store.Payment{third, second, first})
	s.same("newest", s.payments(store.PaymentFilter{Limit: 1}), []store.Payment{third})
	s.same("of a session", s.payments(store.PaymentFilter{Session: one}), []store.Payment{third, first})
	s.same("of an organisation", s.payments(store.PaymentFilter{OneOrg: true, Org: "an org"}),
		[]store.Payment{second, first})
	s.same("of none", s.payments(store.PaymentFilter{OneOrg: true}), []store.Payment{third})
	s.same("in flight", s.payments(store.PaymentFilter{State: store.PaymentInFlight}), []store.Payment{third, first})
	s.same("paid", s.payments(store.PaymentFilter{State: store.PaymentPaid, Session: one}), []store.Payment(nil))
}

func paymentOutlives(s *subject) {
	session, other := s.session(), s.session()
	gone := s.paid(s.pay(s.newPayment(session), hour), store.PaymentPaid)
	stays := s.pay(s.newPayment(other), hour)

	s.remove(session)

	gone.Session = ""
	s.same("payment", s.payment(gone.Hash), gone)
	s.same("another session's", s.payment(stays.Hash), stays)
	again := gone
	again.Session, again.Attempt = other, 2
	s.refused(perdure.Conflict, func(tx store.Tx) error { _, err := tx.Payments().Add(again, hour); return err })
}

func paymentAndFail(s *subject) {
	p := s.newPayment(s.session())
	stays := s.pay(s.newPayment(p.Session), hour)
	stop := errors.New("stop")

	s.refused(stop, func(tx store.Tx) error {
		_, err := tx.Payments().Add(p, hour)
		_, settled := tx.Payments().Settle(endOf(stays, store.PaymentPaid))
		found, read := tx.Payments().Get(p.Hash)
		s.same("within", found.Hash, p.Hash)
		return errors.Join(err, settled, read, stop)
	})

	s.same("payments", s.payments(store.PaymentFilter{}), []store.Payment{stays})
}

func paymentSurvives(s *subject) {
	p := s.pay(s.newPayment(s.session()), hour)
	settled := s.paid(s.pay(s.newPayment(p.Session), hour), store.PaymentPaid)

	s.reopen()

	s.same("payments", s.payments(store.PaymentFilter{}), []store.Payment{settled, p})
}

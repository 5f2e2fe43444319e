package storetest

import (
	"strings"
	"sync/atomic"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/store"
)

func rateLaws() []law {
	return []law{
		{"counts_up_to_its_limit", rateLimit},
		{"keeps_organisations_apart", ratesApart},
		{"keeps_its_limit_under_concurrency", rateConcurrent},
		{"refuses_what_is_no_limit", rateThatIsNone},
		{"goes_with_its_transaction", rateAndFail},
		{"survives_reopening", rateSurvives},
	}
}

// countOutbound counts a call, and reports whether it may be made.
func (s *subject) countOutbound(org string, limit int) (may bool) {
	s.Helper()
	s.write(func(tx store.Tx) (err error) {
		may, err = tx.Rates().CountOutbound(org, limit)
		return err
	})
	return may
}

// outboundCalls counts the calls of an org.
func (s *subject) outboundCalls(org string) (n int) {
	s.Helper()
	s.read(func(r store.Reader) (err error) {
		n, err = r.Rates().Outbound(org)
		return err
	})
	return n
}

func rateLimit(s *subject) {
	s.same("before", s.outboundCalls("org"), 0)
	for range 3 {
		s.same("within the limit", s.countOutbound("org", 3), true)
	}

	s.same("one more", s.countOutbound("org", 3), false)

	s.same("counted", s.outboundCalls("org"), 3)
	s.same("with another limit", s.countOutbound("org", 4), true)
}

func ratesApart(s *subject) {
	for _, org := range []string{"", "org", "ORG", "org\x00", "\xff", "o'rg"} {
		s.same(org, s.countOutbound(org, 1), true)
		s.same(org+" again", s.countOutbound(org, 1), false)
		s.same(org+" counted", s.outboundCalls(org), 1)
	}
}

func rateConcurrent(s *subject) {
	var went atomic.Int32
	s.together(nParallel, func(int) error {
		may := false
		err := s.InTx(s.ctx, func(tx store.Tx) (err error) {
			may, err = tx.Rates().CountOutbound("org", 7)
			return err
		})
		if may {
			went.Add(1)
		}
		return err
	})

	s.same("went out", went.Load(), int32(7))
	s.same("counted", s.outboundCalls("org"), 7)
}

func rateThatIsNone(s *subject) {
	s.refused(perdure.Invalid, func(tx store.Tx) error { _, err := tx.Rates().CountOutbound("org", 0); return err })
	s.refused(perdure.Invalid, func(tx store.Tx) error {
		_, err := tx.Rates().CountOutbound(strings.Repeat("o", store.MaxPaymentBytes+1), 1)
		return err
	})
}

func rateAndFail(s *subject) {
	s.refused(perdure.Lost, func(tx store.Tx) error {
		if _, err := tx.Rates().CountOutbound("org", 9); err != nil {
			return err
		}
		n, err := tx.Rates().Outbound("org")
		s.same("within", n, 1)
		if err != nil {
			return err
		}
		return perdure.Lost
	})

	s.same("counted", s.outboundCalls("org"), 0)
}

func rateSurvives(s *subject) {
	s.countOutbound("org", 9)

	s.reopen()

	s.same("counted", s.outboundCalls("org"), 1)
}

package storetest

import (
	"github.com/perdure/perdure"
	"github.com/perdure/perdure/store"
)

func partialLaws() []law {
	return []law{
		{"is_unknown_until_put", unknownPartial},
		{"put_again_overwrites", putPartialAgain},
		{"keeps_messages_and_sessions_apart", partialsApart},
		{"drop_removes_one_and_needs_none", dropPartial},
		{"keeps_hostile_text", hostilePartials},
		{"goes_with_its_transaction", partialAndOthers},
		{"survives_reopening", partialSurvives},
	}
}

// putPartial puts a checkpoint and returns it as stored.
func (s *subject) putPartial(session perdure.SessionID, message perdure.MessageID, words string) store.Partial {
	s.Helper()
	// the store's clock determines the time
	p := store.Partial{Session: session, Message: message, Text: words, At: moment(7)}
	s.write(func(tx store.Tx) error {
		err := tx.Journal().PutPartial(p)
		p.At = tx.Now()
		return err
	})
	return p
}

// partial reads a checkpoint.
func (s *subject) partial(session perdure.SessionID, message perdure.MessageID) (p store.Partial) {
	s.Helper()
	s.read(func(r store.Reader) (err error) {
		p, err = r.Journal().Partial(session, message)
		return err
	})
	return p
}

// noPartial requires that there is no checkpoint.
func (s *subject) noPartial(session perdure.SessionID, message perdure.MessageID) {
	s.Helper()
	s.unknown(func(r store.Reader) error { _, err := r.Journal().Partial(session, message); return err })
}

func unknownPartial(s *subject) {
	session, message := s.session(), mint[perdure.MessageID](s)
	s.noPartial(session, message)

	want := s.putPartial(session, message, "so far")

	s.same("checkpoint", s.partial(session, message), want)
}

func putPartialAgain(s *subject) {
	session, message := s.session(), mint[perdure.MessageID](s)
	s.putPartial(session, message, "so far")

	want := s.putPartial(session, message, "so far so good")

	s.same("checkpoint", s.partial(session, message), want)
}

// partialsApart requires that dropping the checkpoint of one message leaves all others, whatever
// their session.
func partialsApart(s *subject) {
	one, other := s.session(), s.session()
	first, second := mint[perdure.MessageID](s), mint[perdure.MessageID](s)
	s.putPartial(one, first, "first")
	want, theirs := s.putPartial(one, second, "second"), s.putPartial(other, first, "theirs")

	s.write(func(tx store.Tx) error { return tx.Journal().DropPartial(one, first) })

	s.noPartial(one, first)
	s.noPartial(other, second)
	s.same("the second message", s.partial(one, second), want)
	s.same("of another session", s.partial(other, first), theirs)
}

func dropPartial(s *subject) {
	session, message := s.session(), mint[perdure.MessageID](s)
	s.putPartial(session, message, "so far")
	for range 2 {
		s.write(func(tx store.Tx) error { return tx.Journal().DropPartial(session, message) })
		s.noPartial(session, message)
	}
	want := s.putPartial(session, message, "again")

	s.same("checkpoint", s.partial(session, message), want)
}

func hostilePartials(s *subject) {
	session := s.session()
	for _, words := range hostile() {
		message := mint[perdure.MessageID](s)
		want := s.putPartial(session, message, words)

		s.same("checkpoint", s.partial(session, message), want)
	}
}

func partialAndOthers(s *subject) {
	session, message := s.session(), mint[perdure.MessageID](s)
	want := s.putPartial(session, message, "so far")
	other := mint[perdure.MessageID](s)

	s.refused(perdure.Conflict, func(tx store.Tx) error {
		if err := tx.Journal().PutPartial(store.Partial{Session: session, Message: other, Text: "new"}); err != nil {
			return err
		}
		if _, err := tx.Journal().Partial(session, other); err != nil {
			s.Errorf("in its transaction: %v", err)
		}
		if err := tx.Journal().DropPartial(session, message); err != nil {
			return err
		}
		return perdure.Conflict
	})

	s.same("checkpoint", s.partial(session, message), want)
	s.noPartial(session, other)
}

func partialSurvives(s *subject) {
	session, message := s.session(), mint[perdure.MessageID](s)
	want := s.putPartial(session, message, "so far")

	s.reopen()

	s.same("checkpoint", s.partial(session, message), want)
}

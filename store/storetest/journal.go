package storetest

import (
	"bytes"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/store"
)

func journalLaws() []law {
	return []law{
		{"numbers_events_from_one_without_a_gap", seqsAreGapless},
		{"assigns_session_and_seq_in_place", appendAssigns},
		{"gives_back_every_fact_byte_for_byte", factsKeepTheirBytes},
		{"gives_back_hostile_text_as_it_was_encoded", hostileEvents},
		{"cuts_moments_to_utc_microseconds", eventMoments},
		{"reads_pages", journalPages},
		{"ends_a_page_at_a_number_of_events_or_of_bytes", boundedPages},
		{"has_no_events_of_an_unknown_session", unknownJournal},
		{"refuses_an_unknown_session", appendToUnknown},
		{"refuses_an_event_id_that_exists", knownEventID},
		{"refuses_an_event_without_a_fact", factlessEvent},
		{"keeps_nothing_of_a_refused_append", func(s *subject) { refusedAppend(s, false) }},
		{"keeps_nothing_of_a_refused_append_under_the_lock", func(s *subject) { refusedAppend(s, true) }},
		{"numbers_events_under_the_lock", appendUnderLock},
		{"has_no_gap_after_a_failed_transaction", gapAfterFailure},
		{"numbers_concurrent_appends_in_order", concurrentAppends},
		{"gives_out_copies", journalCopies},
		{"survives_reopening", journalSurvives},
	}
}

func seqsAreGapless(s *subject) {
	id := s.session()

	for n := 1; n <= 20; n++ {
		s.append(id, n)
	}

	s.checkSeqs(id, 210)
}

// checkSeqs requires that the journal of a session has the seqs 1 to n, and that its row has n.
func (s *subject) checkSeqs(id perdure.SessionID, n int) {
	s.Helper()
	for i, e := range s.journal(id) {
		if e.Seq != int64(i+1) || e.Session != id {
			s.Fatalf("index %d holds seq %d of %s", i+1, e.Seq, e.Session)
		}
	}
	s.same("number of events", len(s.journal(id)), n)
	var row store.Session
	s.read(func(r store.Reader) (err error) {
		row, err = r.Sessions().Get(id)
		return err
	})
	s.same("last seq", row.LastSeq, int64(n))
}

func appendAssigns(s *subject) {
	id := s.session()
	s.append(id, 2)
	events := s.events(2)

	s.write(func(tx store.Tx) error { return tx.Journal().Append(id, events) })

	for i, e := range events {
		s.same("seq and session", []any{e.Seq, e.Session}, []any{int64(i + 3), id})
	}
}

func factsKeepTheirBytes(s *subject) {
	id := s.session()
	events := []perdure.Event{}
	for i, fact := range everyFact() {
		e := filled[perdure.Event]()
		e.ID, e.Attempt, e.Fact = mint[perdure.EventID](s), i, fact
		events = append(events, e)
	}

	s.write(func(tx store.Tx) error { return tx.Journal().Append(id, events) })

	found := s.journal(id)
	if len(found) != len(events) {
		s.Fatalf("got %d events, want %d", len(found), len(events))
	}
	for i := range found {
		got, want := s.encode(found[i]), s.encode(events[i])
		if !bytes.Equal(got, want) {
			s.Errorf("%s\n got %s\nwant %s", events[i].Type(), got, want)
		}
	}
}

func (s *subject) encode(e perdure.Event) []byte {
	s.Helper()
	body, err := perdure.EncodeEvent(e)
	if err != nil {
		s.Fatalf("encode %s: %v", e.Type(), err)
	}
	return body
}

// everyFact returns a fact of each type, with every field set, and one of a type that this version
// does not know.
func everyFact() []perdure.Fact {
	return []perdure.Fact{
		filled[perdure.SessionCreated](), filled[perdure.SessionUpdated](), filled[perdure.SessionActivated](),
		filled[perdure.SessionIdled](), filled[perdure.SessionStopped](), filled[perdure.MessageReceived](),
		filled[perdure.TurnStarted](),
		filled[perdure.ScheduleCreated](), filled[perdure.ScheduleFired](), filled[perdure.ScheduleSkipped](),
		filled[perdure.SchedulePaused](), filled[perdure.ScheduleCanceled](),
		filled[perdure.InterruptRequested](), filled[perdure.TurnCompleted](), filled[perdure.TurnFailed](),
		filled[perdure.TurnCanceled](), filled[perdure.TurnSealed](), filled[perdure.ReasonStarted](),
		filled[perdure.ReasonCompleted](), filled[perdure.ReasonRecovered](), filled[perdure.OutputStarted](),
		filled[perdure.OutputCompleted](), filled[perdure.Generation](), filled[perdure.ActStarted](),
		filled[perdure.ActCompleted](), filled[perdure.ToolStarted](), filled[perdure.ToolCompleted](),
		filled[perdure.ToolUnknown](), filled[perdure.ToolResolved](), filled[perdure.TranscriptRepaired](),
		filled[perdure.TaskCreated](), filled[perdure.TaskUpdated](), filled[perdure.TaskReattached](),
		filled[perdure.TaskResolved](), filled[perdure.TaskCancelRequested](), filled[perdure.TaskCancelReceipt](),
		filled[perdure.TaskDelivered](), filled[perdure.TaskPruned](), filled[perdure.DeliveryHeld](),
		filled[perdure.SessionAwaits](), filled[perdure.ToolDetachRequested](), filled[perdure.ToolDetachRefused](), filled[perdure.ToolDetached](),
		filled[perdure.ToolCallRequested](), filled[perdure.CallReplanned](), filled[perdure.ApprovalRequested](),
		filled[perdure.ApprovalResolved](), filled[perdure.TaskMessageSent](), filled[perdure.TaskMessageReceived](),
		filled[perdure.ContextCompacted](), filled[perdure.OutputReplaced](), filled[perdure.LoopDetected](),
		filled[perdure.SessionForked](),
		filled[perdure.AuditRecorded](), filled[perdure.ResourceUpdated](), filled[perdure.LeaseExpired](),
		filled[perdure.LeaseCleanupFailed](), filled[perdure.FileWritten](), filled[perdure.RequestDenied](),
		filled[perdure.BudgetWarning](), filled[perdure.BudgetPaused](), filled[perdure.BudgetExhausted](),
		filled[perdure.BudgetResumed](),
		perdure.UnknownFact{Kind: "weather.changed", Data: []byte(`{"n":12345678901234567890,"sky":["<blue>",null]}`)},
	}
}

// hostile returns texts that break careless stores.
func hostile() []string {
	return []string{
		"", "nul \x00 inside", "\x00", "invalid \xff\xfe utf-8", "half a rune \xe2\x82", "\xed\xa0\x80 a surrogate",
		"'; DROP TABLE event; --", `back\slash "quotes" %s $1 ?`, "line\nbreak\r\ttab\x1b[31m",
		"日本語 🙂 e\u0301 \u202eleft", "\ufeff\ufffd\uffff",
	}
}

func hostileEvents(s *subject) {
	id := s.session()
	var events, want []perdure.Event
	for i, text := range hostile() {
		e := perdure.Event{
			ID: mint[perdure.EventID](s), At: moment(i), Actor: text, Call: perdure.CallID(text),
			Fact: perdure.ToolStarted{CallID: perdure.CallID(text), Name: text, DisplayName: text},
		}
		events = append(events, e)
		e.Seq, e.Session = int64(i+1), id
		decoded, err := perdure.DecodeEvent(s.encode(e))
		if err != nil {
			s.Fatal(err)
		}
		want = append(want, decoded)
	}

	s.write(func(tx store.Tx) error { return tx.Journal().Append(id, events) })

	s.same("events", s.journal(id), want)
}

func eventMoments(s *subject) {
	id := s.session()
	events := s.events(1)
	events[0].At = moment(7).Add(999).In(time.FixedZone("east", 5*3600))

	s.write(func(tx store.Tx) error { return tx.Journal().Append(id, events) })

	s.same("given and stored moment", []time.Time{events[0].At, s.journal(id)[0].At}, []time.Time{moment(7), moment(7)})
}

func journalPages(s *subject) {
	id := s.session()
	s.append(id, 10)
	s.append(s.session(), 3)
	all := s.journal(id)
	cases := []struct {
		after int64
		limit int
		want  []perdure.Event
	}{
		{0, 0, all}, {0, 4, all[:4]}, {4, 4, all[4:8]}, {8, 4, all[8:]}, {9, 0, all[9:]}, {10, 0, nil}, {11, 5, nil},
		{0, 99, all},
	}
	for _, c := range cases {
		s.read(func(r store.Reader) error {
			got, err := r.Journal().Events(id, c.after, c.limit)
			s.same(fmt.Sprintf("after %d, limit %d", c.after, c.limit), got, c.want)
			return err
		})
	}
}

// boundedPages reads a journal of small and large events page by page. Only pages limit the number
// of bytes.
func boundedPages(s *subject) {
	id := s.session()
	small, half, large := []int{0}, []int{store.PageBytes / 2}, []int{store.PageBytes}
	sizes := slices.Concat(large, slices.Repeat(small, store.PageEvents+8), half, half, small)
	pages := []int{1, store.PageEvents, 8 + 2, 1, 0}
	events := s.events(len(sizes))
	for i, size := range sizes {
		events[i].Fact = perdure.SessionUpdated{Title: strings.Repeat("x", size)}
	}
	s.write(func(tx store.Tx) error { return tx.Journal().Append(id, events) })

	s.read(func(r store.Reader) error {
		after := int64(0)
		for i, n := range pages {
			got, err := r.Journal().Events(id, after, store.Page)
			if err != nil {
				return err
			}
			s.same(fmt.Sprintf("events on page %d", i+1), len(got), n)
			for _, e := range got {
				if after++; e.Seq != after || e.ID != events[after-1].ID {
					return fmt.Errorf("page %d has event %d %s instead of event %d", i+1, e.Seq, e.ID, after)
				}
			}
		}
		return nil
	})

	s.same("events without a limit", len(s.journal(id)), len(sizes))
}

func unknownJournal(s *subject) {
	s.append(s.session(), 1)

	s.same("events", s.journal(mint[perdure.SessionID](s)), []perdure.Event{})
}

func appendToUnknown(s *subject) {
	id := mint[perdure.SessionID](s)

	s.refused(perdure.NotFound, func(tx store.Tx) error { return tx.Journal().Append(id, s.events(1)) })
	s.refused(perdure.NotFound, func(tx store.Tx) error { return tx.Journal().Append(id, nil) })

	s.same("events", s.journal(id), []perdure.Event{})
}

func knownEventID(s *subject) {
	one, other := s.session(), s.session()
	s.append(one, 1)
	known := s.journal(one)[0]
	twice := s.events(1)

	for name, events := range map[string][]perdure.Event{
		"the same event":   {known},
		"after a new one":  append(s.events(1), known),
		"twice in a batch": append(twice, twice...),
	} {
		for _, id := range []perdure.SessionID{one, other} {
			s.Log(name)
			s.refused(perdure.Conflict, func(tx store.Tx) error { return tx.Journal().Append(id, slices.Clone(events)) })
		}
	}

	for place := range 18 {
		events := slices.Insert(s.events(17), place, known)
		s.Logf("at position %d of 18", place)
		s.refused(perdure.Conflict, func(tx store.Tx) error { return tx.Journal().Append(other, events) })
	}
	s.checkSeqs(one, 1)
	s.checkSeqs(other, 0)
}

func factlessEvent(s *subject) {
	id := s.session()
	events := s.events(2)
	events[1].Fact = nil

	s.refused(perdure.Invalid, func(tx store.Tx) error { return tx.Journal().Append(id, events) })

	s.checkSeqs(id, 0)
}

// Any number of concurrent writers may append, after the row was locked and read.
func appendUnderLock(s *subject) {
	id := s.session()
	sizes := []int{1, 8, 0, 17, 2, 9, 1}
	total := 0

	s.write(func(tx store.Tx) error {
		total = 0
		for _, n := range sizes {
			last, err := tx.Sessions().Lock(id, 0)
			if err == nil && last != int64(total) {
				err = fmt.Errorf("the last event is %d, want %d", last, total)
			}
			for _, half := range []int{n / 2, n - n/2} {
				if err == nil {
					err = tx.Journal().Append(id, s.events(half))
				}
			}
			if err != nil {
				return err
			}
			total += n
		}
		return nil
	})

	s.checkSeqs(id, total)
}

// A transaction may continue after a refused Append.
func refusedAppend(s *subject, lock bool) {
	id := s.session()
	s.append(id, 1)
	known := s.journal(id)[0]
	before, between, after := s.events(2), s.events(2), s.events(2)

	s.write(func(tx store.Tx) error {
		if lock {
			if _, err := tx.Sessions().Lock(id, 0); err != nil {
				return err
			}
		}
		if err := tx.Journal().Append(id, slices.Clone(before)); err != nil {
			return err
		}
		if tx.Journal().Append(id, append(slices.Clone(between), known)) == nil {
			return fmt.Errorf("a known event was accepted")
		}
		if tx.Journal().Append(id, []perdure.Event{between[0], {ID: mint[perdure.EventID](s)}}) == nil {
			return fmt.Errorf("an event without a fact was accepted")
		}
		return tx.Journal().Append(id, slices.Clone(after))
	})
	s.write(func(tx store.Tx) error { return tx.Journal().Append(id, between) })

	s.checkSeqs(id, 7)
	want := []perdure.EventID{known.ID, before[0].ID, before[1].ID, after[0].ID, after[1].ID, between[0].ID,
		between[1].ID}
	var got []perdure.EventID
	for _, e := range s.journal(id) {
		got = append(got, e.ID)
	}
	s.same("ids", got, want)
}

func gapAfterFailure(s *subject) {
	id := s.session()
	s.append(id, 2)
	events := s.events(3)

	s.refused(errOnPurpose, func(tx store.Tx) error {
		if err := tx.Journal().Append(id, slices.Clone(events)); err != nil {
			return err
		}
		return errOnPurpose
	})
	s.checkSeqs(id, 2)
	s.write(func(tx store.Tx) error { return tx.Journal().Append(id, events) }) // the ids are still free

	s.checkSeqs(id, 5)
}

// Each goroutine writes to a session of its own and, in the same transaction, to a shared one.
func concurrentAppends(s *subject) {
	const rounds = 20
	shared := s.session()
	own := make([]perdure.SessionID, nParallel)
	for i := range own {
		own[i] = s.session()
	}

	s.together(nParallel, func(i int) error {
		for round := range rounds {
			mine, ours := s.events(2), s.events(2)
			for k := range ours {
				ours[k].Actor, ours[k].Attempt = fmt.Sprint(i), 2*round+k
			}
			err := s.InTx(s.ctx, func(tx store.Tx) error {
				if err := tx.Journal().Append(shared, ours); err != nil {
					return err
				}
				return tx.Journal().Append(own[i], mine)
			})
			if err != nil {
				return err
			}
		}
		return nil
	})

	s.checkSeqs(shared, nParallel*rounds*2)
	for _, id := range own {
		s.checkSeqs(id, rounds*2)
	}
	next := map[string]int{}
	for _, e := range s.journal(shared) {
		if e.Attempt != next[e.Actor] {
			s.Fatalf("writer %s: got event %d, want %d", e.Actor, e.Attempt, next[e.Actor])
		}
		next[e.Actor]++
	}
}

func journalCopies(s *subject) {
	id := s.session()
	given := []perdure.Event{{ID: mint[perdure.EventID](s), At: moment(1), Fact: filled[perdure.TaskCreated]()}}
	want := s.encode(perdure.Event{ID: given[0].ID, Seq: 1, At: moment(1), Session: id,
		Fact: filled[perdure.TaskCreated]()})

	s.write(func(tx store.Tx) error { return tx.Journal().Append(id, given) })
	scribble(given)
	scribble(s.journal(id))

	if got := s.encode(s.journal(id)[0]); !bytes.Equal(got, want) {
		s.Errorf("got  %s\nwant %s", got, want)
	}
}

func journalSurvives(s *subject) {
	one, other := s.session(), s.session()
	s.append(one, 3)
	s.append(other, 2)
	want := s.journal(one)

	s.reopen()

	s.same("events", s.journal(one), want)
	s.append(one, 1)
	s.append(other, 1)
	s.checkSeqs(one, 4)
	s.checkSeqs(other, 3)
	s.refused(perdure.Conflict, func(tx store.Tx) error { return tx.Journal().Append(other, want[:1]) })
}

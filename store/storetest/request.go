package storetest

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/store"
)

func requestLaws() []law {
	return []law{
		{"keeps_every_field", requestFields},
		{"keeps_any_answer", hostileAnswers},
		{"keeps_an_answer_of_megabytes", longAnswer},
		{"tells_an_empty_answer_from_none", emptyAnswer},
		{"is_unknown_until_begun", unknownRequest},
		{"begins_once", beginAgain},
		{"begins_once_under_concurrency", beginTogether},
		{"keeps_the_first_answer", endAgain},
		{"keeps_one_answer_under_concurrency", endTogether},
		{"refuses_an_answer_without_a_status", endWithoutStatus},
		{"keeps_keys_and_scopes_apart", requestKeys},
		{"refuses_a_key_that_is_too_long", longRequestKeys},
		{"prunes_what_is_older_and_nothing_younger", pruneByAge},
		{"prunes_the_oldest_first_in_batches", pruneInBatches},
		{"begins_again_once_pruned", beginPruned},
		{"goes_with_its_transaction", requestAndOthers},
		{"gives_out_copies", requestCopies},
		{"survives_reopening", requestSurvives},
	}
}

// newRequest returns a request that was not begun yet.
func (s *subject) newRequest() store.Request {
	r := filled[store.Request]()
	r.Key = fmt.Sprintf("key %d", s.minted.Add(1))
	return r
}

// begin begins a request and returns the row that must be stored.
func (s *subject) begin(r store.Request) store.Request {
	s.Helper()
	s.write(func(tx store.Tx) error {
		r.At = tx.Now()
		return tx.Requests().Begin(r)
	})
	r.Answer = store.Answer{}
	return r
}

// begun begins a new request.
func (s *subject) begun() store.Request {
	s.Helper()
	return s.begin(s.newRequest())
}

// end answers a request and returns the row that must be stored.
func (s *subject) end(r store.Request, answer store.Answer) store.Request {
	s.Helper()
	s.write(func(tx store.Tx) error { return tx.Requests().End(r.Scope, r.Key, answer) })
	r.Answer = answer
	return r
}

// request returns a row.
func (s *subject) request(of store.Request) (r store.Request) {
	s.Helper()
	s.read(func(reader store.Reader) (err error) {
		r, err = reader.Requests().Get(of.Scope, of.Key)
		return err
	})
	return r
}

// forgotten requires that a request is unknown.
func (s *subject) forgotten(r store.Request) {
	s.Helper()
	s.unknown(func(reader store.Reader) error { _, err := reader.Requests().Get(r.Scope, r.Key); return err })
}

// prune forgets old requests and returns their number.
func (s *subject) prune(before time.Time, limit int) (n int) {
	s.Helper()
	s.write(func(tx store.Tx) (err error) {
		n, err = tx.Requests().Prune(before, limit)
		return err
	})
	return n
}

// later returns once the store's clock is past a moment.
func (s *subject) later(than time.Time) {
	s.Helper()
	for now := than; !now.After(than); {
		s.read(func(r store.Reader) error {
			now = r.Now()
			return nil
		})
	}
}

func answer(body string) store.Answer {
	return store.Answer{Status: 201, ContentType: "application/json", Location: "/v1/" + body, Body: []byte(body)}
}

func requestFields(s *subject) {
	given := s.newRequest()

	want := s.begin(given) // the caller sets neither At nor Answer
	s.same("row", s.request(given), want)
	want = s.end(want, given.Answer)
	s.same("row once it is answered", s.request(given), want)

	s.write(func(tx store.Tx) error {
		own := s.newRequest()
		if err := tx.Requests().Begin(own); err != nil {
			return err
		}
		if err := tx.Requests().End(own.Scope, own.Key, own.Answer); err != nil {
			return err
		}
		got, err := tx.Requests().Get(own.Scope, own.Key)
		own.At = tx.Now()
		s.same("row in its transaction", got, own)
		return err
	})
}

func hostileAnswers(s *subject) {
	for _, text := range hostile() {
		r := s.newRequest()
		r.Hash = text
		r = s.begin(r)

		r = s.end(r, store.Answer{Status: 200, ContentType: text, Location: text, Body: []byte(text)})

		s.same("row", s.request(r), r)
	}
}

func longAnswer(s *subject) {
	r := s.begun()
	want := strings.Repeat("\x00\xff long", 1_000_000)

	s.end(r, answer(want))

	if got := string(s.request(r).Answer.Body); got != want {
		s.Errorf("%d bytes were read back as %d different ones", len(want), len(got))
	}
}

func emptyAnswer(s *subject) {
	for _, body := range [][]byte{nil, {}} {
		r := s.begun()
		if got := s.request(r).Answer; got.Status != 0 || got.Body != nil {
			s.Errorf("got %#v before the answer, want none", got)
		}

		s.end(r, store.Answer{Status: 204, Body: body})

		if got := s.request(r).Answer; got.Status != 204 || got.Body != nil {
			s.Errorf("got %#v, want the status and no body", got)
		}
		s.end(r, answer("too late"))
		s.same("answer", s.request(r).Answer, store.Answer{Status: 204})
	}
}

func unknownRequest(s *subject) {
	known := s.begun()
	for _, r := range []store.Request{s.newRequest(), {Scope: known.Scope}, {Key: known.Key},
		{Scope: known.Key, Key: known.Scope}, {}} {
		s.forgotten(r)
		s.refused(perdure.NotFound, func(tx store.Tx) error { return tx.Requests().End(r.Scope, r.Key, answer("lost")) })
		s.forgotten(r)
	}
	s.same("row of another", s.request(known), known)
}

func beginAgain(s *subject) {
	want := s.begun()
	again := s.newRequest()
	again.Key, again.Hash, again.Seed = want.Key, "another", perdure.Secret{9}

	for range 2 {
		s.refused(perdure.Conflict, func(tx store.Tx) error { return tx.Requests().Begin(again) })
		s.same("row", s.request(want), want)
		want = s.end(want, answer("done"))
	}

	s.write(func(tx store.Tx) error { // an fn may ignore the refusal and continue
		if err := tx.Requests().Begin(again); !errors.Is(err, perdure.Conflict) {
			return fmt.Errorf("got error %v, want %v", err, perdure.Conflict)
		}
		got, err := tx.Requests().Get(again.Scope, again.Key)
		s.same("row", got, want)
		return err
	})
}

// All goroutines read and begin the same missing request. All of them then see the request of one
// of them.
func beginTogether(s *subject) {
	const callers = 64
	shared := s.newRequest()
	seen, began := make([]store.Request, callers), make([]bool, callers)

	s.together(callers, func(i int) error {
		mine := shared
		mine.Seed = perdure.Secret{byte(i)}
		return s.InTx(s.ctx, func(tx store.Tx) (err error) {
			began[i] = false
			seen[i], err = tx.Requests().Get(mine.Scope, mine.Key)
			if !errors.Is(err, perdure.NotFound) {
				return err
			}
			if err := tx.Requests().Begin(mine); err != nil {
				return err
			}
			began[i] = true
			seen[i], err = tx.Requests().Get(mine.Scope, mine.Key)
			return err
		})
	})

	stored, count := s.request(shared), 0
	for i := range callers {
		s.same("row that was seen", seen[i], stored)
		if seen[i].Seed != stored.Seed {
			s.Errorf("caller %d has another seed than what is stored", i)
		}
		if began[i] {
			count++
			s.same("who began it", byte(i), stored.Seed[0])
		}
	}
	s.same("how many began it", count, 1)

	other := s.newRequest()
	winner := s.race(perdure.Conflict, func(i int) error {
		mine := other
		mine.Seed = perdure.Secret{byte(i)}
		return s.InTx(s.ctx, func(tx store.Tx) error { return tx.Requests().Begin(mine) })
	})
	s.same("seed of the one that was not refused", s.request(other).Seed[0], byte(winner))
}

func endAgain(s *subject) {
	want := s.end(s.begun(), answer("first"))

	for _, late := range []store.Answer{answer("first"), answer("second"), {Status: 500}} {
		s.end(want, late)

		s.same("row", s.request(want), want)
	}
}

func endTogether(s *subject) {
	r := s.begun()
	answers := make([]store.Answer, nParallel)

	s.together(nParallel, func(i int) error {
		return s.InTx(s.ctx, func(tx store.Tx) error {
			if err := tx.Requests().End(r.Scope, r.Key, answer(fmt.Sprint(i))); err != nil {
				return err
			}
			found, err := tx.Requests().Get(r.Scope, r.Key)
			answers[i] = found.Answer
			return err
		})
	})

	for i, got := range answers {
		s.same(fmt.Sprintf("answer that %d saw", i), got, s.request(r).Answer)
	}
}

func endWithoutStatus(s *subject) {
	want := s.begun()
	for _, status := range []int{0, -1} {
		wrong := answer("wrong")
		wrong.Status = status

		s.refused(perdure.Invalid, func(tx store.Tx) error { return tx.Requests().End(want.Scope, want.Key, wrong) })

		s.same("row", s.request(want), want)
	}
	want = s.end(want, answer("right"))
	s.same("row once it is answered", s.request(want), want)
}

// requestNames are texts of which no two are the same key.
func requestNames() []string {
	names := append(hostile(),
		"key", "Key", "KEY", "key ", " key", "k\u00e9y", "ke\u0301y", "K\u00c9Y", "stra\u00dfe", "strasse", "\u212a",
		"k", "K", "1", "01", "1.0", "1e0", "a", "ab", "b",
		"key\x00", "2 ab", "user POST /v1/sessions", "%", "_",
	)
	long := strings.Repeat("k", 254)
	return append(names, long, long+"1", long+"2", strings.Repeat("\xff", 255),
		strings.Repeat("é", store.MaxRequestKeyBytes/2))
}

// Each name is a scope and a key, and some pairs only differ in where the scope ends.
func requestKeys(s *subject) {
	pairs := [][2]string{
		{"a", "bc"}, {"ab", "c"}, {"", "abc"}, {"abc", ""}, {"a\x00b", "c"}, {"a", "b\x00c"}, {"a b", "c"},
		{"a", "b c"},
	}
	for _, name := range requestNames() {
		pairs = append(pairs, [2]string{name, "the key"}, [2]string{"the scope", name})
	}
	var all []store.Request
	s.write(func(tx store.Tx) error {
		all = nil
		for i, pair := range pairs {
			r := store.Request{Scope: pair[0], Key: pair[1], Hash: fmt.Sprint(i), Seed: perdure.Secret{byte(i)},
				At: tx.Now()}
			if err := tx.Requests().Begin(r); err != nil {
				return err
			}
			all = append(all, r)
		}
		return nil
	})

	for i, r := range all {
		if i%2 == 0 {
			all[i] = s.end(r, answer(r.Hash))
		}
	}

	for _, want := range all {
		got := s.request(want)
		if got.Seed != want.Seed {
			s.Errorf("%q of %q has the seed of another one", want.Key, want.Scope)
		}
		s.same("row", got, want)
	}
}

func longRequestKeys(s *subject) {
	tooLong := strings.Repeat("k", store.MaxRequestKeyBytes+1)
	for _, r := range []store.Request{{Scope: tooLong, Key: "key"}, {Scope: "scope", Key: tooLong}} {
		s.refused(perdure.Invalid, func(tx store.Tx) error { return tx.Requests().Begin(r) })

		s.forgotten(r)
	}
	longest := store.Request{Scope: tooLong[1:], Key: tooLong[1:], Seed: perdure.Secret{1}}
	want := s.begin(longest)
	s.same("row of the longest", s.request(longest), want)
}

// inSequence begins n requests, each at a later moment, and answers every other one.
func (s *subject) inSequence(n int) (all []store.Request) {
	s.Helper()
	for i := range n {
		r := s.newRequest()
		// descending: the order is that of the moments
		r.Scope, r.Key = fmt.Sprintf("scope %d", n-i), fmt.Sprintf("key %d", (n-i)/2)
		r = s.begin(r)
		if i%2 == 0 {
			r = s.end(r, answer("done"))
		}
		all = append(all, r)
		s.later(r.At)
	}
	return all
}

func pruneByAge(s *subject) {
	all := s.inSequence(4)

	for _, before := range []time.Time{{}, all[0].At.Add(-24 * time.Hour), all[0].At, all[0].At.Add(999)} {
		s.same("pruned before "+before.String(), s.prune(before, 0), 0)
	}
	for _, r := range all {
		s.same("row", s.request(r), r)
	}

	s.same("pruned", s.prune(all[2].At.In(time.FixedZone("east", 5*3600)), 0), 2)
	s.forgotten(all[0])
	s.forgotten(all[1])
	s.same("row that is not older", s.request(all[2]), all[2])
	s.same("row that is younger", s.request(all[3]), all[3])

	s.same("pruned", s.prune(all[2].At.Add(time.Microsecond), 0), 1)
	s.forgotten(all[2])
	s.same("row of the youngest", s.request(all[3]), all[3])
}

func pruneInBatches(s *subject) {
	all := s.inSequence(7)
	before := all[5].At

	for _, want := range []int{2, 2, 1, 0} {
		s.same("pruned", s.prune(before, 2), want)
		all = all[want:]
		for _, r := range all {
			s.same("row", s.request(r), r)
		}
	}

	s.same("how many are left", len(all), 2)
	s.same("pruned at last", s.prune(all[1].At.Add(time.Hour), 9), 2)
}

func beginPruned(s *subject) {
	old := s.end(s.begun(), answer("old"))
	s.prune(old.At.Add(time.Microsecond), 1)
	s.refused(perdure.NotFound, func(tx store.Tx) error { return tx.Requests().End(old.Scope, old.Key, answer("late")) })
	fresh := s.newRequest()
	fresh.Key, fresh.Hash = old.Key, "another"

	want := s.begin(fresh)

	s.same("row", s.request(old), want)
}

// A request and its effects are committed together, or neither.
func requestAndOthers(s *subject) {
	session, gone, open := s.session(), s.begun(), s.begun()
	s.later(open.At)
	fresh := s.newRequest()
	events := s.events(1)
	work := func(tx store.Tx) error {
		if _, err := tx.Requests().Prune(gone.At.Add(time.Microsecond), 1); err != nil {
			return err
		}
		if err := tx.Journal().Append(session, events); err != nil {
			return err
		}
		return errors.Join(tx.Requests().Begin(fresh), tx.Requests().End(fresh.Scope, fresh.Key, answer("fresh")),
			tx.Requests().End(open.Scope, open.Key, answer("open")))
	}

	s.refused(errOnPurpose, func(tx store.Tx) error { return errors.Join(work(tx), errOnPurpose) })

	s.checkSeqs(session, 0)
	s.forgotten(fresh)
	s.same("row that was not pruned", s.request(gone), gone)
	s.same("row that was not answered", s.request(open), open)

	s.write(work)

	s.checkSeqs(session, 1)
	s.same("answer of the new one", s.request(fresh).Answer, answer("fresh"))
}

func requestCopies(s *subject) {
	given := answer("done")
	r := s.end(s.begun(), given)
	want := answer("done")
	given.Body[0] = 'X'

	for range 2 {
		got := s.request(r).Answer
		s.same("answer", got, want)
		got.Body[0] = 'X'
	}
}

func requestSurvives(s *subject) {
	open, ended := s.begun(), s.end(s.begun(), answer("nul \x00 \xff"))

	s.reopen()

	for _, want := range []store.Request{open, ended} {
		got := s.request(want)
		s.same("row", got, want)
		if got.Seed != want.Seed {
			s.Errorf("got another seed of %q", want.Key)
		}
		s.refused(perdure.Conflict, func(tx store.Tx) error { return tx.Requests().Begin(want) })
	}
	s.same("row that is answered at last", s.request(s.end(open, answer("late"))).Answer, answer("late"))
}

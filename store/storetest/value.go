package storetest

import (
	"errors"
	"fmt"
	"strings"
	"sync"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/store"
)

func valueLaws() []law {
	return []law{
		{"is_unknown_until_put", unknownValue},
		{"counts_its_writes", valueVersions},
		{"keeps_any_key_and_text", hostileValues},
		{"keeps_sessions_apart_and_in_order", valuesApart},
		{"removes_one_and_says_whether_it_was_there", removeValue},
		{"refuses_what_is_too_large", largeValues},
		{"has_a_limit", valueLimit},
		{"keeps_its_limit_under_concurrency", valueConcurrent},
		{"needs_its_session", valueOrphan},
		{"goes_with_its_transaction", valueAndOthers},
		{"survives_reopening", valueSurvives},
	}
}

// keep puts a value and returns it as stored.
func (s *subject) keep(session perdure.SessionID, key, text string) (v store.Value) {
	s.Helper()
	s.write(func(tx store.Tx) (err error) {
		v, err = tx.Values().Put(store.Value{Session: session, Key: key, Text: text, Version: 99, CreatedAt: moment(7),
			UpdatedAt: moment(8)})
		return err
	})
	return v
}

// value reads a value.
func (s *subject) value(session perdure.SessionID, key string) (v store.Value) {
	s.Helper()
	s.read(func(r store.Reader) (err error) {
		v, err = r.Values().Get(session, key)
		return err
	})
	return v
}

// values lists a session's values.
func (s *subject) values(session perdure.SessionID) (found []store.Value) {
	s.Helper()
	s.read(func(r store.Reader) (err error) {
		found, err = r.Values().List(session)
		return err
	})
	return found
}

// drop removes a value, and reports whether it existed.
func (s *subject) drop(session perdure.SessionID, key string) (removed bool) {
	s.Helper()
	s.write(func(tx store.Tx) (err error) {
		removed, err = tx.Values().Remove(session, key)
		return err
	})
	return removed
}

func unknownValue(s *subject) {
	session := s.session()
	s.unknown(func(r store.Reader) error { _, err := r.Values().Get(session, "key"); return err })
	s.same("listed", len(s.values(session)), 0)

	want := s.keep(session, "key", "text")
	if want.Version != 1 || want.CreatedAt.IsZero() || !want.UpdatedAt.Equal(want.CreatedAt) || want.Text != "" {
		s.Errorf("got %+v", want)
	}

	s.same("listed", s.values(session), []store.Value{want})
	want.Text = "text"
	s.same("value", s.value(session, "key"), want)
}

func valueVersions(s *subject) {
	session := s.session()
	first := s.keep(session, "key", "one")

	second := s.keep(session, "key", "two")

	s.same("version", second.Version, int64(2))
	s.same("created", second.CreatedAt, first.CreatedAt)
	s.same("text", s.value(session, "key").Text, "two")
	s.drop(session, "key")
	s.same("version after it was removed", s.keep(session, "key", "three").Version, int64(1))
}

func hostileValues(s *subject) {
	session := s.session()
	for _, text := range append(hostile(), strings.Repeat("\x00\xff long", 100_000)) {
		key := text
		if key == "" || len(key) > store.MaxKeyBytes {
			key = "key"
		}
		want := s.keep(session, key, text)
		want.Text = text
		s.same("value", s.value(session, key), want)
	}
}

func valuesApart(s *subject) {
	one, other := s.session(), s.session()
	for _, key := range []string{"b", "a", "ä", "a\x00", "A", "\xff", "a/b"} {
		s.keep(one, key, "one")
	}
	s.keep(other, "a", "other")

	var keys []string
	for _, v := range s.values(one) {
		keys = append(keys, v.Key)
		s.same("session", v.Session, one)
	}
	s.same("keys", keys, []string{"A", "a", "a\x00", "a/b", "b", "ä", "\xff"})
	s.same("text", s.value(other, "a").Text, "other")
	s.unknown(func(r store.Reader) error { _, err := r.Values().Get(other, "b"); return err })
}

func removeValue(s *subject) {
	session, other := s.session(), s.session()
	s.keep(session, "key", "text")
	s.keep(other, "key", "text")

	s.same("removed", s.drop(session, "key"), true)
	s.same("removed again", s.drop(session, "key"), false)

	s.unknown(func(r store.Reader) error { _, err := r.Values().Get(session, "key"); return err })
	s.same("text of another session", s.value(other, "key").Text, "text")
}

func largeValues(s *subject) {
	session := s.session()
	for _, v := range []store.Value{
		{Key: ""}, {Key: strings.Repeat("k", store.MaxKeyBytes+1)},
		{Key: "k", Text: strings.Repeat("v", store.MaxValueBytes+1)},
	} {
		v.Session = session
		s.refused(perdure.Invalid, func(tx store.Tx) error { _, err := tx.Values().Put(v); return err })
	}
	key := strings.Repeat("k", store.MaxKeyBytes)
	s.keep(session, key, strings.Repeat("v", store.MaxValueBytes))

	s.same("bytes", len(s.value(session, key).Text), store.MaxValueBytes)
}

// fillKeys puts values until there are n.
func (s *subject) fillKeys(session perdure.SessionID, n int) {
	s.Helper()
	s.write(func(tx store.Tx) error {
		for i := range n {
			if _, err := tx.Values().Put(store.Value{Session: session, Key: fmt.Sprint("key ", i)}); err != nil {
				return err
			}
		}
		return nil
	})
}

func valueLimit(s *subject) {
	session := s.session()
	s.fillKeys(session, store.MaxKeys)

	s.refused(perdure.Limit, func(tx store.Tx) error {
		_, err := tx.Values().Put(store.Value{Session: session, Key: "one more"})
		return err
	})
	s.same("version of one that is there", s.keep(session, "key 7", "text").Version, int64(2))
	s.keep(s.session(), "one more", "of another session")
	s.drop(session, "key 0")
	s.keep(session, "one more", "in its place")
	s.same("values", len(s.values(session)), store.MaxKeys)
}

// valueConcurrent lets many transactions add the last value: the limit holds, and each write
// counts.
func valueConcurrent(s *subject) {
	session := s.session()
	s.fillKeys(session, store.MaxKeys-1)
	var all sync.WaitGroup
	var mu sync.Mutex
	added := 0
	for i := range nParallel {
		all.Go(func() {
			err := s.InTx(s.ctx, func(tx store.Tx) error {
				_, err := tx.Values().Put(store.Value{Session: session, Key: fmt.Sprint("one more ", i)})
				return err
			})
			shared := s.InTx(s.ctx, func(tx store.Tx) error {
				_, err := tx.Values().Put(store.Value{Session: session, Key: "key 0"})
				return err
			})
			mu.Lock()
			defer mu.Unlock()
			if err == nil {
				added++
			}
			if err != nil && !errors.Is(err, perdure.Limit) || shared != nil {
				s.Errorf("got %v and %v", err, shared)
			}
		})
	}
	all.Wait()

	s.same("added", added, 1)
	s.same("values", len(s.values(session)), store.MaxKeys)
	s.same("version", s.value(session, "key 0").Version, int64(nParallel+1))
}

func valueOrphan(s *subject) {
	s.refused(perdure.NotFound, func(tx store.Tx) error {
		_, err := tx.Values().Put(store.Value{Session: mint[perdure.SessionID](s), Key: "key"})
		return err
	})
	s.refused(perdure.NotFound, func(tx store.Tx) error {
		return tx.Secrets().Put(store.Secret{Session: mint[perdure.SessionID](s), Name: "name", Version: 1,
			Sealed: []byte("x"), KeyID: "k"})
	})
}

func valueAndOthers(s *subject) {
	session := s.session()
	want := s.keep(session, "key", "text")
	want.Text = "text"

	s.refused(errOnPurpose, func(tx store.Tx) error {
		if _, err := tx.Values().Put(store.Value{Session: session, Key: "other"}); err != nil {
			return err
		}
		if _, err := tx.Values().Get(session, "other"); err != nil {
			s.Errorf("in its transaction: %v", err)
		}
		if _, err := tx.Values().Remove(session, "key"); err != nil {
			return err
		}
		return errOnPurpose
	})

	s.same("value", s.value(session, "key"), want)
	s.unknown(func(r store.Reader) error { _, err := r.Values().Get(session, "other"); return err })
}

func valueSurvives(s *subject) {
	session := s.session()
	s.keep(session, "key", "nul \x00 \xff")
	want := s.value(session, "key")

	s.reopen()

	s.same("value", s.value(session, "key"), want)
}

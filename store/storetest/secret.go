package storetest

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/store"
)

func secretLaws() []law {
	return []law{
		{"is_unknown_until_put", unknownSecret},
		{"keeps_every_field", secretFields},
		{"is_written_version_by_version", secretVersions},
		{"has_one_winner_under_concurrency", secretConcurrent},
		{"lists_by_session_and_by_key", listSecrets},
		{"lists_by_pages", pageSecrets},
		{"is_sealed_again_in_place", resealSecret},
		{"removes_one_and_says_whether_it_was_there", removeSecret},
		{"refuses_what_is_too_large", largeSecrets},
		{"has_a_limit", secretLimit},
		{"never_comes_as_a_version_that_was_removed", secretGoesOn},
		{"stays_out_of_a_dump", secretsStay},
		{"gives_out_copies", secretCopies},
		{"survives_reopening", secretSurvives},
	}
}

// putSecret puts a secret and returns it as stored.
func (s *subject) putSecret(session perdure.SessionID, name string, version int64, key string) store.Secret {
	s.Helper()
	one := store.Secret{
		Session: session, Name: name, Version: version,
		Sealed: fmt.Appendf(nil, "\x00\xff%s under %s", name, key), KeyID: key,
		Hosts: []string{"a.example", "b.example"}, Call: "call \xff", CreatedAt: moment(7), UpdatedAt: moment(8),
	}
	s.write(func(tx store.Tx) error { return tx.Secrets().Put(one) })
	return s.secret(session, name)
}

// secret reads a secret.
func (s *subject) secret(session perdure.SessionID, name string) (found store.Secret) {
	s.Helper()
	s.read(func(r store.Reader) (err error) {
		found, err = r.Secrets().Get(session, name)
		return err
	})
	return found
}

// secrets lists the names of secrets.
func (s *subject) secrets(filter store.SecretFilter) (names []string) {
	s.Helper()
	s.read(func(r store.Reader) error {
		found, err := r.Secrets().List(filter)
		for _, one := range found {
			names = append(names, one.Name)
			if (len(one.Sealed) == 0) != filter.WithoutValue {
				s.Errorf("%s is listed with %d bytes", one.Name, len(one.Sealed))
			}
		}
		return err
	})
	return names
}

func unknownSecret(s *subject) {
	session, other := s.session(), s.session()
	s.putSecret(other, "name", 1, "k")

	s.unknown(func(r store.Reader) error { _, err := r.Secrets().Get(session, "name"); return err })
	s.same("listed", len(s.secrets(store.SecretFilter{Session: session})), 0)
}

func secretFields(s *subject) {
	session := s.session()
	now := s.putSecret(session, "\xff name", 1, "k1")

	s.same("name", []any{now.Session, now.Name, now.Version, now.KeyID, now.Call},
		[]any{session, "\xff name", int64(1), "k1", perdure.CallID("call \xff")})
	s.same("sealed", string(now.Sealed), "\x00\xff\xff name under k1")
	s.same("hosts", now.Hosts, []string{"a.example", "b.example"})
	if now.CreatedAt.IsZero() || now.CreatedAt.Equal(moment(7)) || !now.UpdatedAt.Equal(now.CreatedAt) {
		s.Errorf("its moments are %v and %v", now.CreatedAt, now.UpdatedAt)
	}
	bare := store.Secret{Session: session, Name: "bare", Version: 1, Sealed: []byte{0}, KeyID: "k1"}
	s.write(func(tx store.Tx) error { return tx.Secrets().Put(bare) })
	got := s.secret(session, "bare")
	s.same("without hosts and call", []any{len(got.Hosts), got.Call}, []any{0, perdure.CallID("")})
}

func secretVersions(s *subject) {
	session := s.session()
	first := s.putSecret(session, "name", 1, "k1")
	for _, version := range []int64{-1, 0, 1, 3} {
		s.refused(perdure.Conflict, func(tx store.Tx) error {
			return tx.Secrets().Put(store.Secret{Session: session, Name: "name", Version: version, Sealed: []byte("x"),
				KeyID: "k1"})
		})
	}
	s.same("after refusals", s.secret(session, "name"), first)

	second := s.putSecret(session, "name", 2, "k2")

	s.same("created", second.CreatedAt, first.CreatedAt)
	s.same("key", second.KeyID, "k2")
	s.refused(perdure.Conflict, func(tx store.Tx) error {
		return tx.Secrets().Put(store.Secret{Session: session, Name: "new", Version: 2, Sealed: []byte("x"), KeyID: "k1"})
	})
}

// secretConcurrent lets many transactions write the same version: one succeeds, the others fail.
func secretConcurrent(s *subject) {
	session := s.session()
	s.putSecret(session, "name", 1, "k")
	var all sync.WaitGroup
	var mu sync.Mutex
	won := 0
	for range nParallel {
		all.Go(func() {
			err := s.InTx(s.ctx, func(tx store.Tx) error {
				last, err := tx.Secrets().Get(session, "name")
				if err != nil {
					return err
				}
				last.Version = 2
				return tx.Secrets().Put(last)
			})
			mu.Lock()
			defer mu.Unlock()
			if err == nil {
				won++
			} else if !errors.Is(err, perdure.Conflict) {
				s.Errorf("got %v", err)
			}
		})
	}
	all.Wait()

	s.same("winners", won, 1)
}

func listSecrets(s *subject) {
	one, other := s.session(), s.session()
	for _, name := range []string{"b", "a", "ä", "A", "a\x00"} {
		s.putSecret(one, name, 1, "k1")
	}
	s.putSecret(one, "b", 2, "k2")
	s.putSecret(other, "c", 1, "k1")

	s.same("of the session", s.secrets(store.SecretFilter{Session: one}), []string{"A", "a", "a\x00", "b", "ä"})
	s.same("bare", s.secrets(store.SecretFilter{Session: one, WithoutValue: true}), []string{"A", "a", "a\x00", "b", "ä"})
	s.same("not under k1", s.secrets(store.SecretFilter{OtherThanKey: "k1"}), []string{"b"})
	all := s.secrets(store.SecretFilter{OtherThanKey: "k2", WithoutValue: true})
	slices.Sort(all)
	s.same("not under k2", all, []string{"A", "a", "a\x00", "c", "ä"})
	s.same("behind a", s.secrets(store.SecretFilter{Session: one, After: store.SecretKey{Session: one, Name: "a"},
		Limit: 2}), []string{"a\x00", "b"})
}

func pageSecrets(s *subject) {
	want := map[store.SecretKey]bool{}
	for range 3 {
		session := s.session()
		for i := range 5 {
			name := fmt.Sprint("name ", i)
			s.putSecret(session, name, 1, "k1")
			want[store.SecretKey{Session: session, Name: name}] = true
		}
	}

	filter := store.SecretFilter{OtherThanKey: "k2", Limit: 4}
	pages := 0
	for ; ; pages++ {
		var page []store.Secret
		s.read(func(r store.Reader) (err error) {
			page, err = r.Secrets().List(filter)
			return err
		})
		if len(page) == 0 {
			break
		}
		for _, one := range page {
			filter.After = store.SecretKey{Session: one.Session, Name: one.Name}
			if !want[filter.After] {
				s.Errorf("%v was listed twice, or does not exist", filter.After)
			}
			delete(want, filter.After)
		}
		s.putSecret(page[0].Session, page[0].Name, 2, "k2") // a write meanwhile changes no later page
	}

	s.same("pages", pages, 4)
	s.same("left", len(want), 0)
}

func resealSecret(s *subject) {
	session := s.session()
	before := s.putSecret(session, "name", 1, "k1")
	again := before
	again.Sealed, again.KeyID, again.Hosts, again.Call = []byte("again"), "k2", nil, ""
	reseal := func(one store.Secret, was string) (done bool) {
		s.write(func(tx store.Tx) (err error) {
			done, err = tx.Secrets().Reseal(one, was)
			return err
		})
		return done
	}

	s.same("under another key", reseal(again, "k0"), false)
	s.same("done", reseal(again, "k1"), true)
	s.same("done again", reseal(again, "k1"), false)
	want := before
	want.Sealed, want.KeyID = []byte("again"), "k2"
	s.same("secret", s.secret(session, "name"), want)

	newer := s.putSecret(session, "name", 2, "k1")
	s.same("of a version that is gone", reseal(again, "k1"), false)
	s.same("the newer one", s.secret(session, "name"), newer)
	again.Name = "none"
	s.same("of one that is not there", reseal(again, "k1"), false)
}

func removeSecret(s *subject) {
	session, other := s.session(), s.session()
	s.putSecret(session, "name", 1, "k")
	s.putSecret(other, "name", 1, "k")
	remove := func() (removed bool) {
		s.write(func(tx store.Tx) (err error) {
			removed, err = tx.Secrets().Remove(session, "name")
			return err
		})
		return removed
	}

	s.same("removed", remove(), true)
	s.same("removed again", remove(), false)

	s.unknown(func(r store.Reader) error { _, err := r.Secrets().Get(session, "name"); return err })
	s.same("of another session", s.secret(other, "name").Version, int64(1))
}

// secretGoesOn removes secrets and writes them again. No version of a name is used twice, and the
// row that records removed versions is not listed as a secret.
func secretGoesOn(s *subject) {
	session, other := s.session(), s.session()
	next := func(of perdure.SessionID, name string) (version int64) {
		s.read(func(r store.Reader) (err error) {
			version, err = r.Secrets().NextVersion(of, name)
			return err
		})
		return version
	}
	remove := func(name string) {
		s.write(func(tx store.Tx) error { _, err := tx.Secrets().Remove(session, name); return err })
	}
	s.same("first", next(session, "name"), int64(1))
	s.putSecret(session, "stays", 1, "k")
	s.putSecret(session, "name", 1, "k")
	old := s.putSecret(session, "name", 2, "k")
	remove("name")
	s.putSecret(session, "short", 3, "k")
	remove("short")
	remove("none")
	remove("")

	s.same("next after removals", []int64{next(session, "name"), next(session, "stays"), next(session, "new"),
		next(other, "name")}, []int64{4, 2, 4, 1})
	for _, version := range []int64{1, 2, 3, 5} {
		old.Version = version
		s.refused(perdure.Conflict, func(tx store.Tx) error { return tx.Secrets().Put(old) })
	}
	s.unknown(func(r store.Reader) error { _, err := r.Secrets().Get(session, ""); return err })
	s.same("of the session", s.secrets(store.SecretFilter{Session: session}), []string{"stays"})
	s.same("not under another key", s.secrets(store.SecretFilter{Session: session, OtherThanKey: "k2"}), []string{"stays"})
	s.same("of all", s.secrets(store.SecretFilter{}), []string{"stays"})
	s.same("of all, not under another key", s.secrets(store.SecretFilter{OtherThanKey: "k2"}), []string{"stays"})
	s.same("of all, bare", s.secrets(store.SecretFilter{OtherThanKey: "k2", WithoutValue: true}), []string{"stays"})

	s.reopen()
	s.same("next after reopening", next(session, "name"), int64(4))
	s.same("version", s.putSecret(session, "name", 4, "k").Version, int64(4))
	s.same("created", s.secret(session, "name").CreatedAt, s.secret(session, "name").UpdatedAt)
	s.write(func(tx store.Tx) error { return tx.Sessions().Remove(session) })
	s.same("of a session that is gone", next(session, "name"), int64(1))
}

func largeSecrets(s *subject) {
	session := s.session()
	for _, one := range []store.Secret{
		{Name: "", Sealed: []byte("x"), KeyID: "k"},
		{Name: strings.Repeat("n", store.MaxKeyBytes+1), Sealed: []byte("x"), KeyID: "k"},
		{Name: "n", KeyID: "k"}, {Name: "n", Sealed: make([]byte, store.MaxSecretBytes+1), KeyID: "k"},
		{Name: "n", Sealed: []byte("x")},
	} {
		one.Session, one.Version = session, 1
		s.refused(perdure.Invalid, func(tx store.Tx) error { return tx.Secrets().Put(one) })
		s.refused(perdure.Invalid, func(tx store.Tx) error { _, err := tx.Secrets().Reseal(one, "k"); return err })
	}
	s.write(func(tx store.Tx) error {
		return tx.Secrets().Put(store.Secret{Session: session, Name: "n", Version: 1,
			Sealed: make([]byte, store.MaxSecretBytes), KeyID: "k"})
	})

	s.same("bytes", len(s.secret(session, "n").Sealed), store.MaxSecretBytes)
}

func secretLimit(s *subject) {
	session := s.session()
	put := func(tx store.Tx, name string, version int64) error {
		return tx.Secrets().Put(store.Secret{Session: session, Name: name, Version: version, Sealed: []byte("x"),
			KeyID: "k"})
	}
	s.write(func(tx store.Tx) error {
		for i := range store.MaxKeys {
			if err := put(tx, fmt.Sprint("name ", i), 1); err != nil {
				return err
			}
		}
		return nil
	})

	s.refused(perdure.Limit, func(tx store.Tx) error { return put(tx, "one more", 1) })
	s.write(func(tx store.Tx) error { return put(tx, "name 7", 2) })
	s.same("secrets", len(s.secrets(store.SecretFilter{Session: session})), store.MaxKeys)
	s.write(func(tx store.Tx) error {
		if _, err := tx.Secrets().Remove(session, "name 1"); err != nil {
			return err
		}
		return put(tx, "one more", 2)
	})
	s.refused(perdure.Limit, func(tx store.Tx) error { return put(tx, "yet one more", 2) })
}

// secretsStay is SE3: a dump contains no secret.
func secretsStay(s *subject) {
	session := s.session()
	s.putSecret(session, "name", 1, "k")
	s.keep(session, "key", "text")
	d := s.dump(session)

	there := s.beside()
	there.restore(d)

	s.same("values", there.value(session, "key"), s.value(session, "key"))
	s.same("secrets", len(there.secrets(store.SecretFilter{})), 0)
}

func secretCopies(s *subject) {
	session := s.session()
	given := store.Secret{Session: session, Name: "name", Version: 1, Sealed: []byte("sealed"), KeyID: "k",
		Hosts: []string{"a.example"}}

	s.write(func(tx store.Tx) error { return tx.Secrets().Put(given) })
	scribble(given, s.secret(session, "name"))

	got := s.secret(session, "name")
	s.same("secret", []any{string(got.Sealed), got.Hosts}, []any{"sealed", []string{"a.example"}})
}

func secretSurvives(s *subject) {
	session := s.session()
	want := s.putSecret(session, "name", 1, "k")

	s.reopen()

	s.same("secret", s.secret(session, "name"), want)
}

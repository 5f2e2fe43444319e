package storetest

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"strings"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/store"
)

func tokenLaws() []law {
	return []law{
		{"is_found_by_id_and_by_hash", tokenFound},
		{"is_listed_by_org_in_order", tokenListed},
		{"replaces_all_but_hash_and_org", tokenReplaced},
		{"refuses_what_is_no_token", tokenThatIsNone},
		{"goes_with_its_transaction", tokenAndFail},
		{"survives_reopening", tokenSurvives},
		{"is_one_under_concurrency", tokenConcurrent},
		{"sessions_are_listed_by_org", sessionsOfOrg},
		{"schedules_are_counted_by_org", schedulesOfOrg},
	}
}

// newToken returns a token of a new org.
func (s *subject) newToken(org string) store.AccessToken {
	id := mint[perdure.TokenID](s)
	sum := sha256.Sum256([]byte(id))
	return store.AccessToken{
		ID: id, Hash: hex.EncodeToString(sum[:]), Name: "a <token>", Org: org, User: "ada",
		Scopes: []string{"read", "write"}, By: "user",
		CreatedAt: moment(0), ExpiresAt: moment(7),
	}
}

// admit stores a token.
func (s *subject) admit(t store.AccessToken) store.AccessToken {
	s.Helper()
	s.write(func(tx store.Tx) error { return tx.Tokens().Put(t) })
	return t
}

// tokenNamed returns a token by its id.
func (s *subject) tokenNamed(id perdure.TokenID) (t store.AccessToken) {
	s.Helper()
	s.read(func(r store.Reader) (err error) {
		t, err = r.Tokens().Get(id)
		return err
	})
	return t
}

// tokensOf lists the tokens of an org.
func (s *subject) tokensOf(org string) (found []store.AccessToken) {
	s.Helper()
	s.read(func(r store.Reader) (err error) {
		found, err = r.Tokens().List(org)
		return err
	})
	return found
}

func tokenFound(s *subject) {
	t := s.admit(s.newToken("org"))

	s.same("by id", s.tokenNamed(t.ID), t)
	s.read(func(r store.Reader) error {
		found, err := r.Tokens().ByHash(t.Hash)
		s.same("by hash", found, t)
		return err
	})
	s.unknown(func(r store.Reader) error { _, err := r.Tokens().Get(mint[perdure.TokenID](s)); return err })
	s.unknown(func(r store.Reader) error { _, err := r.Tokens().ByHash(strings.ToUpper(t.Hash)); return err })
	s.unknown(func(r store.Reader) error { _, err := r.Tokens().ByHash(""); return err })
}

func tokenListed(s *subject) {
	first, other, second := s.admit(s.newToken("org")), s.admit(s.newToken("other")), s.admit(s.newToken("org"))

	s.same("of an org", s.tokensOf("org"), []store.AccessToken{first, second})
	s.same("of all", s.tokensOf(""), []store.AccessToken{first, other, second})
	s.same("of an unknown org", len(s.tokensOf("ORG")), 0)
}

func tokenReplaced(s *subject) {
	t, other := s.admit(s.newToken("org")), s.admit(s.newToken("org"))
	revoked := t
	revoked.RevokedAt, revoked.RevokedBy, revoked.UsedAt = moment(3), "operator", moment(2)

	s.same("replaced", s.tokenNamed(s.admit(revoked).ID), revoked)

	stolen, moved, twice := t, t, s.newToken("org")
	stolen.Hash, moved.Org, twice.Hash = other.Hash, "other", other.Hash
	for _, bad := range []store.AccessToken{stolen, moved, twice} {
		s.refused(perdure.Conflict, func(tx store.Tx) error { return tx.Tokens().Put(bad) })
	}
	s.same("as it was", s.tokensOf(""), []store.AccessToken{revoked, other})
}

func tokenThatIsNone(s *subject) {
	for _, spoil := range []func(*store.AccessToken){
		func(t *store.AccessToken) { t.ID = "" },
		func(t *store.AccessToken) { t.Hash = "" },
		func(t *store.AccessToken) { t.Name = "" },
		func(t *store.AccessToken) { t.Org = strings.Repeat("o", store.MaxTokenTextBytes+1) },
		func(t *store.AccessToken) { t.Scopes = []string{""} },
	} {
		bad := s.newToken("org")
		spoil(&bad)
		s.refused(perdure.Invalid, func(tx store.Tx) error { return tx.Tokens().Put(bad) })
	}
}

func tokenAndFail(s *subject) {
	t := s.newToken("org")
	s.refused(perdure.Lost, func(tx store.Tx) error {
		if err := tx.Tokens().Put(t); err != nil {
			return err
		}
		within, err := tx.Tokens().ByHash(t.Hash)
		s.same("within", within, t)
		if err != nil {
			return err
		}
		return perdure.Lost
	})

	s.same("left", len(s.tokensOf("")), 0)
}

func tokenSurvives(s *subject) {
	t := s.admit(s.newToken("org"))

	s.reopen()

	s.same("token", s.tokenNamed(t.ID), t)
}

func tokenConcurrent(s *subject) {
	t := s.admit(s.newToken("org"))

	s.together(nParallel, func(int) error {
		return s.InTx(s.ctx, func(tx store.Tx) error {
			known, err := tx.Tokens().Get(t.ID)
			if err != nil {
				return err
			}
			known.Name += "+"
			return tx.Tokens().Put(known)
		})
	})

	s.same("name", s.tokenNamed(t.ID).Name, t.Name+strings.Repeat("+", nParallel))
}

func sessionsOfOrg(s *subject) {
	ours, theirs, nobodys := s.newSession(), s.newSession(), s.newSession()
	ours.Org, ours.User, theirs.Org = "ours", "ada", "theirs"
	for i, row := range []*store.Session{&ours, &theirs, &nobodys} {
		row.CreatedAt = moment(i)
		s.write(func(tx store.Tx) error { return tx.Sessions().Create(*row) })
	}

	for org, want := range map[string][]store.Session{"ours": {s.row(ours.ID)}, "theirs": {s.row(theirs.ID)},
		"": {s.row(nobodys.ID)}, "none": nil} {
		s.read(func(r store.Reader) error {
			got, err := r.Sessions().List(store.SessionFilter{Org: org, OneOrg: true})
			s.same("sessions of "+org, got, want)
			return err
		})
	}
	s.same("owner", s.row(ours.ID).User, "ada")
	s.refused(perdure.Invalid, func(tx store.Tx) error {
		_, err := tx.Sessions().List(store.SessionFilter{OneOrg: true, HasDriver: true})
		return err
	})
}

func schedulesOfOrg(s *subject) {
	ours, theirs := s.newSession(), s.newSession()
	ours.Org, theirs.Org = "ours", "theirs"
	plan := func(session perdure.SessionID) error {
		return s.InTx(s.ctx, func(tx store.Tx) error {
			return tx.Schedules().Put(perdure.Schedule{ID: mint[perdure.ScheduleID](s), Session: session, Enabled: true},
				store.ScheduleCaps{Org: 1})
		})
	}
	for _, row := range []store.Session{ours, theirs} {
		s.write(func(tx store.Tx) error { return tx.Sessions().Create(row) })
		s.same("the first of "+row.Org, plan(row.ID), nil)
	}

	if err := plan(ours.ID); !errors.Is(err, perdure.Limit) {
		s.Fatalf("the second one: got %v, want %v", err, perdure.Limit)
	}
}

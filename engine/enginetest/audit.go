package enginetest

import (
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/engine"
)

// auditListed checks that audited actions are listed in order, over a restart, and by filter (S26).
func auditListed(t *testing.T, open Harness) {
	s := begin(t, open, Setup{Script: "steps:\n  - text: Hello\n"})
	made, err := s.eng.Tokens().Create(s.ctx, engine.TokenRequest{Name: "ci", By: "user"})
	if err == nil {
		_, err = s.eng.Tokens().Revoke(s.ctx, made.ID, "user")
	}
	if err != nil {
		t.Fatal(err)
	}
	s.crash()
	ask := func(q engine.AuditQuery) (deeds []string) {
		t.Helper()
		entries, err := s.eng.Audit().List(s.ctx, q)
		if err != nil {
			t.Fatal(err)
		}
		prev := ""
		for _, e := range entries {
			if e.At.IsZero() || e.Hash == "" || e.Actor == "" || q == (engine.AuditQuery{}) && e.Prev != prev {
				t.Errorf("got %+v after %q", e, prev)
			}
			prev = e.Hash
			deeds = append(deeds, e.Action+" "+e.Subject)
		}
		return deeds
	}
	id := string(made.ID)
	both := []string{"token.created " + id, "token.revoked " + id}
	first, err := s.eng.Audit().List(s.ctx, engine.AuditQuery{Limit: 1})
	if err != nil || len(first) != 1 {
		t.Fatalf("got %+v, %v", first, err)
	}
	for _, c := range []struct {
		name string
		q    engine.AuditQuery
		want []string
	}{
		{"all", engine.AuditQuery{}, both},
		{"a family", engine.AuditQuery{Action: "token.*"}, both},
		{"one action", engine.AuditQuery{Action: "token.revoked"}, both[1:]},
		{"a part of a word", engine.AuditQuery{Action: "tok*"}, nil},
		{"a subject", engine.AuditQuery{Subject: id, Limit: 1}, both[:1]},
		{"another subject", engine.AuditQuery{Subject: "another"}, nil},
		{"somebody", engine.AuditQuery{Actor: first[0].Actor}, both},
		{"nobody", engine.AuditQuery{Actor: "nobody"}, nil},
		{"a session", engine.AuditQuery{Session: s.id}, nil},
		{"what came after", engine.AuditQuery{After: first[0].Seq}, both[1:]},
		{"what came before", engine.AuditQuery{Before: first[0].Seq + 1}, both[:1]},
		{"the newest first", engine.AuditQuery{Newest: true}, []string{both[1], both[0]}},
		{"the newest", engine.AuditQuery{Newest: true, Limit: 1, Action: "token.*"}, both[1:]},
		{"the newest before", engine.AuditQuery{Newest: true, Before: first[0].Seq + 1}, both[:1]},
		{"the newest after", engine.AuditQuery{Newest: true, After: first[0].Seq}, both[1:]},
	} {
		if diff := cmp.Diff(ask(c.q), c.want); diff != "" {
			t.Errorf("%s: %s", c.name, diff)
		}
	}
	if _, err := s.eng.Audit().List(s.ctx, engine.AuditQuery{After: -1}); !errors.Is(err, perdure.Invalid) {
		t.Errorf("a negative seq: got %v", err)
	}
}

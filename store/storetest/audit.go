package storetest

import (
	"errors"
	"fmt"
	"sync"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/budget"
	"github.com/perdure/perdure/store"
)

func auditLaws() []law {
	return []law{
		{"is_a_chain_an_org", auditChain},
		{"has_every_event_that_is_answered_for", auditEvents},
		{"goes_with_its_transaction", auditAndFail},
		{"survives_reopening", auditSurvives},
		{"is_one_chain_under_concurrency", auditConcurrent},
	}
}

// account adds an entry to the audit log of an org.
func (s *subject) account(org, subject string) {
	s.Helper()
	s.write(func(tx store.Tx) error {
		return tx.Audit().Add(store.AuditEntry{Org: org, Actor: "ada", Action: "token.created", Subject: subject,
			Detail: map[string]string{"name": "<a>", "none": ""}})
	})
}

// audited reads the audit log of an org, and requires that every link is intact.
func (s *subject) audited(org string, after int64, limit int) (found []store.AuditEntry) {
	s.Helper()
	s.read(func(r store.Reader) error {
		found = nil
		links, err := r.Audit().Links(org, after, limit)
		for _, link := range links {
			e, broken := link.Entry()
			found, err = append(found, e), errors.Join(err, broken)
		}
		return err
	})
	return found
}

// checkAudit requires that every chain is intact, and returns the heads.
func (s *subject) checkAudit() (heads []store.AuditHead) {
	s.Helper()
	s.read(func(r store.Reader) (err error) {
		heads, err = store.CheckAudit(r.Audit(), func(store.AuditEntry) {}, func(format string, args ...any) {
			s.Errorf(format, args...)
		})
		return err
	})
	return heads
}

func auditChain(s *subject) {
	s.same("heads of nothing", len(s.checkAudit()), 0)
	for n := range 3 {
		s.account("org", fmt.Sprint("one ", n))
		s.account("", fmt.Sprint("other ", n))
	}

	found := s.audited("org", 0, 0)
	s.same("entries", len(found), 3)
	for i, e := range found {
		s.same("entry", []any{e.Org, e.Seq, e.Subject, e.Actor, e.Action, e.Detail},
			[]any{"org", int64(i + 1), fmt.Sprint("one ", i), "ada", "token.created", map[string]string{"name": "<a>"}})
		if i > 0 {
			s.same("what it follows", e.Prev, found[i-1].Hash)
		}
	}
	s.same("first of the default org", s.audited(budget.DefaultOrg, 0, 1)[0].Subject, "other 0")
	s.same("after one", s.audited("org", 1, 1)[0].Seq, int64(2))
	s.same("of an unknown org", len(s.audited("nobody", 0, 0)), 0)
	s.same("heads", s.checkAudit(), []store.AuditHead{
		{Org: budget.DefaultOrg, Seq: 3, Hash: s.audited(budget.DefaultOrg, 2, 0)[0].Hash},
		{Org: "org", Seq: 3, Hash: found[2].Hash},
	})
}

func auditEvents(s *subject) {
	session := s.session()
	events := s.events(7)
	call, task := perdure.CallID("call_1"), mint[perdure.TaskID](s)
	facts := []perdure.Fact{
		perdure.ApprovalResolved{Approval: "approval_1", State: perdure.ApprovalApproved, By: "ada", Note: "private"},
		perdure.ToolResolved{CallID: call, Answer: perdure.ResolveHappened, By: "ada"},
		perdure.TaskResolved{Answer: perdure.ResolveRunAgain, By: "bob"},
		perdure.AuditRecorded{Action: perdure.AuditRead, Subject: "KEY", Hash: "sha256:1", Purpose: "web"},
		perdure.RequestDenied{Host: "evil.test", Layer: "session"},
		perdure.BudgetResumed{BudgetID: "budget_1", By: "ada"},
	}
	for i, f := range facts { // the seventh event is not audited
		events[i].Fact = f
	}
	events[2].Task = task
	s.write(func(tx store.Tx) error { return tx.Journal().Append(session, events) })

	found := s.audited(budget.DefaultOrg, 0, 0)
	s.same("entries", len(found), len(facts))
	want := [][]any{
		{"approval.resolved", "ada", "approval_1", "approved"},
		{"tool.resolved", "ada", string(call), string(perdure.ResolveHappened)},
		{"task.resolved", "bob", string(task), string(perdure.ResolveRunAgain)}, {"secret.read", "web", "KEY", "sha256:1"},
		{"egress.denied", "", "evil.test", "session"}, {"budget.resumed", "ada", "budget_1", ""},
	}
	for i, e := range found {
		said := ""
		for _, name := range []string{"state", "answer", "sealed", "layer"} {
			said += e.Detail[name]
		}
		s.same("entry", []any{e.Action, e.Actor, e.Subject, said}, want[i])
		s.same("its event", []any{e.Session, e.Event, e.Digest},
			[]any{session, events[i].ID, store.AuditHash(s.encode(events[i]))})
	}
	s.checkAudit()
}

func auditAndFail(s *subject) {
	s.account("org", "stays")
	undone := errors.New("undone")
	err := s.InTx(s.ctx, func(tx store.Tx) error {
		return errors.Join(tx.Audit().Add(store.AuditEntry{Org: "org", Action: "a", Subject: "goes"}), undone)
	})
	if !errors.Is(err, undone) {
		s.Errorf("got %v, want %v", err, undone)
	}
	s.account("org", "next")
	s.same("entries", len(s.audited("org", 0, 0)), 2)
	s.checkAudit()
}

func auditSurvives(s *subject) {
	s.account("org", "one")
	before := s.audited("org", 0, 0)
	s.reopen()
	s.same("entries", s.audited("org", 0, 0), before)
	s.account("org", "two")
	s.same("heads", len(s.checkAudit()), 1)
}

func auditConcurrent(s *subject) {
	var all sync.WaitGroup
	for n := range nParallel {
		all.Go(func() { s.account("org", fmt.Sprint(n)) })
	}
	all.Wait()
	s.same("entries", len(s.audited("org", 0, 0)), nParallel)
	s.checkAudit()
}

package storetest

import (
	"cmp"
	"errors"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/agent"
	"github.com/perdure/perdure/store"
)

func agentVersions(s *subject) {
	first, other := s.shelve(s.newShelf()).Agent, s.shelve(s.newShelf()).Agent
	next := first
	next.Overlay, next.By = agent.Overlay{SystemPrompt: "Be brief.", Model: "openai:small", Tools: []string{"a"}},
		"token_1 ada"
	s.write(func(tx store.Tx) (err error) { next, err = tx.Directory().Agents().Put(next); return err })
	broken := errors.New("broken")
	s.refused(broken, func(tx store.Tx) error {
		_, err := tx.Directory().Agents().Put(next)
		return cmp.Or(err, broken)
	})
	// an old version
	s.refused(perdure.Conflict, func(tx store.Tx) error { _, err := tx.Directory().Agents().Put(first); return err })

	s.read(func(r store.Reader) error {
		all, err := r.Directory().Agents().Versions(first.ID, 0)
		s.same("versions", all, []agent.Agent{next, first})
		last, failed := r.Directory().Agents().Versions(first.ID, 1)
		s.same("the last", last, []agent.Agent{next})
		others, wrong := r.Directory().Agents().Versions(other.ID, 0)
		s.same("another's", others, []agent.Agent{other})
		none, broke := r.Directory().Agents().Versions(mint[perdure.AgentID](s), 0)
		s.same("of an unknown agent", len(none), 0)
		return errors.Join(err, failed, wrong, broke)
	})
	s.read(func(r store.Reader) error {
		all, err := r.Directory().Agents().Versions(first.ID, 0)
		for i := range all {
			all[i].Overlay.Tools = append(all[i].Overlay.Tools[:0], "changed")
		}
		return err
	})
	s.read(func(r store.Reader) error {
		all, err := r.Directory().Agents().Versions(first.ID, 0)
		s.same("versions after their copies were changed", all, []agent.Agent{next, first})
		return err
	})
}

func harnessVersions(s *subject) {
	first, other := s.shelve(s.newShelf()).Harness, s.shelve(s.newShelf()).Harness
	next := first
	next.Overlay, next.By = agent.Overlay{SystemPrompt: "Be brief.", Tools: []string{"a"}}, "token_1 ada"
	s.write(func(tx store.Tx) (err error) { next, err = tx.Directory().Harnesses().Put(next); return err })
	broken := errors.New("broken")
	s.refused(broken, func(tx store.Tx) error {
		_, err := tx.Directory().Harnesses().Put(next)
		return cmp.Or(err, broken)
	})
	// an old version
	s.refused(perdure.Conflict, func(tx store.Tx) error { _, err := tx.Directory().Harnesses().Put(first); return err })

	read := func(what string, id perdure.HarnessID, limit int, want []agent.Harness) {
		s.read(func(r store.Reader) error {
			all, err := r.Directory().Harnesses().Versions(id, limit)
			s.same(what, all, want)
			for i := range all {
				all[i].Overlay.Tools = append(all[i].Overlay.Tools[:0], "changed")
			}
			return err
		})
	}
	read("versions", first.ID, 0, []agent.Harness{next, first})
	read("versions after their copies were changed", first.ID, 5, []agent.Harness{next, first})
	read("the last", first.ID, 1, []agent.Harness{next})
	read("another's", other.ID, 0, []agent.Harness{other})
	read("of an unknown harness", mint[perdure.HarnessID](s), 0, nil)
}

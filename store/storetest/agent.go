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
	next.Overlay, next.By = agent.Overlay{SystemPrompt: "Be brief.", Model: "openai:small", Tools: []string{"a"}}, "token_1 ada"
	s.write(func(tx store.Tx) (err error) { next, err = tx.PutAgent(next); return err })
	broken := errors.New("broken")
	s.refused(broken, func(tx store.Tx) error {
		_, err := tx.PutAgent(next)
		return cmp.Or(err, broken)
	})
	s.refused(perdure.Conflict, func(tx store.Tx) error { _, err := tx.PutAgent(first); return err }) // that version is old

	s.read(func(r store.Reader) error {
		all, err := r.AgentVersions(first.ID, 0)
		s.same("versions", all, []agent.Agent{next, first})
		last, failed := r.AgentVersions(first.ID, 1)
		s.same("the last", last, []agent.Agent{next})
		others, wrong := r.AgentVersions(other.ID, 0)
		s.same("another's", others, []agent.Agent{other})
		none, broke := r.AgentVersions(mint[perdure.AgentID](s), 0)
		s.same("nobody's", len(none), 0)
		return errors.Join(err, failed, wrong, broke)
	})
	s.read(func(r store.Reader) error {
		all, err := r.AgentVersions(first.ID, 0)
		for i := range all {
			all[i].Overlay.Tools = append(all[i].Overlay.Tools[:0], "changed")
		}
		return err
	})
	s.read(func(r store.Reader) error {
		all, err := r.AgentVersions(first.ID, 0)
		s.same("versions after their copies were changed", all, []agent.Agent{next, first})
		return err
	})
}

package storetest

import (
	"errors"

	"github.com/perdure/perdure/store"
)

func keptSurvives(s *subject) {
	w := s.shelve(s.newShelf())
	s.write(func(tx store.Tx) error {
		d := tx.Directory()
		return errors.Join(d.Models().SetDefault(w.Model.ID), d.Models().SetDefaultName("acme", "a/b"), d.Providers().SetDefault(w.Provider.ID))
	})
	want := s.shelved(w)

	s.reopen()

	s.same("rows", s.shelved(w), want)
	s.same("defaults", []bool{want.Model.Default, want.Provider.Default}, []bool{true, true})
	s.read(func(r store.Reader) error {
		name, _, err := r.Directory().Models().DefaultName("acme")
		s.same("default name", name, "a/b")
		return err
	})
}

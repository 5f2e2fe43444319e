package storetest

import (
	"errors"
	"slices"
	"strings"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/store"
)

// The laws of models, providers and connections are among those of the directory.

func defaultModel(s *subject) {
	one, other := s.shelve(s.newShelf()), s.shelve(s.newShelf())
	check := func(want perdure.ModelID) {
		s.Helper()
		s.read(func(r store.Reader) error {
			m, found, err := r.Directory().Models().Default()
			s.same("default", []any{m.ID, found, m.Default}, []any{want, want != "", want != ""})
			models, failed := r.Directory().Models().List()
			marked := slices.DeleteFunc(models, func(m store.Model) bool { return !m.Default })
			if len(marked) > 1 || len(marked) == 1 && marked[0].ID != want || want != "" && len(marked) == 0 {
				s.Errorf("marked: got %v, want %q", marked, want)
			}
			return errors.Join(err, failed)
		})
	}

	for _, id := range []perdure.ModelID{one.Model.ID, other.Model.ID, other.Model.ID} {
		s.write(func(tx store.Tx) error { return tx.Directory().Models().SetDefault(id) })
		check(id)
	}
	stays := other.Model
	stays.Default = false
	s.write(func(tx store.Tx) error { _, err := tx.Directory().Models().Put(stays); return err })
	check(other.Model.ID)
	s.write(func(tx store.Tx) error { return tx.Directory().Models().SetDefault("") })
	check("")
	s.write(func(tx store.Tx) error { return tx.Directory().Models().SetDefault(one.Model.ID) })
	s.write(func(tx store.Tx) error {
		for _, want := range []bool{true, false} {
			there, err := tx.Directory().Models().Remove(one.Model.ID)
			s.same("removed", there, want)
			if err != nil {
				return err
			}
		}
		return nil
	})
	check("")
	again := one.Model
	again.Version = 0
	s.write(func(tx store.Tx) error { _, err := tx.Directory().Models().Put(again); return err }) // a different model
	check("")

	s.together(nParallel, func(int) error {
		return s.InTx(s.ctx, func(tx store.Tx) error { return tx.Directory().Models().SetDefault(other.Model.ID) })
	})
	check(other.Model.ID)
}

func defaultName(s *subject) {
	set := func(org, name string) {
		s.Helper()
		s.write(func(tx store.Tx) error { return tx.Directory().Models().SetDefaultName(org, name) })
	}
	check := func(org, want string) {
		s.Helper()
		s.read(func(r store.Reader) error {
			name, found, err := r.Directory().Models().DefaultName(org)
			s.same("default name of "+org, []any{name, found}, []any{want, want != ""})
			return err
		})
	}
	w := s.shelve(s.newShelf())
	s.write(func(tx store.Tx) error { return tx.Directory().Models().SetDefault(w.Model.ID) })

	check("", "")
	set("", "ollama/llama3:8b")
	set("acme", "gate:ü")
	check("", "ollama/llama3:8b")
	check("acme", "gate:ü")
	check("other", "")
	set("acme", "gate:b")
	check("acme", "gate:b")
	s.read(func(r store.Reader) error {
		m, _, err := r.Directory().Models().Default()
		s.same("default row", m.ID, w.Model.ID) // another default
		return err
	})
	set("acme", "")
	set("acme", "") // twice
	check("acme", "")
	check("", "ollama/llama3:8b")
	for _, wrong := range [][2]string{{"", "a\x00b"}, {"", "a\xff"}, {"a\nb", "m"}, {strings.Repeat("o", 64), "m"}, {"", strings.Repeat("m", 1025)}} {
		s.refused(perdure.Invalid, func(tx store.Tx) error { return tx.Directory().Models().SetDefaultName(wrong[0], wrong[1]) })
	}

	p := w.Provider
	p.Model = ""
	s.write(func(tx store.Tx) (err error) { p, err = tx.Directory().Providers().Put(p); return err })
	s.same("default model of a provider", p.Model, "")
	p.Model = "a\nb"
	s.refused(perdure.Invalid, func(tx store.Tx) error { _, err := tx.Directory().Providers().Put(p); return err })
}

func defaultProvider(s *subject) {
	one, other, strange := s.newShelf(), s.newShelf(), s.newShelf()
	strange.Provider.Kind = "anthropic"
	one, other, strange = s.shelve(one), s.shelve(other), s.shelve(strange)
	check := func(kind string, want perdure.ProviderID) {
		s.Helper()
		s.read(func(r store.Reader) error {
			p, found, err := r.Directory().Providers().Default(kind)
			s.same("default of "+kind, []any{p.ID, found, p.Default}, []any{want, want != "", want != ""})
			return err
		})
	}

	for _, id := range []perdure.ProviderID{one.Provider.ID, strange.Provider.ID, other.Provider.ID} {
		s.write(func(tx store.Tx) error { return tx.Directory().Providers().SetDefault(id) })
	}

	check("openai", other.Provider.ID)
	check("anthropic", strange.Provider.ID)
	check("none", "")
	s.write(func(tx store.Tx) error {
		_, err := tx.Directory().Models().Remove(other.Model.ID)
		_, failed := tx.Directory().Providers().Remove(other.Provider.ID)
		return errors.Join(err, failed)
	})
	check("openai", "")
	check("anthropic", strange.Provider.ID)
}

func usedProvider(s *subject) {
	w := s.shelve(s.newShelf())

	s.refused(perdure.Conflict, func(tx store.Tx) error { _, err := tx.Directory().Providers().Remove(w.Provider.ID); return err })

	s.same("rows", s.shelved(w), w)
	s.write(func(tx store.Tx) error {
		_, err := tx.Directory().Models().Remove(w.Model.ID)
		for _, want := range []bool{true, false} {
			there, failed := tx.Directory().Providers().Remove(w.Provider.ID)
			s.same("removed", there, want)
			err = errors.Join(err, failed)
		}
		return err
	})
}

func connectionsOfUsers(s *subject) {
	var want []store.Connection
	for _, at := range []store.ConnectionKey{{User: "a", Provider: "x"}, {User: "a", Provider: "y"},
		{User: "ab", Provider: "x"}, {User: "a\x00b", Provider: "x"}, {Org: "o", User: "a", Provider: "x"}} {
		c := store.Connection{Org: at.Org, User: at.User, Provider: at.Provider,
			Sealed: []byte(at.Org + " " + at.User + " " + at.Provider)}
		s.write(func(tx store.Tx) (err error) { c, err = tx.Directory().Connections().Put(c); return err })
		want = append(want, c)
	}
	s.read(func(r store.Reader) error {
		all, err := r.Directory().Connections().List()
		s.same("of all", all, []store.Connection{want[0], want[1], want[3], want[2], want[4]})
		other, found, failed := r.Directory().Connections().Get(want[4].Key())
		s.same("of the user of that name in another org", other, want[4])
		s.same("found", found, true)
		return errors.Join(err, failed)
	})
	s.write(func(tx store.Tx) error {
		for _, there := range []bool{true, false} {
			got, err := tx.Directory().Connections().Remove(want[0].Key())
			s.same("removed", got, there)
			if err != nil {
				return err
			}
		}
		return nil
	})
	s.read(func(r store.Reader) error {
		_, found, err := r.Directory().Connections().Get(want[0].Key())
		s.same("found", found, false)
		all, failed := r.Directory().Connections().List()
		s.same("left", all, []store.Connection{want[1], want[3], want[2], want[4]})
		return errors.Join(err, failed)
	})
}

package storetest

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/agent"
	"github.com/perdure/perdure/store"
)

func directoryLaws() []law {
	return []law{
		{"keeps_every_field", directoryFields},
		{"is_nothing_until_put", unknownKept},
		{"replaces_the_version_that_was_read", keptVersions},
		{"remembers_what_agents_were", agentVersions},
		{"remembers_what_harnesses_were", harnessVersions},
		{"lets_one_of_many_writes_win", keptRace},
		{"refuses_what_is_wrong", wrongKept},
		{"keeps_hostile_text", hostileKept},
		{"lists_by_age_and_status", listKept},
		{"life_only_goes_forward", keptLives},
		{"chain_is_root_first", harnessChain},
		{"refuses_a_chain_that_has_no_end", harnessCircle},
		{"has_one_default_model", defaultModel},
		{"has_one_default_name_an_org", defaultName},
		{"has_one_default_provider_a_kind", defaultProvider},
		{"keeps_a_provider_that_models_stand_on", usedProvider},
		{"connections_are_a_users_own", connectionsOfUsers},
		{"goes_with_its_transaction", keptAndOthers},
		{"gives_out_copies", keptCopies},
		{"survives_reopening", keptSurvives},
	}
}

// shelf is one row of each noun of the directory.
type shelf struct {
	Agent      agent.Agent
	Harness    agent.Harness
	Model      store.Model
	Provider   store.Provider
	Connection store.Connection
}

// newShelf returns new rows, with every field set that a caller sets.
func (s *subject) newShelf() shelf {
	overlay := filled[agent.Overlay]()
	overlay.DefaultModel, overlay.Recovery = mint[perdure.ModelID](s), perdure.RecoverFinalize
	overlay.NetworkAccess = []perdure.NetworkList{{Allowed: []string{"a.test"}, Blocked: []string{"x.a.test"}}}
	overlay.InitialFiles = []agent.File{{Path: "/a", Content: "bnVsAA==", Encoding: "base64", IsReadOnly: true}}
	harness := agent.Harness{ID: mint[perdure.HarnessID](s), Name: "house", Overlay: overlay, Status: agent.Active}
	provider := store.Provider{ID: mint[perdure.ProviderID](s), Kind: "openai", Name: "ours", BaseURL: "https://a.test", Sealed: []byte{0, 1, 255}, Model: "meta/llama:8b"}
	return shelf{
		Agent:    agent.Agent{ID: mint[perdure.AgentID](s), Name: "reader", Harness: harness.ID, Overlay: overlay, Status: agent.Active},
		Harness:  harness,
		Model:    store.Model{ID: mint[perdure.ModelID](s), Provider: provider.ID, Name: "small-1", Title: "Small"},
		Provider: provider,
		Connection: store.Connection{
			Org: "acme", User: fmt.Sprintf("user %d", s.minted.Add(1)), Provider: "github", Sealed: []byte{2, 0}, Owner: "owner", Metadata: json.RawMessage(`{"n":"<&>"}`),
		},
	}
}

// putIn writes all rows of a shelf, each after the rows it refers to, and returns the stored rows.
func (w shelf) putIn(tx store.Tx) (got shelf, err error) {
	steps := []func() error{
		func() error { got.Harness, err = tx.Directory().Harnesses().Put(w.Harness); return err },
		func() error { got.Agent, err = tx.Directory().Agents().Put(w.Agent); return err },
		func() error { got.Provider, err = tx.Directory().Providers().Put(w.Provider); return err },
		func() error { got.Model, err = tx.Directory().Models().Put(w.Model); return err },
		func() error { got.Connection, err = tx.Directory().Connections().Put(w.Connection); return err },
	}
	for _, step := range steps {
		if err := step(); err != nil {
			return shelf{}, err
		}
	}
	return got, nil
}

// lookIn reads the rows of a shelf, and counts the existing ones.
func (w shelf) lookIn(r store.Reader) (got shelf, n int, err error) {
	note := func(found bool, err error) error {
		if found {
			n++
		}
		return err
	}
	steps := []func() error{
		func() (err error) {
			var ok bool
			got.Harness, ok, err = r.Directory().Harnesses().Get(w.Harness.ID)
			return note(ok, err)
		},
		func() (err error) {
			var ok bool
			got.Agent, ok, err = r.Directory().Agents().Get(w.Agent.ID)
			return note(ok, err)
		},
		func() (err error) {
			var ok bool
			got.Provider, ok, err = r.Directory().Providers().Get(w.Provider.ID)
			return note(ok, err)
		},
		func() (err error) {
			var ok bool
			got.Model, ok, err = r.Directory().Models().Get(w.Model.ID)
			return note(ok, err)
		},
		func() (err error) {
			var ok bool
			got.Connection, ok, err = r.Directory().Connections().Get(w.Connection.Key())
			return note(ok, err)
		},
	}
	for _, step := range steps {
		if err := step(); err != nil {
			return shelf{}, 0, err
		}
	}
	return got, n, nil
}

// shelve writes a shelf and returns it as stored.
func (s *subject) shelve(w shelf) (got shelf) {
	s.Helper()
	s.write(func(tx store.Tx) (err error) {
		got, err = w.putIn(tx)
		return err
	})
	return got
}

// shelved reads a shelf, whose rows must all exist.
func (s *subject) shelved(w shelf) (got shelf) {
	s.Helper()
	s.read(func(r store.Reader) (err error) {
		var n int
		if got, n, err = w.lookIn(r); err == nil && n != 5 {
			s.Errorf("got %d rows, want 5", n)
		}
		return err
	})
	return got
}

func directoryFields(s *subject) {
	want := s.newShelf()

	got := s.shelve(want)

	s.same("rows as read", s.shelved(want), got)
	now := got.Agent.CreatedAt
	if now.IsZero() {
		s.Error("a row has no time")
	}
	want.Agent.Version, want.Agent.CreatedAt, want.Agent.UpdatedAt = 1, now, now
	want.Harness.Version, want.Harness.CreatedAt, want.Harness.UpdatedAt = 1, now, now
	want.Model.Version, want.Model.CreatedAt, want.Model.UpdatedAt = 1, now, now
	want.Provider.Version, want.Provider.CreatedAt, want.Provider.UpdatedAt = 1, now, now
	want.Connection.Version, want.Connection.CreatedAt, want.Connection.UpdatedAt = 1, now, now
	s.same("rows as answered", got, want)
}

func unknownKept(s *subject) {
	s.shelve(s.newShelf())
	never := s.newShelf()

	s.read(func(r store.Reader) error {
		got, n, err := never.lookIn(r)
		s.same("rows", got, shelf{})
		s.same("found", n, 0)
		chain, chained := r.Directory().Harnesses().Chain(never.Harness.ID)
		s.same("chain", chain, []agent.Harness{})
		_, model, failed := r.Directory().Models().Default()
		_, provider, broken := r.Directory().Providers().Default("openai")
		s.same("defaults", []bool{model, provider}, []bool{false, false})
		return errors.Join(err, chained, failed, broken)
	})
}

func keptVersions(s *subject) {
	first := s.shelve(s.newShelf())
	next := first
	next.Agent.Name, next.Harness.Name, next.Model.Name, next.Provider.Name, next.Connection.Owner = "new", "new", "new", "new", "new"
	next.Agent.Status, next.Harness.Overlay, next.Provider.Sealed, next.Model.Title = agent.Archived, agent.Overlay{}, nil, ""
	next.Connection.Sealed = []byte("new")

	second := s.shelve(next)

	s.same("rows", s.shelved(first), second)
	s.same("versions", []int64{second.Agent.Version, second.Harness.Version, second.Model.Version, second.Provider.Version, second.Connection.Version}, []int64{2, 2, 2, 2, 2})
	s.same("made", second.Agent.CreatedAt, first.Agent.CreatedAt)
	next.Agent.Version, next.Agent.UpdatedAt = 2, second.Agent.UpdatedAt
	s.same("agent", second.Agent, next.Agent)
	next.Provider.Version, next.Provider.UpdatedAt = 2, second.Provider.UpdatedAt
	s.same("provider", second.Provider, next.Provider)

	s.everyPut(perdure.Conflict, first) // version 1 is old
	again := second
	again.Agent.Version, again.Harness.Version, again.Model.Version, again.Provider.Version, again.Connection.Version = 0, 0, 0, 0, 0
	s.everyPut(perdure.Conflict, again)
	fresh := s.newShelf()
	fresh.Agent.Version, fresh.Harness.Version, fresh.Model.Version, fresh.Provider.Version, fresh.Connection.Version = 1, 1, 1, 1, 1
	fresh.Agent.Harness, fresh.Model.Provider = first.Harness.ID, first.Provider.ID
	s.everyPut(perdure.Conflict, fresh)
	s.same("rows after it", s.shelved(first), second)
}

// everyPut requires that each row is refused on its own.
func (s *subject) everyPut(want error, w shelf) {
	s.Helper()
	s.refused(want, func(tx store.Tx) error { _, err := tx.Directory().Harnesses().Put(w.Harness); return err })
	s.refused(want, func(tx store.Tx) error { _, err := tx.Directory().Agents().Put(w.Agent); return err })
	s.refused(want, func(tx store.Tx) error { _, err := tx.Directory().Providers().Put(w.Provider); return err })
	s.refused(want, func(tx store.Tx) error { _, err := tx.Directory().Models().Put(w.Model); return err })
	s.refused(want, func(tx store.Tx) error { _, err := tx.Directory().Connections().Put(w.Connection); return err })
}

func keptRace(s *subject) {
	for _, given := range []shelf{s.newShelf(), s.shelve(s.newShelf())} {
		var won atomic.Int64
		s.together(nParallel, func(i int) error {
			mine := given
			mine.Agent.Harness, mine.Agent.Name = "", fmt.Sprintf("agent %d", i)
			err := s.InTx(s.ctx, func(tx store.Tx) error { _, err := tx.Directory().Agents().Put(mine.Agent); return err })
			switch {
			case err == nil:
				won.Add(1)
			case !errors.Is(err, perdure.Conflict):
				return err
			}
			return nil
		})
		s.same("writes that won", won.Load(), int64(1))
	}
}

func wrongKept(s *subject) {
	never := s.newShelf()
	// its harness does not exist
	s.refused(perdure.Invalid, func(tx store.Tx) error { _, err := tx.Directory().Agents().Put(never.Agent); return err })
	// nor does its provider
	s.refused(perdure.Invalid, func(tx store.Tx) error { _, err := tx.Directory().Models().Put(never.Model); return err })
	orphan := never.Harness
	orphan.Parent = mint[perdure.HarnessID](s)
	s.refused(perdure.Invalid, func(tx store.Tx) error { _, err := tx.Directory().Harnesses().Put(orphan); return err })
	there := s.shelve(s.newShelf())
	changed := there.Provider
	changed.Kind = "other"
	s.refused(perdure.Invalid, func(tx store.Tx) error { _, err := tx.Directory().Providers().Put(changed); return err })
	s.refused(perdure.NotFound, func(tx store.Tx) error { return tx.Directory().Models().SetDefault(never.Model.ID) })
	s.refused(perdure.NotFound, func(tx store.Tx) error { return tx.Directory().Providers().SetDefault(never.Provider.ID) })

	bad := there
	bad.Agent.ID, bad.Harness.Overlay.SoftBudgetMS, bad.Model.Name, bad.Provider.Kind = "agent", -7, "", strings.Repeat("k", store.MaxProviderKindBytes+1)
	bad.Connection.User = ""
	s.everyPut(perdure.Invalid, bad)
	for _, change := range []func(*store.Connection){
		func(c *store.Connection) { c.Sealed = nil },
		func(c *store.Connection) { c.Org = strings.Repeat("o", store.MaxOrgBytes+1) },
		func(c *store.Connection) { c.Provider = strings.Repeat("p", store.MaxUserBytes+1) },
		func(c *store.Connection) { c.Metadata = json.RawMessage(`[]`) },
		func(c *store.Connection) { c.Metadata = json.RawMessage(`{"a":`) },
	} {
		c := there.Connection
		change(&c)
		s.refused(perdure.Invalid, func(tx store.Tx) error { _, err := tx.Directory().Connections().Put(c); return err })
	}
	s.same("rows", s.shelved(there), there)
}

func hostileKept(s *subject) {
	for _, text := range hostile() {
		if text == "" {
			continue
		}
		w := s.newShelf()
		w.Model.Name, w.Model.Title, w.Provider.Kind, w.Provider.Name, w.Provider.BaseURL = text, text, cutTo(text, store.MaxProviderKindBytes), text, text
		w.Provider.Sealed, w.Connection.Sealed = []byte(text), []byte(text)
		w.Connection.User, w.Connection.Provider, w.Connection.Owner = cutTo(text, store.MaxUserBytes), cutTo(text, store.MaxUserBytes), cutTo(text, store.MaxUserBytes)
		w.Agent.Overlay.SystemPrompt = strings.ToValidUTF8(text, "") // bytes of JSON

		got := s.shelve(w)

		s.same("stored", s.shelved(w), got)
		s.same("model", []string{got.Model.Name, got.Model.Title}, []string{text, text})
		s.same("connection", []string{got.Connection.User, got.Connection.Owner, string(got.Connection.Sealed)}, []string{w.Connection.User, w.Connection.Owner, text})
		s.same("provider", []string{got.Provider.Kind, got.Provider.BaseURL, string(got.Provider.Sealed)}, []string{w.Provider.Kind, text, text})
		s.same("prompt", got.Agent.Overlay.SystemPrompt, w.Agent.Overlay.SystemPrompt)
		s.write(func(tx store.Tx) error {
			_, err := tx.Directory().Connections().Remove(w.Connection.Key())
			return err
		})
	}
}

func cutTo(text string, n int) string { return text[:min(len(text), n)] }

func listKept(s *subject) {
	var want []shelf
	for range 3 {
		w := s.shelve(s.newShelf())
		s.later(w.Agent.CreatedAt)
		want = append(want, w)
	}
	s.write(func(tx store.Tx) error {
		a, h := want[1].Agent, want[2].Harness
		a.Status, h.Status = agent.Archived, agent.Deleted
		_, err := tx.Directory().Agents().Put(a)
		_, failed := tx.Directory().Harnesses().Put(h)
		return errors.Join(err, failed)
	})

	s.read(func(r store.Reader) error {
		names := func(agents []agent.Agent, err error) []perdure.AgentID {
			if err != nil {
				s.Error(err)
			}
			ids := []perdure.AgentID{}
			for _, a := range agents {
				ids = append(ids, a.ID)
			}
			return ids
		}
		s.same("active", names(r.Directory().Agents().List(agent.StatusFilter{})), []perdure.AgentID{want[0].Agent.ID, want[2].Agent.ID})
		s.same("archived", names(r.Directory().Agents().List(agent.StatusFilter{Status: agent.Archived})), []perdure.AgentID{want[1].Agent.ID})
		s.same("all", names(r.Directory().Agents().List(agent.StatusFilter{All: true})), []perdure.AgentID{want[0].Agent.ID, want[1].Agent.ID, want[2].Agent.ID})
		harnesses, err := r.Directory().Harnesses().List(agent.StatusFilter{})
		s.same("harnesses", harnesses, []agent.Harness{want[0].Harness, want[1].Harness})
		models, failed := r.Directory().Models().List()
		s.same("models", models, []store.Model{want[0].Model, want[1].Model, want[2].Model})
		providers, broken := r.Directory().Providers().List()
		s.same("providers", providers, []store.Provider{want[0].Provider, want[1].Provider, want[2].Provider})
		return errors.Join(err, failed, broken)
	})
}

func keptLives(s *subject) {
	w := s.shelve(s.newShelf())
	set := func(status agent.Status) error {
		return s.InTx(s.ctx, func(tx store.Tx) error {
			a, _, err := tx.Directory().Agents().Get(w.Agent.ID)
			if err != nil {
				return err
			}
			a.Status = status
			h, _, err := tx.Directory().Harnesses().Get(w.Harness.ID)
			if err != nil {
				return err
			}
			h.Status = status
			_, err = tx.Directory().Harnesses().Put(h)
			if _, failed := tx.Directory().Agents().Put(a); (failed == nil) != (err == nil) {
				s.Errorf("to %s: an agent answers %v, a harness %v", status, failed, err)
			}
			return err
		})
	}
	for _, c := range []struct {
		status agent.Status
		want   error
	}{
		{agent.Active, nil},
		{"other", perdure.Invalid},
		{agent.Archived, nil},
		{agent.Active, perdure.Invalid},
		{agent.Deleted, nil},
		{agent.Archived, perdure.Invalid},
		{agent.Deleted, perdure.Invalid},
	} {
		if err := set(c.status); !errors.Is(err, c.want) {
			s.Errorf("to %s: got %v, want %v", c.status, err, c.want)
		}
	}
	s.same("status", s.shelved(w).Agent.Status, agent.Deleted)
}

// chainOf puts n harnesses, each with the previous one as its parent, and returns them root first.
func (s *subject) chainOf(n int) (chain []agent.Harness) {
	s.Helper()
	s.write(func(tx store.Tx) error {
		chain = nil
		parent := perdure.HarnessID("")
		for range n {
			h, err := tx.Directory().Harnesses().Put(agent.Harness{ID: mint[perdure.HarnessID](s), Name: "layer", Parent: parent, Status: agent.Active})
			if err != nil {
				return err
			}
			chain, parent = append(chain, h), h.ID
		}
		return nil
	})
	return chain
}

func harnessChain(s *subject) {
	want := s.chainOf(agent.MaxChain)

	s.read(func(r store.Reader) error {
		for _, n := range []int{1, 2, agent.MaxChain} {
			got, err := r.Directory().Harnesses().Chain(want[n-1].ID)
			if err != nil {
				return err
			}
			s.same("chain", got, want[:n])
		}
		return nil
	})

	leaf := agent.Harness{ID: mint[perdure.HarnessID](s), Name: "one too many", Parent: want[agent.MaxChain-1].ID}
	s.refused(perdure.Invalid, func(tx store.Tx) error { _, err := tx.Directory().Harnesses().Put(leaf); return err })

	under := s.chainOf(1)[0]
	root, second := want[0], want[1]
	root.Parent, second.Parent = under.ID, under.ID
	// 17 with the harnesses below it
	s.refused(perdure.Invalid, func(tx store.Tx) error { _, err := tx.Directory().Harnesses().Put(root); return err })
	s.write(func(tx store.Tx) error { _, err := tx.Directory().Harnesses().Put(second); return err }) // leaves 16
}

func harnessCircle(s *subject) {
	chain := s.chainOf(3)
	for _, h := range []perdure.HarnessID{chain[0].ID, chain[1].ID, chain[2].ID} {
		root := chain[0]
		root.Parent = h
		s.refused(perdure.Invalid, func(tx store.Tx) error { _, err := tx.Directory().Harnesses().Put(root); return err })
	}
	s.read(func(r store.Reader) error {
		got, err := r.Directory().Harnesses().Chain(chain[2].ID)
		s.same("chain", got, chain)
		return err
	})
}

func keptAndOthers(s *subject) {
	w := s.newShelf()
	broken := errors.New("broken")

	s.refused(broken, func(tx store.Tx) error {
		got, err := w.putIn(tx)
		if err != nil {
			return err
		}
		read, n, err := w.lookIn(tx.Reader())
		s.same("read back", read, got)
		s.same("found", n, 5)
		return errors.Join(err, tx.Directory().Models().SetDefault(w.Model.ID), broken)
	})

	s.read(func(r store.Reader) error {
		_, n, err := w.lookIn(r)
		s.same("found after it", n, 0)
		_, found, failed := r.Directory().Models().Default()
		s.same("default after it", found, false)
		return errors.Join(err, failed)
	})
}

func keptCopies(s *subject) {
	given := s.newShelf()
	want := s.shelve(given)
	text, err := json.Marshal(want)
	if err != nil {
		s.Fatal(err)
	}
	read := s.shelved(want)
	s.read(func(r store.Reader) error {
		agents, err := r.Directory().Agents().List(agent.StatusFilter{})
		harnesses, failed := r.Directory().Harnesses().List(agent.StatusFilter{})
		providers, broken := r.Directory().Providers().List()
		connections, cut := r.Directory().Connections().List()
		scribble(agents, harnesses, providers, connections)
		return errors.Join(err, failed, broken, cut)
	})

	scribble(&given, &want, &read)

	var wanted shelf
	if err := perdure.DecodeJSON(text, &wanted); err != nil {
		s.Fatal(err)
	}
	wanted.Connection.Metadata = json.RawMessage(`{"n":"<&>"}`) // as given, before JSON escapes it
	s.same("rows", s.shelved(wanted), wanted)
}

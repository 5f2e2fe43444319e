package storetest

import (
	"maps"
	"strings"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/store"
)

func labelLaws() []law {
	return []law{
		{"are_kept_with_the_row", keepLabels},
		{"are_replaced_whole", replaceLabels},
		{"refuse_what_is_none", refuseLabels},
		{"find_their_sessions", listLabeled},
		{"find_nothing_that_is_gone", labelsGone},
		{"and_status_find_sessions", listByStatus},
		{"and_lineage_find_sessions", listRoots},
		{"and_titles_find_sessions", listByTitle},
		{"and_places_continue_a_list", listAfterPlace},
	}
}

// listRoots finds the sessions without a parent, combined with org and status.
func listRoots(s *subject) {
	at := func(n int, org string, parent perdure.SessionID) perdure.SessionID {
		row := s.newSession()
		row.Org, row.CreatedAt, row.Parent = org, moment(n), parent
		if parent != "" {
			row.Root = parent
		}
		s.write(func(tx store.Tx) error { return tx.Sessions().Create(row) })
		return row.ID
	}
	old := at(1, "", "")
	child := at(2, "", old)
	other := at(3, "acme", "")
	s.same("all", s.listed(store.SessionFilter{}), []perdure.SessionID{other, child, old})
	s.same("roots", s.listed(store.SessionFilter{Roots: true}), []perdure.SessionID{other, old})
	s.same("the newest", s.listed(store.SessionFilter{Roots: true, Limit: 1}), []perdure.SessionID{other})
	s.same("of an org", s.listed(store.SessionFilter{Roots: true, OneOrg: true}), []perdure.SessionID{old})
	s.refused(perdure.Invalid, func(tx store.Tx) error {
		_, err := tx.Sessions().List(store.SessionFilter{Roots: true, Parent: old})
		return err
	})
}

// listByTitle finds sessions by words of their titles, which are texts of users: no character of a
// filter has a meaning of its own.
func listByTitle(s *subject) {
	at := func(n int, title, org string, status perdure.SessionStatus) perdure.SessionID {
		row := s.newSession()
		row.Org, row.CreatedAt, row.Title, row.Status = org, moment(n), title, status
		if n == 1 {
			row.Labels = perdure.Labels{"env": "prod"}
		}
		s.write(func(tx store.Tx) error { return tx.Sessions().Create(row) })
		return row.ID
	}
	march := at(1, "Invoices of March", "", perdure.SessionIdle)
	april := at(2, "invoices of APRIL, 100 %", "acme", perdure.SessionIdle)
	quoted := at(3, "it's \"a_b\" \\ \x00", "", perdure.SessionPaused)
	greek := at(4, "ΣΊΣΥΦΟΣ Zürich", "", perdure.SessionIdle)
	broken := at(5, "\xff\xfe end", "", perdure.SessionIdle)
	for _, c := range []struct {
		filter store.SessionFilter
		want   []perdure.SessionID
	}{
		{store.SessionFilter{Title: "INVOICES"}, []perdure.SessionID{april, march}},
		{store.SessionFilter{Title: "march invoices"}, []perdure.SessionID{march}},
		{store.SessionFilter{Title: "invoices", Limit: 1}, []perdure.SessionID{april}},
		{store.SessionFilter{Title: "march", Limit: 1}, []perdure.SessionID{march}},
		{store.SessionFilter{Title: "invoices", OneOrg: true}, []perdure.SessionID{march}},
		{store.SessionFilter{Title: "invoices", OneOrg: true, Org: "acme"}, []perdure.SessionID{april}},
		{store.SessionFilter{Title: "invoices", Labels: perdure.LabelFilter{"env"}}, []perdure.SessionID{march}},
		{store.SessionFilter{Title: "'", Status: perdure.SessionPaused, Roots: true}, []perdure.SessionID{quoted}},
		{store.SessionFilter{Title: "'", Status: perdure.SessionIdle}, nil},
		{store.SessionFilter{Title: "%"}, []perdure.SessionID{april}},
		{store.SessionFilter{Title: "_"}, []perdure.SessionID{quoted}},
		{store.SessionFilter{Title: `\`}, []perdure.SessionID{quoted}},
		{store.SessionFilter{Title: "\x00"}, []perdure.SessionID{quoted}},
		{store.SessionFilter{Title: `' OR ''='`}, nil},
		{store.SessionFilter{Title: "%%"}, nil},
		{store.SessionFilter{Title: "σίσυφος ZÜR"}, []perdure.SessionID{greek}},
		{store.SessionFilter{Title: "END"}, []perdure.SessionID{broken}},
		{store.SessionFilter{Title: " "}, []perdure.SessionID{broken, greek, quoted, april, march}},
	} {
		s.same("found by "+string(c.filter.Title), s.listed(c.filter), c.want)
	}
	s.write(func(tx store.Tx) error { return tx.Sessions().Update(march, "Receipts", perdure.SessionIdle) })
	s.same("found by its old title", s.listed(store.SessionFilter{Title: "march"}), []perdure.SessionID(nil))
	s.same("found by its new title", s.listed(store.SessionFilter{Title: "receipts"}), []perdure.SessionID{march})
	for _, title := range []perdure.TitleFilter{"\xff", perdure.TitleFilter(strings.Repeat("x", 201))} {
		s.refused(perdure.Invalid, func(tx store.Tx) error {
			_, err := tx.Sessions().List(store.SessionFilter{Title: title})
			return err
		})
	}
}

// listByStatus finds sessions by status, combined with org and labels.
func listByStatus(s *subject) {
	at := func(n int, status perdure.SessionStatus, org string, labels perdure.Labels) perdure.SessionID {
		row := s.newSession()
		row.Org, row.CreatedAt, row.Labels, row.Status = org, moment(n), labels, status
		s.write(func(tx store.Tx) error { return tx.Sessions().Create(row) })
		return row.ID
	}
	idle := at(1, perdure.SessionIdle, "", perdure.Labels{"env": "prod"})
	moves := at(2, perdure.SessionIdle, "acme", nil)
	paused := at(3, perdure.SessionPaused, "", nil)
	for _, c := range []struct {
		filter store.SessionFilter
		want   []perdure.SessionID
	}{
		{store.SessionFilter{Status: perdure.SessionIdle}, []perdure.SessionID{moves, idle}},
		{store.SessionFilter{Status: perdure.SessionIdle, Limit: 1}, []perdure.SessionID{moves}},
		{store.SessionFilter{Status: perdure.SessionIdle, OneOrg: true}, []perdure.SessionID{idle}},
		{store.SessionFilter{Status: perdure.SessionIdle, Labels: perdure.LabelFilter{"env"}},
			[]perdure.SessionID{idle}},
		{store.SessionFilter{Status: perdure.SessionPaused, Labels: perdure.LabelFilter{"env"}}, nil},
		{store.SessionFilter{Status: perdure.SessionPaused}, []perdure.SessionID{paused}},
		{store.SessionFilter{Status: perdure.SessionWaiting}, nil},
	} {
		s.same("found", s.listed(c.filter), c.want)
	}
	s.take(moves, mint[perdure.WorkerID](s))
	s.write(func(tx store.Tx) error { return tx.Sessions().Update(moves, "t", perdure.SessionActive) })
	s.same("found by its old status", s.listed(store.SessionFilter{Status: perdure.SessionIdle}),
		[]perdure.SessionID{idle})
	s.same("found by its new status", s.listed(store.SessionFilter{Status: perdure.SessionActive}),
		[]perdure.SessionID{moves})
	for _, f := range []store.SessionFilter{{Status: "asleep"}, {Status: perdure.SessionIdle, Parent: idle},
		{Status: perdure.SessionIdle, HasDriver: true}} {
		s.refused(perdure.Invalid, func(tx store.Tx) error { _, err := tx.Sessions().List(f); return err })
	}
}

// labeled adds a session with labels and a creation time.
func (s *subject) labeled(org string, n int, labels perdure.Labels) perdure.SessionID {
	s.Helper()
	row := s.newSession()
	row.Org, row.CreatedAt, row.Labels = org, moment(n), labels
	s.write(func(tx store.Tx) error { return tx.Sessions().Create(row) })
	return row.ID
}

func keepLabels(s *subject) {
	want := perdure.Labels{"env": "prod", "a/b-c_d.e": "", "9": "Zürich \u2028 <&>"}
	given := maps.Clone(want)
	id, none := s.labeled("", 1, given), s.labeled("", 2, perdure.Labels{})
	scribble(given, s.row(id).Labels)

	s.same("labels", s.row(id).Labels, want)
	s.same("no labels", s.row(none).Labels, perdure.Labels(nil))
	taken := s.take(id, mint[perdure.WorkerID](s))
	s.same("labels of the taken row", taken.Labels, want)
	s.write(func(tx store.Tx) error { return tx.Sessions().Update(id, "another", perdure.SessionActive) })
	s.reopen()
	s.same("labels once reopened", s.row(id).Labels, want)
}

func replaceLabels(s *subject) {
	id, other := s.labeled("", 1, perdure.Labels{"a": "1", "b": "2"}), s.labeled("", 2, perdure.Labels{"a": "1"})
	want := s.row(id)
	for _, labels := range []perdure.Labels{{"b": "3", "c": "4"}, {}, {"a": "5"}, nil} {
		s.write(func(tx store.Tx) error {
			want.UpdatedAt = tx.Now()
			return tx.Sessions().SetLabels(id, labels)
		})

		if want.Labels = labels; len(labels) == 0 {
			want.Labels = nil
		}
		s.same("row", s.row(id), want)
		for _, key := range []string{"a", "b", "c"} {
			_, there := labels[key]
			found := s.listed(store.SessionFilter{Labels: perdure.LabelFilter{perdure.LabelTerm(key)}})
			s.same("found by "+key, len(found) > 0 && found[len(found)-1] == id, there)
		}
	}
	s.same("another's", s.row(other).Labels, perdure.Labels{"a": "1"})
}

func refuseLabels(s *subject) {
	id := s.labeled("", 1, perdure.Labels{"a": "1"})
	for _, labels := range []perdure.Labels{{"": "x"}, {"A": "x"}, {"a=b": "x"}, {"-a": "x"}, {"a": "x\n"},
		{"a": "\xff"}, {"a": strings.Repeat("x", 257)}} {
		s.refused(perdure.Invalid, func(tx store.Tx) error { return tx.Sessions().SetLabels(id, labels) })
		s.refused(perdure.Invalid, func(tx store.Tx) error {
			row := s.newSession()
			row.Labels = labels
			return tx.Sessions().Create(row)
		})
	}
	s.refused(perdure.NotFound, func(tx store.Tx) error { return tx.Sessions().SetLabels(mint[perdure.SessionID](s), nil) })
	for _, f := range []store.SessionFilter{
		{Labels: perdure.LabelFilter{"A"}}, {Labels: make(perdure.LabelFilter, 17)},
		{Labels: perdure.LabelFilter{"a"}, Unread: true}, {Unread: true, HasDriver: true}, {Unread: true, Parent: id},
		{Labels: perdure.LabelFilter{"a"}, HasDriver: true}, {Labels: perdure.LabelFilter{"a"}, Parent: id},
	} {
		s.refused(perdure.Invalid, func(tx store.Tx) error { _, err := tx.Sessions().List(f); return err })
	}
	s.same("labels", s.row(id).Labels, perdure.Labels{"a": "1"})
}

func listLabeled(s *subject) {
	both := s.labeled("", 1, perdure.Labels{"env": "prod", "team": "a"})
	test := s.labeled("", 5, perdure.Labels{"env": "test", "team": ""})
	one := s.labeled("acme", 3, perdure.Labels{"env": "prod"})
	s.labeled("", 4, nil)
	for _, c := range []struct {
		filter store.SessionFilter
		want   []perdure.SessionID
	}{
		{store.SessionFilter{Labels: perdure.LabelFilter{"env"}}, []perdure.SessionID{test, one, both}},
		{store.SessionFilter{Labels: perdure.LabelFilter{"env"}, Limit: 2}, []perdure.SessionID{test, one}},
		{store.SessionFilter{Labels: perdure.LabelFilter{"env=prod"}}, []perdure.SessionID{one, both}},
		{store.SessionFilter{Labels: perdure.LabelFilter{"env=prod"}, OneOrg: true}, []perdure.SessionID{both}},
		{store.SessionFilter{Labels: perdure.LabelFilter{"env=prod"}, OneOrg: true, Org: "acme"},
			[]perdure.SessionID{one}},
		{store.SessionFilter{Labels: perdure.LabelFilter{"env=prod", "team"}}, []perdure.SessionID{both}},
		{store.SessionFilter{Labels: perdure.LabelFilter{"env=prod", "env=test"}}, nil},
		{store.SessionFilter{Labels: perdure.LabelFilter{"team="}}, []perdure.SessionID{test}},
		{store.SessionFilter{Labels: perdure.LabelFilter{"env=pro"}}, nil},
		{store.SessionFilter{Labels: perdure.LabelFilter{"nobody"}}, nil},
	} {
		s.same("found", s.listed(c.filter), c.want)
	}
}

func labelsGone(s *subject) {
	id := s.labeled("", 1, perdure.Labels{"env": "prod"})
	var dump store.SessionDump
	s.read(func(r store.Reader) (err error) {
		dump, err = r.Sessions().Dump(id)
		return err
	})
	by := store.SessionFilter{Labels: perdure.LabelFilter{"env=prod"}}

	s.write(func(tx store.Tx) error { return tx.Sessions().Remove(id) })
	s.same("found once it is removed", s.listed(by), []perdure.SessionID(nil))
	s.write(func(tx store.Tx) error { return tx.Sessions().Restore(dump) })
	s.same("found once it is restored", s.listed(by), []perdure.SessionID{id})
	s.same("labels", s.row(id).Labels, perdure.Labels{"env": "prod"})
	spoiled := dump
	spoiled.Session.Labels = perdure.Labels{"A": ""}
	s.write(func(tx store.Tx) error { return tx.Sessions().Remove(id) })
	s.refused(perdure.Invalid, func(tx store.Tx) error { return tx.Sessions().Restore(spoiled) })
}

// listAfterPlace continues a list after a place, also after that of a session that is gone, and
// combined with the other filters.
func listAfterPlace(s *subject) {
	var rows []store.Session
	for n := range 6 {
		row := s.newSession()
		row.CreatedAt, row.Title, row.Status = moment(1+n/2), "Invoices", perdure.SessionIdle // two of each time
		if n%2 == 0 {
			row.Org, row.Labels, row.Status = "acme", perdure.Labels{"env": "prod"}, perdure.SessionPaused
		}
		s.write(func(tx store.Tx) error { return tx.Sessions().Create(row) })
		rows = append(rows, row)
	}
	all := s.listed(store.SessionFilter{})
	byID := map[perdure.SessionID]store.Session{}
	for _, row := range rows {
		byID[row.ID] = row
	}
	after := func(id perdure.SessionID) store.SessionPlace {
		return store.SessionPlace{CreatedAt: byID[id].CreatedAt, ID: id}
	}
	for i, id := range all {
		s.same("after "+string(id), s.listed(store.SessionFilter{After: after(id), Limit: 2}), all[i+1:min(i+3, len(all))])
	}
	for _, f := range []store.SessionFilter{
		{OneOrg: true, Org: "acme"}, {Labels: perdure.LabelFilter{"env=prod"}}, {Status: perdure.SessionPaused}, {Roots: true}, {Title: "invoices"},
	} {
		found := s.listed(f)
		f.After = after(found[0])
		s.same("after the first one", s.listed(f), found[1:])
	}
	s.write(func(tx store.Tx) error { return tx.Sessions().Remove(all[2]) })
	s.same("after one that is gone", s.listed(store.SessionFilter{After: after(all[2])}), all[3:])
	for _, f := range []store.SessionFilter{{Unread: true}, {HasDriver: true}, {Parent: all[0]}, {Waiting: true}} {
		f.After = after(all[0])
		s.refused(perdure.Invalid, func(tx store.Tx) error {
			_, err := tx.Sessions().List(f)
			return err
		})
	}
}

package enginetest

import (
	"bytes"
	"errors"
	"maps"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/engine"
)

// storageLaws cover the access of callers to the data of sessions.
func storageLaws() []law {
	return []law{
		{"files_are_written_read_moved_and_removed", filesKept},
		{"a_file_is_written_over_only_as_it_was_read", filesCompared},
		{"files_refuse_what_the_model_may_not", filesRefused},
		{"files_are_searched", filesSearched},
		{"images_are_kept_once", imagesKept},
		{"databases_and_payments_that_are_not_there", nothingThere},
		{"values_are_kept_by_key", valuesKept},
		{"a_value_is_written_over_only_as_it_was_read", valuesCompared},
		{"secrets_that_are_not_there", secretsNotThere},
		{"what_stands_beside_a_session_is_shown_and_released", resourcesReleased},
		{"a_session_is_renamed", sessionRetitled},
		{"a_session_has_labels", sessionLabeled},
		{"a_session_is_told_alike_with_its_agent", sessionDescribed},
		{"a_session_tells_how_far_its_turn_is", sessionTurn},
		{"many_tasks_are_canceled_at_once", tasksCanceledAtOnce},
		{"deeds_are_told", auditListed},
	}
}

const still = "steps: [{text: hello, repeat: true}]"

// write writes a file and expects success.
func (s *scene) write(w engine.FileWrite) engine.File {
	s.t.Helper()
	w.By = "user"
	f, err := s.eng.Files().Write(s.ctx, s.id, w)
	if err != nil {
		s.t.Fatalf("WriteFile: %v", err)
	}
	return f
}

func filesKept(t *testing.T, open Harness) {
	s := begin(t, open, Setup{Script: still})
	if f := s.write(engine.FileWrite{Path: "/a b/ü%2F?.txt",
		Content: []byte("\x00one")}); f.Path != "/a b/ü%2F?.txt" || f.SizeBytes != 4 {
		t.Errorf("got %+v", f)
	}
	s.write(engine.FileWrite{Path: "/a b/empty"})
	f, err := s.eng.Files().Get(s.ctx, s.id, "/a b/ü%2F?.txt", true)
	if err != nil || string(f.Content) != "\x00one" {
		t.Errorf("got %+v, %v", f, err)
	}
	if f, err = s.eng.Files().Get(s.ctx, s.id, "/a b", true); err != nil || !f.Directory || f.Content != nil {
		t.Errorf("got %+v, %v", f, err)
	}
	moved, err := s.eng.Files().Move(s.ctx, s.id, engine.FileMove{From: "/a b", To: "/c", By: "user"})
	if err != nil || moved.Path != "/c" || !moved.Directory {
		t.Errorf("got %+v, %v", moved, err)
	}
	all, err := s.eng.Files().List(s.ctx, s.id, "/", true)
	var paths []string
	for _, f := range all {
		paths = append(paths, f.Path)
	}
	if want := []string{"/c", "/c/empty", "/c/ü%2F?.txt"}; err != nil || !slices.Equal(paths, want) {
		t.Errorf("got %q, %v; want %q", paths, err, want)
	}
	remove := func(o engine.FileRemoval) error {
		o.By = "user"
		return s.eng.Files().Remove(s.ctx, s.id, o)
	}
	if err := remove(engine.FileRemoval{Path: "/c"}); !errors.Is(err, perdure.Conflict) {
		t.Errorf("a full directory: %v", err)
	}
	if err := errors.Join(remove(engine.FileRemoval{Path: "/c/empty"}),
		remove(engine.FileRemoval{Path: "/c", Recursive: true})); err != nil {
		t.Error(err)
	}
	if err := remove(engine.FileRemoval{Path: "/c"}); !errors.Is(err, perdure.NotFound) {
		t.Errorf("twice: %v", err)
	}
	told := 0
	for _, e := range s.events() {
		if _, ok := e.Fact.(perdure.FileWritten); ok && e.Actor == "user" {
			told++
		}
	}
	if told != 6 { // two writes, a move as two, two removals
		t.Errorf("%d events; journal:\n%s", told, s.journalText())
	}
}

func filesCompared(t *testing.T, open Harness) {
	s := begin(t, open, Setup{Script: still})
	old, other := []byte("one"), []byte("two")
	s.write(engine.FileWrite{Path: "/a", Content: old, New: true})
	for what, w := range map[string]engine.FileWrite{
		"new": {New: true}, "other": {If: &other}, "gone": {Path: "/b", If: &old},
	} {
		if w.Path == "" {
			w.Path = "/a"
		}
		w.By = "user"
		if _, err := s.eng.Files().Write(s.ctx, s.id, w); !errors.Is(err, perdure.Conflict) {
			t.Errorf("%s: %v", what, err)
		}
	}
	if err := s.eng.Files().Remove(s.ctx, s.id, engine.FileRemoval{Path: "/a", If: &other, By: "user"}); !errors.Is(err,
		perdure.Conflict) {
		t.Errorf("got %v", err)
	}
	s.write(engine.FileWrite{Path: "/a", Content: other, If: &old})
	if err := s.eng.Files().Remove(s.ctx, s.id, engine.FileRemoval{Path: "/a", If: &other, By: "user"}); err != nil {
		t.Error(err)
	}
}

func filesRefused(t *testing.T, open Harness) {
	s := begin(t, open, Setup{Script: still})
	_, bad := s.eng.Files().Write(s.ctx, s.id, engine.FileWrite{Path: "/../a"})
	_, runtime := s.eng.Files().Write(s.ctx, s.id, engine.FileWrite{Path: "/.background/a"})
	_, relative := s.eng.Files().Get(s.ctx, s.id, "a", true)
	_, missing := s.eng.Files().Get(s.ctx, s.id, "/a", true)
	_, none := s.eng.Files().List(s.ctx, s.id, "/a", false)
	_, unknown := s.eng.Files().Get(s.ctx, "session_00000000000000000000000000000000", "/a", false)
	for i, c := range []struct {
		err  error
		kind perdure.Kind
	}{{bad, perdure.Invalid}, {runtime, perdure.Conflict}, {relative, perdure.Invalid}, {missing, perdure.NotFound},
		{none, perdure.NotFound}, {unknown, perdure.NotFound}} {
		if !errors.Is(c.err, c.kind) {
			t.Errorf("%d: got %v, want %s", i, c.err, c.kind)
		}
	}
}

func valuesKept(t *testing.T, open Harness) {
	s := begin(t, open, Setup{Script: still})
	for _, key := range []string{"b/1", "a", "..", "b 2", "ü?"} {
		if v, err := s.eng.Values().Set(s.ctx, s.id, engine.ValueWrite{Key: key, Text: "of " + key}); err != nil ||
			v.Key != key || v.Version != 1 {
			t.Errorf("%q: got %+v, %v", key, v, err)
		}
		if v, err := s.eng.Values().Get(s.ctx, s.id, key); err != nil || v.Text != "of "+key {
			t.Errorf("%q: got %+v, %v", key, v, err)
		}
	}
	some, err := s.eng.Values().List(s.ctx, s.id, "b")
	if err != nil || len(some) != 2 || some[0].Key != "b 2" || some[1].Key != "b/1" {
		t.Errorf("got %+v, %v", some, err)
	}
	if err := s.eng.Values().Remove(s.ctx, s.id, "..", nil); err != nil {
		t.Error(err)
	}
	_, gone := s.eng.Values().Get(s.ctx, s.id, "..")
	_, unknown := s.eng.Values().List(s.ctx, "session_00000000000000000000000000000000", "")
	_, empty := s.eng.Values().Set(s.ctx, s.id, engine.ValueWrite{Text: "a"})
	if twice := s.eng.Values().Remove(s.ctx, s.id, "..", nil); !errors.Is(gone, perdure.NotFound) ||
		!errors.Is(twice, perdure.NotFound) ||
		!errors.Is(unknown, perdure.NotFound) || !errors.Is(empty, perdure.Invalid) {
		t.Errorf("got %v, %v, %v, %v", gone, twice, unknown, empty)
	}
}

func valuesCompared(t *testing.T, open Harness) {
	s := begin(t, open, Setup{Script: still})
	set := func(w engine.ValueWrite) (engine.Value, error) {
		w.Key = "k"
		return s.eng.Values().Set(s.ctx, s.id, w)
	}
	one, err := set(engine.ValueWrite{Text: "1", New: true})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := set(engine.ValueWrite{Text: "x", New: true}); !errors.Is(err, perdure.Conflict) {
		t.Errorf("new: %v", err)
	}
	if two, err := set(engine.ValueWrite{Text: "2", If: &one.ValueStat}); err != nil || two.Version != 2 {
		t.Errorf("got %+v, %v", two, err)
	}
	if _, err := set(engine.ValueWrite{Text: "x", If: &one.ValueStat}); !errors.Is(err, perdure.Conflict) {
		t.Errorf("old: %v", err)
	}
	if err := s.eng.Values().Remove(s.ctx, s.id, "k", &one.ValueStat); !errors.Is(err, perdure.Conflict) {
		t.Errorf("old: %v", err)
	}
	// A value that was removed and set again is another value, whatever its version.
	if err := s.eng.Values().Remove(s.ctx, s.id, "k", nil); err != nil {
		t.Fatal(err)
	}
	if _, err := set(engine.ValueWrite{Text: "x", If: &one.ValueStat}); !errors.Is(err, perdure.Conflict) {
		t.Errorf("gone: %v", err)
	}
	if _, err := set(engine.ValueWrite{Text: "1"}); err != nil {
		t.Fatal(err)
	}
	if _, err := set(engine.ValueWrite{Text: "x", If: &one.ValueStat}); !errors.Is(err, perdure.Conflict) {
		t.Errorf("set again: %v", err)
	}
}

func secretsNotThere(t *testing.T, open Harness) {
	s := begin(t, open, Setup{Script: still})
	_, unknown := s.eng.Secrets().List(s.ctx, "session_00000000000000000000000000000000")
	found, err := s.eng.Secrets().List(s.ctx, s.id)
	gone := s.eng.Secrets().Remove(s.ctx, s.id, "k")
	if !errors.Is(unknown, perdure.NotFound) || err != nil || len(found) != 0 || !errors.Is(gone, perdure.NotFound) {
		t.Errorf("got %v, %v %v, %v", unknown, found, err, gone)
	}
}

func sessionRetitled(t *testing.T, open Harness) {
	s := begin(t, open, Setup{Script: still})
	title, other := "new", "x"
	s.say("hi")
	s.rest()
	before, err := s.eng.Sessions().Get(s.ctx, s.id)
	if err != nil {
		t.Fatal(err)
	}
	named, err := s.eng.Sessions().Change(s.ctx, s.id, engine.SessionChange{Title: &title, If: before.LastSeq, By: "user"})
	if err != nil || named.Title != "new" || named.LastSeq != before.LastSeq+1 {
		t.Errorf("got %+v, %v", named, err)
	}
	if same, err := s.eng.Sessions().Change(s.ctx, s.id, engine.SessionChange{Title: &title, By: "user"}); err != nil ||
		same.LastSeq != named.LastSeq {
		t.Errorf("the same again: %+v, %v", same, err)
	}
	_, old := s.eng.Sessions().Change(s.ctx, s.id, engine.SessionChange{Title: &other, If: before.LastSeq, By: "user"})
	_, empty := s.eng.Sessions().Change(s.ctx, s.id, engine.SessionChange{Title: new(string), By: "user"})
	_, nothing := s.eng.Sessions().Change(s.ctx, s.id, engine.SessionChange{By: "user"})
	if !errors.Is(old, perdure.Conflict) || !errors.Is(empty, perdure.Invalid) || !errors.Is(nothing, perdure.Invalid) {
		t.Errorf("got %v, %v, %v", old, empty, nothing)
	}
	s.say("hi again")
	s.rest()
	if after, err := s.eng.Sessions().Get(s.ctx, s.id); err != nil || after.Title != "new" {
		t.Errorf("got %+v, %v", after, err)
	}
}

// sessionDescribed checks that every method describes a session in the same way, with the agent
// that it was created with.
func sessionDescribed(t *testing.T, open Harness) {
	s := begin(t, open, Setup{Script: still, Agent: perdure.Agent{Name: "builder", Model: "scripted"}})
	s.say("hi")
	s.rest()
	fork, err := s.eng.Sessions().Fork(s.ctx, s.id, engine.Fork{})
	if err != nil || fork.Agent != (engine.SessionAgent{Name: "builder", Model: "scripted"}) {
		t.Errorf("the fork is %+v, %v", fork, err)
	}
	s.pause()
	s.rest()
	title := "new"
	changed, err := s.eng.Sessions().Change(s.ctx, s.id, engine.SessionChange{Title: &title, By: "user"})
	if err != nil || changed.Agent != fork.Agent || changed.Paused == nil {
		t.Errorf("got %+v, %v", changed, err)
	}
	now, err := s.eng.Sessions().Get(s.ctx, s.id)
	if diff := cmp.Diff(now, changed); err != nil || diff != "" {
		t.Errorf("%v, and the result of a change differs from the session read (-read +returned):\n%s", err, diff)
	}
	list, err := s.eng.Sessions().List(s.ctx, 0)
	if err != nil || len(list) != 2 {
		t.Fatalf("got %+v, %v", list, err)
	}
	for _, one := range list {
		if one.Agent != fork.Agent {
			t.Errorf("in the list it is %+v", one)
		}
	}
}

// sessionTurn checks an idle session, a session during a turn, and the idle session again.
func sessionTurn(t *testing.T, open Harness) {
	s := begin(t, open, Setup{Script: twoCalls})
	tells := func() *engine.SessionTurn {
		one, err := s.eng.Sessions().Get(s.ctx, s.id)
		if err != nil {
			t.Fatal(err)
		}
		return one.Turn
	}
	if turn := tells(); turn != nil {
		t.Errorf("before any message it is %+v", turn)
	}
	s.say("hi")
	s.Entered(t, "hold_note", 1)
	started := s.until("turn.started", func(e perdure.Event) bool { _, ok := e.Fact.(perdure.TurnStarted); return ok })
	turn := tells()
	if turn == nil || turn.ID != started.Turn || turn.Cause != perdure.CauseMessage ||
		turn.Phase != perdure.PhaseActing || turn.Step != 1 ||
		turn.Usage == (perdure.Usage{}) || !turn.StartedAt.Equal(started.At) {
		t.Errorf("in the middle it is %+v, and began with %+v", turn, started)
	}
	list, err := s.eng.Sessions().List(s.ctx, 0)
	if err != nil || list[0].Turn != nil {
		t.Errorf("in a list it is %+v, %v", list, err)
	}
	s.Release("hold_note")
	s.rest()
	if turn := tells(); turn != nil {
		t.Errorf("at rest it is %+v", turn)
	}
}

func sessionLabeled(t *testing.T, open Harness) {
	setup := Setup{
		Script: still, Agent: perdure.Agent{Title: "t", Labels: perdure.Labels{"env": "test", "draft": "yes"}},
	}
	s := begin(t, open, setup)
	prod, team := "prod", ""
	find := func(eng engine.Engine, terms ...perdure.LabelTerm) (ids []perdure.SessionID) {
		found, err := eng.Sessions().ListWhere(s.ctx, engine.SessionFilter{Labels: terms})
		if err != nil {
			t.Error(err)
		}
		for _, one := range found {
			ids = append(ids, one.ID)
		}
		return ids
	}
	want := perdure.Labels{"env": "prod", "team": ""}
	c := engine.SessionChange{
		Labels: perdure.LabelChanges{"env": &prod, "team": &team, "draft": nil, "gone": nil}, By: "user",
	}
	changed, err := s.eng.Sessions().Change(s.ctx, s.id, c)
	if err != nil || !maps.Equal(changed.Labels, want) || changed.Title != "t" {
		t.Errorf("got %+v, %v", changed, err)
	}
	if again, err := s.eng.Sessions().Change(s.ctx, s.id, c); err != nil || again.LastSeq != changed.LastSeq {
		t.Errorf("the same again: %+v, %v", again, err)
	}
	_, wrong := s.eng.Sessions().Change(s.ctx, s.id, engine.SessionChange{
		Labels: perdure.LabelChanges{"Env": &prod}, By: "user",
	})
	_, noTerm := s.eng.Sessions().ListWhere(s.ctx, engine.SessionFilter{Labels: perdure.LabelFilter{"Env"}})
	if !errors.Is(wrong, perdure.Invalid) || !errors.Is(noTerm, perdure.Invalid) {
		t.Errorf("got %v, %v", wrong, noTerm)
	}
	for status, n := range map[perdure.SessionStatus]int{changed.Status: 1, perdure.SessionPaused: 0} {
		found, err := s.eng.Sessions().ListWhere(s.ctx, engine.SessionFilter{
			Status: status, Labels: perdure.LabelFilter{"env=prod"},
		})
		if err != nil || len(found) != n {
			t.Errorf("%s: got %+v, %v, want %d", status, found, err, n)
		}
	}
	for title, n := range map[perdure.TitleFilter]int{"": 1, "T": 1, "%": 0, "t t": 1, "other": 0} {
		found, err := s.eng.Sessions().ListWhere(s.ctx, engine.SessionFilter{Title: title})
		if err != nil || len(found) != n {
			t.Errorf("title %q: got %+v, %v, want %d", title, found, err, n)
		}
	}
	if _, err := s.eng.Sessions().ListWhere(s.ctx, engine.SessionFilter{Title: "\xff"}); !errors.Is(err, perdure.Invalid) {
		t.Errorf("a title that is not UTF-8: %v", err)
	}
	if _, err := s.eng.Sessions().ListWhere(s.ctx, engine.SessionFilter{Status: "asleep"}); !errors.Is(err, perdure.Invalid) {
		t.Errorf("no such status: %v", err)
	}
	s.say("hi")
	s.rest()
	fork, err := s.eng.Sessions().Fork(s.ctx, s.id, engine.Fork{})
	if err != nil || !maps.Equal(fork.Labels, want) {
		t.Errorf("the fork is %+v, %v", fork, err)
	}
	if err := s.eng.Sessions().Delete(s.ctx, fork.ID); err != nil {
		t.Error(err)
	}
	there := s.elsewhere(open, setup)
	if got := there.take(s.export(), engine.Import{}); !maps.Equal(got.Labels, want) {
		t.Errorf("imported it is %+v", got)
	}
	if again := there.export(); !bytes.Equal(again, s.export()) {
		t.Error("a second export differs")
	}
	for _, eng := range []engine.Engine{s.eng, there.eng} {
		if a, b, none := find(eng, "env=prod", "team"), find(eng, "team="), find(eng, "draft"); !slices.Contains(a,
			s.id) || !slices.Contains(b, s.id) || none != nil {
			t.Errorf("found %v, %v, %v", a, b, none)
		}
	}
}

func tasksCanceledAtOnce(t *testing.T, open Harness) {
	s := begin(t, open, Setup{Script: spawning("bg_hold", "{}")})
	s.say("go")
	s.Entered(t, "bg_hold", 1)
	f := engine.TaskFilter{Session: s.id, Tool: "bg_hold"}
	dry, err := s.eng.Tasks().CancelWhere(s.ctx, engine.BulkCancel{Filter: f, DryRun: true, By: "user"})
	if err != nil || dry.State != engine.BulkDone || dry.Matched != 1 || dry.Done != 0 || len(dry.Tasks) != 1 ||
		s.onlyTask().CancelRequested() {
		t.Errorf("got %+v, %v", dry, err)
	}
	if none, err := s.eng.Tasks().CancelWhere(s.ctx,
		engine.BulkCancel{Filter: engine.TaskFilter{Tool: "note"}, By: "user"}); err != nil || none.Matched != 0 {
		t.Errorf("got %+v, %v", none, err)
	}
	bulk, err := s.eng.Tasks().CancelWhere(s.ctx, engine.BulkCancel{Filter: f, By: "user", Why: "enough"})
	if err != nil {
		t.Fatal(err)
	}
	ended := s.ended(dry.Tasks[0])
	if ended.State != perdure.TaskCanceled || ended.CancelBy != "user" || ended.CancelWhy != "enough" {
		t.Errorf("got %+v", ended)
	}
	again, err := s.eng.Tasks().CancelWhere(s.ctx, engine.BulkCancel{ID: bulk.ID, Filter: f, By: "user"})
	if err != nil || again.ID != bulk.ID || again.Matched != 1 || again.Failed != 0 {
		t.Errorf("got %+v, %v", again, err)
	}
	other := engine.TaskFilter{Session: s.id, Tool: "note"}
	if got, err := s.eng.Tasks().CancelWhere(s.ctx,
		engine.BulkCancel{ID: bulk.ID, Filter: other, By: "user"}); !errors.Is(err, perdure.Conflict) {
		t.Errorf("the id of another bulk: got %+v, %v", got, err)
	}
	if _, err := s.eng.Tasks().Bulk(s.ctx, "bulk_00000000000000000000000000000000"); !errors.Is(err, perdure.NotFound) {
		t.Errorf("got %v", err)
	}
}

func resourcesReleased(t *testing.T, open Harness) {
	s := begin(t, open, Setup{Script: `
rules:
  - when: {last_role: tool_result}
    text: done
steps: [{calls: [{name: stand, args: {}}]}]
`})
	s.say("go")
	s.rest()
	all, err := s.eng.Resources().List(s.ctx, s.id)
	if err != nil || len(all) != 2 || all[0].ID != "box/1 ü?" || all[0].Name != "a box" || all[0].Lease != "" ||
		all[1].Lease != perdure.LeaseActive || all[1].ExpiresAt.IsZero() {
		t.Fatalf("got %+v, %v; journal:\n%s", all, err, s.journalText())
	}
	for _, r := range all {
		one, err := s.eng.Resources().Get(s.ctx, s.id, r.ID)
		if err != nil || one.Status != perdure.ResourceActive || one.Kind != r.Kind {
			t.Errorf("got %+v, %v", one, err)
		}
		for range 2 {
			if one, err = s.eng.Resources().Release(s.ctx, s.id, r.ID, "user"); err != nil ||
				one.Status != perdure.ResourceReleased {
				t.Errorf("got %+v, %v", one, err)
			}
		}
		if r.Lease != "" && one.Lease != perdure.LeaseReleased {
			t.Errorf("the lease is %s", one.Lease)
		}
	}
	_, none := s.eng.Resources().Get(s.ctx, s.id, "none")
	_, unnamed := s.eng.Resources().Release(s.ctx, s.id, "", "user")
	_, unknown := s.eng.Resources().List(s.ctx, "session_00000000000000000000000000000000")
	for i, err := range []error{none, unnamed, unknown} {
		if !errors.Is(err, perdure.NotFound) {
			t.Errorf("%d: got %v", i, err)
		}
	}
	told := 0
	for _, e := range s.events() {
		if u, ok := e.Fact.(perdure.ResourceUpdated); ok && u.Entry.Status == perdure.ResourceReleased &&
			e.Actor == "user" {
			told++
		}
	}
	if told != 2 {
		t.Errorf("%d were reported; journal:\n%s", told, s.journalText())
	}
}

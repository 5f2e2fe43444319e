package enginetest

import (
	"errors"
	"slices"
	"testing"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/engine"
)

func removeLaws() []law {
	return []law{
		{"DeleteTakesEverything", deleteEverything},
		{"DeleteIsForEver", deleteForEver},
		{"DeleteTakesSubagents", deleteTree},
		{"DeleteRefusesASubagent", deleteSubagent},
		{"DeleteRefusesACallThatRuns", deleteInTurn},
		{"DeleteRefusesATaskThatLives", deleteLiveTask},
		{"DeleteRefusesATreeAtWork", deleteBusyTree},
		{"DeletedIdIsFree", deleteAndImport},
	}
}

// delete deletes the session.
func (s *scene) delete() {
	s.t.Helper()
	if err := s.eng.Sessions().Delete(s.ctx, s.id); err != nil {
		s.t.Fatalf("DeleteSession: %v; journal:\n%s", err, s.journalText())
	}
}

// gone checks that a session is unknown.
func (s *scene) gone(id perdure.SessionID) {
	s.t.Helper()
	if _, err := s.eng.Sessions().Get(s.ctx, id); !errors.Is(err, perdure.NotFound) {
		s.t.Errorf("Session: got %v, want NotFound", err)
	}
	if _, err := s.eng.Send(s.ctx, id, perdure.Text("anybody?")); !errors.Is(err, perdure.NotFound) {
		s.t.Errorf("Send: got %v, want NotFound", err)
	}
	all, err := s.eng.Sessions().List(s.ctx, 0)
	if err != nil || slices.ContainsFunc(all, func(other engine.Session) bool { return other.ID == id }) {
		s.t.Errorf("Sessions: got %v, %v, want them without %s", all, err, id)
	}
	tasks, err := s.eng.Tasks().List(s.ctx, "")
	if err != nil || slices.ContainsFunc(tasks, func(task perdure.Task) bool { return task.Session == id }) {
		s.t.Errorf("Tasks: got %v, %v, want none of %s", tasks, err, id)
	}
}

// stays checks that the deletion of a session is refused and that the session stays.
func (s *scene) stays(kind error) {
	s.t.Helper()
	if err := s.eng.Sessions().Delete(s.ctx, s.id); !errors.Is(err, kind) {
		s.t.Errorf("DeleteSession: got %v, want %v", err, kind)
	}
	if _, err := s.eng.Sessions().Get(s.ctx, s.id); err != nil {
		s.t.Errorf("Session: %v, want it unchanged", err)
	}
}

func deleteEverything(t *testing.T, open Harness) {
	s := begin(t, open,
		Setup{Script: detachingScript(ask("charge", "{text: x}"), ask("spawn_background", "{tool: bg_note, args: {text: y}}"))})
	other, err := s.eng.Sessions().Create(s.ctx, perdure.Agent{Instructions: "You stay."})
	if err != nil {
		t.Fatal(err)
	}
	s.say("go")
	s.rest()

	s.delete()

	s.gone(s.id)
	if err := s.eng.Sessions().Delete(s.ctx, s.id); !errors.Is(err, perdure.NotFound) {
		t.Errorf("again: got %v, want NotFound", err)
	}
	if events := s.at(other.ID).events(); len(events) != 1 {
		t.Errorf("the other session: got %v, want its first event", events)
	}
}

func deleteForEver(t *testing.T, open Harness) {
	s := begin(t, open, Setup{Script: detachingScript(ask("bg_note", "{text: y}"))})
	s.say("go")
	s.rest()
	s.delete()

	s.Kill(t)
	s.eng = s.Start(t)

	s.gone(s.id)
}

func deleteTree(t *testing.T, open Harness) {
	s := begin(t, open, Setup{Script: family(oneChild, says("done"))})
	s.say("go")
	s.rest()
	child := s.child()

	s.delete()

	s.gone(s.id)
	s.gone(child.id)
}

func deleteSubagent(t *testing.T, open Harness) {
	s := begin(t, open, Setup{Script: family(oneChild, says("done"))})
	s.say("go")
	s.rest()

	s.child().stays(perdure.Invalid)
}

func deleteInTurn(t *testing.T, open Harness) {
	s := begin(t, open, Setup{Script: detachingScript(ask("hold", "{}"))})
	s.say("go")
	s.Entered(t, "hold", 1)

	s.stays(perdure.Conflict)

	s.Release("hold")
	s.rest()
	s.delete()
}

func deleteLiveTask(t *testing.T, open Harness) {
	s := begin(t, open, Setup{Script: detachingScript(ask("spawn_background", "{tool: bg_hold, args: {}}"))})
	s.say("go")
	s.Entered(t, "bg_hold", 1)
	s.turnEnds(1)

	s.stays(perdure.Conflict)

	s.Release("bg_hold")
	s.rest()
	s.delete()
}

func deleteBusyTree(t *testing.T, open Harness) {
	s := begin(t, open, Setup{Script: family(freeChild, does("hold", "{}")...)})
	s.say("go")
	s.Entered(t, "hold", 1)
	s.turnEnds(1)
	child := s.child()

	s.stays(perdure.Conflict)

	if _, err := s.eng.Sessions().Get(s.ctx, child.id); err != nil {
		t.Errorf("the subagent: %v, want it to stay", err)
	}
	s.Release("hold")
	s.rest()
	s.delete()
}

// deleteAndImport imports a session that was exported before its deletion: nothing of the deleted
// session interferes, and it continues.
func deleteAndImport(t *testing.T, open Harness) {
	s := begin(t, open, Setup{Script: detachingScript(ask("charge", "{text: x}"))})
	s.say("go")
	s.rest()
	text := s.export()
	s.say("something that the copy does not have")
	s.rest()

	s.delete()
	s.take(text, engine.Import{})

	if got := s.export(); string(got) != string(text) {
		t.Errorf("got\n%s\nwant\n%s", got, text)
	}
	s.say("go on")
	s.rest()
	if got := s.Effects("charge"); len(got) != 1 {
		t.Errorf("got effects %v, want one", got)
	}
}

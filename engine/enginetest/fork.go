package enginetest

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/engine"
)

func forkLaws() []law {
	return []law{
		{"ForkAtEverySeqRepeatsNothing", forkEverywhere},
		{"ForkOfWhatNobodyKnows", forkUnknown},
		{"ForkAsksBeforeEffects", forkAsks},
		{"ForkInADryRunChangesNothing", forkDryRun},
		{"ForkLeavesTasksWhereTheyAre", forkLeavesTasks},
		{"ForkTellsWhatEndedMeanwhile", forkTellsEnds},
		{"ForkHasTheResultAndNotThePlaceholder", forkResult},
		{"ForkIsOneUnderItsID", forkTwice},
		{"ForkRefusesWhatIsNot", forkRefuses},
	}
}

// forkScript has effects of all classes in both lanes, and a refusal. The agent answers with text
// when it is asked to continue.
const forkScript = `
rules:
  - when: {user_contains: go on}
    text: it goes on
  - when: {not_called: spawn_background}
    text: first
    calls:
      - {name: spawn_background, args: {tool: bg_note, title: Work, args: {}}}
      - {name: echo, args: {text: a}}
      - {name: note, args: {text: b}}
      - {name: nonsense, args: {}}
  - when: {not_called: charge}
    calls: [{name: charge, args: {text: c}}, {name: fail, args: {}}, {name: spawn_background, args: {tool: bg_once, args: {}}}]
  - when: {notifications: 2}
    text: all was delivered
  - when: {called: charge}
    text: waiting
`

// fork forks the session and returns the fork as a scene.
func (s *scene) fork(f engine.Fork) *scene {
	s.t.Helper()
	session, err := s.eng.Sessions().Fork(s.ctx, s.id, f)
	if err != nil {
		s.t.Fatalf("Fork %+v: %v; journal:\n%s", f, err, s.journalText())
	}
	branch := *s
	branch.id = session.ID
	return &branch
}

// effects counts the effects by tool.
func (s *scene) effects() map[string]int {
	all := map[string]int{}
	for _, tool := range []string{"note", "charge", "needs", "bg_note", "bg_once", "hold_charge", "hold_note",
		"bg_hold"} {
		all[tool] = len(s.Effects(tool))
	}
	return all
}

// byCall returns the results in the transcript.
func (s *scene) byCall() map[perdure.CallID]string {
	s.t.Helper()
	all := map[perdure.CallID]string{}
	for _, m := range s.fold().Transcript {
		for _, p := range m.Parts {
			if p.Result != nil {
				all[p.Result.CallID] = string(p.Result.Result)
			}
		}
	}
	return all
}

// paired checks that each call has one result, after the call and before the agent's next message
// (TN16, I17).
func (s *scene) paired() {
	s.t.Helper()
	s.results()
	open := map[perdure.CallID]bool{}
	for _, m := range s.fold().Transcript {
		if m.Role != perdure.RoleToolResult && len(open) > 0 {
			s.t.Errorf("%s comes before the results of %v; journal:\n%s", m.Role, open, s.journalText())
			return
		}
		for _, c := range m.Calls() {
			open[c.ID] = true
		}
		for _, p := range m.Parts {
			if p.Result != nil {
				delete(open, p.Result.CallID)
			}
		}
	}
}

// forkEverywhere forks a session at each of its events, and forks one of the forks: everything
// recorded so far is in the fork, nothing happens twice, and the source does not change.
func forkEverywhere(t *testing.T, open Harness) {
	s := begin(t, open, Setup{Script: forkScript})
	s.say("go")
	s.rest()
	story, before, known := s.journalText(), s.effects(), s.byCall()

	last := int64(len(s.events()))
	for at := int64(1); at <= last; at++ {
		f := s.fork(engine.Fork{At: at})
		if at == last {
			f = f.fork(engine.Fork{}) // of a fork
		}
		f.paired()
		for id, result := range f.byCall() {
			if result != known[id] {
				t.Errorf("at %d call %s has the result %s, which is %s", at, id, result, known[id])
			}
		}
		f.say("go on")
		f.rest()
		f.paired()
		if f.final() != "it goes on" {
			t.Errorf("at %d the fork says %q; journal:\n%s", at, f.final(), f.journalText())
		}
	}

	if diff := cmp.Diff(before, s.effects()); diff != "" {
		t.Errorf("effects (-before +after):\n%s", diff)
	}
	if got := s.journalText(); got != story {
		t.Errorf("the source was changed:\n%s", got)
	}
}

// forkUnknown pins TN17 for a fork: a claimed call without a result is unknown, and a call that was
// never claimed is safe to retry.
func forkUnknown(t *testing.T, open Harness) {
	s := begin(t, open,
		Setup{Script: detachingScript(ask("hold_charge", "{}"), ask("needs", "{text: a}"), ask("echo", "{text: b}"))})
	s.say("go")
	s.asked(1)
	s.Entered(t, "hold_charge", 1)
	nth(s, 1, func(f perdure.ToolCompleted) bool { return f.Name == "echo" })

	f := s.fork(engine.Fork{})
	f.paired()
	got := f.results()
	if len(got) != 3 || !strings.Contains(got[0], perdure.TextUnknown) ||
		!strings.Contains(got[1], perdure.TextNotExecuted) || got[2] != `{"said":"b"}` {
		t.Errorf("got %q", got)
	}
	if len(f.open()) != 0 || len(f.ledger()) != 0 || f.fold().Turn != nil {
		t.Errorf("the fork has %d approvals and %d claims; journal:\n%s", len(f.open()), len(f.ledger()), f.journalText())
	}
	s.Release("hold_charge")
	s.decide(s.open()[0].ID, perdure.Verdict{})
	s.rest()

	if n := len(s.Effects("hold_charge")); n != 1 {
		t.Errorf("%d effects", n)
	}
}

// forkAsks pins that each effect of a fork needs an approval, and no other call does.
func forkAsks(t *testing.T, open Harness) {
	s := begin(t, open, Setup{Script: `
rules:
  - when: {user_contains: again, turn_step: 0}
    calls: [{name: charge, args: {text: b}}, {name: note, args: {text: c}}, {name: echo, args: {text: d}}]
  - when: {turn_step: 0}
    calls: [{name: charge, args: {text: a}}]
steps: [{text: done, repeat: true}]
`})
	s.say("go")
	s.rest()
	f := s.fork(engine.Fork{Title: "another way"})
	f.say("again")
	first, second := f.asked(1), f.asked(2)
	nth(f, 1, func(c perdure.ToolCompleted) bool { return c.Name == "echo" })
	if n := f.effects(); n["charge"] != 1 || n["note"] != 0 {
		t.Errorf("before any approval: %v", n)
	}
	for _, a := range []perdure.Approval{first, second} {
		if len(a.Permissions) != 1 || a.Permissions[0].Kind != "effect" || a.Permissions[0].Target != a.Tool {
			t.Errorf("asked for %+v", a.Permissions)
		}
	}
	f.decide(first.ID, perdure.Verdict{Approve: true})
	f.decide(second.ID, perdure.Verdict{})
	f.rest()

	row, err := s.eng.Sessions().Get(s.ctx, f.id)
	if n := f.effects(); n["charge"] != 2 || n["note"] != 0 || err != nil {
		t.Errorf("got %v, %v", n, err)
	}
	if row.Title != "another way" || row.Forked != s.id || row.Parent != "" || row.Root != f.id {
		t.Errorf("got %+v", row)
	}
	f.paired()
	used := f.fold().UsedCalls
	for id := range s.byCall() {
		if known, _ := used.Get(id); !known {
			t.Errorf("the fork may use the call id %s again", id)
		}
	}
}

func forkDryRun(t *testing.T, open Harness) {
	s := begin(t, open, Setup{Script: oneTool("echo", "{text: a}")})
	before := s.fork(engine.Fork{At: 1, Effects: perdure.ForkDryRun})
	before.say("go")
	before.rest()
	if got := before.results(); len(got) != 1 || got[0] != `{"said":"a"}` {
		t.Errorf("a pure tool said %q", got)
	}

	c := begin(t, open, Setup{Script: detachingScript(ask("charge", "{text: a}"))})
	f := c.fork(engine.Fork{At: 1, Effects: perdure.ForkDryRun})
	f.say("go")
	f.rest()

	if got := f.results(); len(got) != 1 || !strings.Contains(got[0], "[dry-run]") || len(c.Effects("charge")) != 0 ||
		len(f.open()) != 0 {
		t.Errorf("got %q, %d effects", got, len(c.Effects("charge")))
	}
}

// forkLeavesTasks pins that live tasks stay with their session: the fork names them, and receives
// no results.
func forkLeavesTasks(t *testing.T, open Harness) {
	s := begin(t, open, Setup{Script: detachingScript(ask("spawn_background", "{tool: bg_hold, args: {}}"))})
	s.say("go")
	s.Entered(t, "bg_hold", 1)
	s.turnEnds(1)
	task := s.onlyTask()

	f := s.fork(engine.Fork{})
	story := f.journalText()
	s.Release("bg_hold")
	s.rest()

	if len(f.tasks()) != 0 || len(f.fold().Tasks) != 0 || f.journalText() != story {
		t.Errorf("the fork has %d tasks; journal:\n%s", len(f.tasks()), f.journalText())
	}
	words := f.fold().Transcript
	if text := words[len(words)-1].Text(); !strings.Contains(text, string(task.ID)) ||
		!strings.Contains(text, "stays with that session") {
		t.Errorf("the fork received %q", text)
	}
	if n := len(s.Effects("bg_hold")); n > 1 {
		t.Errorf("%d effects", n)
	}
}

// forkTellsEnds pins that a fork is notified of a task that ended after the event.
func forkTellsEnds(t *testing.T, open Harness) {
	s := begin(t, open, Setup{Script: detachingScript(ask("spawn_background", "{tool: bg_hold, args: {}}"))})
	s.say("go")
	s.Entered(t, "bg_hold", 1)
	s.turnEnds(1)
	at := int64(len(s.events()))
	s.Release("bg_hold")
	s.rest()

	f := s.fork(engine.Fork{At: at})
	told := 0
	for _, m := range f.fold().Transcript {
		told += strings.Count(m.Text(), "Background run completed.")
		if strings.Contains(m.Text(), "stays with that session") {
			t.Errorf("the fork received %q", m.Text())
		}
	}
	if told != 1 {
		t.Errorf("the end is delivered %d times; journal:\n%s", told, f.journalText())
	}
}

// forkResult pins that a call which was detached after the event, and has ended since, has its
// result in the fork, once.
func forkResult(t *testing.T, open Harness) {
	s := begin(t, open, Setup{Script: detachingScript(ask("hold_note", "{}"))})
	s.say("go")
	s.Entered(t, "hold_note", 1)
	at := int64(len(s.events()))
	task := s.detach("hold_note")
	s.Release("hold_note")
	s.rest()

	f := s.fork(engine.Fork{At: at})
	f.paired()
	want := s.ledger()[0].Result
	if got := f.results(); want == nil || len(got) != 1 || got[0] != string(want.Result) {
		t.Errorf("got %q, want %+v", got, want)
	}
	if story := f.journalText(); strings.Contains(story, "Background run") || strings.Contains(story, string(task.ID)) {
		t.Errorf("the fork received it twice:\n%s", story)
	}
}

func forkTwice(t *testing.T, open Harness) {
	s := begin(t, open, Setup{Script: oneTool("note", "{text: a}")})
	s.say("go")
	s.rest()
	const id = "session_019aa0000000700080000000000000fa"
	one := s.fork(engine.Fork{ID: id, At: 3})
	again := s.fork(engine.Fork{ID: id, At: 3})
	_, other := s.eng.Sessions().Fork(s.ctx, s.id, engine.Fork{ID: id, At: 2})
	_, own := s.eng.Sessions().Fork(s.ctx, s.id, engine.Fork{ID: s.id})

	if one.id != id || again.id != id || len(one.events()) != 2 || !errors.Is(other, perdure.Conflict) ||
		!errors.Is(own, perdure.Conflict) {
		t.Errorf("got %s and %s, another: %v, its own: %v; journal:\n%s", one.id, again.id, other, own, one.journalText())
	}
}

func forkRefuses(t *testing.T, open Harness) {
	s := begin(t, open, Setup{Script: oneTool("note", "{text: a}")})
	sessions, _ := s.eng.Sessions().List(s.ctx, 0)
	for what, c := range map[string]struct {
		id   perdure.SessionID
		f    engine.Fork
		want error
	}{
		"an unknown session": {"session_019aa0000000700080000000000000fb", engine.Fork{}, perdure.NotFound},
		"an event to come":   {s.id, engine.Fork{At: 2}, perdure.Invalid},
		"no event":           {s.id, engine.Fork{At: -1}, perdure.Invalid},
		"other effects":      {s.id, engine.Fork{Effects: "all"}, perdure.Invalid},
		"no session id":      {s.id, engine.Fork{ID: "fork"}, perdure.Invalid},
	} {
		if _, err := s.eng.Sessions().Fork(s.ctx, c.id, c.f); !errors.Is(err, c.want) {
			t.Errorf("%s: %v, want %v", what, err, c.want)
		}
	}
	if after, err := s.eng.Sessions().List(s.ctx, 0); err != nil || len(after) != len(sessions) {
		t.Error(fmt.Errorf("%d sessions, there were %d: %w", len(after), len(sessions), err))
	}
}

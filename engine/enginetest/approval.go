package enginetest

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/perdure/perdure"
)

func approvalLaws() []law {
	return []law{
		{"ApprovedRuns", approvedRuns},
		{"DeniedHasResult", deniedHasResult},
		{"ApprovedOnce", approvedOnce},
		{"ApprovalBoundToArgs", approvalBound},
		{"ApprovalSetBothNeeded", approvalSet},
		{"DenyBeatsAsk", denyBeatsAsk},
		{"PolicyEnforced", policyEnforced},
		{"ApprovalExpires", approvalExpires},
		{"CrashedGateRefuses", crashedGate},
		{"InterruptClosesApprovals", interruptCloses},
		{"InterruptingMessageClosesApprovals", interruptingCloses},
		{"ApprovalSurvivesKill", approvalSurvives},
		{"PatchedApprovalSurvivesKill", patchedSurvives},
		{"SeveralAnsweredInAnyOrder", severalAnswered},
		{"RoutedAsksFirst", routedAsks},
		{"HookRewrites", hookRewrites},
		{"HookBlocks", hookBlocks},
		{"HookDefers", hookDefers},
		{"HookAfterReplaces", hookReplaces},
		{"WithheldLog", withheldLog},
		{"DryRunTouchesNothing", dryRun},
		{"DryRunKeepsDenials", dryRunDenied},
	}
}

func approvedRuns(t *testing.T, open Harness) { // AP3, AP4
	s := begin(t, open, Setup{Script: oneTool("needs", "{text: a}")})
	s.say("go")
	a := s.asked(1)
	before := s.Effects("needs")
	decided := s.decide(a.ID, perdure.Verdict{Approve: true, Note: "fine", ArgsHash: a.ArgsHash})
	s.rest()

	if len(before) != 0 || len(s.Effects("needs")) != 1 || s.results()[0] != `{"did":"a"}` || s.final() != "done" {
		t.Errorf("%d effects before, %d after; journal:\n%s", len(before), len(s.Effects("needs")), s.journalText())
	}
	stored := s.approval(a.ID)
	if a.Tool != "needs" || string(a.Args) != `{"text":"a"}` || a.Class != perdure.AtMostOnce ||
		a.State != perdure.ApprovalOpen || len(a.Permissions) != 1 {
		t.Errorf("asked %+v", a)
	}
	if decided.State != perdure.ApprovalApproved || stored.State != perdure.ApprovalApproved || stored.DecidedBy != "user" ||
		stored.Note != "fine" || stored.DecidedAt.IsZero() {
		t.Errorf("decided %+v, stored %+v", decided, stored)
	}
}

func deniedHasResult(t *testing.T, open Harness) { // AP6
	for note, want := range map[string]string{"": "approval denied", "not today": "not today"} {
		t.Run(want, func(t *testing.T) {
			t.Parallel()
			s := begin(t, open, Setup{Script: oneTool("needs", "{text: a}")})
			s.say("go")
			s.decide(s.asked(1).ID, perdure.Verdict{Note: note})
			s.rest()

			got := s.onlyResult("needs").Result
			if got.Error != want || got.ErrorKind != perdure.ErrorDenied || !got.NeverStarted || s.final() != "done" {
				t.Errorf("got %+v", got)
			}
			if len(s.Effects("needs")) != 0 || len(s.ledger()) != 0 {
				t.Errorf("%d effects, %d claims", len(s.Effects("needs")), len(s.ledger()))
			}
		})
	}
}

func approvedOnce(t *testing.T, open Harness) { // TestApprovalSingleUse, AP3, AP9
	call := "  - calls: [" + ask("needs", "{text: a}") + "]\n  - text: done\n"
	s := begin(t, open, Setup{Script: "steps:\n" + call + call})
	s.say("go")
	first := s.asked(1)
	s.decide(first.ID, perdure.Verdict{Approve: true})
	_, twice := s.eng.Approvals().Decide(s.ctx, first.ID, perdure.Verdict{Approve: false, By: "user"})
	s.rest()
	s.say("the same again")
	second := s.asked(2)
	between := len(s.Effects("needs"))
	s.decide(second.ID, perdure.Verdict{Approve: true})
	s.rest()

	if between != 1 || len(s.Effects("needs")) != 2 || first.ID == second.ID {
		t.Errorf("%d effects, then %d", between, len(s.Effects("needs")))
	}
	if !errors.Is(twice, perdure.Conflict) || s.approval(first.ID).State != perdure.ApprovalApproved {
		t.Errorf("a second verdict: %v; the approval is %+v", twice, s.approval(first.ID))
	}
}

// approvalBound pins AP3 and AP5: a decision is bound to its arguments; calls with other arguments
// are evaluated again.
func approvalBound(t *testing.T, open Harness) {
	setup := Setup{Script: oneTool("reads", "{text: a}"), Ask: []string{"a", "c"}, Deny: []string{"d"}}
	for args, c := range map[string]struct {
		again  bool
		answer string
	}{"b": {false, `{"read":"b"}`}, "c": {true, `{"read":"c"}`}, "d": {false, `{"error":"Permission denied: not d"}`}} {
		t.Run(args, func(t *testing.T) {
			t.Parallel()
			s := begin(t, open, setup)
			s.say("go")
			a := s.asked(1)
			_, other := s.eng.Approvals().Decide(s.ctx, a.ID, perdure.Verdict{
				Approve: true, By: "user", ArgsHash: "sha256:other",
			})
			s.decide(a.ID, perdure.Verdict{Approve: true, Args: json.RawMessage(`{"text":"` + args + `"}`)})
			if c.again {
				second := s.asked(2)
				if string(second.Args) != `{"text":"c"}` || second.ArgsHash == a.ArgsHash {
					t.Errorf("asked again about %s", second.Args)
				}
				s.decide(second.ID, perdure.Verdict{Approve: true})
			}
			s.rest()

			if got := s.results(); !errors.Is(other, perdure.Conflict) || len(got) != 1 || got[0] != c.answer {
				t.Errorf("other arguments seen: %v, want Conflict; results %q, want %s", other, got, c.answer)
			}
			calls := s.ledger()
			asked := s.fold().Transcript[1].Calls()[0]
			if string(asked.Arguments) != `{"text":"a"}` || args != "d" &&
				(len(calls) != 1 || string(calls[0].Args) != `{"text":"`+args+`"}`) {
				t.Errorf("the transcript has %s, the ledger %+v", asked.Arguments, calls)
			}
		})
	}
}

func approvalSet(t *testing.T, open Harness) { // TestApprovalSetBothNeeded, AP1
	s := begin(t, open, Setup{Script: oneTool("reads", "{text: a}"), Ask: []string{"a", "example.org"}})
	s.say("go")
	a := s.asked(1)
	s.decide(a.ID, perdure.Verdict{Approve: true})
	s.rest()

	if len(a.Permissions) != 2 || a.Permissions[0].Target != "a" || a.Permissions[1].Target != "example.org" ||
		a.Permissions[0].Reason != "look at a" {
		t.Errorf("asked for %+v", a.Permissions)
	}
	if n := len(facts[perdure.ApprovalRequested](s)); n != 1 || s.results()[0] != `{"read":"a"}` {
		t.Errorf("asked %d times", n)
	}
}

func denyBeatsAsk(t *testing.T, open Harness) { // TestDenyBeatsAsk, AP1
	for denied, asked := range map[string]string{"a": "example.org", "example.org": "a"} {
		t.Run(denied, func(t *testing.T) {
			t.Parallel()
			s := begin(t, open, Setup{
				Script: oneTool("reads", "{text: a}"), Ask: []string{asked}, Deny: []string{denied},
			})
			s.say("go")
			s.rest()

			got := s.onlyResult("reads").Result
			if got.Error != "Permission denied: not "+denied || got.ErrorKind != perdure.ErrorDenied ||
				len(facts[perdure.ApprovalRequested](s)) != 0 {
				t.Errorf("got %+v", got)
			}
		})
	}
}

// policyEnforced pins TestPolicyEnforced: nothing runs and nothing is held while a person decides
// (AP7, TN11).
func policyEnforced(t *testing.T, open Harness) {
	s := begin(t, open, Setup{Script: oneTool("needs", "{text: a}")})
	s.say("go")
	a := s.asked(1)
	session, err := s.eng.Sessions().Get(s.ctx, s.id)
	if err != nil || session.NeedsYou != 1 || len(s.open()) != 1 || s.open()[0].ID != a.ID {
		t.Errorf("the session needs %d, %v; open %+v", session.NeedsYou, err, s.open())
	}
	_, nobody := s.eng.Approvals().Decide(s.ctx, a.ID, perdure.Verdict{Approve: true})
	_, unknown := s.eng.Approvals().Decide(s.ctx, "approval_0123456789abcdef0123456789abcdef", perdure.Verdict{
		Approve: true, By: "user",
	})
	if !errors.Is(nobody, perdure.Invalid) || !errors.Is(unknown, perdure.NotFound) {
		t.Errorf("without a name: %v; an unknown one: %v", nobody, unknown)
	}
	if len(s.Effects("needs")) != 0 || len(s.ledger()) != 0 {
		t.Errorf("%d effects, %d claims", len(s.Effects("needs")), len(s.ledger()))
	}
}

func approvalExpires(t *testing.T, open Harness) { // AP6
	s := begin(t, open, Setup{Script: oneTool("needs", "{text: a}"), ApprovalExpiry: 50 * time.Millisecond})
	s.say("go")
	a := s.asked(1)
	s.rest()
	_, late := s.eng.Approvals().Decide(s.ctx, a.ID, perdure.Verdict{Approve: true, By: "user"})

	got := s.onlyResult("needs").Result
	if got.Error != "approval expired" || got.ErrorKind != perdure.ErrorDenied ||
		s.approval(a.ID).State != perdure.ApprovalExpired {
		t.Errorf("got %+v, the approval is %s", got, s.approval(a.ID).State)
	}
	if !errors.Is(late, perdure.Conflict) || len(s.Effects("needs")) != 0 {
		t.Errorf("late: %v, %d effects", late, len(s.Effects("needs")))
	}
}

func crashedGate(t *testing.T, open Harness) { // TestCrashedGateRefuses, AP1
	s := begin(t, open, Setup{Script: oneTool("charge", "{text: a}"), Panics: []string{"charge"}})
	s.say("go")
	s.rest()

	got := s.onlyResult("charge").Result
	if got.ErrorKind != perdure.ErrorDenied || !got.NeverStarted || len(s.Effects("charge")) != 0 ||
		strings.Contains(s.journalText(), "secret cause") {
		t.Errorf("got %+v", got)
	}
}

func interruptCloses(t *testing.T, open Harness) { // AP8, and LateAnswerIsClosed
	s := begin(t, open, Setup{Script: oneTool("needs", "{text: a}")})
	s.say("go")
	a := s.asked(1)
	s.interrupt()
	s.rest()
	_, late := s.eng.Approvals().Decide(s.ctx, a.ID, perdure.Verdict{Approve: true, By: "user"})
	s.rest()

	got := s.onlyResult("needs")
	if got.Status != perdure.StatusInterrupted || !got.Result.NeverStarted ||
		s.approval(a.ID).State != perdure.ApprovalDenied || len(s.open()) != 0 {
		t.Errorf("got %+v, the approval is %s", got, s.approval(a.ID).State)
	}
	if !errors.Is(late, perdure.Conflict) || !strings.Contains(late.Error(), "already closed") ||
		len(s.Effects("needs")) != 0 {
		t.Errorf("late: %v, %d effects", late, len(s.Effects("needs")))
	}
	s.results()
}

func interruptingCloses(t *testing.T, open Harness) { // DL11
	s := begin(t, open, Setup{Script: oneTool("needs", "{text: a}")})
	s.say("go")
	a := s.asked(1)
	s.say("well?") // it waits, and answers no approval
	waiting := s.approval(a.ID).State
	message := perdure.Text("leave it")
	message.Mode = perdure.ModeInterrupt
	if _, err := s.eng.Send(s.ctx, s.id, message); err != nil {
		t.Fatal(err)
	}
	s.rest()

	if waiting != perdure.ApprovalOpen || s.approval(a.ID).State != perdure.ApprovalDenied ||
		len(s.Effects("needs")) != 0 || s.turns() < 2 || s.final() != "done" {
		t.Errorf("the approval was %s, is %s; %d turns", waiting, s.approval(a.ID).State, s.turns())
	}
	s.results()
}

func approvalSurvives(t *testing.T, open Harness) { // AP7
	s := begin(t, open, Setup{Script: oneTool("needs", "{text: a}")})
	s.say("go")
	a := s.asked(1)
	s.crash()
	if list := s.open(); len(list) != 1 || list[0].ID != a.ID {
		t.Errorf("open after the crash: %+v", list)
	}
	s.decide(a.ID, perdure.Verdict{Approve: true})
	s.rest()

	if n := len(facts[perdure.ApprovalRequested](s)); n != 1 || len(s.Effects("needs")) != 1 || s.final() != "done" {
		t.Errorf("asked %d times, %d effects", n, len(s.Effects("needs")))
	}
}

// patchedSurvives pins AP3 and AP5 over crashes, before the decision and while the call runs: every
// execution has the changed arguments and the one key, whatever is decided afterwards.
func patchedSurvives(t *testing.T, open Harness) {
	s := begin(t, open, Setup{Script: oneTool("hold_note", "{text: a}"), Agent: perdure.Agent{AskEffects: true}})
	s.say("go")
	a := s.asked(1)
	s.crash()
	verdict := perdure.Verdict{Approve: true, By: "user", Args: json.RawMessage(`{"text":"b"}`)}
	s.decide(a.ID, verdict)
	s.Entered(t, "hold_note", 1)
	s.crash()
	s.Entered(t, "hold_note", 2)
	s.Release("hold_note")
	s.rest()
	_, again := s.eng.Approvals().Decide(s.ctx, a.ID, verdict)
	s.rest()

	keys := s.Effects("hold_note")
	if n := len(facts[perdure.ApprovalRequested](s)); n != 1 || len(keys) != 2 || keys[0] != keys[1] ||
		s.results()[0] != `{"held":"b"}` {
		t.Errorf("asked %d times, keys %q, results %q, want two executions under one key with the new arguments",
			n, keys, s.results())
	}
	if !errors.Is(again, perdure.Conflict) {
		t.Errorf("the verdict again: got %v, want Conflict", again)
	}
}

func severalAnswered(t *testing.T, open Harness) { // AP7, LN14, LN17
	s := begin(t, open,
		Setup{Script: detachingScript(ask("needs", "{text: a}"), ask("note", "{text: b}"), ask("needs", "{text: c}"))})
	s.say("go")
	first, second := s.asked(1), s.asked(2)
	nth(s, 1, func(f perdure.ToolCompleted) bool { return f.Name == "note" }) // it does not wait for the approvals
	s.decide(second.ID, perdure.Verdict{Approve: true})
	nth(s, 1, func(f perdure.ToolCompleted) bool { return f.CallID == second.Call })
	steps := len(facts[perdure.ReasonStarted](s))
	s.decide(first.ID, perdure.Verdict{Note: "no"})
	s.rest()

	got := strings.Join(s.results(), " ")
	if got != `{"error":"no"} {"noted":"b"} {"did":"c"}` || steps != 1 || len(s.Effects("needs")) != 1 {
		t.Errorf("%d model calls before the last answer; results %s", steps, got)
	}
}

func routedAsks(t *testing.T, open Harness) { // AP2
	s := begin(t, open, Setup{Script: detachingScript(ask("needs", "{text: a}")), Background: []string{"needs"}})
	s.say("go")
	a := s.asked(1)
	before := len(s.tasks())
	s.decide(a.ID, perdure.Verdict{Approve: true})
	s.rest()

	if task := s.onlyTask(); before != 0 || task.State != perdure.TaskSucceeded || len(s.Effects("needs")) != 1 {
		t.Errorf("%d tasks before the answer; then %+v", before, task)
	}
}

func hookRewrites(t *testing.T, open Harness) { // TL35
	for hook, want := range map[string]string{
		"rewrite":  `{"said":"rewritten"}`,
		"restless": `{"error":"The call was blocked: its arguments still change after 2 rounds of hooks"}`,
	} {
		t.Run(hook, func(t *testing.T) {
			t.Parallel()
			s := begin(t, open, Setup{Script: oneTool("echo", "{text: a}"), Hook: hook})
			s.say("go")
			s.rest()

			asked := s.fold().Transcript[1].Calls()[0]
			if got := s.results(); len(got) != 1 || got[0] != want || string(asked.Arguments) != `{"text":"a"}` {
				t.Errorf("got %q, want %s; the transcript has %s", got, want, asked.Arguments)
			}
			if calls := s.ledger(); hook == "rewrite" &&
				(len(calls) != 1 || string(calls[0].Args) != `{"text":"rewritten"}`) {
				t.Errorf("the ledger has %+v", calls)
			}
		})
	}
}

func hookBlocks(t *testing.T, open Harness) { // TL35, BG5
	for tool, call := range map[string]string{"charge": ask("charge", "{text: a}"),
		"spawn_background": ask("spawn_background", "{tool: bg_once, args: {}}")} {
		t.Run(tool, func(t *testing.T) {
			t.Parallel()
			s := begin(t, open, Setup{Script: detachingScript(call), Hook: "block"})
			s.say("go")
			s.rest()

			if got := s.onlyResult(tool).Result; !strings.Contains(got.Error, "no such thing today") ||
				len(s.tasks()) != 0 {
				t.Errorf("got %+v, %d tasks", got, len(s.tasks()))
			}
			if n := len(s.Effects("charge")) + len(s.Effects("bg_once")); n != 0 {
				t.Errorf("%d effects", n)
			}
		})
	}
}

func hookDefers(t *testing.T, open Harness) { // TL35
	s := begin(t, open, Setup{Script: oneTool("charge", "{text: a}"), Hook: "defer"})
	s.say("go")
	a := s.asked(1)
	before := len(s.Effects("charge"))
	s.decide(a.ID, perdure.Verdict{Approve: true})
	s.rest()

	if len(a.Permissions) != 1 || a.Permissions[0].Target != "deferred" || before != 0 ||
		len(s.Effects("charge")) != 1 {
		t.Errorf("asked for %+v, %d effects before, %d after", a.Permissions, before, len(s.Effects("charge")))
	}
}

func hookReplaces(t *testing.T, open Harness) { // TL35: in every lane, before the result is stored
	for name, setup := range map[string]Setup{"foreground": {}, "background": {Background: []string{"echo"}}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			setup.Script, setup.Hook = detachingScript(ask("echo", "{text: a}")), "replace"
			s := begin(t, open, setup)
			s.say("go")
			s.rest()

			calls := s.ledger()
			if len(calls) != 1 || string(calls[0].Result.Result) != `{"said":"something else"}` ||
				strings.Contains(s.journalText(), `{"said":"a"}`) {
				t.Errorf("the ledger has %+v", calls)
			}
			if name == "background" && s.onlyTask().Result != `{"said":"something else"}` {
				t.Errorf("the task has %s", s.onlyTask().Result)
			}
		})
	}
}

func withheldLog(t *testing.T, open Harness) { // BG5
	s := begin(t, open, Setup{Hook: "withhold", Script: `
rules:
  - when: {last_role: notification}
    calls: [{name: read_log, args: {path: '{{(result "spawn_background").log_path}}'}}]
  - when: {not_called: spawn_background}
    calls: [{name: spawn_background, args: {tool: stream, args: {}}}]
steps: [{text: x}, {text: it runs, repeat: true}]
`})
	s.say("go")
	s.rest()

	if got := string(s.onlyResult("read_log").Result.Result); !strings.Contains(got,
		"[output withheld by tool policy]") || strings.Contains(got, "three") {
		t.Errorf("got %s", got)
	}
}

func dryRunDenied(t *testing.T, open Harness) { // AP13: nobody is asked, and a denied call is still denied
	s := begin(t, open, Setup{
		Agent: perdure.Agent{DryRun: true}, Script: oneTool("echo", "{text: a}"), Deny: []string{"echo"},
	})
	s.say("go")
	s.rest()

	if got := s.onlyResult("echo").Result; got.ErrorKind != perdure.ErrorDenied || !got.NeverStarted {
		t.Errorf("got %+v", got)
	}
}

func dryRun(t *testing.T, open Harness) { // AP13
	s := begin(t, open, Setup{Agent: perdure.Agent{DryRun: true}, Script: detachingScript(
		ask("charge", "{text: a}"), ask("needs", "{text: a}"), ask("spawn_background", "{tool: bg_once, args: {}}"),
		ask("echo", "{text: b}"),
	), Ask: []string{"charge"}})
	s.say("go")
	s.rest()

	got := s.results()
	for i, result := range got {
		if want := `"[dry-run] `; i < 3 && !strings.Contains(result, want) || i == 3 && result != `{"said":"b"}` {
			t.Errorf("result %d is %s", i, result)
		}
	}
	if len(got) != 4 || len(s.tasks()) != 0 || len(facts[perdure.ApprovalRequested](s)) != 0 {
		t.Errorf("%d results, %d tasks; journal:\n%s", len(got), len(s.tasks()), s.journalText())
	}
	for _, call := range s.ledger() {
		if call.Class != perdure.Pure && call.Tool != "spawn_background" {
			t.Errorf("%s was claimed", call.Tool)
		}
	}
	if n := len(s.Effects("charge")) + len(s.Effects("needs")) + len(s.Effects("bg_once")); n != 0 {
		t.Errorf("%d effects", n)
	}
}

package enginetest

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/perdure/perdure"
)

func approvalTaskLaws() []law {
	return []law{
		{"BackgroundApprovalSurfaces", backgroundApproval},
		{"BackgroundApprovalSurvivesKill", backgroundApprovalSurvives},
		{"BackgroundApprovalExpires", backgroundExpires},
		{"HookRewritesSpawnTarget", hookRewritesTarget},
		{"SpawnTargetPolicyChecked", spawnTargetChecked},
		{"MidRunApproval", midRunApproval},
		{"MidRunApprovalSurvivesKill", midRunSurvives},
	}
}

// spawned is an agent that starts one run, with or without a notification of its end, and reads
// nothing.
func spawned(tool string, signal bool) string {
	said := map[bool]string{true: "true", false: "false"}[signal]
	return detachingScript(ask("spawn_background", "{tool: "+tool+", title: Work, args: {}, signal_on_completion: "+said+"}"))
}

// backgroundApproval pins TestBackgroundApprovalSurfaces: for every delivery (AP2, AP7).
func backgroundApproval(t *testing.T, open Harness) {
	for verdict, want := range map[string]perdure.TaskState{"approve": perdure.TaskSucceeded,
		"deny": perdure.TaskFailed, "cancel": perdure.TaskCanceled} {
		for name, signal := range map[string]bool{"to_loop": true, "manual": false} {
			t.Run(verdict+"_"+name, func(t *testing.T) {
				t.Parallel()
				s := begin(t, open, Setup{Script: spawned("bg_needs", signal)})
				s.say("go")
				a := s.asked(1)
				s.turnEnds(1)
				task := s.onlyTask()
				if task.State != perdure.TaskAwaitingInput || a.Task != task.ID || len(s.open()) != 1 ||
					len(s.Effects("bg_needs")) != 0 {
					t.Errorf("the task is %s, open %+v", task.State, s.open())
				}
				if got := string(s.onlyResult("spawn_background").Result.Result); !strings.Contains(got,
					`"status":"awaiting_input"`) {
					t.Errorf("the spawn answered %s", got)
				}
				s.decideTask(verdict, a)
				checkBackgroundApproval(s, want, a.ID)
			})
		}
	}
}

// decideTask approves, denies or cancels a task that waits for a person.
func (s *scene) decideTask(verdict string, a perdure.Approval) {
	s.t.Helper()
	if verdict == "cancel" {
		if receipt := s.cancel(a.Task); receipt.DeadAt.IsZero() && receipt.RequestedAt.IsZero() {
			s.t.Errorf("receipt %+v", receipt)
		}
	} else {
		s.decide(a.ID, perdure.Verdict{Approve: verdict == "approve"})
	}
	s.rest()
}

func checkBackgroundApproval(s *scene, want perdure.TaskState, id perdure.ApprovalID) {
	s.t.Helper()
	task := s.onlyTask()
	effects, state := 0, perdure.ApprovalVoid
	switch want {
	case perdure.TaskSucceeded:
		effects, state = 1, perdure.ApprovalApproved
	case perdure.TaskFailed:
		state = perdure.ApprovalDenied
		if task.Error == nil || task.Error.Kind != perdure.ErrorDenied || task.Error.Message != "approval denied" {
			s.t.Errorf("the error is %+v", task.Error)
		}
	}
	if task.State != want || len(s.Effects("bg_needs")) != effects || s.approval(id).State != state ||
		len(s.open()) != 0 {
		s.t.Errorf("the task is %s, %d effects, the approval %s; journal:\n%s",
			task.State, len(s.Effects("bg_needs")), s.approval(id).State, s.journalText())
	}
	home := 0
	if task.Delivery == perdure.ToLoop {
		home = 1
	}
	if s.deliveries() != home {
		s.t.Errorf("delivered %d times, want %d", s.deliveries(), home)
	}
}

func backgroundApprovalSurvives(t *testing.T, open Harness) { // RC13 row 4
	s := begin(t, open, Setup{Script: spawned("bg_needs", true)})
	s.say("go")
	a := s.asked(1)
	s.turnEnds(1)
	s.crash()
	s.decideTask("approve", a)

	checkBackgroundApproval(s, perdure.TaskSucceeded, a.ID)
}

func backgroundExpires(t *testing.T, open Harness) { // AP6, AP10
	for name, script := range map[string]string{"spawned": spawned("bg_needs", true),
		"mid_run": detachingScript(ask("permit", "{}"))} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := begin(t, open, Setup{
				Script: script, ApprovalExpiry: 50 * time.Millisecond, Beat: 20 * time.Millisecond,
			})
			s.say("go")
			a := s.asked(1)
			got := s.awaitDelivered(perdure.TaskFailed)
			_, late := s.eng.Approvals().Decide(s.ctx, a.ID, perdure.Verdict{Approve: true, By: "user"})

			want := map[string]string{"spawned": "approval expired", "mid_run": "not allowed"}[name]
			if got.Error == nil || got.Error.Message != want || s.approval(a.ID).State != perdure.ApprovalExpired ||
				!errors.Is(late, perdure.Conflict) {
				t.Errorf("got %+v, the approval is %s, late %v", got.Error, s.approval(a.ID).State, late)
			}
			if n := len(s.Effects("bg_needs")) + len(s.Effects("permit")); n != 0 {
				t.Errorf("%d effects", n)
			}
		})
	}
}

func hookRewritesTarget(t *testing.T, open Harness) { // TL35, BG5: the hooks see the target tool itself
	s := begin(t, open, Setup{Script: spawned("bg_note", true), Hook: "rewrite"})
	s.say("go")
	task := s.awaitDelivered(perdure.TaskSucceeded)

	for _, call := range s.ledger() {
		if call.Tool == "bg_note" && string(call.Args) != `{"text":"rewritten"}` {
			t.Errorf("the ledger has %s", call.Args)
		}
	}
	if string(task.Spec.Arguments) != `{"text":"rewritten"}` {
		t.Errorf("the task has %s", task.Spec.Arguments)
	}
}

func spawnTargetChecked(t *testing.T, open Harness) { // TestSpawnTargetPolicyChecked, 8.1 row 14
	s := begin(t, open, Setup{Script: spawned("bg_once", true), Deny: []string{"bg_once"}})
	s.say("go")
	s.rest()

	if got := s.onlyResult("spawn_background").Result; !strings.Contains(got.Error, "not bg_once") ||
		len(s.tasks()) != 0 || len(s.Effects("bg_once")) != 0 {
		t.Errorf("got %+v, %d tasks", got, len(s.tasks()))
	}
}

func midRunApproval(t *testing.T, open Harness) { // AP10
	for name, approve := range map[string]bool{"approve": true, "deny": false} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := begin(t, open, Setup{Script: detachingScript(ask("permit", "{}"))})
			s.say("go")
			a := s.asked(1)
			task := s.question(1)
			_, word := s.eng.Tasks().Send(s.ctx, task.ID, perdure.TaskMessage{
				Text: "yes", InReplyTo: task.InputRequest.ID, By: "agent",
			})
			if task.InputRequest.Kind != "approval" || a.Task != task.ID || a.Permissions[0].Target != "rm -r /" ||
				!errors.Is(word, perdure.Conflict) {
				t.Errorf("asked %+v in %+v; a plain message: %v, want Conflict", a, task, word)
			}
			s.decide(a.ID, perdure.Verdict{Approve: approve})
			s.rest()

			got, effects := s.onlyTask(), 0
			want := perdure.TaskFailed
			if approve {
				want, effects = perdure.TaskSucceeded, 1
			}
			if got.State != want || got.Executions != 1 || len(s.Effects("permit")) != effects || approve &&
				got.Result != `{"allowed":"user"}` || s.deliveries() != 1 {
				t.Errorf("got %+v with %d effects; journal:\n%s", got, len(s.Effects("permit")), s.journalText())
			}
			s.results()
		})
	}
}

func midRunSurvives(t *testing.T, open Harness) { // AP7, RC16
	s := begin(t, open, Setup{Script: detachingScript(ask("permit", "{}"))})
	s.say("go")
	a := s.asked(1)
	s.crash()
	s.decide(a.ID, perdure.Verdict{Approve: true})
	s.rest()

	if task := s.onlyTask(); task.State != perdure.TaskSucceeded || task.Attempt != 2 ||
		len(s.Effects("permit")) != 1 || len(facts[perdure.ApprovalRequested](s)) != 1 {
		t.Errorf("got %+v with %d effects; journal:\n%s", task, len(s.Effects("permit")), s.journalText())
	}
}

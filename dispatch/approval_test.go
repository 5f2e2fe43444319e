package dispatch_test

import (
	"errors"
	"testing"
	"testing/synctest"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/dispatch"
)

func TestApprovedRelaunchAwaited(t *testing.T) { // LN14
	t.Parallel()
	inRig(t, nil, nil, func(t *testing.T, r *rig) {
		out := r.launch(t, call("needs-approval", "turn-1", "call-1"))
		q := r.asked(t, "turn-1")
		if q.Task != out.Task || q.Approval.Task != out.Task || q.Approval.State != perdure.ApprovalOpen {
			t.Errorf("asked %+v", q)
		}
		r.none(t, "turn-1") // a person thinks

		again := r.launch(t, answer(q, perdure.ApprovalApproved))
		waited := make(chan dispatch.Item, 1)
		go func() { waited <- r.item(t, "turn-1") }()
		synctest.Wait()

		if again.Task != out.Task || len(waited) != 0 {
			t.Fatalf("relaunched as %+v; the turn must wait for it", again)
		}
		r.release <- "approved-done"
		if i := <-waited; string(i.Result.Result) != `"approved-done"` {
			t.Errorf("got %+v", i)
		}
		for _, kind := range []dispatch.EventKind{dispatch.EventStarted, dispatch.EventApprovalRequired, dispatch.EventCompleted} {
			r.next(t, kind) // and started is reported once
		}
	})
}

func TestApprovedRelaunchKeepsSettings(t *testing.T) {
	t.Parallel()
	inRig(t, map[string]dispatch.Route{"needs-approval": dispatch.InBackground()}, nil, func(t *testing.T, r *rig) {
		l := call("needs-approval", "turn-1", "call-1")
		l.Delivery, l.Wake, l.Metadata = perdure.Manual, perdure.WakeContinue, map[string]string{"k": "v"}
		out := r.launch(t, l)
		synctest.Wait()
		asked := r.h.ListPendingApprovals() // AP7: the question of a manual task is listed too
		if len(asked) != 1 || asked[0].Task != out.Task || len(r.TakePending("")) != 0 {
			t.Fatalf("asked: %+v", asked)
		}

		again := r.launch(t, answer(asked[0], perdure.ApprovalApproved))
		running := r.h.ListRunning()

		if again.Placeholder != nil || again.Lane != perdure.Background {
			t.Errorf("got %+v: the call has its placeholder already", again)
		}
		if len(running) != 1 || running[0].Delivery != perdure.Manual || running[0].Wake != perdure.WakeContinue || running[0].Metadata["k"] != "v" {
			t.Errorf("running: %+v", running)
		}
		r.release <- 1
		if err := r.h.WaitIdle(t.Context()); err != nil {
			t.Fatal(err)
		}
		if ready := r.h.DrainReady(); len(ready) != 1 || ready[0].Metadata["k"] != "v" {
			t.Errorf("ready: %+v", ready)
		}
	})
}

// TestRelaunchIsRoutedAgain decides the lane again after a person has answered (LN2).
func TestRelaunchIsRoutedAgain(t *testing.T) {
	t.Parallel()
	routes := map[string]dispatch.Route{}
	inRig(t, routes, nil, func(t *testing.T, r *rig) {
		r.launch(t, call("needs-approval", "turn-1", "call-1"))
		q := r.asked(t, "turn-1")
		routes["needs-approval"] = dispatch.InBackground()

		out := r.launch(t, answer(q, perdure.ApprovalApproved))

		if out.Lane != perdure.Background || out.Placeholder == nil {
			t.Errorf("got %+v, want it in the background with a placeholder", out)
		}
		r.none(t, "turn-1")
		r.release <- 1
		if err := r.h.WaitIdle(t.Context()); err != nil {
			t.Fatal(err)
		}
		for _, kind := range []dispatch.EventKind{dispatch.EventStarted, dispatch.EventApprovalRequired, dispatch.EventDetached, dispatch.EventCompleted} {
			r.next(t, kind)
		}
	})
}

// TestAnswersThatDoNotCount refuses answers to another question, and a call that has changed since
// (AP3, AP6).
func TestAnswersThatDoNotCount(t *testing.T) {
	t.Parallel()
	for _, row := range []struct {
		name   string
		change func(*dispatch.Launch)
		want   string
	}{
		{"denied", func(l *dispatch.Launch) { l.Approval.State = perdure.ApprovalDenied }, "approval denied"},
		{"denied_with_a_reason", func(l *dispatch.Launch) { l.Approval.State, l.Approval.Note = perdure.ApprovalDenied, "not today" }, "not today"},
		{"expired", func(l *dispatch.Launch) { l.Approval.State = perdure.ApprovalExpired }, "approval expired"},
		{"still_open", func(l *dispatch.Launch) { l.Approval.State = perdure.ApprovalOpen }, "approval does not match"},
		{"another_question", func(l *dispatch.Launch) { l.Approval.ID = "appr_2" }, "approval does not match"},
		{"another_call", func(l *dispatch.Launch) { l.Approval.Call = "call-2" }, "approval does not match"},
		{"another_task", func(l *dispatch.Launch) { l.Approval.Task = "task_2" }, "approval does not match"},
		{"other_args", func(l *dispatch.Launch) {
			l.Call = call("needs-approval", "turn-1", "call-1").Call
			l.Call.Args = []byte(`{"path":"/etc"}`)
		}, "approval does not match"},
		{"other_permissions", func(l *dispatch.Launch) { l.Approval.Permissions = []perdure.Permission{{Kind: "path", Target: "/"}} }, "approval does not match"},
	} {
		t.Run(row.name, func(t *testing.T) {
			t.Parallel()
			inRig(t, nil, nil, func(t *testing.T, r *rig) {
				r.launch(t, call("needs-approval", "turn-1", "call-1"))
				l := answer(r.asked(t, "turn-1"), perdure.ApprovalApproved)
				row.change(&l)

				r.launch(t, l)

				i := r.item(t, "turn-1")
				if i.Result.Error != row.want || i.Result.ErrorKind != perdure.ErrorDenied || !i.Result.NeverStarted || len(r.entered) != 0 {
					t.Errorf("got %+v, want denied: %s", i.Result, row.want)
				}
			})
		})
	}
}

// TestLateAnswer gives an answer when the question is closed: nothing runs (AP8).
func TestLateAnswer(t *testing.T) {
	t.Parallel()
	for _, how := range []string{"interrupt", "cancel", "answered"} {
		t.Run(how, func(t *testing.T) {
			t.Parallel()
			inRig(t, nil, nil, func(t *testing.T, r *rig) {
				out := r.launch(t, call("needs-approval", "turn-1", "call-1"))
				q := r.asked(t, "turn-1")
				switch how {
				case "interrupt":
					r.InterruptTurn("turn-1")
				case "cancel":
					if _, err := r.h.Cancel(out.Task, "user", ""); err != nil {
						t.Fatal(err)
					}
				case "answered":
					r.launch(t, answer(q, perdure.ApprovalDenied))
				}

				_, err := r.Start(t.Context(), answer(q, perdure.ApprovalApproved))

				if !errors.Is(err, perdure.Conflict) || len(r.entered) != 0 {
					t.Errorf("got %v, want Conflict", err)
				}
				if i := r.item(t, "turn-1"); !i.Result.NeverStarted || !i.Result.IsError() {
					t.Errorf("got %+v", i)
				}
				r.none(t, "turn-1")
				if asked := r.h.ListPendingApprovals(); len(asked) != 0 {
					t.Errorf("still asked: %+v", asked)
				}
			})
		})
	}
}

// TestUnreadQuestionIsWithdrawn closes a question before the loop has read it: the call has one
// result, and no question.
func TestUnreadQuestionIsWithdrawn(t *testing.T) {
	t.Parallel()
	inRig(t, nil, nil, func(t *testing.T, r *rig) {
		r.launch(t, call("needs-approval", "turn-1", "call-1"))
		synctest.Wait()
		r.InterruptTurn("turn-1")

		if i := r.item(t, "turn-1"); i.Result.ErrorKind != perdure.ErrorInterrupted || !i.Result.NeverStarted {
			t.Errorf("got %+v", i)
		}
		r.none(t, "turn-1")
	})
}

// TestApprovalOfAForgottenTask answers a question of another process. It is not known whether the
// answer was already used, so it does not count. With a store for used approvals it counts, under
// the given id.
func TestApprovalOfAForgottenTask(t *testing.T) {
	t.Parallel()
	l := call("needs-approval", "turn-1", "call-1")
	l.Task = "task_00000000000000000000000000000001"
	hash, err := perdure.Fingerprint("needs-approval", l.Call.Args)
	if err != nil {
		t.Fatal(err)
	}
	l.Approval = &perdure.Approval{
		ID: "appr_1", Task: l.Task, Session: "session-1", Call: "call-1", Tool: "needs-approval", ArgsHash: hash, State: perdure.ApprovalApproved,
	}
	inRig(t, nil, nil, func(t *testing.T, r *rig) {
		_, err := r.Start(t.Context(), l)

		if !errors.Is(err, perdure.Conflict) || len(r.entered) != 0 || len(r.h.ListRunning()) != 0 {
			t.Errorf("got %v, want Conflict and nothing running", err)
		}
	})
	inRig(t, nil, func(c *dispatch.LoopConfig) { c.ClaimApproval = new(uses).use }, func(t *testing.T, r *rig) {
		out := r.launch(t, l)
		r.release <- 1

		if i := r.item(t, "turn-1"); out.Task != l.Task || i.Task != l.Task || i.Result.IsError() {
			t.Errorf("got %+v and %+v", out, i)
		}
	})
}

package enginetest

import (
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/engine"
)

// detachingScript is an agent that calls a tool, says something, and speaks again after a delivery.
func detachingScript(calls ...string) string {
	return `
rules:
  - when: {last_role: notification}
    text: "home: {{note}}"
steps:
  - calls: [` + strings.Join(calls, ", ") + `]
  - text: it goes on
    repeat: true
`
}

// ask formats a call for a script.
func ask(tool, args string) string { return "{name: " + tool + ", args: " + args + "}" }

// nth waits for the nth matching fact of one type; the first is 1.
func nth[F perdure.Fact](s *scene, n int, match func(F) bool) F {
	s.t.Helper()
	var found F
	s.until(fmt.Sprintf("%d. %T", n, found), func(e perdure.Event) bool {
		f, ok := e.Fact.(F)
		if !ok || match != nil && !match(f) {
			return false
		}
		found = f
		n--
		return n == 0
	})
	return found
}

// awaitDetached waits until a call is detached.
func (s *scene) awaitDetached() perdure.ToolDetached {
	s.t.Helper()
	return nth[perdure.ToolDetached](s, 1, nil)
}

// called waits for the start of the only call of a tool, and returns its key.
func (s *scene) called(tool string) perdure.CallKey {
	s.t.Helper()
	f := nth(s, 1, func(f perdure.ToolStarted) bool { return f.Name == tool })
	return perdure.CallKey{Session: s.id, Call: f.CallID}
}

// detach detaches the only call of a tool.
func (s *scene) detach(tool string) perdure.Task {
	s.t.Helper()
	s.Entered(s.t, tool, 1)
	task, err := s.eng.Calls().Detach(s.ctx, s.called(tool), "user")
	if err != nil {
		s.t.Fatalf("DetachCall: %v; journal:\n%s", err, s.journalText())
	}
	return task
}

// turnEnds waits for the end of the nth turn.
func (s *scene) turnEnds(n int) {
	s.t.Helper()
	nth[perdure.SessionIdled](s, n, nil)
}

// asked waits for the nth approval request, and returns the approval.
func (s *scene) asked(n int) perdure.Approval {
	s.t.Helper()
	return nth[perdure.ApprovalRequested](s, n, nil).Approval
}

// open returns the open approvals.
func (s *scene) open() []perdure.Approval {
	s.t.Helper()
	list, err := s.eng.Approvals().List(s.ctx, engine.ApprovalFilter{Session: s.id, State: perdure.ApprovalOpen})
	if err != nil {
		s.t.Fatalf("Approvals: %v", err)
	}
	return list
}

// decide decides an approval.
func (s *scene) decide(id perdure.ApprovalID, v perdure.Verdict) perdure.Approval {
	s.t.Helper()
	v.By = "user"
	a, err := s.eng.Approvals().Decide(s.ctx, id, v)
	if err != nil {
		s.t.Fatalf("DecideApproval: %v; journal:\n%s", err, s.journalText())
	}
	return a
}

// approval reads an approval.
func (s *scene) approval(id perdure.ApprovalID) perdure.Approval {
	s.t.Helper()
	a, err := s.eng.Approvals().Get(s.ctx, id)
	if err != nil {
		s.t.Fatalf("Approval: %v", err)
	}
	return a
}

// ended waits until a task has ended, and returns it.
func (s *scene) ended(id perdure.TaskID) perdure.Task {
	s.t.Helper()
	f := nth(s, 1, func(f perdure.TaskUpdated) bool { return f.Task.ID == id && f.Task.State.Terminal() })
	return f.Task
}

// question waits for the nth question of a task, and returns the task.
func (s *scene) question(n int) perdure.Task {
	s.t.Helper()
	f := nth(s, n, func(f perdure.TaskUpdated) bool { return f.Task.State == perdure.TaskAwaitingInput })
	return f.Task
}

// answer answers the question of a task.
func (s *scene) answer(task perdure.Task, text string) error {
	_, err := s.eng.Tasks().Send(s.ctx, task.ID, perdure.TaskMessage{
		Text: text, InReplyTo: task.InputRequest.ID, By: "user",
	})
	return err
}

// interrupt interrupts the turn.
func (s *scene) interrupt() {
	s.t.Helper()
	if err := s.eng.Sessions().Interrupt(s.ctx, s.id, "user", "enough"); err != nil {
		s.t.Fatalf("Interrupt: %v", err)
	}
	nth[perdure.TurnCanceled](s, 1, nil)
}

// cancel cancels a task.
func (s *scene) cancel(id perdure.TaskID) perdure.CancelReceipt {
	s.t.Helper()
	receipt, err := s.eng.Tasks().Cancel(s.ctx, id, "user", "enough")
	if err != nil {
		s.t.Fatalf("CancelTask: %v", err)
	}
	return receipt
}

// tasks returns the tasks of the session.
func (s *scene) tasks() []perdure.Task {
	s.t.Helper()
	tasks, err := s.eng.Tasks().List(s.ctx, s.id)
	if err != nil {
		s.t.Fatalf("Tasks: %v", err)
	}
	return tasks
}

// ledger returns the calls of the session.
func (s *scene) ledger() []perdure.Call {
	s.t.Helper()
	calls, err := s.eng.Calls().List(s.ctx, s.id)
	if err != nil {
		s.t.Fatalf("Calls: %v", err)
	}
	return calls
}

// results returns the results in transcript order, and checks that each call has one (TN16).
func (s *scene) results() []string {
	s.t.Helper()
	var results []string
	seen := map[perdure.CallID]int{}
	for _, m := range s.fold().Transcript {
		for _, call := range m.Calls() {
			seen[call.ID]++
		}
		for _, p := range m.Parts {
			if p.Result != nil {
				seen[p.Result.CallID]--
				results = append(results, string(p.Result.Result))
			}
		}
	}
	for id, n := range seen {
		if n != 0 {
			s.t.Errorf("call %s and its results do not match: %d; journal:\n%s", id, n, s.journalText())
		}
	}
	return results
}

// turns counts the started turns.
func (s *scene) turns() int { return len(facts[perdure.TurnStarted](s)) }

// deliveries counts the notifications of ended tasks.
func (s *scene) deliveries() int { return len(facts[perdure.TaskDelivered](s)) }

// awaitDelivered waits until the only task has ended and the session is idle, and checks that the
// result was delivered once.
func (s *scene) awaitDelivered(want perdure.TaskState) perdure.Task {
	s.t.Helper()
	s.rest()
	s.results()
	task := s.onlyTask()
	if task.State != want || s.deliveries() != 1 || task.Delivered != perdure.DeliveredInjected {
		s.t.Errorf("the task is %s, delivered %s, %d times; want %s and once; journal:\n%s",
			task.State, task.Delivered, s.deliveries(), want, s.journalText())
	}
	return task
}

// placeholder returns the placeholder of a detached call (LN6). how is the part with the reason.
func placeholder(task perdure.Task, how, message string) string {
	if task.DeadlineAt.IsZero() {
		return fmt.Sprintf(`{"type":"background","tool":%q,%s,"background_id":%q,"task_id":%q,"message":%q}`,
			task.Tool, how, task.ID, task.ID, message)
	}
	deadline, _ := json.Marshal(task.DeadlineAt) // a time of this year
	return fmt.Sprintf(`{"type":"background","tool":%q,%s,"background_id":%q,"task_id":%q,"message":%q,"deadline_at":%s}`,
		task.Tool, how, task.ID, task.ID, message, deadline)
}

// The placeholders' messages.
const (
	textBudget = "Still running after 0.03s — use check_background_tool to wait longer or cancel."
	textRouted = "Running in the background — use check_background_tool to wait or cancel."
)

// soon is a soft budget that has passed before a law checks.
const soon = 30 * time.Millisecond

// spread reports whether any of several engines does the work.
func (s *scene) spread() bool {
	_, is := s.World.(Spread)
	return is
}

// leastCommits does something several times, and returns the least number of commits that it took.
// Periodic work of the engine adds commits to some of them, and a scheduler whose grants are used
// twice to most of them: then it is done until it took no more than want, for a minute at most.
func (s *scene) leastCommits(want int, do func()) (least int) {
	s.t.Helper()
	end := time.Now().Add(time.Minute)
	for i := 0; i < 5 || least > want && s.spread() && time.Now().Before(end); i++ {
		before := s.Commits()
		do()
		if got := s.Commits() - before; i == 0 || got < least {
			least = got
		}
	}
	return least
}

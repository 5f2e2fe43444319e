package cli

import (
	"bytes"
	"encoding/json"
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/engine"
)

// heard is a voice with its output.
type heard struct {
	*progressPrinter
	stdout, stderr bytes.Buffer
	t              *testing.T
}

func newHeard(t *testing.T) *heard {
	h := &heard{t: t}
	a := &app{Dependencies: Dependencies{Stderr: &h.stderr}, out: &stdoutWriter{w: &h.stdout}}
	h.progressPrinter = newProgressPrinter(a, perdure.NewSession("session_1"))
	return h
}

func (h *heard) delta(offset int, text string) {
	h.t.Helper()
	body, err := json.Marshal(delta{offset, text})
	if err == nil {
		err = h.live(engine.Frame{Type: "output.message.delta", Data: body})
	}
	if err != nil {
		h.t.Fatal(err)
	}
}

func (h *heard) happens(facts ...perdure.Fact) {
	h.t.Helper()
	for _, f := range facts {
		if err := h.event(perdure.Event{Session: "session_1", Task: "task_1", Fact: f}, perdure.NewSession("session_1")); err != nil {
			h.t.Fatal(err)
		}
	}
}

func answer(text string) perdure.OutputCompleted {
	return perdure.OutputCompleted{Message: perdure.Message{Role: perdure.RoleAgent, Parts: []perdure.Part{{Type: perdure.PartText, Text: text}}}}
}

func TestVoiceSpeaks(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name string
		does func(*heard)
		want string
	}{
		{"what came live is not said twice", func(h *heard) {
			h.delta(0, "Hel")
			h.delta(3, "lo.")
			h.happens(answer("Hello."))
		}, "Hello.\n"},
		{"what never came live is said at the end", func(h *heard) {
			h.happens(answer("Hello."))
		}, "Hello.\n"},
		{"the rest of a text that came in part follows it", func(h *heard) {
			h.delta(0, "Hel")
			h.happens(answer("Hello."))
		}, "Hello.\n"},
		{"what lies behind a hole waits for the whole", func(h *heard) {
			h.delta(0, "Hel")
			h.delta(5, ".")
			h.happens(answer("Hello."))
		}, "Hello.\n"},
		{"an attempt that begins anew says only what is new", func(h *heard) {
			h.delta(0, "Hello, I am")
			h.happens(perdure.ReasonCompleted{Code: "provider_unavailable"}, perdure.ReasonStarted{Attempt: 2})
			h.delta(0, "Hello")
			h.delta(5, ", I am here.")
			h.happens(answer("Hello, I am here."))
		}, "Hello, I am here.\n"},
		{"an attempt that says something else gets its own line", func(h *heard) {
			h.delta(0, "Hello")
			h.happens(perdure.ReasonStarted{Attempt: 2})
			h.delta(0, "Good morning")
			h.happens(answer("Good morning."))
		}, "Hello\nGood morning.\n"},
		{"an attempt that goes on says only what is new", func(h *heard) {
			h.delta(0, "Hello, I am")
			h.happens(perdure.ReasonStarted{Attempt: 2})
			h.delta(6, " I am here.")
			h.happens(answer("Hello, I am here."))
		}, "Hello, I am here.\n"},
		{"the text so far is not said twice", func(h *heard) {
			h.delta(0, "Hello")
			h.delta(0, "Hello, I am")
			h.happens(answer("Hello, I am."))
		}, "Hello, I am.\n"},
		{"two answers are two lines", func(h *heard) {
			h.happens(answer("One."), answer("Two."))
		}, "One.\nTwo.\n"},
		{"an answer of calls only is nothing", func(h *heard) {
			h.happens(answer(""))
		}, ""},
		{"a line end is not doubled", func(h *heard) {
			h.delta(0, "Hello.\n")
			h.happens(answer("Hello.\n"))
		}, "Hello.\n"},
		{"nothing drives the terminal", func(h *heard) {
			h.delta(0, "\x1b[2J")
			h.happens(answer("\x1b[2Jgone"))
		}, "[2Jgone\n"},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			h := newHeard(t)
			test.does(h)
			if diff := cmp.Diff(h.stdout.String(), test.want); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestVoiceTells(t *testing.T) {
	t.Parallel()
	h := newHeard(t)
	running := perdure.Task{ID: "task_1", Tool: "bash", State: perdure.TaskRunning, DisplayName: "Build\x1b[31m"}
	ended := running
	ended.State, ended.Summary = perdure.TaskFailed, "exit 2"
	current, total := 3.0, 8.0
	running.Progress = &perdure.Progress{Current: &current, Total: &total, Label: "compiling"}

	h.happens(perdure.TaskCreated{Task: running}, perdure.TaskUpdated{Task: running})
	h.working([]perdure.Task{running})
	h.working([]perdure.Task{running})
	h.happens(perdure.TaskReattached{Attempt: 2, How: perdure.TakeOverAdopt})
	h.happens(perdure.TaskUpdated{Task: ended}, perdure.TaskDelivered{TaskIDs: []perdure.TaskID{"task_1"}})
	h.happens(perdure.ToolCompleted{Name: "charge", Status: perdure.StatusUnknown, Result: perdure.ToolResult{Error: perdure.TextUnknown}})
	h.happens(perdure.ToolUnknown{Name: "charge", CallID: "call_1"})
	h.happens(perdure.ToolTakenOver{Name: "label", How: perdure.TakeOverRunAgain, Executions: 2})

	want := `▸ task_1 bash running: Build[31m
… task_1 bash 3/8 · compiling
↻ task_1 taken over: its running process was adopted, attempt 2
✗ task_1 bash failed: exit 2
↩ task_1 delivered into the conversation
✗ charge unknown: ` + perdure.TextUnknown + `
? outcome of charge is unknown: perdure task resolve session_1/call_1 --happened | --did-not-happen
↻ label: runs again with the same idempotency key, execution 2
`
	if diff := cmp.Diff(h.stderr.String(), want); diff != "" {
		t.Error(diff)
	}
	if h.stdout.Len() > 0 {
		t.Errorf("stdout has %q: that is talk", h.stdout.String())
	}
}

// catalogue returns the event types of the reference page.
func catalogue(t *testing.T) (all []perdure.EventType) {
	t.Helper()
	page, err := os.ReadFile("../../docs/reference/events.md")
	if err != nil {
		t.Fatal(err)
	}
	events, _, _ := strings.Cut(string(page), "## Frames")
	for _, row := range regexp.MustCompile("(?m)^\\| `([a-z_]+\\.[a-z_.]+)` \\|").FindAllStringSubmatch(events, -1) {
		all = append(all, perdure.EventType(row[1]))
	}
	if len(all) < 40 {
		t.Fatalf("the reference has %d types of events", len(all))
	}
	return all
}

// TestVoiceLanes checks the messages of a run about detached calls, and about calls that wait for a
// person.
func TestVoiceLanes(t *testing.T) {
	t.Parallel()
	h := newHeard(t)
	asked := perdure.Approval{ID: "appr_1", Tool: "charge", Args: json.RawMessage(`{"amount":5,"api_key":"hush"}`), State: perdure.ApprovalOpen}
	waits := perdure.Task{ID: "task_1", Tool: "ship", State: perdure.TaskAwaitingInput, InputRequest: &perdure.InputRequest{Kind: "question", Prompt: "Where to?"}}

	h.happens(perdure.ToolDetached{CallID: "call_1", TaskID: "task_1", Reason: perdure.DetachedByBudget, TimeoutSeconds: 2})
	h.happens(perdure.ToolCompleted{CallID: "call_1", Name: "bash", Status: perdure.StatusSuccess}) // its placeholder
	h.happens(perdure.ApprovalRequested{Approval: asked})
	h.happens(perdure.ApprovalResolved{Approval: "appr_1", State: perdure.ApprovalDenied, By: "operator", Note: "too much"})
	h.happens(perdure.ToolCallRequested{Name: "locate", Args: json.RawMessage(`{}`)}, perdure.SessionAwaits{CallIDs: []perdure.CallID{"call_2"}})
	h.happens(perdure.TaskUpdated{Task: waits}, perdure.TaskMessageSent{Message: perdure.TaskMessage{Text: "Where to?\x1b[2J"}})
	h.happens(perdure.TaskMessageReceived{Message: perdure.TaskMessage{Text: "Zurich", InReplyTo: "req_1"}})

	want := `▸ call_1 continues in the background as task_1 after 2.0 s
! charge needs your approval: {"amount":5,"api_key":"<redacted>"}
  perdure approve appr_1
  perdure approval deny appr_1 --note WHY
✗ appr_1: denied by operator: too much
! locate waits for the client to answer: {}
! the turn is waiting for the client to answer 1 call
! task_1 ship awaiting_input: Where to?
  perdure task input task_1 ANSWER
▸ task_1: Where to?[2J
▸ task_1: answer to the task: Zurich
`
	if diff := cmp.Diff(h.stderr.String(), want); diff != "" {
		t.Error(diff)
	}
}

func TestEverySentence(t *testing.T) {
	t.Parallel()
	task, told := perdure.Task{Tool: "bash", State: perdure.TaskRunning}, map[perdure.EventType]bool{}
	for _, f := range []perdure.Fact{
		perdure.TurnStarted{}, perdure.InterruptRequested{}, perdure.TurnCompleted{}, perdure.TurnFailed{Code: "c"}, perdure.TurnCanceled{},
		perdure.ScheduleCreated{}, perdure.ScheduleFired{}, perdure.ScheduleSkipped{}, perdure.SchedulePaused{}, perdure.ScheduleCanceled{},
		perdure.TurnSealed{Reason: "r"}, perdure.ReasonStarted{}, perdure.ReasonCompleted{Code: "c"}, perdure.ReasonRecovered{}, answer("text"),
		perdure.MessageReceived{Message: perdure.Text("text")}, perdure.Generation{}, perdure.ActStarted{Calls: []perdure.PlannedCall{{Name: "echo"}}},
		perdure.ActCompleted{}, perdure.ToolStarted{}, perdure.ToolCompleted{Name: "echo"}, perdure.ToolUnknown{}, perdure.ToolResolved{},
		perdure.ToolTakenOver{}, perdure.TranscriptRepaired{}, perdure.TaskCreated{Task: task}, perdure.TaskUpdated{Task: task},
		perdure.TaskReattached{}, perdure.TaskResolved{}, perdure.TaskCancelRequested{}, perdure.TaskCancelReceipt{},
		perdure.TaskDelivered{Message: perdure.Text("text")}, perdure.TaskPruned{TaskIDs: []perdure.TaskID{"task_1"}}, perdure.DeliveryHeld{Why: "w"}, perdure.UnknownFact{Kind: "later.kind"},
		perdure.SessionCreated{Agent: perdure.Agent{Title: "t"}}, perdure.SessionUpdated{Title: "t"}, perdure.SessionActivated{},
		perdure.SessionAwaits{}, perdure.SessionIdled{}, perdure.SessionStopped{By: "b"}, perdure.SessionPauses{By: "b", Reason: "c"}, perdure.SessionResumes{By: "b"}, perdure.OutputStarted{}, perdure.ToolDetachRequested{}, perdure.ToolDetachRefused{}, perdure.ToolDetached{}, perdure.ToolCallRequested{},
		perdure.CallReplanned{}, perdure.ApprovalRequested{}, perdure.ApprovalResolved{}, perdure.TaskMessageSent{}, perdure.TaskMessageReceived{},
		perdure.ContextCompacted{}, perdure.OutputReplaced{}, perdure.LoopDetected{Name: "echo"}, perdure.SessionForked{},
		perdure.AuditRecorded{Action: "a"}, perdure.ResourceUpdated{Entry: perdure.Resource{Name: "n"}}, perdure.LeaseExpired{}, perdure.LeaseCleanupFailed{}, perdure.FileWritten{Path: "/a"}, perdure.RequestDenied{Host: "a.test"},
		perdure.BudgetWarning{}, perdure.BudgetPaused{}, perdure.BudgetExhausted{}, perdure.BudgetResumed{},
	} {
		told[f.EventType()] = true
		if strings.TrimSpace(sentence(perdure.Event{Fact: f})) == "" {
			t.Errorf("%s has no sentence", f.EventType())
		}
	}
	for _, kind := range catalogue(t) {
		if !told[kind] {
			t.Errorf("the sentence of %s was not looked at", kind)
		}
	}
}

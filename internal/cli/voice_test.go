package cli

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/engine"
)

// heard is a voice with what came of it.
type heard struct {
	*voice
	stdout, stderr bytes.Buffer
	t              *testing.T
}

func newHeard(t *testing.T) *heard {
	h := &heard{t: t}
	a := &app{World: World{Stderr: &h.stderr}, out: &sink{w: &h.stdout}}
	h.voice = newVoice(a, perdure.NewSession("session_1"))
	return h
}

func (h *heard) delta(text string) {
	h.t.Helper()
	body, err := json.Marshal(delta{text})
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
			h.delta("Hel")
			h.delta("lo.")
			h.happens(answer("Hello."))
		}, "Hello.\n"},
		{"what never came live is said at the end", func(h *heard) {
			h.happens(answer("Hello."))
		}, "Hello.\n"},
		{"the rest of a text that came in part follows it", func(h *heard) {
			h.delta("Hel")
			h.happens(answer("Hello."))
		}, "Hello.\n"},
		{"a text with a hole is said again in a line of its own", func(h *heard) {
			h.delta("Hel")
			h.delta(".")
			h.happens(answer("Hello."))
		}, "Hel.\nHello.\n"},
		{"an attempt that begins anew says only what is new", func(h *heard) {
			h.delta("Hello, I am")
			h.happens(perdure.ReasonCompleted{Code: "provider_unavailable"}, perdure.ReasonStarted{Attempt: 2})
			h.delta("Hello")
			h.delta(", I am here.")
			h.happens(answer("Hello, I am here."))
		}, "Hello, I am here.\n"},
		{"an attempt that says something else gets its own line", func(h *heard) {
			h.delta("Hello")
			h.happens(perdure.ReasonStarted{Attempt: 2})
			h.delta("Good morning")
			h.happens(answer("Good morning."))
		}, "Hello\nGood morning.\n"},
		{"two answers are two lines", func(h *heard) {
			h.happens(answer("One."), answer("Two."))
		}, "One.\nTwo.\n"},
		{"an answer of calls only is nothing", func(h *heard) {
			h.happens(answer(""))
		}, ""},
		{"a line end is not doubled", func(h *heard) {
			h.delta("Hello.\n")
			h.happens(answer("Hello.\n"))
		}, "Hello.\n"},
		{"nothing drives the terminal", func(h *heard) {
			h.delta("\x1b[2J")
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
	h.happens(perdure.TaskReattached{Attempt: 2, How: perdure.Adopt})
	h.happens(perdure.TaskUpdated{Task: ended}, perdure.TaskDelivered{TaskIDs: []perdure.TaskID{"task_1"}})
	h.happens(perdure.ToolCompleted{Name: "charge", Status: perdure.StatusUnknown, Result: perdure.ToolResult{Error: perdure.TextUnknown}})
	h.happens(perdure.ToolUnknown{Name: "charge", CallID: "call_1"})
	h.happens(perdure.ToolTakenOver{Name: "label", How: perdure.RunAgain, Executions: 2})

	want := `▸ task_1 bash running: Build[31m
… task_1 bash 3/8 compiling
↻ task_1 taken over: its process is adopted, attempt 2
✗ task_1 bash failed: exit 2
↩ task_1 delivered into the conversation
✗ charge unknown: ` + perdure.TextUnknown + `
? charge is unknown: perdure task resolve session_1/call_1 --happened | --did-not-happen | --run-again
↻ label: it is run again under the same key, execution 2
`
	if diff := cmp.Diff(h.stderr.String(), want); diff != "" {
		t.Error(diff)
	}
	if h.stdout.Len() > 0 {
		t.Errorf("stdout has %q: that is talk", h.stdout.String())
	}
}

func TestEverySentence(t *testing.T) {
	t.Parallel()
	task := perdure.Task{Tool: "bash", State: perdure.TaskRunning}
	for _, f := range []perdure.Fact{
		perdure.TurnStarted{}, perdure.InterruptRequested{}, perdure.TurnCompleted{}, perdure.TurnFailed{Code: "c"}, perdure.TurnCanceled{},
		perdure.TurnSealed{Reason: "r"}, perdure.ReasonStarted{}, perdure.ReasonCompleted{Code: "c"}, perdure.ReasonRecovered{}, answer("text"),
		perdure.MessageReceived{Message: perdure.Text("text")}, perdure.Generation{}, perdure.ActStarted{Calls: []perdure.PlannedCall{{Name: "echo"}}},
		perdure.ActCompleted{}, perdure.ToolStarted{}, perdure.ToolCompleted{Name: "echo"}, perdure.ToolUnknown{}, perdure.ToolResolved{},
		perdure.ToolTakenOver{}, perdure.TranscriptRepaired{}, perdure.TaskCreated{Task: task}, perdure.TaskUpdated{Task: task},
		perdure.TaskReattached{}, perdure.TaskResolved{}, perdure.TaskCancelRequested{}, perdure.TaskCancelReceipt{},
		perdure.TaskDelivered{Message: perdure.Text("text")}, perdure.DeliveryHeld{Why: "w"}, perdure.UnknownFact{Kind: "later.kind"},
	} {
		if strings.TrimSpace(sentence(perdure.Event{Fact: f})) == "" {
			t.Errorf("%s has no sentence", f.EventType())
		}
	}
}

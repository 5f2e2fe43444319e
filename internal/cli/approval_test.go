package cli

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/perdure/perdure"
)

// charge is an open approval whose text tries to look like something else.
func charge() perdure.Approval {
	return perdure.Approval{
		ID: "appr_1", Session: "session_1", Call: "call_1", Tool: "charge", Class: perdure.AtMostOnce, State: perdure.ApprovalOpen,
		Args: json.RawMessage("{\"to\":\"alice\u202e\u009b31m\",\"api_key\":\"hush\"}"), ArgsHash: "sha256:1",
		Permissions: []perdure.Permission{
			{Kind: "tool", Target: "charge"}, {Kind: "host", Target: "pay.example\nstate  approved", Reason: "it is\nsafe\x1b[2J"},
		},
		Reason: "all is well", RequestedAt: time.Now().Add(-time.Minute),
	}
}

// TestC18Approval checks that a terminal shows everything of a question, and nothing that hides or
// forges a part of it.
func TestC18Approval(t *testing.T) {
	t.Parallel()
	for _, args := range []string{"approval show appr_1", "approve appr_1 --dry-run"} {
		c := command{args: args, scene: &scene{approvals: []perdure.Approval{charge()}}, terminal: Terminal{Stdout: true, Stderr: true}, env: map[string]string{"NO_COLOR": "1"}}
		code, out, talk := c.run(t.Context())
		text := out + talk
		for _, want := range []string{
			`"to": "alice\u202e\u009b31m"`, `"api_key": "hush"`, "charge (at_most_once: must not happen twice)", "sha256:1",
			"tool charge\n", "host pay.example state approved  (unverified: “it is safe[2J”)\n", "reason       unverified: “all is well”", "expires      never",
		} {
			if !strings.Contains(text, want) {
				t.Errorf("%s: has no %s in\n%s", args, want, text)
			}
		}
		if code != exitOK || strings.ContainsAny(text, "\x1b\u202e\u009b") {
			t.Errorf("%s: exit code %d, %q", args, code, text)
		}
	}
}

// TestApprovalList checks that the list has the open approvals without secrets, or the selected
// ones.
func TestApprovalList(t *testing.T) {
	t.Parallel()
	denied := charge()
	denied.ID, denied.State = "appr_2", perdure.ApprovalDenied
	for args, want := range map[string]string{
		"approval list -o name":                         "appr_1\n",
		"approval list --state denied,void -o name":     "appr_2\n",
		"approval list --all -o name":                   "appr_1\nappr_2\n",
		"approval list --jq .[].args.api_key":           "<redacted>\n",
		"approval show appr_1 --jq .args.api_key":       "hush\n",
		"approval show appr_2 --json id,state -o jsonl": `{"id":"appr_2","state":"denied"}` + "\n",
	} {
		_, out, talk := command{args: args, scene: &scene{approvals: []perdure.Approval{charge(), denied}}}.run(t.Context())
		if diff := cmp.Diff(out, want); diff != "" {
			t.Errorf("%s: %s%s", args, diff, talk)
		}
	}
}

// TestApprove is the table of when approve asks for confirmation, and what it sends.
func TestApprove(t *testing.T) {
	t.Parallel()
	terminal := Terminal{Stdin: true, Stderr: true}
	approved := []perdure.Verdict{{Approve: true, By: operator, ArgsHash: "sha256:1"}}
	for _, test := range []struct {
		name    string
		command command
		faster  perdure.ApprovalState
		code    int
		want    []perdure.Verdict
		says    string
	}{
		{"a terminal says yes", command{args: "approve appr_1", terminal: terminal, stdin: "y\n"}, "", exitOK, approved, "the call runs once, with exactly these arguments"},
		{"it says no", command{args: "approve appr_1", terminal: terminal, stdin: "n\n"}, "", exitError, nil, "nothing was changed"},
		{"nobody is there to ask", command{args: "approve appr_1"}, "", exitApproval, nil, "perdure approve appr_1 --yes"},
		{"nobody may ask", command{args: "--no-input approve appr_1", terminal: terminal, stdin: "y\n"}, "", exitApproval, nil, "confirm with --yes"},
		{"yes was said before", command{args: "approval approve appr_1 --yes"}, "", exitOK, approved, `"api_key": "hush"`},
		{"by the beginning of its id", command{args: "approve appr -y"}, "", exitOK, approved, ""},
		{"only to see", command{args: "approve appr_1 --yes --dry-run"}, "", exitOK, nil, "would approve appr_1"},
		{"with other arguments", command{args: `approve appr_1 --yes --args - --note less`, stdin: `{"to":"bob"}`}, "", exitOK,
			[]perdure.Verdict{{Approve: true, By: operator, Note: "less", ArgsHash: "sha256:1", Args: json.RawMessage(`{"to":"bob"}`)}}, "instead"},
		{"somebody was faster", command{args: "approve appr_1 --yes"}, perdure.ApprovalDenied, exitConflict, nil, "is already closed: it was denied by somebody"},
		{"a no needs no yes", command{args: "approval deny appr_1 --note never"}, "", exitOK,
			[]perdure.Verdict{{By: operator, Note: "never", ArgsHash: "sha256:1"}}, "the call does not run"},
		{"a no that is only to see", command{args: "approval deny appr_1 --dry-run"}, "", exitOK, nil, "would deny appr_1"},
		{"there is none", command{args: "approve nothing --yes"}, "", exitNotFound, nil, "perdure approval list"},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			test.command.scene = &scene{approvals: []perdure.Approval{charge()}, faster: test.faster}

			code, _, talk := test.command.run(t.Context())

			if diff := cmp.Diff(test.command.scene.verdicts, test.want); diff != "" || code != test.code || !strings.Contains(talk, test.says) {
				t.Errorf("exit code %d, verdicts %s, says %s", code, diff, talk)
			}
			if strings.Contains(talk, "once with exactly these arguments?") && !strings.Contains(talk[:strings.Index(talk, "once with exactly")], `"to": "alice`) {
				t.Errorf("it asks before it shows what about: %s", talk)
			}
		})
	}
}

// TestApproveChanged checks that a decision is refused if the question differs from the shown one.
func TestApproveChanged(t *testing.T) {
	t.Parallel()
	p := charge()
	_, err := p.Resolve(perdure.Verdict{Approve: true, By: operator, ArgsHash: "sha256:2"}, time.Time{})
	a := &app{}

	got := approvalText{a}.decisionError(t.Context(), (&scene{approvals: []perdure.Approval{p}}).Approvals(), p, err)

	if exitCode(got) != exitConflict || !strings.Contains(got.Error(), perdure.TextNotMatching) || !strings.Contains(a.hint(got), "check it again") {
		t.Errorf("%v: %s", got, a.hint(got))
	}
}

// TestWaitsForPeople checks that a session is reported as waiting for people only if no work is
// running.
func TestWaitsForPeople(t *testing.T) {
	t.Parallel()
	calls := func(phases ...perdure.CallPhase) *perdure.Turn {
		turn := &perdure.Turn{Phase: perdure.PhaseActing}
		for _, phase := range phases {
			turn.Calls = append(turn.Calls, perdure.TurnCall{Phase: phase})
		}
		return turn
	}
	for _, test := range []struct {
		name  string
		turn  *perdure.Turn
		tasks []perdure.TaskState
		queue int
		want  bool
	}{
		{"at rest", nil, nil, 0, false},
		{"a call asks", calls(perdure.CallAwaitingApproval), nil, 0, true},
		{"and another is done", calls(perdure.CallDone, perdure.CallAwaitingApproval), nil, 0, true},
		{"and another runs", calls(perdure.CallExecuting, perdure.CallAwaitingApproval), nil, 0, false},
		{"and another is to run", calls(perdure.CallPlanned, perdure.CallAwaitingApproval), nil, 0, false},
		{"the client is to answer", calls(perdure.CallAwaitingClient), nil, 0, true},
		{"all are done", calls(perdure.CallDone), nil, 0, false},
		{"the model is asked", &perdure.Turn{Phase: perdure.PhaseReasoning}, nil, 0, false},
		{"a call asks, and a task runs", calls(perdure.CallAwaitingApproval), []perdure.TaskState{perdure.TaskRunning}, 0, false},
		{"a task asks", nil, []perdure.TaskState{perdure.TaskAwaitingInput, perdure.TaskSucceeded}, 0, true},
		{"a task asks, and another is queued", nil, []perdure.TaskState{perdure.TaskAwaitingInput, perdure.TaskQueued}, 0, false},
		{"a task asks, and a message waits", nil, []perdure.TaskState{perdure.TaskAwaitingInput}, 1, false},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			s := perdure.NewSession("session_1")
			s.Turn, s.Queue = test.turn, make([]perdure.Message, test.queue)
			for _, state := range test.tasks {
				s.Tasks[perdure.TaskID("task_"+string(state))] = perdure.Task{State: state}
			}

			got := waitsForPeople(s)

			if got != test.want {
				t.Errorf("waits: %t, want %t", got, test.want)
			}
			if len(s.Tasks) != len(test.tasks) {
				t.Error("the session was changed")
			}
		})
	}
}

package dispatch_test

import (
	"context"
	"errors"
	"os"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/dispatch"
	"github.com/perdure/perdure/tool"
)

func TestHandleErrors(t *testing.T) { // LN19
	t.Parallel()
	inRig(t, nil, nil, func(t *testing.T, r *rig) {
		out := r.launch(t, call("fast", "turn-1", "call-1"))
		r.item(t, "turn-1")
		other := r.h.Of("session-2")
		_, canceled := other.Cancel(out.Task, "user", "")
		_, waited := other.Wait(t.Context(), dispatch.WaitOptions{Tasks: []perdure.TaskID{out.Task}})
		_, detached := r.h.Detach("task_none")

		for name, err := range map[string]error{"cancel": canceled, "wait": waited, "detach": detached, "wake": r.h.SetWake("task_none", perdure.WakeNone)} {
			if !errors.Is(err, perdure.NotFound) || !strings.HasPrefix(err.Error(), "task not found: ") {
				t.Errorf("%s: got %v", name, err)
			}
		}
		if err := r.h.SetDelivery(out.Task, perdure.Manual); !errors.Is(err, perdure.Conflict) || !strings.Contains(err.Error(), "already settled") {
			t.Errorf("got %v, want already settled", err)
		}
		if err := r.h.SetDelivery(out.Task, "pigeon"); !errors.Is(err, perdure.Invalid) {
			t.Errorf("got %v, want Invalid", err)
		}
		if n := other.CancelAll("session-1", "user", ""); n != 0 || len(other.ListCompleted()) != 0 {
			t.Error("a handle of one session reached another")
		}
		if _, err := r.Start(t.Context(), dispatch.Launch{}); !errors.Is(err, perdure.Invalid) {
			t.Errorf("an empty launch: got %v, want Invalid", err)
		}
		twice := call("fast", "turn-1", "call-1")
		twice.Task = out.Task
		if _, err := r.Start(t.Context(), twice); !errors.Is(err, perdure.Conflict) {
			t.Errorf("the same task twice: got %v, want Conflict", err)
		}
	})
}

func TestCancelAll(t *testing.T) {
	t.Parallel()
	inRig(t, map[string]dispatch.Route{"back": dispatch.InBackground()}, nil, func(t *testing.T, r *rig) {
		for _, id := range []perdure.CallID{"1", "2", "3"} {
			r.launch(t, call("back", "turn-1", id))
		}
		r.launch(t, call("front", "turn-1", "4"))

		n := r.h.CancelAll("session-1", "user", "enough")
		synctest.Wait()

		if running := r.h.ListRunning(); n != 3 || len(running) != 1 || running[0].Tool != "front" {
			t.Errorf("canceled %d, running %+v, want the foreground call only", n, running)
		}
		if done := r.h.ListCompleted(); len(done) != 3 || done[0].State != perdure.TaskCanceled {
			t.Errorf("ended: %+v", done)
		}
		r.release <- 1
	})
}

func TestWaitSaysWhich(t *testing.T) {
	t.Parallel()
	inRig(t, nil, nil, func(t *testing.T, r *rig) {
		slow := r.launch(t, call("block", "turn-1", "slow"))
		asks := r.launch(t, call("needs-approval", "turn-1", "asks"))
		both := []perdure.TaskID{slow.Task, asks.Task}
		begun := time.Now()

		first, err := r.h.Wait(t.Context(), dispatch.WaitOptions{Tasks: both})
		if err != nil || len(first.Ready) != 1 || first.Ready[0] != asks.Task || first.Tasks[1].State != perdure.TaskAwaitingInput {
			t.Errorf("any: got %+v, %v", first, err)
		}
		all, err := r.h.Wait(t.Context(), dispatch.WaitOptions{Tasks: both, All: true, Timeout: time.Minute})
		if err != nil || len(all.Ready) != 1 || time.Since(begun) != time.Minute {
			t.Errorf("all: got %+v, %v after %s", all, err, time.Since(begun))
		}
		go func() { r.release <- 1 }()
		all, err = r.h.Wait(t.Context(), dispatch.WaitOptions{Tasks: both, All: true})
		if err != nil || len(all.Ready) != 2 || all.Tasks[0].State != perdure.TaskSucceeded {
			t.Errorf("all: got %+v, %v", all, err)
		}
	})
}

// TestWaitQuiet waits for the person and for who takes the results, where WaitIdle does not.
func TestWaitQuiet(t *testing.T) {
	t.Parallel()
	inRig(t, map[string]dispatch.Route{"needs-approval": dispatch.InBackground()}, nil, func(t *testing.T, r *rig) {
		r.launch(t, call("needs-approval", "turn-1", "call-1"))
		if err := r.h.WaitIdle(t.Context()); err != nil {
			t.Fatal(err)
		}
		quiet := make(chan error, 1)
		go func() { quiet <- r.h.WaitQuiet(t.Context()) }()
		loud := func(what string) {
			synctest.Wait()
			if len(quiet) != 0 {
				t.Errorf("quiet while %s", what)
			}
		}
		loud("a question is open")
		r.launch(t, answer(r.h.ListPendingApprovals()[0], perdure.ApprovalApproved))
		r.release <- 1
		loud("a result waits for the loop")
		r.TakePending("session-1")
		if err := <-quiet; err != nil {
			t.Error(err)
		}
	})
}

// TestForget drops a session in every state: its live tasks are cancelled, and nothing of it stays.
func TestForget(t *testing.T) {
	t.Parallel()
	inRig(t, map[string]dispatch.Route{"back": dispatch.InBackground()}, nil, func(t *testing.T, r *rig) {
		for _, name := range []string{"fast", "needs-approval", "block", "back"} {
			r.launch(t, call(name, "turn-1", perdure.CallID(name)))
		}
		stays := call("block", "turn-2", "stays")
		stays.Call.Session = "session-2"
		r.launch(t, stays)
		synctest.Wait()

		r.h.Forget("session-1", "user", "deleted")
		synctest.Wait()

		mine := r.h.Of("session-1")
		if n := len(mine.ListRunning()) + len(mine.ListCompleted()) + len(mine.ListPendingApprovals()) + len(r.TakePending("session-1")); n != 0 {
			t.Errorf("%d things are left", n)
		}
		r.none(t, "turn-1")
		if running := r.h.ListRunning(); len(running) != 1 || running[0].Call != "stays" {
			t.Errorf("running: %+v", running)
		}
		r.release <- 1
		r.item(t, "turn-2")
		synctest.Wait()
		if left := r.Leftovers(); left != "" {
			t.Error(left)
		}
	})
}

func TestContinueIsAskedOnce(t *testing.T) { // LN19: several that are due together are one
	t.Parallel()
	inRig(t, nil, nil, func(t *testing.T, r *rig) {
		wakes := func() (n int) {
			for e, ok := r.nextWithin(time.Second); ok; e, ok = r.nextWithin(time.Second) {
				if e.Kind == dispatch.EventContinueRequested {
					n++
				}
			}
			return n
		}
		for round := range 2 {
			for range 3 {
				l := call("fast", "turn-1", "call-1")
				l.Spawned = true
				r.launch(t, l)
			}
			if n := wakes(); n != 1 {
				t.Errorf("round %d: asked %d times", round, n)
			}
			if got := r.TakePending("session-1"); len(got) != 3 {
				t.Errorf("took %d", len(got))
			}
		}
	})
}

func TestInline(t *testing.T) {
	t.Parallel()
	r := &rig{entered: make(chan perdure.TaskID, 8)}
	d, err := dispatch.NewInline(dispatch.LoopConfig{Execute: r.execute})
	if err != nil {
		t.Fatal(err)
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	for name, want := range map[string]perdure.TaskState{"fast": perdure.TaskSucceeded, "bad": perdure.TaskFailed, "panic": perdure.TaskFailed, "block": perdure.TaskCanceled} {
		l := call(name, "turn-1", "call-1")
		l.Task = "task_1"
		out, err := d.Start(ended, l)
		if err != nil || out.Ready == nil || out.Ready.Item == nil || out.Ready.Item.State != want || out.Task != "task_1" || out.Ready.Item.Call != "call-1" {
			t.Errorf("%s: got %+v, %v, want it %s", name, out, err, want)
		}
	}
	d.InterruptTurn("turn-1")
	_, more := d.WaitTurn(t.Context(), "turn-1")
	h := d.Handle()
	_, event := h.NextEvent(t.Context())
	_, later := h.Subscribe(0).Next(t.Context())
	if more || event || later || len(d.TakePending("")) != 0 || len(h.ListCompleted())+len(h.ListPendingApprovals())+len(h.DrainReady()) != 0 || h.WaitIdle(t.Context()) != nil {
		t.Error("an inline dispatcher reports an event")
	}
	if _, err := h.Cancel("task_1", "user", ""); !errors.Is(err, perdure.NotFound) || !errors.Is(h.SetWake("task_1", perdure.WakeNone), perdure.NotFound) {
		t.Errorf("got %v, want NotFound", err)
	}
	h.Forget("session-1", "user", "")
	if h.CancelAll("session-1", "user", "") != 0 {
		t.Error("it cancelled something")
	}
	if _, err := dispatch.NewInline(dispatch.LoopConfig{}); !errors.Is(err, perdure.Invalid) {
		t.Errorf("without Execute: got %v, want Invalid", err)
	}
}

func TestForRegistry(t *testing.T) {
	t.Parallel()
	type in struct {
		Word string `json:"word"`
	}
	echo := func(policy tool.Policy, name string) tool.Tool {
		spec := tool.Spec{Name: name, Description: "Says it again.", Class: perdure.Pure, Policy: policy}
		return tool.New(spec, func(_ context.Context, i in, _ tool.Env) (string, error) { return i.Word, nil })
	}
	tools := tool.NewRegistry(echo("", "echo"), echo(tool.PolicyRequiresApproval, "careful"))
	if err := tools.Err(); err != nil {
		t.Fatal(err)
	}
	d, err := dispatch.NewInline(dispatch.ForRegistry(tools, nil))
	if err != nil {
		t.Fatal(err)
	}
	start := func(name, args string, a *perdure.Approval) dispatch.Resolution {
		l := dispatch.Launch{Task: "task_1", Call: tool.Call{Session: "session-1", ID: "call-1", Tool: name, Args: []byte(args)}, Approval: a}
		out, err := d.Start(t.Context(), l)
		if err != nil {
			t.Fatal(err)
		}
		return *out.Ready
	}

	if got := start("echo", `{"word":"hi"}`, nil); string(got.Item.Result.Result) != `"hi"` {
		t.Errorf("got %s", got.Item.Result.Result)
	}
	for _, bad := range []dispatch.Resolution{start("echo", `{}`, nil), start("nothing", `{}`, nil)} {
		if !bad.Item.Result.NeverStarted || !bad.Item.Result.IsError() {
			t.Errorf("got %+v, want it refused before it ran", bad.Item.Result)
		}
	}
	asked := start("careful", `{"word":"hi"}`, nil).Approval
	if asked == nil || asked.Approval.ArgsHash == "" || len(asked.Approval.Permissions) != 1 {
		t.Fatalf("got %+v, want a question", asked)
	}
	asked.Approval.State = perdure.ApprovalApproved
	if got := start("careful", `{"word":"hi"}`, &asked.Approval); got.Item == nil || string(got.Item.Result.Result) != `"hi"` {
		t.Errorf("got %+v", got.Item)
	}
}

func TestNotification(t *testing.T) { // DL4
	t.Parallel()
	item := dispatch.Item{Task: "task_1", Call: "call-1", Tool: "report", State: perdure.TaskSucceeded, Result: perdure.ToolResult{Result: []byte(`{"n": 1}`)}}
	want := "Background run completed.\n- run_id: task_1\n- tool: report\n- summary: n: 1\n- call_id: call-1\n- result: {\"n\":1}"
	if got := item.Notification(); got != want {
		t.Errorf("got  %q\nwant %q", got, want)
	}
	item.Result.Summary = "one row"
	if got := item.Notification(); !strings.Contains(got, "\n- summary: one row\n") {
		t.Errorf("the tool's own summary is not in %q", got)
	}
	item.State = perdure.TaskUnknown
	if got := item.Notification(); !strings.HasPrefix(got, "Background run ended with unknown outcome.\n") || !strings.HasSuffix(got, "\n- note: it may or may not have happened; check before repeating it") {
		t.Errorf("got %q", got)
	}
	for n, want := range map[int]string{ // 4,096 characters, however many bytes
		4000: "é\"\n- note: ", 4094: "é\"\n- note: ", 4095: "é… (8192 bytes in all)\n- note: ", 9000: "é… (18002 bytes in all)\n- note: ",
	} {
		item.Result.Result = []byte(`"` + strings.Repeat("é", n) + `"`)
		if got := item.Notification(); !strings.Contains(got, want) {
			t.Errorf("%d: got %q, want %q in it", n, got[len(got)-200:], want)
		}
	}
}

// TestHowTo keeps the code of the how-to equal to the example that runs.
func TestHowTo(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile("../docs/how-to/use-dispatch.md")
	if err != nil {
		t.Fatal(err)
	}
	code, err := os.ReadFile("example_test.go")
	if err != nil {
		t.Fatal(err)
	}
	found := 0
	for _, piece := range strings.Split(string(page), "```go\n\t")[1:] {
		piece, _, _ = strings.Cut(piece, "```")
		found++
		if !strings.Contains(string(code), piece) {
			t.Errorf("the example has no such piece:\n%s", piece)
		}
	}
	if found < 3 {
		t.Errorf("%d pieces were found", found)
	}
}

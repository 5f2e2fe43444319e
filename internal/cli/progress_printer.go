package cli

import (
	"cmp"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/engine"
	"github.com/perdure/perdure/internal/redact"
)

// progressPrinter shows a stream on a terminal: the text of the agent on stdout, everything else on
// stderr.
type progressPrinter struct {
	a     *app
	shown string // part of the current message that is on stdout
	heard string // part of the current message that was received in this attempt
	open  bool   // the cursor of stdout is in the middle of a line

	states        map[perdure.TaskID]perdure.TaskState // as they were last shown
	lines         map[string]string                    // progress as it was last shown, by task or call
	shownAt       map[string]time.Time                 // when the progress of something was last shown, by id
	finishedTasks map[perdure.CallID]bool              // calls that became tasks: their result is only a placeholder

	openQuestions *questions // asks the user for approvals; nil: nobody is asked here

	// A failure of the model that was not shown yet: a later event says whether it is retried, or
	// is the error of the turn. Empty: there is none.
	failure string
	// the command ends with the error of its last turn, so that this error is not shown before
	endsWithTurn bool
	askedAt      time.Time // since when the model is silent; zero: it is not
}

// newProgressPrinter returns a voice that continues from the current state of a session.
func newProgressPrinter(a *app, s *perdure.Session) *progressPrinter {
	v := &progressPrinter{
		a: a, states: map[perdure.TaskID]perdure.TaskState{}, lines: map[string]string{},
		shownAt:       map[string]time.Time{},
		finishedTasks: map[perdure.CallID]bool{},
	}
	for id, t := range s.Tasks {
		v.states[id] = t.State
	}
	return v
}

// live shows streamed text as it arrives, and the progress of a call at most once a second.
func (v *progressPrinter) live(f engine.Frame) error {
	v.askedAt = time.Time{}
	switch f.Type {
	case "output.message.delta":
		d, err := readFrame[delta](f)
		if err != nil {
			return err
		}
		if d.Offset > len(v.heard) {
			return nil // the complete message contains the missing text
		}
		v.heard = v.heard[:d.Offset] + d.Delta
		return v.printDelta()
	case "tool.progress":
		p, err := readFrame[callProgress](f)
		if err != nil {
			return err
		}
		v.atMostOften(string(p.CallID), progressInterval, func() {
			v.printProgress(string(p.CallID), p.Name, p.line())
		})
	case "task.live":
		t, err := readFrame[taskLive](f)
		if err != nil {
			return err
		}
		v.atMostOften(string(t.TaskID), progressInterval, func() {
			v.printProgress(string(t.TaskID), string(t.TaskID)+" "+t.Name, cmp.Or(t.Progress.String(), t.Detail))
		})
	case "tool.output.delta":
		o, err := readFrame[workOutput](f)
		if err != nil {
			return err
		}
		v.printOutput(o)
	case "output.message.progress":
		p, err := readFrame[streamProgress](f)
		if err != nil {
			return err
		}
		if p.TextChars == 0 { // text shows itself
			v.atMostOften(string(p.MessageID), thinkingInterval, func() {
				v.printProgress(string(p.MessageID), "the model", fmt.Sprintf("is thinking: %d characters so far", p.ThinkingChars))
			})
		}
	}
	return nil
}

// atMostOften calls show unless it was called for the same id less than interval ago.
func (v *progressPrinter) atMostOften(id string, interval time.Duration, show func()) {
	if time.Since(v.shownAt[id]) >= interval {
		v.shownAt[id] = time.Now()
		show()
	}
}

// printOutput shows the last line of the output of a call that takes a while, or of a task. The log
// of a task has all of it.
func (v *progressPrinter) printOutput(o workOutput) {
	id, name := string(o.CallID), o.Name
	if o.TaskID != "" {
		id, name = string(o.TaskID), string(o.TaskID)+" "+o.Name
	}
	lines := strings.FieldsFunc(o.Delta, func(r rune) bool { return r == '\n' || r == '\r' })
	for _, line := range slices.Backward(lines) {
		if strings.TrimSpace(line) != "" {
			v.atMostOften(id+" output", progressInterval, func() { v.printProgress(id+" output", name, "| "+clip(line, 200)) })
			return
		}
	}
}

// printDelta writes the received text that is not on stdout yet. A new attempt starts the message
// again: as long as its text is the same, nothing is written; where it differs, it starts on a new
// line.
func (v *progressPrinter) printDelta() error {
	if strings.HasPrefix(v.shown, v.heard) {
		return nil
	}
	rest, continues := strings.CutPrefix(v.heard, v.shown)
	if !continues {
		v.breakLine(v.a.out)
		rest = v.heard
	}
	v.shown = v.heard
	text := v.a.text(rest)
	if text == "" {
		return nil
	}
	v.open = !strings.HasSuffix(text, "\n")
	_, err := io.WriteString(v.a.out, text)
	return err
}

func (v *progressPrinter) breakLine(w io.Writer) {
	if v.open {
		fmt.Fprintln(w)
		v.open = false
	}
}

// message completes the text on stdout.
func (v *progressPrinter) message(m perdure.Message) error {
	v.heard = m.Text()
	if err := v.printDelta(); err != nil {
		return err
	}
	v.breakLine(v.a.out)
	v.shown, v.heard = "", ""
	return nil
}

// print writes a message: a symbol and a text.
func (v *progressPrinter) print(sign string, c color, format string, args ...any) {
	if v.a.Terminal.Stdout {
		v.breakLine(v.a.Stderr) // both streams share one screen
	}
	v.openQuestions.withoutPrompt(func() {
		v.a.message("%s %s", v.a.colors.stderr.mark(c, sign),
			v.a.oneLine(fmt.Sprintf(format, args...), 500))
	})
}

// printProgress shows progress that has changed.
func (v *progressPrinter) printProgress(id, name, line string) {
	if line != "" && v.lines[id] != line {
		v.lines[id] = line
		v.print("…", dim, "%s %s", name, line)
	}
}

// working shows the progress of the live tasks, and that a model has been silent for a while.
func (v *progressPrinter) working(tasks []perdure.Task) {
	if !v.askedAt.IsZero() && time.Since(v.askedAt) > silentTime {
		v.askedAt = time.Time{}
		v.print("…", dim, "waiting for the model")
	}
	for _, t := range tasks {
		if t.State == perdure.TaskRunning {
			v.printProgress(string(t.ID), shortTask(t), cmp.Or(t.Progress.String(), detailOf(t)))
		}
	}
}

// shortTask names a task in a message.
func shortTask(t perdure.Task) string { return string(t.ID) + " " + t.Tool }

// event shows an event.
func (v *progressPrinter) event(e perdure.Event, s *perdure.Session) error {
	v.askedAt = time.Time{}
	v.showFailure(e)
	switch f := e.Fact.(type) {
	case perdure.ReasonStarted:
		v.asking(f, e.At)
	case perdure.ReasonRecovered:
		v.print("↻", yellow, "%s", sentence(e))
	case perdure.OutputReplaced:
		v.heard = ""
		v.print("↻", yellow, "%s", sentence(e))
	case perdure.SessionPauses:
		v.print("‖", yellow, "session paused %s", sentence(e))
		v.todo(sessionText{v.a}.resumeLine(s.ID))
	case perdure.SessionResumes:
		v.print("↻", yellow, "session resumed %s", sentence(e))
	case perdure.LoopDetected:
		v.print("!", yellow, "loop detected: %s", sentence(e))
	case perdure.ReasonCompleted:
		if !f.Success && f.Code != perdure.CodeInterrupted {
			v.failure = reasonOf(f)
		}
	case perdure.OutputCompleted:
		return v.message(f.Message)
	case perdure.TurnStarted:
		if f.Cause == perdure.CauseDelivery {
			v.print("↩", dim, "result delivered: the agent continues")
		}
		if f.Cause == perdure.CauseResume {
			v.print("↩", dim, "continuing the interrupted turn")
		}
	case perdure.TurnCompleted:
		switch {
		case f.StopReason != perdure.StopEnd:
			v.print("!", yellow, "turn ended: %s", f.StopReason)
		case f.FinalPreview == "":
			v.print("!", yellow, "the model ended its turn without an answer")
		}
	case perdure.TurnFailed, perdure.TurnSealed:
		if !v.endsWithTurn || !s.AtRest() {
			v.print("✗", red, "turn failed: %s", sentence(e))
		}
	case perdure.TurnCanceled:
		v.print("■", yellow, "turn canceled %s", sentence(e))
	default:
		if !v.budget(e, s) {
			v.work(e, s)
		}
	}
	return nil
}

// budget shows what budgets do to a session. It reports whether the event is about that.
func (v *progressPrinter) budget(e perdure.Event, s *perdure.Session) bool {
	switch f := e.Fact.(type) {
	case perdure.BudgetWarning:
		v.print("!", yellow, "%s", sentence(e))
	case perdure.BudgetPaused:
		v.print("!", yellow, "session paused by %s", sentence(e))
	case perdure.BudgetExhausted:
		v.print("!", yellow, "session paused by %s", sentence(e))
	case perdure.BudgetResumed:
		v.print("↻", yellow, "session resumed beyond its budget: %s", sentence(e))
	case perdure.DeliveryHeld:
		v.print("!", yellow, "%s", holdLine(f))
		if s.Paused != nil || s.Halt != nil {
			v.todo(sessionText{v.a}.resumeLine(s.ID))
		}
	default:
		return false
	}
	return true
}

// asking shows that the model is called again, and notes that it is called.
func (v *progressPrinter) asking(f perdure.ReasonStarted, at time.Time) {
	v.askedAt = time.Now().Add(max(f.NotBefore.Sub(at), 0))
	if f.Attempt < 2 && f.NotBefore.IsZero() {
		return
	}
	nth := fmt.Sprint(f.Attempt)
	if f.Attempts > 0 {
		nth += fmt.Sprintf(" of %d", f.Attempts)
	}
	v.print("↻", yellow, "retrying the model (%s)%s", nth, waits(f.NotBefore, at))
}

// showFailure shows a failure of the model as soon as something else follows than the failure of
// its turn, which says the same.
func (v *progressPrinter) showFailure(e perdure.Event) {
	if v.failure == "" {
		return
	}
	switch e.Fact.(type) {
	case perdure.TurnFailed:
	case perdure.ReasonStarted, perdure.TurnSealed, perdure.TurnCanceled, perdure.TurnCompleted, perdure.ContextCompacted:
		v.print("✗", red, "model call failed: %s", v.failure)
	default: // what the failed call leaves behind
		return
	}
	v.failure = ""
}

// work shows events of calls and tasks.
func (v *progressPrinter) work(e perdure.Event, s *perdure.Session) {
	switch f := e.Fact.(type) {
	case perdure.ToolStarted:
		// only the output of a call that takes longer than this is shown
		v.shownAt[string(f.CallID)+" output"] = time.Now()
		v.print("▸", dim, "%s %s", f.Name, clip(cmp.Or(f.Narration, argumentsOf(s, f.CallID)), 120))
	case perdure.ToolCompleted:
		if v.finishedTasks[f.CallID] {
			return
		}
		sign, c := "✓", green
		if f.Status != perdure.StatusSuccess {
			sign, c = "✗", red
		}
		v.print(sign, c, "%s %s", f.Name, completed(f))
	case perdure.ToolEvent:
		v.print("•", dim, "%s", sentence(e))
	case perdure.ToolUnknown:
		v.print("?", red, "outcome of %s is unknown: %s", f.Name,
			taskText{v.a}.resolveCallLine(perdure.CallKey{Session: e.Session, Call: f.CallID}))
	case perdure.ToolTakenOver, perdure.TranscriptRepaired:
		v.print("↻", yellow, "%s", sentence(e))
	case perdure.LeaseCleanupFailed:
		v.print("!", red, "%s", sentence(e))
	case perdure.ToolResolved, perdure.TaskResolved:
		v.print("↩", dim, "resolved: %s", sentence(e))
	case perdure.TaskCreated:
		v.state(f.Task)
	case perdure.TaskUpdated:
		v.state(f.Task)
	case perdure.TaskReattached:
		v.print("↻", yellow, "%s taken over: %s", e.Task, sentence(e))
	case perdure.TaskCancelRequested:
		v.print("■", yellow, "%s: cancel requested %s", e.Task, sentence(e))
	case perdure.TaskDelivered:
		for _, id := range f.TaskIDs {
			v.print("↩", dim, "%s delivered into the conversation", id)
		}
	default:
		v.lane(e, s)
	}
}

// lane shows calls that leave their turn, and calls that wait for an answer, with the commands to
// answer.
func (v *progressPrinter) lane(e perdure.Event, s *perdure.Session) {
	switch f := e.Fact.(type) {
	case perdure.ToolDetached:
		v.finishedTasks[f.CallID] = true
		v.print("▸", dim, "%s continues in the background as %s%s", nameOf(s, f.CallID), f.TaskID, whyDetached(f))
	case perdure.ApprovalRequested:
		if v.openQuestions == nil { // otherwise the question shows it
			v.approval(f.Approval)
		}
	case perdure.ApprovalResolved:
		v.openQuestions.close(f.Approval)
		sign, c := "✗", red
		if f.State == perdure.ApprovalApproved {
			sign, c = "✓", green
		}
		v.print(sign, c, "%s: %s", f.Approval, sentence(e))
	case perdure.ToolCallRequested:
		v.print("!", yellow, "%s", sentence(e))
		if f.Connection != "" {
			v.todo(program + " connection add " + v.a.storeFlags() + quote(f.Connection))
		}
	case perdure.SessionAwaits:
		v.print("!", yellow, "the turn is waiting %s", sentence(e))
	case perdure.TaskMessageSent:
		v.print("▸", dim, "%s: %s", e.Task, f.Message.PlainText())
	case perdure.TaskMessageReceived:
		v.print("▸", dim, "%s: %s", e.Task, sentence(e))
	case perdure.CallReplanned:
		v.print("↻", yellow, "%s", sentence(e))
	}
}

// holdLine says why results wait.
func holdLine(f perdure.DeliveryHeld) string {
	if f.Why == "continuations" {
		return "results wait for your next message: the agent has continued by itself as often as it may"
	}
	return "results wait until the session is resumed"
}

// approval shows an approval request, and how to answer it.
func (v *progressPrinter) approval(p perdure.Approval) {
	v.print("!", yellow, "%s needs your approval: %s", p.Tool, clip(redact.Document(p.Args), 100))
	v.todo(strings.Split(approvalText{v.a}.decisionCommands(p), "\n")...)
}

// todo prints commands to type, one per line.
func (v *progressPrinter) todo(commands ...string) {
	for _, command := range commands {
		v.a.message("  %s", v.a.text(command))
	}
}

// nameOf returns the tool of a call of the running step, or the call's id.
func nameOf(s *perdure.Session, id perdure.CallID) string {
	if s.Turn != nil {
		for _, c := range s.Turn.Calls {
			if c.ID == id {
				return c.Name
			}
		}
	}
	return string(id)
}

// state shows a task's state, once per state.
func (v *progressPrinter) state(t perdure.Task) {
	if v.states[t.ID] == t.State {
		return
	}
	v.states[t.ID] = t.State
	sign, c := stateMark(t.State)
	text := clip(cmp.Or(t.Narration, t.Summary), 120)
	switch {
	case t.State == perdure.TaskUnknown:
		text = taskText{v.a}.resolveLine(t.ID)
	case t.State == perdure.TaskAwaitingInput && t.InputRequest != nil:
		text = t.InputRequest.Prompt
	case t.State.Live():
		text = titleOf(t) + alsoKnownAs(t)
	}
	v.print(sign, c, "%s %s%s", shortTask(t), t.State, because(text))
	if t.State == perdure.TaskAwaitingInput && t.InputRequest != nil && t.InputRequest.Kind != questionOfApproval {
		v.todo(taskText{v.a}.inputLine(t))
	}
}

// alsoKnownAs adds what a task is doing to its title.
func alsoKnownAs(t perdure.Task) string {
	if t.Narration == "" || t.Narration == titleOf(t) {
		return ""
	}
	return " (" + t.Narration + ")"
}

// argumentsOf returns the arguments of a call of the running step, with secrets masked (RD6).
func argumentsOf(s *perdure.Session, id perdure.CallID) string {
	if s.Turn == nil {
		return ""
	}
	for _, c := range s.Turn.Calls {
		if c.ID == id {
			return redact.Document(c.Args)
		}
	}
	return ""
}

func waits(until, now time.Time) string {
	if !until.After(now) {
		return ""
	}
	return " in " + span(until.Sub(now))
}

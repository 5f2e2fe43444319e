package cli

import (
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/engine"
	"github.com/perdure/perdure/internal/redact"
)

// voice shows a stream to people: what the agent says on stdout, what it does on stderr.
type voice struct {
	a     *app
	shown string // what of the open message stands on stdout
	heard string // what came of it in this attempt
	open  bool   // stdout stands in the middle of a line

	states map[perdure.TaskID]perdure.TaskState // as they were told
	lines  map[string]string                    // progress as it was told, by task or call
	toldAt map[perdure.CallID]time.Time         // when a call's progress was told
	gone   map[perdure.CallID]bool              // calls that became tasks: their result is only a placeholder

	asks *questions // puts what needs a yes to the person at the terminal; nil: somebody elsewhere answers
}

// newVoice makes a voice that goes on where a session stands.
func newVoice(a *app, s *perdure.Session) *voice {
	v := &voice{
		a: a, states: map[perdure.TaskID]perdure.TaskState{}, lines: map[string]string{}, toldAt: map[perdure.CallID]time.Time{},
		gone: map[perdure.CallID]bool{},
	}
	for id, t := range s.Tasks {
		v.states[id] = t.State
	}
	return v
}

// live shows text as it comes, and the progress of a call at most once a second.
func (v *voice) live(f engine.Frame) error {
	switch f.Type {
	case "output.message.delta":
		d, err := readFrame[delta](f)
		if err != nil {
			return err
		}
		if d.Offset > len(v.heard) {
			return nil // the end of the answer says what is missing
		}
		v.heard = v.heard[:d.Offset] + d.Delta
		return v.speak()
	case "tool.progress":
		p, err := readFrame[callProgress](f)
		if err != nil {
			return err
		}
		if time.Since(v.toldAt[p.CallID]) >= lookEvery {
			v.toldAt[p.CallID] = time.Now()
			v.far(string(p.CallID), p.Name, p.line())
		}
	}
	return nil
}

// speak writes what stdout lacks of what was heard. An attempt that begins anew says again what stands there
// already; where it says something else, it gets a line of its own.
func (v *voice) speak() error {
	if strings.HasPrefix(v.shown, v.heard) {
		return nil
	}
	rest, goesOn := strings.CutPrefix(v.heard, v.shown)
	if !goesOn {
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

func (v *voice) breakLine(w io.Writer) {
	if v.open {
		fmt.Fprintln(w)
		v.open = false
	}
}

// message completes what stands on stdout.
func (v *voice) message(m perdure.Message) error {
	v.heard = m.Text()
	if err := v.speak(); err != nil {
		return err
	}
	v.breakLine(v.a.out)
	v.shown, v.heard = "", ""
	return nil
}

// tell writes a line of talk: a sign, and what it is about.
func (v *voice) tell(sign string, c color, format string, args ...any) {
	if v.a.Terminal.Stdout {
		v.breakLine(v.a.Stderr) // both are one screen
	}
	v.asks.around(func() { v.a.say("%s %s", v.a.paint.talk.mark(c, sign), v.a.line(fmt.Sprintf(format, args...), 500)) })
}

// far tells how far something is, where that is news.
func (v *voice) far(id, name, line string) {
	if line != "" && v.lines[id] != line {
		v.lines[id] = line
		v.tell("…", dim, "%s %s", name, line)
	}
}

// working tells the progress of the live tasks.
func (v *voice) working(tasks []perdure.Task) {
	for _, t := range tasks {
		line := progress(t.Progress)
		if line == "" {
			line = t.StateDetail
		}
		if t.State == perdure.TaskRunning {
			v.far(string(t.ID), short(t), line)
		}
	}
}

// short names a task in a line of talk.
func short(t perdure.Task) string { return string(t.ID) + " " + t.Tool }

// event shows an event.
func (v *voice) event(e perdure.Event, s *perdure.Session) error {
	switch f := e.Fact.(type) {
	case perdure.ReasonStarted:
		if f.Attempt > 1 || !f.NotBefore.IsZero() {
			v.tell("↻", yellow, "the model is asked again: attempt %d%s", f.Attempt, waits(f.NotBefore, e.At))
		}
	case perdure.ReasonRecovered:
		v.tell("↻", yellow, "%s", sentence(e))
	case perdure.OutputReplaced:
		v.heard = ""
		v.tell("↻", yellow, "%s", sentence(e))
	case perdure.BudgetWarning, perdure.BudgetPaused, perdure.BudgetExhausted:
		v.tell("!", yellow, "a budget: %s", sentence(e))
	case perdure.BudgetResumed:
		v.tell("↻", yellow, "the budget lets the session go on: %s", sentence(e))
	case perdure.SessionPauses:
		v.tell("‖", yellow, "the session is paused %s", sentence(e))
		v.todo(v.a.resumeLine(s.ID))
	case perdure.SessionResumes:
		v.tell("↻", yellow, "the session goes on: %s", sentence(e))
	case perdure.LoopDetected:
		v.tell("!", yellow, "a loop: %s", sentence(e))
	case perdure.ReasonCompleted:
		if !f.Success && f.Code != perdure.CodeInterrupted {
			v.tell("✗", red, "the model failed: %s", reasoned(f))
		}
	case perdure.OutputCompleted:
		return v.message(f.Message)
	case perdure.TurnStarted:
		if f.Cause == perdure.CauseDelivery {
			v.tell("↩", dim, "a result came home: the agent goes on")
		}
		if f.Cause == perdure.CauseResume {
			v.tell("↩", dim, "the turn that was cut short goes on")
		}
	case perdure.TurnCompleted:
		switch {
		case f.StopReason != perdure.StopEnd:
			v.tell("!", yellow, "the turn ended: %s", f.StopReason)
		case f.FinalPreview == "":
			v.tell("!", yellow, "the model ended its turn without a word")
		}
	case perdure.TurnFailed, perdure.TurnSealed:
		v.tell("✗", red, "the turn failed: %s", sentence(e))
	case perdure.TurnCanceled:
		v.tell("■", yellow, "the turn was canceled %s", sentence(e))
	case perdure.DeliveryHeld:
		v.tell("!", yellow, "%s", heldLine(f, s))
	default:
		v.work(e, s)
	}
	return nil
}

// work shows what calls and tasks do.
func (v *voice) work(e perdure.Event, s *perdure.Session) {
	switch f := e.Fact.(type) {
	case perdure.ToolStarted:
		v.tell("▸", dim, "%s %s", f.Name, clip(argumentsOf(s, f.CallID), 100))
	case perdure.ToolCompleted:
		if v.gone[f.CallID] {
			return
		}
		sign, c := "✓", green
		if f.Status != perdure.StatusSuccess {
			sign, c = "✗", red
		}
		v.tell(sign, c, "%s %s", f.Name, completed(f))
	case perdure.ToolUnknown:
		v.tell("?", red, "%s is unknown: %s", f.Name, v.a.resolveCallLine(perdure.CallKey{Session: e.Session, Call: f.CallID}))
	case perdure.ToolTakenOver, perdure.TranscriptRepaired:
		v.tell("↻", yellow, "%s", sentence(e))
	case perdure.LeaseCleanupFailed:
		v.tell("!", red, "%s", sentence(e))
	case perdure.ToolResolved, perdure.TaskResolved:
		v.tell("↩", dim, "resolved: %s", sentence(e))
	case perdure.TaskCreated:
		v.state(f.Task)
	case perdure.TaskUpdated:
		v.state(f.Task)
	case perdure.TaskReattached:
		v.tell("↻", yellow, "%s taken over: %s", e.Task, sentence(e))
	case perdure.TaskCancelRequested:
		v.tell("■", yellow, "%s is to end, %s", e.Task, sentence(e))
	case perdure.TaskDelivered:
		for _, id := range f.TaskIDs {
			v.tell("↩", dim, "%s delivered into the conversation", id)
		}
	default:
		v.lane(e, s)
	}
}

// lane shows what leaves its turn, and what waits for somebody, with what to type.
func (v *voice) lane(e perdure.Event, s *perdure.Session) {
	switch f := e.Fact.(type) {
	case perdure.ToolDetached:
		v.gone[f.CallID] = true
		v.tell("▸", dim, "%s goes on in the background as %s%s", nameOf(s, f.CallID), f.TaskID, whyDetached(f))
	case perdure.ApprovalRequested:
		if v.asks == nil { // else the question itself says it
			v.approval(f.Approval)
		}
	case perdure.ApprovalResolved:
		sign, c := "✗", red
		if f.State == perdure.ApprovalApproved {
			sign, c = "✓", green
		}
		v.tell(sign, c, "%s: %s", f.Approval, sentence(e))
	case perdure.ToolCallRequested:
		v.tell("!", yellow, "%s", sentence(e))
	case perdure.SessionAwaits:
		v.tell("!", yellow, "the turn waits %s", sentence(e))
	case perdure.TaskMessageSent:
		v.tell("▸", dim, "%s says: %s", e.Task, f.Message.PlainText())
	case perdure.TaskMessageReceived:
		v.tell("▸", dim, "%s: %s", e.Task, sentence(e))
	case perdure.CallReplanned:
		v.tell("↻", yellow, "%s", sentence(e))
	}
}

// heldLine says why results and messages wait.
func heldLine(f perdure.DeliveryHeld, s *perdure.Session) string {
	if s.Paused != nil || s.Halt != nil {
		return "what came in waits: " + pauseLine(s)
	}
	return "results wait for you to speak: " + f.Why
}

// approval tells what asks for a yes, and how to answer.
func (v *voice) approval(p perdure.Approval) {
	v.tell("!", yellow, "%s asks for a yes: %s", p.Tool, clip(redact.Document(p.Args), 100))
	v.todo(strings.Split(v.a.verdictLines(p), "\n")...)
}

// todo writes what to type, a line each.
func (v *voice) todo(commands ...string) {
	for _, command := range commands {
		v.a.say("  %s", v.a.text(command))
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

// state tells a task's state, once.
func (v *voice) state(t perdure.Task) {
	if v.states[t.ID] == t.State {
		return
	}
	v.states[t.ID] = t.State
	sign, c := stateMark(t.State)
	text := clip(t.Summary, 120)
	switch {
	case t.State == perdure.TaskUnknown:
		text = v.a.resolveLine(t.ID)
	case t.State == perdure.TaskAwaitingInput && t.InputRequest != nil:
		text = t.InputRequest.Prompt
	case t.State.Live():
		text = titleOf(t)
	}
	v.tell(sign, c, "%s %s%s", short(t), t.State, because(text))
	if t.State == perdure.TaskAwaitingInput && t.InputRequest != nil && t.InputRequest.Kind != questionOfApproval {
		v.todo(v.a.inputLine(t))
	}
}

// argumentsOf returns what a call of the running step was given, as it may be shown (RD6).
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

package cli

import (
	"fmt"
	"strings"
	"time"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/internal/redact"
)

// sentence says in a line what an event tells, besides its type. Its text comes from the journal: it is not
// fit for a terminal yet.
func sentence(e perdure.Event) string {
	switch f := e.Fact.(type) {
	case perdure.SessionCreated:
		return strings.TrimSpace(f.Agent.Model + " " + f.Agent.Title)
	case perdure.SessionUpdated:
		return strings.TrimSpace(f.Title + "  " + changeLine(f.Labels))
	case perdure.SessionActivated:
		return "it leaves its rest"
	case perdure.SessionIdled:
		return fmt.Sprintf("at rest; up to now %d tokens in, %d out", f.Usage.InputTokens, f.Usage.OutputTokens)
	case perdure.SessionStopped:
		return "by " + f.By + because(f.Reason)
	case perdure.SessionPauses:
		return "by " + f.By + because(f.Reason)
	case perdure.SessionResumes:
		return "by " + f.By
	case perdure.SessionAwaits:
		return "for the client's answer to " + count(len(f.CallIDs), "call")
	case perdure.MessageReceived:
		return gist(f.Message)
	case perdure.TurnStarted:
		return "because of a " + string(f.Cause)
	case perdure.InterruptRequested:
		return "by " + f.By + because(f.Reason)
	case perdure.TurnCompleted:
		return string(f.StopReason) + " after " + count(f.LLMCallCount, "model call") + " and " + count(f.ToolCallCount, "tool call")
	case perdure.TurnFailed:
		return f.Code + because(f.Error)
	case perdure.TurnCanceled:
		return "by " + f.By + because(f.Reason)
	case perdure.TurnSealed:
		return f.Reason + because(f.Detail)
	case perdure.ReasonStarted:
		return fmt.Sprintf("step %d, attempt %d", f.Iteration, f.Attempt)
	case perdure.ReasonCompleted:
		return reasoned(f)
	case perdure.ReasonRecovered:
		return recovered(f)
	case perdure.OutputStarted:
		return strings.TrimSpace("an answer begins " + f.Model)
	case perdure.OutputReplaced:
		return replaced(f)
	case perdure.LoopDetected:
		return fmt.Sprintf("%s was called %d times with the same result", f.Name, f.Count)
	case perdure.OutputCompleted:
		return gist(f.Message)
	case perdure.Generation:
		return billed(f)
	case perdure.ActStarted:
		return planned(f)
	case perdure.ActCompleted:
		return fmt.Sprintf("%d good, %d bad", f.SuccessCount, f.ErrorCount)
	}
	return workSentence(e)
}

// laneSentence is sentence for what leaves its turn, and for what waits for somebody.
func laneSentence(e perdure.Event) string {
	switch f := e.Fact.(type) {
	case perdure.ToolDetached:
		return fmt.Sprintf("%s goes on in the background as %s%s", f.CallID, f.TaskID, whyDetached(f))
	case perdure.ToolCallRequested:
		if f.Connection != "" {
			return f.Name + " needs a connection that the client sets up: " + f.Connection
		}
		return f.Name + " is the client's to answer: " + redact.Document(f.Args)
	case perdure.CallReplanned:
		return f.Call.Name + " was judged anew, with other arguments"
	case perdure.SessionForked:
		return fmt.Sprintf("a fork of %s as of its event %d; new effects: %s", f.From, f.Seq, f.Effects)
	case perdure.ContextCompacted:
		return fmt.Sprintf("the model is shown less: about %d tokens instead of %d", f.After, f.Before)
	case perdure.ApprovalRequested:
		return fmt.Sprintf("%s (%s) asks for a yes: %s", f.Approval.Tool, f.Approval.Class, redact.Document(f.Approval.Args))
	case perdure.ApprovalResolved:
		return strings.TrimSpace(fmt.Sprintf("%s by %s", f.State, f.By)) + because(f.Note)
	case perdure.AuditRecorded:
		return strings.TrimSpace(f.Action + " " + f.Subject + because(f.Purpose))
	case perdure.FileWritten:
		return changed(f)
	case perdure.RequestDenied:
		return "a request was not let out, " + f.Host + because(f.Why)
	case perdure.ResourceUpdated:
		return beside(f)
	case perdure.BudgetWarning:
		return "little is left: " + left(f.BudgetNotice)
	case perdure.BudgetPaused:
		return left(f.BudgetNotice) + because(f.Why)
	case perdure.BudgetExhausted:
		return left(f.BudgetNotice) + because(f.Why)
	case perdure.BudgetResumed:
		return "by " + f.By + ", budget " + string(f.BudgetID)
	case perdure.LeaseExpired:
		return f.Lease.Name + " is cleaned up: " + f.Lease.Provider + " " + f.Lease.Type + " " + f.Lease.ExternalID
	case perdure.LeaseCleanupFailed:
		return fmt.Sprintf("%s %s %s was not cleaned up in %d attempts, see to it: %s", f.Lease.Provider, f.Lease.Type, f.Lease.ExternalID,
			f.Lease.Attempts, f.Lease.LastError)
	case perdure.TaskPruned:
		return fmt.Sprintf("%d tasks that ended long ago were forgotten", len(f.TaskIDs))
	case perdure.TaskMessageSent:
		return "the task says: " + f.Message.PlainText()
	case perdure.TaskMessageReceived:
		if f.Message.InReplyTo != "" {
			return "the task is answered: " + f.Message.PlainText()
		}
		return "the task is told: " + f.Message.PlainText()
	}
	return scheduleSentence(e)
}

// scheduleSentence is sentence for schedules.
func scheduleSentence(e perdure.Event) string {
	const minute = "2006-01-02 15:04 MST"
	switch f := e.Fact.(type) {
	case perdure.ScheduleCreated:
		s := f.Schedule
		next := "never"
		if !s.NextAt.IsZero() {
			next = s.NextAt.Format(minute)
		}
		return fmt.Sprintf("schedule %s is made; it fires next at %s", s.ID, next)
	case perdure.ScheduleFired:
		what := string(f.Fire.Task)
		if what == "" {
			what = "a message"
		}
		return fmt.Sprintf("schedule %s fired for %s: %s%s", f.Fire.Schedule, f.Fire.Nominal.Format(minute), what, because(f.Fire.Reason))
	case perdure.ScheduleSkipped:
		return fmt.Sprintf("schedule %s, %s: %s%s", f.Fire.Schedule, f.Fire.Nominal.Format(minute), f.Fire.Outcome, because(f.Fire.Reason))
	case perdure.SchedulePaused:
		return fmt.Sprintf("schedule %s is paused%s", f.Schedule, because(f.Why))
	case perdure.ScheduleCanceled:
		return fmt.Sprintf("schedule %s does not fire any more%s", f.Schedule, because(f.Why))
	}
	return ""
}

// billed says what a model call used, and which tool made it where it was no step of the turn.
func billed(f perdure.Generation) string {
	text := fmt.Sprintf("%d tokens in, %d out, %d ms", f.Usage.InputTokens, f.Usage.OutputTokens, f.DurationMS)
	if f.Tool != "" {
		text += ", for " + f.Tool
	}
	return strings.TrimSpace(text + " " + f.Error)
}

// left says what is left of a budget, and whose it is.
func left(n perdure.BudgetNotice) string {
	return fmt.Sprintf("%s of %s %s, budget %s of %s %s", n.Balance, n.Limit, n.Currency, n.BudgetID, n.Scope, n.Subject)
}

// changed says what became of a file.
func changed(f perdure.FileWritten) string {
	switch {
	case f.Removed:
		return f.Path + " was removed"
	case f.Directory:
		return f.Path + " was made"
	}
	return fmt.Sprintf("%s has %d bytes", f.Path, f.SizeBytes)
}

// beside says what became of an entry of what stands beside a session.
func beside(f perdure.ResourceUpdated) string {
	status := string(f.Entry.Status)
	if f.Removed {
		status = "not listed any more"
	}
	return fmt.Sprintf("%s %s is %s", f.Entry.Kind, f.Entry.Name, status)
}

// whyDetached says why a call left its turn.
func whyDetached(f perdure.ToolDetached) string {
	switch {
	case f.Reason == perdure.DetachedByBudget && f.TimeoutSeconds > 0:
		return " after " + span(time.Duration(f.TimeoutSeconds*float64(time.Second)))
	case f.Reason == perdure.DetachedByHost:
		return ", as somebody asked"
	case f.Reason == perdure.DetachedByAsking:
		return ", since it asks a question"
	case f.Reason == perdure.DetachedByPolicy:
		return ", by a rule of the host"
	}
	return because(f.Reason)
}

// workSentence is sentence for the events of calls and tasks.
func workSentence(e perdure.Event) string {
	switch f := e.Fact.(type) {
	case perdure.ToolStarted:
		return fmt.Sprintf("%s (%s) as %s", f.Name, f.Class, f.CallID)
	case perdure.ToolCompleted:
		return f.Name + " " + completed(f)
	case perdure.ToolUnknown:
		return f.Name + ": it may or may not have happened"
	case perdure.ToolResolved:
		return string(f.Answer) + ", says " + f.By + because(f.Note)
	case perdure.ToolTakenOver:
		return fmt.Sprintf("%s: %s, execution %d", f.Name, takenOver(f.How), f.Executions)
	case perdure.TranscriptRepaired:
		return f.Tool + ": " + f.Action
	case perdure.TaskCreated:
		return f.Task.Tool + " " + string(f.Task.State) + because(f.Task.DisplayName)
	case perdure.TaskUpdated:
		return f.Task.Tool + " " + string(f.Task.State) + because(strings.TrimSpace(f.Task.StateDetail+" "+f.Task.Summary))
	case perdure.TaskReattached:
		return fmt.Sprintf("%s, attempt %d", takenOver(f.How), f.Attempt)
	case perdure.TaskResolved:
		return string(f.Answer) + ", says " + f.By + because(f.Note)
	case perdure.TaskCancelRequested:
		return "by " + f.By + because(f.Why)
	case perdure.TaskCancelReceipt:
		return receiptSentence(f.Receipt)
	case perdure.TaskDelivered:
		return f.Message.Text()
	case perdure.DeliveryHeld:
		return f.Why
	case perdure.UnknownFact:
		return "of a later version: " + string(f.Data)
	}
	return laneSentence(e)
}

func because(why string) string {
	if why == "" {
		return ""
	}
	return ": " + why
}

func reasoned(f perdure.ReasonCompleted) string {
	switch {
	case !f.Success:
		return f.Code + because(f.Error)
	case f.ToolCallCount > 0:
		return count(f.ToolCallCount, "tool call")
	}
	return f.TextPreview
}

func planned(f perdure.ActStarted) string {
	var names []string
	for _, c := range f.Calls {
		names = append(names, c.Name)
	}
	return strings.Join(names, ", ")
}

// completed says how a call ended.
func completed(f perdure.ToolCompleted) string {
	text := string(f.Status)
	if f.DurationMS > 0 {
		text += fmt.Sprintf(" after %d ms", f.DurationMS)
	}
	return text + because(f.Result.Error)
}

// takenOver says in words how recovery took a call or task over.
func takenOver(how perdure.TakeOver) string {
	switch how {
	case perdure.StopIt:
		return "its end was asked for, so it is stopped"
	case perdure.StopLate:
		return "its deadline has passed, so it is stopped"
	case perdure.Adopt:
		return "its process is adopted"
	case perdure.RunFirst:
		return "it never started, so it runs now"
	case perdure.Reattach:
		return "its work is found again"
	case perdure.RunAgain:
		return "it is run again under the same key"
	case perdure.GiveUp:
		return "it is given up"
	case perdure.AskTool:
		return "its tool is asked whether it happened"
	case perdure.MakeUnknown:
		return "nobody can know whether it happened"
	}
	return string(how)
}

// receiptSentence says how far a cancel came.
func receiptSentence(r perdure.CancelReceipt) string {
	switch {
	case r.RequestedAt.IsZero():
		return "nothing was asked for"
	case r.DidNotStop:
		return "asked for, signalled, and it did not stop"
	case !r.DeadAt.IsZero():
		return "gone " + span(r.DeadAt.Sub(r.RequestedAt)) + " after it was asked for"
	case !r.SignalledAt.IsZero():
		return "signalled"
	}
	return "asked for"
}

// recovered says what became of an answer that broke off.
func recovered(f perdure.ReasonRecovered) string {
	switch f.Mode {
	case perdure.RecoverContinue:
		return fmt.Sprintf("the answer broke off; the model went on after its %d bytes", f.KeptLen)
	case perdure.RecoverRestart:
		return "the answer broke off; the model was asked anew"
	}
	return fmt.Sprintf("the answer broke off; its %d bytes stand", f.KeptLen)
}

// replaced says why a text does not count any more.
func replaced(f perdure.OutputReplaced) string {
	if f.ReasonCode == perdure.ReplacedByGuard {
		return strings.TrimSpace("what was said does not count: held back by " + f.Guardrail)
	}
	return "what was said does not count: the answer begins again"
}

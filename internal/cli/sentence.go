package cli

import (
	"cmp"
	"fmt"
	"strings"
	"time"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/budget"
	"github.com/perdure/perdure/internal/redact"
)

// sentence describes an event on one line, besides its type. The text comes from the journal and is
// not filtered for a terminal yet.
func sentence(e perdure.Event) string {
	switch f := e.Fact.(type) {
	case perdure.SessionCreated:
		return strings.TrimSpace(f.Agent.Model + " " + f.Agent.Title)
	case perdure.SessionUpdated:
		return strings.TrimSpace(f.Title + "  " + changeLine(f.Labels))
	case perdure.SessionActivated:
		return "no longer idle"
	case perdure.SessionIdled:
		return fmt.Sprintf("idle; %d tokens in, %d out so far", f.Usage.InputTokens, f.Usage.OutputTokens)
	case perdure.SessionStopped:
		return "by " + f.By + because(f.Reason)
	case perdure.SessionPauses:
		return "by " + f.By + because(f.Reason)
	case perdure.SessionResumes:
		return "by " + f.By
	case perdure.SessionAwaits:
		return "for the client to answer " + count(len(f.CallIDs), "call")
	case perdure.MessageReceived:
		return summaryOf(f.Message)
	case perdure.TurnStarted:
		return "caused by a " + string(f.Cause)
	case perdure.InterruptRequested:
		return "by " + f.By + because(f.Reason)
	case perdure.TurnCompleted:
		return string(f.StopReason) + " after " + count(f.LLMCallCount, "model call") + " and " +
			count(f.ToolCallCount, "tool call")
	case perdure.TurnFailed:
		return f.Code + because(f.Error)
	case perdure.TurnCanceled:
		return "by " + f.By + because(f.Reason)
	case perdure.TurnSealed:
		return f.Reason + because(f.Detail)
	case perdure.ReasonStarted:
		return fmt.Sprintf("step %d, attempt %d", f.Iteration, f.Attempt)
	case perdure.ReasonCompleted:
		return reasonOf(f)
	case perdure.ReasonRecovered:
		return recoveredSentence(f)
	case perdure.OutputStarted:
		return strings.TrimSpace("response started " + f.Model)
	case perdure.OutputReplaced:
		return replacedSentence(f)
	case perdure.LoopDetected:
		return fmt.Sprintf("%s was called %d times with the same result", f.Name, f.Count)
	case perdure.OutputCompleted:
		return summaryOf(f.Message)
	case perdure.Generation:
		return costSentence(f)
	case perdure.ActStarted:
		return plannedSentence(f)
	case perdure.ActCompleted:
		return fmt.Sprintf("%d succeeded, %d failed", f.SuccessCount, f.ErrorCount)
	}
	return workSentence(e)
}

// laneSentence is sentence for calls that leave their turn or wait for an answer, and for other
// events of a session.
func laneSentence(e perdure.Event) string {
	switch f := e.Fact.(type) {
	case perdure.ToolDetachRequested:
		return string(f.CallID) + " is to continue in the background, requested by " + e.Actor
	case perdure.ToolDetachRefused:
		return fmt.Sprintf("%s stays in the foreground: %s", f.CallID, f.Reason)
	case perdure.ToolDetached:
		return fmt.Sprintf("%s continues in the background as %s%s", f.CallID, f.TaskID, whyDetached(f))
	case perdure.ToolCallRequested:
		if f.Connection != "" {
			return f.Name + " needs the connection " + f.Connection + ", and the turn waits for it"
		}
		return f.Name + " waits for the client to answer: " + redact.Document(f.Args)
	case perdure.CallReplanned:
		return f.Call.Name + " was checked again with changed arguments"
	case perdure.SessionForked:
		return fmt.Sprintf("a fork of %s at event %d; new effects: %s", f.From, f.Seq, f.Effects)
	case perdure.ContextCompacted:
		return fmt.Sprintf("context compacted to about %d tokens from %d", f.After, f.Before)
	case perdure.ApprovalRequested:
		return fmt.Sprintf("%s (%s) needs approval: %s", f.Approval.Tool, f.Approval.Class,
			redact.Document(f.Approval.Args))
	case perdure.ApprovalResolved:
		return strings.TrimSpace(fmt.Sprintf("%s by %s", f.State, f.By)) + because(f.Note)
	case perdure.AuditRecorded:
		return strings.TrimSpace(f.Action + " " + f.Subject + because(f.Purpose))
	case perdure.FileWritten:
		return changedSentence(f)
	case perdure.RequestDenied:
		return "request blocked, " + f.Host + because(f.Why)
	case perdure.ResourceUpdated:
		return storageSentence(f)
	case perdure.BudgetWarning:
		return "budget nearly used up: " + leftTurnSentence(f.BudgetNotice)
	case perdure.BudgetPaused:
		return spentSentence(f.BudgetNotice) + because(f.Why)
	case perdure.BudgetExhausted:
		return spentSentence(f.BudgetNotice) + because(f.Why)
	case perdure.BudgetResumed:
		return "by " + f.By + ", budget " + string(f.BudgetID)
	case perdure.LeaseExpired:
		return f.Lease.Name + " expired and is being cleaned up: " + f.Lease.Provider + " " + f.Lease.Type + " " +
			f.Lease.ExternalID
	case perdure.LeaseCleanupFailed:
		return fmt.Sprintf("%s %s %s could not be cleaned up in %d attempts; clean it up by hand: %s", f.Lease.Provider,
			f.Lease.Type, f.Lease.ExternalID,
			f.Lease.Attempts, f.Lease.LastError)
	case perdure.TaskPruned:
		return fmt.Sprintf("%d ended tasks removed after their retention", len(f.TaskIDs))
	case perdure.TaskMessageSent:
		return "message from the task: " + f.Message.PlainText()
	case perdure.TaskMessageReceived:
		if f.Message.InReplyTo != "" {
			return "answer to the task: " + f.Message.PlainText()
		}
		return "message to the task: " + f.Message.PlainText()
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
		return fmt.Sprintf("schedule %s created; next fire: %s", s.ID, next)
	case perdure.ScheduleFired:
		what := string(f.Fire.Task)
		what = cmp.Or(what, "a message")
		return fmt.Sprintf("schedule %s fired for %s: %s%s", f.Fire.Schedule, f.Fire.Nominal.Format(minute), what,
			because(f.Fire.Reason))
	case perdure.ScheduleSkipped:
		return fmt.Sprintf("schedule %s, %s: %s%s", f.Fire.Schedule, f.Fire.Nominal.Format(minute), f.Fire.Outcome,
			because(f.Fire.Reason))
	case perdure.SchedulePaused:
		return fmt.Sprintf("schedule %s paused%s", f.Schedule, because(f.Why))
	case perdure.ScheduleCanceled:
		return fmt.Sprintf("schedule %s canceled%s", f.Schedule, because(f.Why))
	}
	return ""
}

// costSentence says what a model call used, and which tool made it where it was not a step of the
// turn.
func costSentence(f perdure.Generation) string {
	text := fmt.Sprintf("%d tokens in, %d out, %d ms", f.Usage.InputTokens, f.Usage.OutputTokens, f.DurationMS)
	if f.Tool != "" {
		text += ", for " + f.Tool
	}
	return strings.TrimSpace(text + " " + f.Error)
}

// leftTurnSentence says what is left of a budget, and its subject.
func leftTurnSentence(n perdure.BudgetNotice) string {
	return fmt.Sprintf("%s of %s %s, budget %s of %s %s", n.Balance, n.Limit, n.Currency, n.BudgetID, n.Scope,
		n.Subject)
}

// spentSentence names a budget and says how much of it is spent.
func spentSentence(n perdure.BudgetNotice) string {
	text := fmt.Sprintf("budget %s of %s %s", n.BudgetID, n.Scope, n.Subject)
	left, unknown := budget.Parse(strings.TrimPrefix(n.Balance, "-"))
	limit, wrong := budget.Parse(n.Limit)
	if unknown != nil || wrong != nil {
		return text
	}
	if strings.HasPrefix(n.Balance, "-") {
		left = -left
	}
	return text + fmt.Sprintf(" (spent %s of %s %s)", limit.Less(left), limit, n.Currency)
}

// changedSentence says what happened to a file.
func changedSentence(f perdure.FileWritten) string {
	switch {
	case f.Removed:
		return f.Path + " was removed"
	case f.Directory:
		return f.Path + " was created"
	}
	return fmt.Sprintf("%s has %d bytes", f.Path, f.SizeBytes)
}

// storageSentence says what happened to an entry of the resource list of a session.
func storageSentence(f perdure.ResourceUpdated) string {
	status := string(f.Entry.Status)
	if f.Removed {
		status = "no longer listed"
	}
	return fmt.Sprintf("%s %s is %s", f.Entry.Kind, f.Entry.Name, status)
}

// whyDetached says why a call left its turn.
func whyDetached(f perdure.ToolDetached) string {
	switch {
	case f.Reason == perdure.DetachedByBudget && f.TimeoutSeconds > 0:
		return " after " + span(time.Duration(f.TimeoutSeconds*float64(time.Second)))
	case f.Reason == perdure.DetachedByHost:
		return " on request"
	case f.Reason == perdure.DetachedByAsking:
		return " because it asks a question"
	case f.Reason == perdure.DetachedByPolicy:
		return " by policy"
	}
	return because(f.Reason)
}

// workSentence is sentence for the events of calls and tasks.
func workSentence(e perdure.Event) string {
	switch f := e.Fact.(type) {
	case perdure.ToolStarted:
		return fmt.Sprintf("%s (%s) as %s", f.Name, f.Class, f.CallID) + because(f.Narration)
	case perdure.ToolCompleted:
		return f.Name + " " + completed(f)
	case perdure.ToolEvent:
		return f.Tool + " " + f.Name + because(redact.Document(f.Data))
	case perdure.ToolUnknown:
		return f.Name + ": it may or may not have happened"
	case perdure.ToolResolved:
		return string(f.Answer) + ", resolved by " + f.By + because(f.Note)
	case perdure.ToolTakenOver:
		return fmt.Sprintf("%s: %s, execution %d", f.Name, takeoverSentence(f.How), f.Executions)
	case perdure.TranscriptRepaired:
		return f.Tool + ": " + f.Action
	case perdure.TaskCreated:
		return f.Task.Tool + " " + string(f.Task.State) + because(f.Task.DisplayName)
	case perdure.TaskUpdated:
		return f.Task.Tool + " " + string(f.Task.State) +
			because(strings.TrimSpace(detailOf(f.Task)+" "+cmp.Or(f.Task.Summary, f.Task.Narration)))
	case perdure.TaskReattached:
		return fmt.Sprintf("%s, attempt %d", takeoverSentence(f.How), f.Attempt)
	case perdure.TaskResolved:
		return string(f.Answer) + ", resolved by " + f.By + because(f.Note)
	case perdure.TaskCancelRequested:
		if f.Force {
			return "without a grace period, by " + f.By + because(f.Why)
		}
		return "by " + f.By + because(f.Why)
	case perdure.TaskCancelReceipt:
		return receiptSentence(f.Receipt)
	case perdure.TaskDelivered:
		return f.Message.Text()
	case perdure.DeliveryHeld:
		return f.Why
	case perdure.UnknownFact:
		return "event of a newer version: " + string(f.Data)
	}
	return laneSentence(e)
}

func because(why string) string {
	if why == "" {
		return ""
	}
	return ": " + why
}

func reasonOf(f perdure.ReasonCompleted) string {
	switch {
	case !f.Success:
		return f.Code + because(f.Error)
	case f.ToolCallCount > 0:
		return count(f.ToolCallCount, "tool call")
	}
	return f.TextPreview
}

func plannedSentence(f perdure.ActStarted) string {
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
	if f.Result.Error != "" && strings.HasSuffix(f.Narration, "…") { // the sentence has no room for the whole error
		return text + because(f.Result.Error)
	}
	return text + because(cmp.Or(f.Narration, f.Result.Error))
}

// takeoverSentence describes how recovery handled a call or task.
func takeoverSentence(how perdure.TakeOver) string {
	switch how {
	case perdure.TakeOverStop:
		return "stopped, because a cancel was requested"
	case perdure.TakeOverTimeout:
		return "stopped, because its deadline has passed"
	case perdure.TakeOverAdopt:
		return "its running process was adopted"
	case perdure.TakeOverFirstRun:
		return "runs now, because it had never started"
	case perdure.TakeOverReattach:
		return "reattached to its running work"
	case perdure.TakeOverRunAgain:
		return "runs again with the same idempotency key"
	case perdure.TakeOverGiveUp:
		return "given up"
	case perdure.TakeOverReconcile:
		return "the tool is asked whether the effect happened"
	case perdure.TakeOverUnknown:
		return "outcome unknown: it may or may not have happened"
	}
	return string(how)
}

// receiptSentence says how far a cancel got.
func receiptSentence(r perdure.CancelReceipt) string {
	switch {
	case r.RequestedAt.IsZero():
		return "already finished; nothing to cancel"
	case r.DidNotStop:
		return "requested and signalled, but it did not stop"
	case !r.DeadAt.IsZero():
		return "dead " + span(r.DeadAt.Sub(r.RequestedAt)) + " after the request"
	case !r.SignalledAt.IsZero():
		return "signalled"
	}
	return "requested"
}

// recoveredSentence says how a response that was cut off continued.
func recoveredSentence(f perdure.ReasonRecovered) string {
	switch f.Mode {
	case perdure.RecoverContinue:
		return fmt.Sprintf("response cut off; the model continued after %d bytes", f.TextBytes)
	case perdure.RecoverRestart:
		return "response cut off; the model was called again"
	}
	return fmt.Sprintf("response cut off; its %d bytes are kept", f.TextBytes)
}

// replacedSentence says why a text no longer counts.
func replacedSentence(f perdure.OutputReplaced) string {
	if f.ReasonCode == perdure.ReplacedByGuard {
		return strings.TrimSpace("text withdrawn by guardrail " + f.Guardrail)
	}
	return "text withdrawn: the response starts again"
}

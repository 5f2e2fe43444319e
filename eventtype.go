package perdure

// EventType is session.created.
func (SessionCreated) EventType() EventType { return "session.created" }

// EventType is session.forked.
func (SessionForked) EventType() EventType { return "session.forked" }

// EventType is session.updated.
func (SessionUpdated) EventType() EventType { return "session.updated" }

// EventType is session.activated.
func (SessionActivated) EventType() EventType { return "session.activated" }

// EventType is session.idled.
func (SessionIdled) EventType() EventType { return "session.idled" }

// EventType is session.stopped.
func (SessionStopped) EventType() EventType { return "session.stopped" }

// EventType is session.paused.
func (SessionPauses) EventType() EventType { return "session.paused" }

// EventType is session.resumed.
func (SessionResumes) EventType() EventType { return "session.resumed" }

// EventType is message.received.
func (MessageReceived) EventType() EventType { return "message.received" }

// EventType is turn.started.
func (TurnStarted) EventType() EventType { return "turn.started" }

// EventType is turn.interrupt_requested.
func (InterruptRequested) EventType() EventType { return "turn.interrupt_requested" }

// EventType is turn.completed.
func (TurnCompleted) EventType() EventType { return "turn.completed" }

// EventType is turn.failed.
func (TurnFailed) EventType() EventType { return "turn.failed" }

// EventType is turn.canceled.
func (TurnCanceled) EventType() EventType { return "turn.canceled" }

// EventType is turn.sealed.
func (TurnSealed) EventType() EventType { return "turn.sealed" }

// EventType is reason.started.
func (ReasonStarted) EventType() EventType { return "reason.started" }

// EventType is reason.completed.
func (ReasonCompleted) EventType() EventType { return "reason.completed" }

// EventType is reason.recovered.
func (ReasonRecovered) EventType() EventType { return "reason.recovered" }

// EventType is output.message.started.
func (OutputStarted) EventType() EventType { return "output.message.started" }

// EventType is output.message.completed.
func (OutputCompleted) EventType() EventType { return "output.message.completed" }

// EventType is output.message.replaced.
func (OutputReplaced) EventType() EventType { return "output.message.replaced" }

// EventType is turn.loop_detected.
func (LoopDetected) EventType() EventType { return "turn.loop_detected" }

// EventType is llm.generation.
func (Generation) EventType() EventType { return "llm.generation" }

// EventType is act.started.
func (ActStarted) EventType() EventType { return "act.started" }

// EventType is act.completed.
func (ActCompleted) EventType() EventType { return "act.completed" }

// EventType is tool.started.
func (ToolStarted) EventType() EventType { return "tool.started" }

// EventType is tool.completed.
func (ToolCompleted) EventType() EventType { return "tool.completed" }

// EventType is x.TOOL.NAME.
func (f ToolEvent) EventType() EventType {
	return EventType(ToolEventPrefix + f.Tool + "." + f.Name)
}

// EventType is tool.unknown.
func (ToolUnknown) EventType() EventType { return "tool.unknown" }

// EventType is tool.resolved.
func (ToolResolved) EventType() EventType { return "tool.resolved" }

// EventType is transcript.repaired.
func (TranscriptRepaired) EventType() EventType { return "transcript.repaired" }

// EventType is task.created.
func (TaskCreated) EventType() EventType { return "task.created" }

// EventType is task.updated.
func (TaskUpdated) EventType() EventType { return "task.updated" }

// EventType is task.reattached.
func (TaskReattached) EventType() EventType { return "task.reattached" }

// EventType is task.resolved.
func (TaskResolved) EventType() EventType { return "task.resolved" }

// EventType is task.cancel_requested.
func (TaskCancelRequested) EventType() EventType { return "task.cancel_requested" }

// EventType is task.cancel_receipt.
func (TaskCancelReceipt) EventType() EventType { return "task.cancel_receipt" }

// EventType is task.delivered.
func (TaskDelivered) EventType() EventType { return "task.delivered" }

// EventType is task.pruned.
func (TaskPruned) EventType() EventType { return "task.pruned" }

// EventType is delivery.held.
func (DeliveryHeld) EventType() EventType { return "delivery.held" }

// EventType is tool.taken_over.
func (ToolTakenOver) EventType() EventType { return "tool.taken_over" }

// EventType is session.waiting.
func (SessionAwaits) EventType() EventType { return "session.waiting" }

// EventType is tool.detach_requested.
func (ToolDetachRequested) EventType() EventType { return "tool.detach_requested" }

// EventType is tool.detach_refused.
func (ToolDetachRefused) EventType() EventType { return "tool.detach_refused" }

// EventType is tool.detached.
func (ToolDetached) EventType() EventType { return "tool.detached" }

// EventType is tool.call_requested.
func (ToolCallRequested) EventType() EventType { return "tool.call_requested" }

// EventType is tool.replanned.
func (CallReplanned) EventType() EventType { return "tool.replanned" }

// EventType is approval.requested.
func (ApprovalRequested) EventType() EventType { return "approval.requested" }

// EventType is approval.resolved.
func (ApprovalResolved) EventType() EventType { return "approval.resolved" }

// EventType is task.message.sent.
func (TaskMessageSent) EventType() EventType { return "task.message.sent" }

// EventType is task.message.received.
func (TaskMessageReceived) EventType() EventType { return "task.message.received" }

// EventType is context.compacted.
func (ContextCompacted) EventType() EventType { return "context.compacted" }

// EventType is resource.updated.
func (ResourceUpdated) EventType() EventType { return "resource.updated" }

// EventType is lease.expired.
func (LeaseExpired) EventType() EventType { return "lease.expired" }

// EventType is lease.cleanup_failed.
func (LeaseCleanupFailed) EventType() EventType { return "lease.cleanup_failed" }

// EventType is schedule.created.
func (ScheduleCreated) EventType() EventType { return "schedule.created" }

// EventType is schedule.fired.
func (ScheduleFired) EventType() EventType { return "schedule.fired" }

// EventType is schedule.skipped.
func (ScheduleSkipped) EventType() EventType { return "schedule.skipped" }

// EventType is schedule.paused.
func (SchedulePaused) EventType() EventType { return "schedule.paused" }

// EventType is schedule.canceled.
func (ScheduleCanceled) EventType() EventType { return "schedule.canceled" }

// EventType is file.written.
func (FileWritten) EventType() EventType { return "file.written" }

// EventType is egress.denied.
func (RequestDenied) EventType() EventType { return "egress.denied" }

// EventType is audit.recorded.
func (AuditRecorded) EventType() EventType { return "audit.recorded" }

// EventType is budget.warning.
func (BudgetWarning) EventType() EventType { return "budget.warning" }

// EventType is budget.paused.
func (BudgetPaused) EventType() EventType { return "budget.paused" }

// EventType is budget.exhausted.
func (BudgetExhausted) EventType() EventType { return "budget.exhausted" }

// EventType is budget.resumed.
func (BudgetResumed) EventType() EventType { return "budget.resumed" }

package perdure

import "time"

// TaskCreated is the full record of a new task.
type TaskCreated struct {
	Task Task `json:"task"`
}

// TaskUpdated is the full record of a task after a change that belongs in the journal.
type TaskUpdated struct {
	Task    Task     `json:"task"`
	Changed []string `json:"changed,omitempty"`
}

// TaskReattached says that a task was taken over from a dead worker.
type TaskReattached struct {
	Attempt int      `json:"attempt"`
	How     TakeOver `json:"how"`
}

// TaskResolved is an operator's answer about a task of unknown outcome.
type TaskResolved struct {
	Answer  ResolveAnswer `json:"answer"`
	Outcome string        `json:"outcome"`
	By      string        `json:"by"`
	Note    string        `json:"note,omitempty"`
}

// TaskCancelRequested is the durable intent to cancel a task.
type TaskCancelRequested struct {
	By    string `json:"by"`
	Why   string `json:"why,omitempty"`
	Force bool   `json:"force,omitempty"` // without a grace period
}

// CancelReceipt says how far a cancel got. A zero time means that it has not got so far.
type CancelReceipt struct {
	RequestedAt time.Time `json:"requested_at"`
	SignalledAt time.Time `json:"signalled_at,omitzero"` // the owner has received it
	DeadAt      time.Time `json:"dead_at,omitzero"`      // goroutine and process tree have ended
	DidNotStop  bool      `json:"did_not_stop,omitempty"`
}

// TaskCancelReceipt says that a cancel is finished.
type TaskCancelReceipt struct {
	Receipt CancelReceipt `json:"receipt"`
}

// Metadata of a notification with a question: the task and the request. The notification is
// withdrawn once the question is answered.
const (
	MetaTask    = "task_id"
	MetaRequest = "request_id"
)

// TaskMessageSent is a message of a task to its session. The model reads it as Notice.
type TaskMessageSent struct {
	Message      TaskMessage `json:"message"`
	Notification Message     `json:"notice"`         // enters the transcript with the next step; without parts: none
	Wake         Wake        `json:"wake,omitempty"` // continue: it starts a turn
}

// TaskMessageReceived is a message to a task from its session, its host or a person.
type TaskMessageReceived struct {
	Message TaskMessage `json:"message"`
}

// TaskDelivered puts the notification about ended tasks into the transcript. Each result is
// delivered once.
type TaskDelivered struct {
	Message Message  `json:"message"`
	TaskIDs []TaskID `json:"task_ids"`
	Wake    Wake     `json:"wake"`
}

// TaskPruned says that ended tasks were removed with their messages and output. Their calls stay in
// the effect ledger.
type TaskPruned struct {
	TaskIDs []TaskID `json:"task_ids"`
}

// DeliveryHeld says why a delivery with wake continue does not start a turn.
type DeliveryHeld struct {
	Why string `json:"why"` // continuations, budget or paused
}

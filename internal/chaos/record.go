package chaos

import (
	"bufio"
	"fmt"
	"os"
	"time"

	"github.com/perdure/perdure"
)

// Line is one effect, as the effect itself wrote it to the external ledger.
type Line struct {
	Effect string `json:"effect"` // name of the effect, unique per order
	Class  string `json:"class"`  // effect class of the call
	Key    string `json:"key,omitempty"`
	PID    int    `json:"pid,omitempty"`

	At      time.Time `json:"at,omitzero"`       // time of writing
	Call    string    `json:"call_id,omitempty"` // of the call, and the attempt
	Attempt int       `json:"attempt,omitempty"`

	Session perdure.SessionID `json:"session_id,omitempty"` // of the call
	Task    perdure.TaskID    `json:"task_id,omitempty"`    // empty: a foreground call
}

// Journal contains the events of one session, in order.
type Journal struct {
	Session perdure.SessionID
	Events  []perdure.Event
	Stored  [][]byte // the encoded events, to avoid encoding them repeatedly; nil: they are encoded when needed
}

// Record is the result of a run. Invariants without data are not checked.
type Record struct {
	Journals []Journal
	Ledger   []Line
	Expected []Order

	Rows      []Rows     // rows of the store
	Responses []Response // responses that clients received
	Samples   []Process  // samples of the process table

	// Live says that the run continues: missing events may still come, and nothing counts as stuck.
	Live bool
	// Zombies says that workers were paused while others took over their work. An effect that a
	// paused worker had begun may happen after another worker has settled the call or ended the
	// task: a lease cannot prevent that, only a fence of the external service.
	Zombies bool
	// CancelBound is how long a task may run after its cancel was acknowledged; 0: not checked.
	CancelBound time.Duration
}

// Rows are the rows of one session in the store, besides its journal.
type Rows struct {
	Session   perdure.SessionID
	Title     string
	Status    perdure.SessionStatus
	LastSeq   int64
	Tasks     []perdure.Task
	Calls     []perdure.Call
	Approvals []perdure.Approval
	Handles   []Handle // of its subagents; with handles, the journals of all sessions must be given
}

// Handle is the handle of one subagent of a session in the store.
type Handle struct {
	Call  perdure.CallID    // the call that requested it
	Task  perdure.TaskID    // the task of the parent
	Child perdure.SessionID // empty: not created yet
	Ended bool              // its outcome is recorded
}

// Response is one response to a client. Exactly one of the fields after Session is set.
type Response struct {
	Session perdure.SessionID
	Event   []byte            // an event, encoded
	Task    *perdure.Task     // an ended task
	Message perdure.MessageID // a message that was acknowledged
	Cancel  perdure.TaskID    // a task whose cancel was acknowledged
}

// Process is one sample of a process.
type Process struct {
	PID  int
	Task perdure.TaskID // the task that it belongs to
	At   time.Time      // time of the sample, by the clock of the journals
}

// Order is one effect that a session was asked for.
type Order struct {
	Session perdure.SessionID
	Tool    string
	Effect  string
}

// Violation is one violated guarantee.
type Violation struct {
	Invariant string            `json:"invariant"` // I1 … I17
	Session   perdure.SessionID `json:"session_id,omitempty"`
	Text      string            `json:"text"`
}

// ReadLedger reads the ledger. An incomplete last line, cut off by a kill, is ignored. Any other
// line that is not valid is an error with its number. A missing file has no effects.
func ReadLedger(path string) ([]Line, error) {
	file, err := os.Open(path)
	if os.IsNotExist(err) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read ledger: %w", err)
	}
	defer file.Close()
	var lines []Line
	var broken error
	scan := bufio.NewScanner(file)
	for n := 1; scan.Scan(); n++ {
		if broken != nil {
			return nil, broken
		}
		var line Line
		if err := perdure.DecodeJSON(scan.Bytes(), &line); err != nil {
			broken = fmt.Errorf("read ledger %s, line %d: %w", path, n, err)
			continue
		}
		lines = append(lines, line)
	}
	if err := scan.Err(); err != nil {
		return nil, fmt.Errorf("read ledger %s: %w", path, err)
	}
	return lines, nil
}

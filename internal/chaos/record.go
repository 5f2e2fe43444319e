package chaos

import (
	"bufio"
	"fmt"
	"os"
	"time"

	"github.com/perdure/perdure"
)

// Line is one effect, as the effect itself wrote it into the outside ledger.
type Line struct {
	Effect string `json:"effect"` // what was done, once for each order that asks for it
	Class  string `json:"class"`  // the effect class of the call that did it
	Key    string `json:"key,omitempty"`
	PID    int    `json:"pid,omitempty"`

	At      time.Time `json:"at,omitzero"`       // when the ledger wrote it
	Call    string    `json:"call_id,omitempty"` // of the call that did it, and which attempt of it that was
	Attempt int       `json:"attempt,omitempty"`

	Session perdure.SessionID `json:"session_id,omitempty"` // whose call it was
	Task    perdure.TaskID    `json:"task_id,omitempty"`    // empty: a call of the foreground
}

// Journal is one session's history, in order.
type Journal struct {
	Session perdure.SessionID
	Events  []perdure.Event
	Stored  [][]byte // the events in their stored form, for those who judge often; nil: they are encoded again
}

// Record is what a run left behind. What it does not have is not judged.
type Record struct {
	Journals []Journal
	Ledger   []Line
	Expected []Order

	Rows    []Rows    // what the store says of sessions
	Told    []Told    // what clients were told
	Samples []Process // of the process table

	// Live says that the run goes on: what has not come yet is not missing, and nobody is stuck.
	Live bool
	// Zombies says that workers were paused while others took over their work. What such a one had begun outside may happen after
	// another has settled the call or ended the task: no lease holds that back, only the other side's own fence.
	Zombies bool
	// CancelBound is how long a task may live on once its cancel was acknowledged; 0: nobody looks at the clock.
	CancelBound time.Duration
}

// Rows is what the store says of one session, beside its journal.
type Rows struct {
	Session   perdure.SessionID
	Title     string
	Status    perdure.SessionStatus
	LastSeq   int64
	Tasks     []perdure.Task
	Calls     []perdure.Call
	Approvals []perdure.Approval
	Handles   []Handle // of its subagents; whoever gives one gives the journals of all sessions
}

// Handle is what the store knows of one subagent of a session.
type Handle struct {
	Call  perdure.CallID    // that asks for it
	Task  perdure.TaskID    // the parent's record
	Child perdure.SessionID // empty: not yet
	Ended bool              // its outcome is recorded
}

// Told is one thing that a client was told. Exactly one of the fields after Session is set.
type Told struct {
	Session perdure.SessionID
	Event   []byte            // an event that was shown, in its stored form
	Task    *perdure.Task     // an ended task that was shown
	Message perdure.MessageID // a message whose receipt was acknowledged
	Cancel  perdure.TaskID    // a task whose cancel was acknowledged
}

// Process is one process that was seen.
type Process struct {
	PID  int
	Task perdure.TaskID // whose work it is
	At   time.Time      // when it was seen, by the clock of the journals
}

// Order is one effect that a session was asked for.
type Order struct {
	Session perdure.SessionID
	Tool    string
	Effect  string
}

// Violation is one broken promise.
type Violation struct {
	Invariant string            `json:"invariant"` // I1 … I17
	Session   perdure.SessionID `json:"session_id,omitempty"`
	Text      string            `json:"text"`
}

// ReadLedger reads the outside ledger. A last line that a kill cut in half is no effect and is left out; any
// other line that is no JSON is an error that names it. A file that is not there has no effects.
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

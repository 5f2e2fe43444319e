package chaos

import (
	"bufio"
	"fmt"
	"os"

	"github.com/perdure/perdure"
)

// Line is one effect, as the effect itself wrote it into the outside ledger.
type Line struct {
	Effect string `json:"effect"` // what was done, once for each order that asks for it
	Class  string `json:"class"`  // the effect class of the call that did it
	Key    string `json:"key,omitempty"`
	PID    int    `json:"pid,omitempty"`
}

// Journal is one session's history, in order.
type Journal struct {
	Session perdure.SessionID
	Events  []perdure.Event
}

// Record is what a run left behind.
type Record struct {
	Journals []Journal
	Ledger   []Line
	Expected []Order
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

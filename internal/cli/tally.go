package cli

import (
	"fmt"
	"time"

	"github.com/perdure/perdure"
)

// tally adds up what a run cost and how it went. All of it comes from the journal, so that a run which was
// killed and gone on with ends with the same figures.
type tally struct {
	models, calls int
	usage         perdure.Usage
	first, last   time.Time
	turns         []string // why turns failed
	interrupted   bool     // the last turn was canceled from here
	states        map[perdure.TaskID]perdure.TaskState
	unknown       map[perdure.CallID]string // calls of unknown outcome, by tool
}

func newTally() *tally {
	return &tally{states: map[perdure.TaskID]perdure.TaskState{}, unknown: map[perdure.CallID]string{}}
}

// add counts one event.
func (t *tally) add(e perdure.Event) {
	if t.first.IsZero() {
		t.first = e.At
	}
	t.last = e.At
	switch f := e.Fact.(type) {
	case perdure.Generation:
		t.models++
		t.usage = t.usage.Add(f.Usage)
	case perdure.ToolStarted:
		t.calls++
	case perdure.ToolUnknown:
		t.unknown[f.CallID] = f.Name
	case perdure.ToolResolved:
		delete(t.unknown, f.CallID)
	case perdure.TaskCreated:
		t.states[f.Task.ID] = f.Task.State
	case perdure.TaskUpdated:
		t.states[f.Task.ID] = f.Task.State
	case perdure.TurnFailed:
		t.turns = append(t.turns, f.Code+because(f.Error))
	case perdure.TurnSealed:
		t.turns = append(t.turns, f.Reason+because(f.Detail))
	case perdure.TurnCanceled:
		t.interrupted = f.By == person
		if !t.interrupted {
			t.turns = append(t.turns, "canceled by "+f.By+because(f.Reason))
		}
	}
}

// cost is the line that a run ends with (C9). Prices are not known here, and are not guessed.
func (t *tally) cost() string {
	return fmt.Sprintf("%s · %s · %d tokens in, %d out · %s · money unknown",
		count(t.models, "model call"), count(t.calls, "tool call"), t.usage.InputTokens, t.usage.OutputTokens, span(t.last.Sub(t.first)))
}

// end says how the run went: nil when all of it is well (C4).
func (t *tally) end() error {
	bad := map[perdure.TaskState]int{}
	for _, state := range t.states {
		bad[state]++
	}
	var what string
	switch {
	case len(t.turns) > 0:
		what = "the turn failed: " + t.turns[len(t.turns)-1]
	case len(t.unknown) > 0 || bad[perdure.TaskUnknown] > 0:
		what = count(len(t.unknown)+bad[perdure.TaskUnknown], "outcome") + " unknown"
	case bad[perdure.TaskFailed] > 0:
		what = count(bad[perdure.TaskFailed], "task") + " failed"
	case t.interrupted:
		return errInterrupted
	default:
		return nil
	}
	return &fault{code: exitFailed, what: what}
}

package chaos

import (
	"fmt"
	"time"

	"github.com/perdure/perdure"
)

// NoLostSettle is I1: everything that a client received can still be read, with the same bytes.
func NoLostSettle(r Record) []Violation {
	var broken []Violation
	lost := func(id perdure.SessionID, format string, args ...any) {
		broken = append(broken, Violation{"I1", id, fmt.Sprintf(format, args...)})
	}
	readable := map[perdure.SessionID]*readableData{}
	for _, journal := range r.Journals {
		readable[journal.Session] = readData(journal)
	}
	for _, told := range r.Responses {
		k := readable[told.Session]
		if k == nil {
			continue // its journal is not part of the record
		}
		switch {
		case told.Event != nil && !k.events[string(told.Event)]:
			lost(told.Session, "an event that was shown is not in the journal: %.200s", told.Event)
		case told.Message != "" && !k.messages[told.Message]:
			lost(told.Session, "message %s was acknowledged and is not in the journal", told.Message)
		case told.Cancel != "" && !k.canceled[told.Cancel]:
			lost(told.Session, "the cancel of task %s was acknowledged and is not in the journal", told.Cancel)
		case told.Task != nil && !k.results[string(told.Task.ID)+TaskResult(*told.Task)]:
			lost(told.Session, "task %s was shown as %s, which is not in the journal", told.Task.ID,
				TaskResult(*told.Task))
		}
	}
	return sorted(broken)
}

// readableData contains what can be read of a session.
type readableData struct {
	events   map[string]bool // encoded
	messages map[perdure.MessageID]bool
	canceled map[perdure.TaskID]bool // cancel requested, or ended
	results  map[string]bool         // task and result, including earlier results
}

func readData(j Journal) *readableData {
	k := &readableData{events: map[string]bool{}, messages: map[perdure.MessageID]bool{},
		canceled: map[perdure.TaskID]bool{}, results: map[string]bool{}}
	for _, body := range j.Stored {
		k.events[string(body)] = true
	}
	for _, event := range j.Events {
		if j.Stored == nil {
			if body, err := perdure.EncodeEvent(event); err == nil {
				k.events[string(body)] = true
			}
		}
		switch f := event.Fact.(type) {
		case perdure.MessageReceived:
			k.messages[f.Message.ID] = true
		case perdure.TaskCancelRequested:
			k.canceled[event.Task] = true
		case perdure.TaskCreated:
			k.results[string(f.Task.ID)+TaskResult(f.Task)] = true
		case perdure.TaskUpdated:
			k.results[string(f.Task.ID)+TaskResult(f.Task)] = true
			if f.Task.State.Terminal() {
				k.canceled[f.Task.ID] = true
			}
		}
	}
	return k
}

// Prefix is I8: the steps of a turn have no gap, and a recorded step is never executed again: no
// model call starts after its end, no call starts twice, and no effect happens for a call that
// already has its result.
func Prefix(r Record) []Violation {
	var broken []Violation
	for _, journal := range r.Journals {
		p := &stepChecker{journal: journal, answered: map[perdure.ExecID]bool{}, started: map[perdure.CallID]bool{},
			settled: map[string]time.Time{}}
		for _, event := range journal.Events {
			p.step(event)
		}
		for _, line := range r.Ledger {
			if at, ok := p.settled[line.Call]; ok && !r.Zombies && line.Session == journal.Session &&
				line.At.After(at) {
				p.wrong("%s happened %s after call %s had its result", line.Effect, line.At.Sub(at), line.Call)
			}
		}
		broken = append(broken, p.broken...)
	}
	return sorted(broken)
}

// stepChecker follows the steps of a session.
type stepChecker struct {
	journal   Journal
	turn      perdure.TurnID
	iteration int
	attempt   int
	answered  map[perdure.ExecID]bool
	started   map[perdure.CallID]bool
	settled   map[string]time.Time // results of calls that were not detached
	detached  perdure.CallID       // call that is detached in this commit
	broken    []Violation
}

func (p *stepChecker) wrong(format string, args ...any) {
	p.broken = append(p.broken, Violation{"I8", p.journal.Session, fmt.Sprintf(format, args...)})
}

func (p *stepChecker) step(event perdure.Event) {
	switch f := event.Fact.(type) {
	case perdure.TurnStarted:
		p.turn, p.iteration, p.attempt = f.TurnID, 0, 0
	case perdure.ReasonStarted:
		again := f.Iteration == p.iteration && f.Attempt == p.attempt+1
		next := f.Iteration == p.iteration+1 && f.Attempt == 1
		if !again && !next {
			p.wrong("turn %s asks the model for step %d, attempt %d, after step %d, attempt %d", p.turn, f.Iteration,
				f.Attempt, p.iteration, p.attempt)
		}
		if p.answered[f.ExecID] {
			p.wrong("model call %s begins after it has ended", f.ExecID)
		}
		p.iteration, p.attempt = f.Iteration, f.Attempt
	case perdure.ReasonCompleted:
		if p.answered[f.ExecID] {
			p.wrong("model call %s ended twice", f.ExecID)
		}
		p.answered[f.ExecID] = true
	case perdure.ToolStarted:
		if p.started[f.CallID] {
			p.wrong("call %s started twice", f.CallID)
		}
		p.started[f.CallID] = true
	case perdure.ToolDetached:
		p.detached = f.CallID
	case perdure.ToolCompleted:
		if f.CallID != p.detached {
			p.settled[string(f.CallID)] = event.At
		}
	}
}

// TreeGone is I13: no process outlives its terminal task.
func TreeGone(r Record) []Violation {
	ended := ends(r)
	var broken []Violation
	for _, p := range r.Samples {
		if t, ok := ended[p.Task]; ok && p.At.After(t.FinishedAt) {
			broken = append(broken,
				Violation{"I13", t.Session,
					fmt.Sprintf("process %d ran %s longer than task %s", p.PID, p.At.Sub(t.FinishedAt), p.Task)})
		}
	}
	return sorted(broken)
}

// CancelFinal is I14: a task whose cancel was requested ends within its bound, and it has no effect
// afterwards.
func CancelFinal(r Record) []Violation {
	ended := ends(r)
	var broken []Violation
	for _, line := range r.Ledger {
		if t, ok := ended[line.Task]; ok && !r.Zombies && t.CancelRequested() && line.At.After(t.FinishedAt) {
			broken = append(broken,
				Violation{"I14", t.Session,
					fmt.Sprintf("%s happened %s after task %s had ended", line.Effect, line.At.Sub(t.FinishedAt), t.ID)})
		}
	}
	for _, journal := range r.Journals {
		for id, over := range canceled(journal, r.CancelBound, !r.Live) {
			broken = append(broken, Violation{"I14", journal.Session, fmt.Sprintf("task %s %s", id, over)})
		}
	}
	return sorted(broken)
}

// canceled returns the tasks that run too long after their cancel. over: the run has ended.
func canceled(j Journal, bound time.Duration, over bool) map[perdure.TaskID]string {
	asked, late := map[perdure.TaskID]time.Time{}, map[perdure.TaskID]string{}
	var last time.Time
	for _, event := range j.Events {
		last = event.At
		switch f := event.Fact.(type) {
		case perdure.TaskCancelRequested:
			if _, known := asked[event.Task]; !known { // a request for force is a second one
				asked[event.Task] = event.At
			}
		case perdure.TaskUpdated:
			at, ok := asked[f.Task.ID]
			if !ok || !f.Task.State.Terminal() {
				continue
			}
			delete(asked, f.Task.ID)
			if took := f.Task.FinishedAt.Sub(at); bound > 0 && took > bound {
				late[f.Task.ID] = fmt.Sprintf("ended %s after its cancel", took)
			}
		}
	}
	for id, at := range asked {
		switch waits := last.Sub(at); {
		case over:
			late[id] = "did not end after its cancel"
		case bound > 0 && waits > bound:
			late[id] = fmt.Sprintf("is still running %s after its cancel", waits)
		}
	}
	return late
}

// ends returns the ended tasks in their final state.
func ends(r Record) map[perdure.TaskID]perdure.Task {
	ended := map[perdure.TaskID]perdure.Task{}
	for _, journal := range r.Journals {
		for _, event := range journal.Events {
			if f, ok := event.Fact.(perdure.TaskUpdated); ok {
				if f.Task.State.Terminal() {
					ended[f.Task.ID] = f.Task
				} else {
					delete(ended, f.Task.ID)
				}
			}
		}
	}
	return ended
}

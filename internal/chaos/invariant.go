package chaos

import (
	"fmt"
	"slices"
	"strings"

	"github.com/perdure/perdure"
)

// Invariant checks one guarantee.
type Invariant func(Record) []Violation

// Invariants returns the checks that need only a Record, in the order of their numbers.
func Invariants() []Invariant {
	return []Invariant{
		NoLostSettle, NoDuplicateEffect, OneKey, NoStuck, OneTerminal, GaplessJournal, Prefix, SpawnOnce, TreeGone,
		CancelFinal, DeliveredOnce,
		Paired,
	}
}

// Check runs all invariants.
func Check(r Record) []Violation {
	var all []Violation
	for _, invariant := range Invariants() {
		all = append(all, invariant(r)...)
	}
	return all
}

// NoDuplicateEffect is I2: each at_most_once effect has at most one line, plus one for each time an
// operator let its task run again.
func NoDuplicateEffect(r Record) []Violation {
	again := reruns(r)
	var violations []Violation
	for effect, lines := range effects(r.Ledger, perdure.AtMostOnce) {
		most, tasks := 1, map[perdure.TaskID]bool{} // a call may have had its effect before it became a task
		for _, line := range lines {
			if !tasks[line.Task] {
				most += again[line.Task]
			}
			tasks[line.Task] = true
		}
		if n := len(lines); n > most {
			violations = append(violations,
				Violation{"I2", lines[0].Session, fmt.Sprintf("%s happened %d times", effect, n)})
		}
	}
	return sorted(violations)
}

// reruns counts how often an operator let each task run again.
func reruns(r Record) map[perdure.TaskID]int {
	n := map[perdure.TaskID]int{}
	for _, journal := range r.Journals {
		for _, event := range journal.Events {
			if f, ok := event.Fact.(perdure.TaskResolved); ok && f.Answer == perdure.ResolveRunAgain {
				n[event.Task]++
			}
		}
	}
	return n
}

// OneKey is I3: all lines of an idempotent effect have the same key, and no two calls share a key.
func OneKey(r Record) []Violation {
	keys, calls := map[string]string{}, map[string]string{}
	var violations []Violation
	for _, line := range r.Ledger {
		if line.Key != "" && line.Call != "" {
			call := string(line.Session) + " " + line.Call
			if known, ok := calls[line.Key]; ok && known != call {
				violations = append(violations,
					Violation{"I3", line.Session,
						fmt.Sprintf("the calls %s and %s share the key %s", known, call, line.Key)})
			}
			calls[line.Key] = call
		}
		if line.Class != string(perdure.Idempotent) {
			continue
		}
		if known, ok := keys[line.Effect]; ok && known != line.Key {
			violations = append(violations,
				Violation{"I3", line.Session, fmt.Sprintf("%s has the keys %s and %s", line.Effect, known, line.Key)})
		}
		keys[line.Effect] = line.Key
	}
	return sorted(violations)
}

// NoStuck is I4 at the end of a run: every session is idle and every task has ended.
func NoStuck(r Record) []Violation {
	if r.Live {
		return nil
	}
	violations := eachFold(r, "I4", func(s *perdure.Session, _ error) []string {
		var texts []string
		if s.Turn != nil {
			texts = append(texts, fmt.Sprintf("turn %s is still running", s.Turn.ID))
		}
		// a stopped subagent waits for a resume, a halted session for more budget
		if len(s.Queue) > 0 && s.Stopped == nil && s.Halt == nil {
			texts = append(texts, fmt.Sprintf("%d messages are queued", len(s.Queue)))
		}
		for _, task := range s.OpenTasks() {
			texts = append(texts, fmt.Sprintf("task %s is %s", task.ID, task.State))
		}
		return texts
	})
	for _, rows := range r.Rows {
		for _, call := range rows.Calls {
			if call.State == perdure.CallRunning {
				violations = append(violations,
					Violation{"I4", rows.Session,
						fmt.Sprintf("call %s of %s is running in the effect ledger, but nothing runs it", call.Key.Call,
							call.Tool)})
			}
		}
		for _, h := range rows.Handles {
			if !h.Ended {
				violations = append(violations,
					Violation{"I4", rows.Session, fmt.Sprintf("the subagent of call %s has no outcome", h.Call)})
			}
		}
	}
	return violations
}

// OneTerminal is I5: a call or a task reaches one terminal state. Its state and result never change
// afterwards, unless it is resolved.
func OneTerminal(r Record) []Violation {
	var violations []Violation
	for _, journal := range r.Journals {
		ended := map[perdure.TaskID]perdure.Task{}
		completed := map[perdure.CallID]bool{}
		for _, event := range journal.Events {
			switch f := event.Fact.(type) {
			case perdure.TaskUpdated:
				before, was := ended[f.Task.ID]
				if was && before.State != perdure.TaskUnknown && TaskResult(f.Task) != TaskResult(before) {
					violations = append(violations,
						Violation{"I5", journal.Session,
							fmt.Sprintf("task %s changed from %s to %s", f.Task.ID, TaskResult(before),
								TaskResult(f.Task))})
				}
				if f.Task.State.Terminal() {
					ended[f.Task.ID] = f.Task
				}
			case perdure.ToolCompleted:
				if completed[f.CallID] {
					violations = append(violations,
						Violation{"I5", journal.Session, fmt.Sprintf("call %s completed twice", f.CallID)})
				}
				completed[f.CallID] = true
			}
		}
	}
	return violations
}

// GaplessJournal is I6: the sequence numbers are 1..n, the journal folds, and the fold agrees with
// the rows of the store where they are known.
func GaplessJournal(r Record) []Violation {
	rows := map[perdure.SessionID]Rows{}
	for _, of := range r.Rows {
		rows[of.Session] = of
	}
	return eachFold(r, "I6", func(s *perdure.Session, err error) []string {
		if err != nil {
			return []string{err.Error()}
		}
		if of, ok := rows[s.ID]; ok {
			return Differences(s, of)
		}
		return nil
	})
}

// Differences returns the differences between a fold and the rows of its session (I6).
func Differences(s *perdure.Session, of Rows) []string {
	var texts []string
	differ := func(what string, row, fold any) {
		if row != fold {
			texts = append(texts, fmt.Sprintf("%s: %v in the row, %v in the journal", what, row, fold))
		}
	}
	differ("last seq", of.LastSeq, s.Seq)
	differ("tasks", len(of.Tasks), len(s.Tasks))
	for _, t := range of.Tasks {
		f := s.Tasks[t.ID]
		differ("task "+string(t.ID)+", state", t.State, f.State)
		differ("task "+string(t.ID)+", attempt", t.Attempt, f.Attempt)
		differ("task "+string(t.ID)+", result", t.Summary, f.Summary)
		differ("task "+string(t.ID)+", delivered", t.Delivered, f.Delivered)
		differ("task "+string(t.ID)+", delivery", t.Delivery, f.Delivery)
		differ("task "+string(t.ID)+", cancel", t.CancelRequested(), f.CancelRequested())
	}
	open := 0
	for _, a := range of.Approvals {
		if a.State == perdure.ApprovalOpen {
			open++
			differ("approval "+string(a.ID), a.State, s.Approvals[a.ID].State)
		}
	}
	differ("open approvals", open, len(s.Approvals))
	return texts
}

// DeliveredOnce is I16: each to_loop result is exactly once in its transcript, as a notification or
// as a result that the model read itself. A resolved outcome may be delivered again.
func DeliveredOnce(r Record) []Violation {
	var violations []Violation
	for _, journal := range r.Journals {
		resolved := map[perdure.TaskID]int{}
		for _, event := range journal.Events {
			if _, ok := event.Fact.(perdure.TaskResolved); ok {
				resolved[event.Task]++
			}
		}
		for task, n := range deliveries(journal) {
			if n > 1+resolved[task] || n == 0 && !r.Live {
				violations = append(violations,
					Violation{"I16", journal.Session,
						fmt.Sprintf("the result of task %s was delivered %d times", task, n)})
			}
		}
	}
	return sorted(violations)
}

// deliveries counts the deliveries of each to_loop task whose result must be delivered. A result
// that starts no turn is delivered with the next turn (DL6), so it is due only once that turn has
// called the model.
func deliveries(j Journal) map[perdure.TaskID]int {
	delivered := map[perdure.TaskID]int{}
	due := map[perdure.TaskID]int{}
	waits := map[perdure.TaskID]bool{}
	for _, event := range j.Events {
		switch f := event.Fact.(type) {
		case perdure.TaskUpdated:
			if !f.Task.State.Terminal() || f.Task.Delivery != perdure.ToLoop {
				continue
			}
			if f.Task.Wake == perdure.WakeContinue {
				due[f.Task.ID] = 0
			} else {
				waits[f.Task.ID] = true
			}
		case perdure.ReasonStarted:
			if f.Attempt > 1 { // a retry: nothing new enters
				continue
			}
			for id := range waits {
				due[id] = 0
			}
			clear(waits)
		case perdure.TaskDelivered:
			for _, id := range f.TaskIDs {
				delivered[id]++
			}
		case perdure.ToolCompleted:
			for _, id := range f.Result.ReadTasks {
				delivered[id] = max(delivered[id], 1)
			}
		}
	}
	for id := range waits {
		if delivered[id] > 0 {
			due[id] = 0
		}
	}
	for id := range due {
		due[id] = delivered[id]
	}
	return due
}

// Paired is I17: at every model call, each tool call of the transcript has exactly one result,
// before the next message of the agent.
func Paired(r Record) []Violation {
	var violations []Violation
	for _, journal := range r.Journals {
		s := perdure.NewSession(journal.Session)
		for _, event := range journal.Events {
			if s.Apply(event) != nil {
				break // GaplessJournal reports it
			}
			if _, asked := event.Fact.(perdure.ReasonStarted); !asked {
				continue
			}
			if text := Unpaired(s.Transcript); text != "" {
				violations = append(violations,
					Violation{"I17", journal.Session, fmt.Sprintf("at seq %d %s", event.Seq, text)})
			}
		}
	}
	return violations
}

// Unpaired returns which call of a transcript has no result, or more than one; empty: none.
func Unpaired(transcript []perdure.Message) string {
	open := map[perdure.CallID]bool{}
	for _, m := range transcript {
		if m.Role == perdure.RoleAgent && len(open) > 0 {
			break
		}
		for _, call := range m.Calls() {
			open[call.ID] = true
		}
		for _, part := range m.Parts {
			if part.Result == nil {
				continue
			}
			if !open[part.Result.CallID] {
				return fmt.Sprintf("call %s has a second result, or one without a call", part.Result.CallID)
			}
			delete(open, part.Result.CallID)
		}
	}
	for id := range open {
		return fmt.Sprintf("call %s has no result", id)
	}
	return ""
}

// eachFold folds every journal as far as possible and calls ask with the result.
func eachFold(r Record, name string, ask func(*perdure.Session, error) []string) []Violation {
	var violations []Violation
	for _, journal := range r.Journals {
		s := perdure.NewSession(journal.Session)
		var failure error
		for _, event := range journal.Events {
			if failure = s.Apply(event); failure != nil {
				break
			}
		}
		for _, text := range ask(s, failure) {
			violations = append(violations, Violation{Invariant: name, Session: journal.Session, Text: text})
		}
	}
	return violations
}

// effects returns the lines of each effect of one class.
func effects(ledger []Line, class perdure.EffectClass) map[string][]Line {
	of := map[string][]Line{}
	for _, line := range ledger {
		if line.Class == string(class) {
			of[line.Effect] = append(of[line.Effect], line)
		}
	}
	return of
}

func sorted(v []Violation) []Violation {
	slices.SortFunc(v, func(a, b Violation) int { return strings.Compare(a.Text, b.Text) })
	return v
}

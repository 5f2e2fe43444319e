package chaos

import (
	"fmt"
	"slices"
	"strings"

	"github.com/perdure/perdure"
)

// Invariant checks one promise.
type Invariant func(Record) []Violation

// Invariants returns the promises that can be checked from a Record, in the order of their numbers.
func Invariants() []Invariant {
	return []Invariant{NoDuplicateEffect, OneKey, NoStuck, OneTerminal, GaplessJournal, DeliveredOnce, Paired}
}

// Check applies all invariants.
func Check(r Record) []Violation {
	var all []Violation
	for _, invariant := range Invariants() {
		all = append(all, invariant(r)...)
	}
	return all
}

// NoDuplicateEffect is I2: at most one line for each at_most_once effect.
func NoDuplicateEffect(r Record) []Violation {
	var broken []Violation
	for effect, n := range count(r.Ledger, perdure.AtMostOnce) {
		if n > 1 {
			broken = append(broken, Violation{Invariant: "I2", Text: fmt.Sprintf("%s happened %d times", effect, n)})
		}
	}
	return sorted(broken)
}

// OneKey is I3: all lines of one idempotent effect carry one key.
func OneKey(r Record) []Violation {
	keys := map[string]string{}
	var broken []Violation
	for _, line := range r.Ledger {
		if line.Class != string(perdure.Idempotent) {
			continue
		}
		if known, ok := keys[line.Effect]; ok && known != line.Key {
			broken = append(broken, Violation{Invariant: "I3", Text: fmt.Sprintf("%s came with the keys %s and %s", line.Effect, known, line.Key)})
		}
		keys[line.Effect] = line.Key
	}
	return sorted(broken)
}

// NoStuck is I4 at the end of a run: every session is at rest and every task has ended.
func NoStuck(r Record) []Violation {
	return eachFold(r, "I4", func(s *perdure.Session, _ error) []string {
		var texts []string
		if s.Turn != nil {
			texts = append(texts, fmt.Sprintf("turn %s still runs", s.Turn.ID))
		}
		if len(s.Queue) > 0 {
			texts = append(texts, fmt.Sprintf("%d messages wait", len(s.Queue)))
		}
		for _, task := range s.OpenTasks() {
			texts = append(texts, fmt.Sprintf("task %s is %s", task.ID, task.State))
		}
		return texts
	})
}

// OneTerminal is I5: a call or a task reaches one terminal state, and stays in it unless it is resolved.
func OneTerminal(r Record) []Violation {
	var broken []Violation
	for _, journal := range r.Journals {
		ended := map[perdure.TaskID]perdure.TaskState{}
		completed := map[perdure.CallID]bool{}
		for _, event := range journal.Events {
			switch f := event.Fact.(type) {
			case perdure.TaskUpdated:
				before, was := ended[f.Task.ID]
				if was && f.Task.State != before && before != perdure.TaskUnknown {
					broken = append(broken, Violation{"I5", journal.Session, fmt.Sprintf("task %s went from %s to %s", f.Task.ID, before, f.Task.State)})
				}
				if f.Task.State.Terminal() {
					ended[f.Task.ID] = f.Task.State
				}
			case perdure.ToolCompleted:
				if completed[f.CallID] {
					broken = append(broken, Violation{"I5", journal.Session, fmt.Sprintf("call %s completed twice", f.CallID)})
				}
				completed[f.CallID] = true
			}
		}
	}
	return broken
}

// GaplessJournal is I6: the sequence is 1..n and folds.
func GaplessJournal(r Record) []Violation {
	return eachFold(r, "I6", func(_ *perdure.Session, err error) []string {
		if err != nil {
			return []string{err.Error()}
		}
		return nil
	})
}

// DeliveredOnce is I16: each to_loop result stands exactly once in its transcript, as a notification or as
// the model's own read.
func DeliveredOnce(r Record) []Violation {
	var broken []Violation
	for _, journal := range r.Journals {
		for task, n := range deliveries(journal) {
			if n != 1 {
				broken = append(broken, Violation{"I16", journal.Session, fmt.Sprintf("the result of task %s came home %d times", task, n)})
			}
		}
	}
	return sorted(broken)
}

// deliveries counts how often the result of each ended to_loop task came home.
func deliveries(j Journal) map[perdure.TaskID]int {
	home := map[perdure.TaskID]int{}
	owed := map[perdure.TaskID]int{}
	for _, event := range j.Events {
		switch f := event.Fact.(type) {
		case perdure.TaskUpdated:
			if f.Task.State.Terminal() && f.Task.Delivery == perdure.ToLoop {
				owed[f.Task.ID] = max(owed[f.Task.ID], 0)
			}
		case perdure.TaskDelivered:
			for _, id := range f.TaskIDs {
				home[id]++
			}
		case perdure.ToolCompleted:
			for _, id := range f.Result.Read {
				home[id] = max(home[id], 1)
			}
		}
	}
	for id := range owed {
		owed[id] = home[id]
	}
	return owed
}

// Paired is I17: at every model call each tool call of the transcript has exactly one result, before the
// next message of the agent.
func Paired(r Record) []Violation {
	var broken []Violation
	for _, journal := range r.Journals {
		s := perdure.NewSession(journal.Session)
		for _, event := range journal.Events {
			if s.Apply(event) != nil {
				break // GaplessJournal tells it
			}
			if _, asked := event.Fact.(perdure.ReasonStarted); !asked {
				continue
			}
			if text := unpaired(s.Transcript); text != "" {
				broken = append(broken, Violation{"I17", journal.Session, fmt.Sprintf("at seq %d %s", event.Seq, text)})
			}
		}
	}
	return broken
}

// unpaired says which call of a transcript has no result, or more than one; empty if none.
func unpaired(transcript []perdure.Message) string {
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

// eachFold folds every journal as far as it goes and asks about its end.
func eachFold(r Record, name string, ask func(*perdure.Session, error) []string) []Violation {
	var broken []Violation
	for _, journal := range r.Journals {
		s := perdure.NewSession(journal.Session)
		var failure error
		for _, event := range journal.Events {
			if failure = s.Apply(event); failure != nil {
				break
			}
		}
		for _, text := range ask(s, failure) {
			broken = append(broken, Violation{Invariant: name, Session: journal.Session, Text: text})
		}
	}
	return broken
}

// count counts the lines of each effect of one class.
func count(ledger []Line, class perdure.EffectClass) map[string]int {
	n := map[string]int{}
	for _, line := range ledger {
		if line.Class == string(class) {
			n[line.Effect]++
		}
	}
	return n
}

func sorted(v []Violation) []Violation {
	slices.SortFunc(v, func(a, b Violation) int { return strings.Compare(a.Text, b.Text) })
	return v
}

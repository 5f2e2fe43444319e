package perdure

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
)

// SessionOutline is a session in a few values, which show at a glance where it stands.
type SessionOutline struct {
	Seq       int64         `json:"seq" doc:"Of the last event that the state contains; 0: before the first one."`
	Status    SessionStatus `json:"state" doc:"Empty before the first event."`
	Title     string        `json:"title,omitempty"`
	Turn      TurnID        `json:"turn_id,omitempty" doc:"The open turn."`
	Messages  int           `json:"messages" doc:"In the transcript."`
	Queued    int           `json:"queued" doc:"Messages that are not in the transcript yet."`
	Live      int           `json:"live_tasks"`
	Approvals int           `json:"open_approvals"`
	Ready     int           `json:"ready" doc:"Ended tasks that are not delivered."`
	Unknown   int           `json:"unknown" doc:"Calls with an unknown outcome."`
}

// OutlineOf returns the outline of a session.
func OutlineOf(s *Session) SessionOutline {
	at := SessionOutline{
		Seq: s.Seq, Status: s.Status, Title: s.Title, Messages: len(s.Transcript), Queued: len(s.Queue),
		Live: len(s.OpenTasks()), Approvals: len(s.Approvals), Ready: len(s.Undelivered), Unknown: len(s.UnknownCalls),
	}
	if s.Turn != nil {
		at.Turn = s.Turn.ID
	}
	return at
}

// StateChange is one difference between two states of a session.
type StateChange struct {
	What   string `json:"what" doc:"For instance state, turn, messages, call, task or approval."`
	ID     string `json:"id,omitempty" doc:"Of the call, task or approval."`
	Before string `json:"before" doc:"Empty: it did not exist."`
	After  string `json:"after" doc:"Empty: it does not exist any more."`
}

// StateChanges lists what an event changed: the differences between the state before it and the
// state after it, in a fixed order.
func StateChanges(before, after *Session) []StateChange {
	was, is := OutlineOf(before), OutlineOf(after)
	var all []StateChange
	add := func(what, id string, before, after any) {
		from, to := fmt.Sprint(before), fmt.Sprint(after)
		if from != to {
			all = append(all, StateChange{What: what, ID: id, Before: from, After: to})
		}
	}
	add("state", "", was.Status, is.Status)
	add("title", "", was.Title, is.Title)
	add("turn", "", was.Turn, is.Turn)
	add("step", "", stepOf(before), stepOf(after))
	add("messages", "", was.Messages, is.Messages)
	add("queued", "", was.Queued, is.Queued)
	for _, c := range pairs(callPhases(before), callPhases(after)) {
		add("call", c.key, c.before, c.after)
	}
	for _, t := range pairs(taskStates(before), taskStates(after)) {
		add("task", t.key, t.before, t.after)
	}
	add("live tasks", "", was.Live, is.Live)
	for _, a := range pairs(approvalStates(before), approvalStates(after)) {
		add("approval", a.key, a.before, a.after)
	}
	add("open approvals", "", was.Approvals, is.Approvals)
	add("to deliver", "", was.Ready, is.Ready)
	add("unknown", "", was.Unknown, is.Unknown)
	add("tokens", "", before.Usage.InputTokens+before.Usage.OutputTokens, after.Usage.InputTokens+after.Usage.OutputTokens)
	return all
}

func stepOf(s *Session) string {
	if s.Turn == nil {
		return ""
	}
	return fmt.Sprintf("%d, %s", s.Turn.Iteration, s.Turn.Phase)
}

func callPhases(s *Session) map[string]string {
	all := map[string]string{}
	if s.Turn != nil {
		for _, c := range s.Turn.Calls {
			all[string(c.ID)] = string(c.Phase)
		}
	}
	return all
}

func taskStates(s *Session) map[string]string {
	all := map[string]string{}
	for id, t := range s.Tasks {
		all[string(id)] = string(t.State)
	}
	return all
}

func approvalStates(s *Session) map[string]string {
	all := map[string]string{}
	for id := range s.Approvals {
		all[string(id)] = "open"
	}
	return all
}

// pair is what two states say under one key.
type pair struct{ key, before, after string }

// pairs returns the keys of two maps that differ, in order.
func pairs(before, after map[string]string) []pair {
	var all []pair
	for key, is := range after {
		if was := before[key]; was != is {
			all = append(all, pair{key, was, is})
		}
	}
	for key, was := range before {
		if _, stays := after[key]; !stays {
			all = append(all, pair{key, was, ""})
		}
	}
	slices.SortFunc(all, func(a, b pair) int { return cmp.Compare(a.key, b.key) })
	return all
}

// EventNames reports whether an encoded event has an id as one of its values, in its envelope or
// its data: the events of a call, a task or a turn are those that name it. An empty id is in all
// events.
func EventNames(encoded []byte, id string) bool {
	if id == "" {
		return true
	}
	value, err := json.Marshal(id)
	return err == nil && bytes.Contains(encoded, value)
}

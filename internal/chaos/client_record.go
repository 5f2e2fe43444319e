package chaos

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"sync"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/engine"
)

// ClientRecord records the responses to clients while faults were injected: results, events, logs,
// and acknowledged messages. All of it must still hold at the end (I1). The zero value is ready to
// use. It is safe for concurrent use.
type ClientRecord struct {
	mu             sync.Mutex // guards the fields below
	tasks          map[perdure.TaskID]string
	calls          map[perdure.CallKey]string
	events         map[perdure.SessionID]map[int64][sha256.Size]byte
	logs           map[perdure.TaskID][]byte
	said           map[perdure.SessionID][]string
	cancels        []Response
	contradictions []Violation
	answers        int
}

// Answers returns the number of recorded responses.
func (w *ClientRecord) Answers() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.answers
}

// Acknowledged records an acknowledged message.
func (w *ClientRecord) Acknowledged(id perdure.SessionID, text string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	put(&w.said, id, append(w.said[id], text))
	w.answers++
}

// Canceled records an acknowledged cancel.
func (w *ClientRecord) Canceled(session perdure.SessionID, task perdure.TaskID) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.answers++
	w.cancels = append(w.cancels, Response{Session: session, Cancel: task})
}

// Responses returns the part of the records that a Record contains: the cancels (I14).
func (w *ClientRecord) Responses() []Response {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Clone(w.cancels)
}

// Tasks records ended tasks.
func (w *ClientRecord) Tasks(tasks []perdure.Task) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.answers++
	for _, task := range tasks {
		if !task.State.Terminal() {
			continue
		}
		told := endOf(task)
		if before, known := w.tasks[task.ID]; known && before != told {
			w.contradictions = append(w.contradictions,
				Violation{"I1", task.Session,
					fmt.Sprintf("task %s was reported as %s, and then as %s", task.ID, before, told)})
		}
		put(&w.tasks, task.ID, told)
	}
}

// Calls records settled calls.
func (w *ClientRecord) Calls(calls []perdure.Call) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.answers++
	for _, call := range calls {
		if call.State != perdure.CallRunning {
			put(&w.calls, call.Key, endOfCall(call))
		}
	}
}

// Events records events, and that an event is the same whenever it is read (I6).
func (w *ClientRecord) Events(id perdure.SessionID, events []perdure.Event) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.answers++
	seen := w.events[id]
	if seen == nil {
		seen = map[int64][sha256.Size]byte{}
		put(&w.events, id, seen)
	}
	for _, event := range events {
		sum := sumOf(event)
		if before, known := seen[event.Seq]; known && before != sum {
			w.contradictions = append(w.contradictions,
				Violation{"I6", id, fmt.Sprintf("event %d was read with different bytes before", event.Seq)})
		}
		seen[event.Seq] = sum
	}
}

// Log records the beginning of a task's output.
func (w *ClientRecord) Log(id perdure.TaskID, bytes []byte) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.answers++
	if len(bytes) > len(w.logs[id]) {
		put(&w.logs, id, slices.Clone(bytes))
	}
}

// RecordMissing records that something is missing that a server had acknowledged.
func (w *ClientRecord) RecordMissing(id perdure.SessionID, what string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.contradictions = append(w.contradictions, Violation{"I1", id, what})
}

// FinalState is the final data of a run, as the server returns it.
type FinalState struct {
	Journals []Journal
	Calls    []perdure.Call
	Tasks    []perdure.Task
	Rows     []Rows // the same data and more, by session
}

// ReadFinalState reads all final data.
func ReadFinalState(ctx context.Context, eng engine.Engine) (FinalState, error) {
	var a FinalState
	sessions, err := eng.Sessions().List(ctx, 0)
	if err != nil {
		return a, fmt.Errorf("list sessions: %w", err)
	}
	for _, s := range sessions {
		events, err := eng.Events(ctx, s.ID, 0, 0)
		if err != nil {
			return a, fmt.Errorf("read the journal of %s: %w", s.ID, err)
		}
		a.Journals = append(a.Journals, Journal{Session: s.ID, Events: events})
		calls, err := eng.Calls().List(ctx, s.ID)
		if err != nil {
			return a, fmt.Errorf("list the calls of %s: %w", s.ID, err)
		}
		tasks, err := eng.Tasks().List(ctx, s.ID)
		if err != nil {
			return a, fmt.Errorf("list the tasks of %s: %w", s.ID, err)
		}
		approvals, err := eng.Approvals().List(ctx, engine.ApprovalFilter{Session: s.ID})
		if err != nil {
			return a, fmt.Errorf("list the approvals of %s: %w", s.ID, err)
		}
		a.Calls, a.Tasks = append(a.Calls, calls...), append(a.Tasks, tasks...)
		a.Rows = append(a.Rows, Rows{Session: s.ID, Title: s.Title, Status: s.Status, LastSeq: s.LastSeq, Tasks: tasks,
			Calls: calls, Approvals: approvals})
	}
	return a, nil
}

// Contradictions compares the responses to clients with the final data. log reads a task's output
// from its beginning, at most max bytes.
func (w *ClientRecord) Contradictions(a FinalState, log func(id perdure.TaskID, max int) ([]byte, error)) []Violation {
	w.mu.Lock()
	defer w.mu.Unlock()
	broken := slices.Clone(w.contradictions)
	broken = append(broken, w.lostEnds(a)...)
	for _, journal := range a.Journals {
		broken = append(broken, w.lostEvents(journal)...)
	}
	for id := range w.said {
		if !slices.ContainsFunc(a.Journals, func(j Journal) bool { return j.Session == id }) {
			broken = append(broken, Violation{"I1", id, "the session was acknowledged but is missing"})
		}
	}
	for id, told := range w.logs {
		now, err := log(id, len(told))
		if err != nil || string(now) != string(told) {
			broken = append(broken,
				Violation{Invariant: "I1", Text: fmt.Sprintf("the log of task %s has changed: %v", id, err)})
		}
	}
	return sorted(broken)
}

// lostEnds returns results that are missing or different.
func (w *ClientRecord) lostEnds(a FinalState) (broken []Violation) {
	tasks := map[perdure.TaskID]string{}
	for _, task := range a.Tasks {
		tasks[task.ID] = endOf(task)
	}
	for id, told := range w.tasks {
		if tasks[id] != told {
			broken = append(broken,
				Violation{Invariant: "I1",
					Text: fmt.Sprintf("task %s was reported as %s, but is %s", id, told, tasks[id])})
		}
	}
	calls := map[perdure.CallKey]string{}
	for _, call := range a.Calls {
		calls[call.Key] = endOfCall(call)
	}
	for key, told := range w.calls {
		if calls[key] != told {
			broken = append(broken,
				Violation{"I1", key.Session,
					fmt.Sprintf("call %s was reported as %s, but is %s", key.Call, told, calls[key])})
		}
	}
	return broken
}

// lostEvents returns events and messages of a session that are missing or different.
func (w *ClientRecord) lostEvents(j Journal) (broken []Violation) {
	now := map[int64][sha256.Size]byte{}
	var words strings.Builder
	for _, event := range j.Events {
		now[event.Seq] = sumOf(event)
		if f, ok := event.Fact.(perdure.MessageReceived); ok {
			words.WriteString(f.Message.Text() + "\n")
		}
	}
	for seq, told := range w.events[j.Session] {
		if now[seq] != told {
			broken = append(broken, Violation{"I1", j.Session, fmt.Sprintf("event %d is missing or has changed", seq)})
		}
	}
	heard := words.String()
	for _, text := range w.said[j.Session] {
		if n := strings.Count(heard, text+"\n"); n != 1 {
			broken = append(broken,
				Violation{"I1", j.Session,
					fmt.Sprintf("the message %q was acknowledged, but is %d times in the journal", text, n)})
		}
	}
	return broken
}

// endOf returns the part of an ended task that must never change.
func endOf(t perdure.Task) string {
	text, err := json.Marshal([]any{t.State, t.Summary, t.Result, t.ResultPath, t.Artifacts, t.Error, t.Executions,
		t.FinishedAt})
	if err != nil {
		return err.Error()
	}
	return string(text)
}

// endOfCall returns the part of a settled call that must never change.
func endOfCall(c perdure.Call) string {
	text, err := json.Marshal([]any{c.State, c.Result, c.Executions, c.SettledAt})
	if err != nil {
		return err.Error()
	}
	return string(text)
}

func sumOf(e perdure.Event) [sha256.Size]byte {
	text, err := perdure.EncodeEvent(e)
	if err != nil {
		text = []byte(err.Error())
	}
	return sha256.Sum256(text)
}

// put sets an entry of a map that may be nil.
func put[K comparable, V any](m *map[K]V, key K, value V) {
	if *m == nil {
		*m = map[K]V{}
	}
	(*m)[key] = value
}

// ReadLog reads the output of a task from its beginning, at most max bytes.
func ReadLog(ctx context.Context, eng engine.Engine, id perdure.TaskID, max int) ([]byte, error) {
	var all []byte
	for len(all) < max {
		log, err := eng.Tasks().Log(ctx, id, int64(len(all)), max-len(all))
		if err != nil {
			return all, fmt.Errorf("read the log of %s: %w", id, err)
		}
		piece := bytesOf(log)
		if len(piece) == 0 {
			break
		}
		all = append(all, piece...)
	}
	return all, nil
}

package perdure

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"
)

// FoldVersion is the version of what [Session.Apply] makes of a journal. A snapshot of another version is
// ignored and the journal is folded from its start (O8).
const FoldVersion = 6

// Session is a durable conversation: the fold of its journal. Only [Session.Apply] changes it.
// It is not safe for concurrent use; one goroutine owns a session.
type Session struct {
	ID            SessionID                   `json:"id"`
	Seq           int64                       `json:"seq"` // of the last event folded
	Agent         Agent                       `json:"agent"`
	Lineage       *Lineage                    `json:"lineage,omitempty"` // of a subagent
	Title         string                      `json:"title,omitempty"`
	Labels        Labels                      `json:"labels,omitempty"`
	Status        SessionStatus               `json:"status"`
	Transcript    []Message                   `json:"transcript,omitempty"`    // what the model is shown, in order
	Queue         []Message                   `json:"queue,omitempty"`         // received and not yet in the transcript
	Traces        map[MessageID]string        `json:"traces,omitempty"`        // the traceparents of queued messages that came with one
	Notices       []Message                   `json:"notices,omitempty"`       // notifications that no task carries, waiting
	Turn          *Turn                       `json:"turn,omitempty"`          // nil at rest
	LastTurn      *TurnEnd                    `json:"last_turn,omitempty"`     // of a subagent: how the last one ended
	Stopped       *SessionStopped             `json:"stopped,omitempty"`       // nothing goes on until a person speaks
	Tasks         map[TaskID]Task             `json:"tasks,omitempty"`         //
	Approvals     map[ApprovalID]Approval     `json:"approvals,omitempty"`     // open ones
	Ready         []TaskID                    `json:"ready,omitempty"`         // ended, to_loop and not delivered, in settle order
	Unknown       map[CallID]string           `json:"unknown,omitempty"`       // foreground calls of unknown outcome, by tool
	UsedCalls     Register[CallID, bool]      `json:"used_calls,omitzero"`     // call ids of this session (N7)
	Keys          Register[string, MessageID] `json:"keys,omitzero"`           // senders' idempotency keys (DL12)
	Continuations int                         `json:"continuations,omitempty"` // automatic turns since a person spoke (DL8)
	Held          bool                        `json:"held,omitempty"`          // delivery.held was said since then
	Nudged        bool                        `json:"nudged,omitempty"`        // a task's message asks for a turn (DL7)
	Compacted     Compaction                  `json:"compacted,omitzero"`      // what the model is not shown any more (TN23)
	Sound         int                         `json:"sound,omitempty"`         // messages in which every call has its one result (TN16)
	Halt          *Halt                       `json:"halt,omitempty"`          // the budget that keeps it from going on (BU3)
	Paused        *Pause                      `json:"paused,omitempty"`        // the person who keeps it from going on
	Under         SessionStatus               `json:"under,omitempty"`         // with Paused: where it would stand without
	Waived        []Waiver                    `json:"waived,omitempty"`        // soft limits that do not stop it any more
	Cut           bool                        `json:"cut,omitempty"`           // its last turn was cut short by a budget
	Usage         Usage                       `json:"usage"`
	CreatedAt     time.Time                   `json:"created_at"`
	UpdatedAt     time.Time                   `json:"updated_at"`
}

// SessionStatus is where a session stands (O1). There is no terminal status.
type SessionStatus string

// The statuses of a session.
const (
	SessionStarted SessionStatus = "started"
	SessionActive  SessionStatus = "active"
	SessionIdle    SessionStatus = "idle"
	SessionWaiting SessionStatus = "waiting_for_tool_results"
	SessionPaused  SessionStatus = "paused"
)

// Check reports a status that there is not; it is Invalid.
func (s SessionStatus) Check() error {
	switch s {
	case SessionStarted, SessionActive, SessionIdle, SessionWaiting, SessionPaused:
		return nil
	}
	return fmt.Errorf("%w status %q: of started, active, idle, waiting_for_tool_results, paused", Invalid, s)
}

// NewSession returns the fold of an empty journal.
func NewSession(id SessionID) *Session {
	return &Session{
		ID:        id,
		Tasks:     map[TaskID]Task{},
		Approvals: map[ApprovalID]Approval{},
		Unknown:   map[CallID]string{},
	}
}

// Clone returns a copy that may be changed without changing s. Messages and tasks are values that nobody
// changes in place, so their contents are shared.
func (s *Session) Clone() *Session {
	c := s.Successor()
	c.Transcript = slices.Clip(s.Transcript)
	return c
}

// Successor returns what is to become the next state of s. It grows where s stands, so that a step of a long
// conversation costs no copy of it: s may be read as before and is not changed, but it must not get another
// successor, unless the first one is thrown away.
func (s *Session) Successor() *Session {
	c := *s
	c.Queue = slices.Clone(s.Queue)
	c.Notices = slices.Clone(s.Notices)
	c.Traces = maps.Clone(s.Traces)
	c.Ready = slices.Clone(s.Ready)
	c.Tasks = maps.Clone(s.Tasks)
	c.Approvals = maps.Clone(s.Approvals)
	c.Unknown = maps.Clone(s.Unknown)
	c.UsedCalls = s.UsedCalls.clone()
	c.Keys = s.Keys.clone()
	if s.Turn != nil {
		turn := *s.Turn
		turn.Calls = slices.Clone(s.Turn.Calls)
		c.Turn = &turn
	}
	return &c
}

// EncodeSnapshot writes the fold for the cache.
func EncodeSnapshot(s *Session) ([]byte, error) { return json.Marshal(s) }

// DecodeSnapshot reads a fold from the cache. Another version or unreadable bytes are Invalid: fold the journal.
func DecodeSnapshot(version int, body []byte) (*Session, error) {
	if version != FoldVersion {
		return nil, fmt.Errorf("%w snapshot: version %d, this program folds %d", Invalid, version, FoldVersion)
	}
	s := NewSession("")
	if err := json.Unmarshal(body, s); err != nil {
		return nil, fmt.Errorf("%w snapshot: %w", Invalid, err)
	}
	if s.ID == "" || s.Tasks == nil || s.Unknown == nil {
		return nil, fmt.Errorf("%w snapshot: it is not whole", Invalid)
	}
	if s.Approvals == nil { // none was open
		s.Approvals = map[ApprovalID]Approval{}
	}
	return s, nil
}

// OpenTasks returns the tasks that have not ended, in the order of their creation.
func (s *Session) OpenTasks() []Task {
	var open []Task
	for _, t := range s.Tasks {
		if t.State.Live() {
			open = append(open, t)
		}
	}
	slices.SortFunc(open, Task.compareAge)
	return open
}

// works reports whether a task is at work. A monitor only stands for its schedule.
func (t Task) works() bool { return t.Kind != KindMonitor }

// compareAge orders tasks by their creation.
func (t Task) compareAge(other Task) int {
	return cmp.Or(t.CreatedAt.Compare(other.CreatedAt), strings.Compare(string(t.ID), string(other.ID)))
}

// Carries reports whether a call goes on in a task that has not ended, whatever became of its turn.
func (s *Session) Carries(id CallID) bool {
	for _, t := range s.Tasks {
		if t.Call == id && t.State.Live() {
			return true
		}
	}
	return false
}

// AtRest reports whether nothing is left to do: no turn, no live task but monitors, and, unless a budget or a person stopped it,
// nothing queued, nothing cut short, and no result on its way that would start a turn. A turn that a person's pause holds rests.
func (s *Session) AtRest() bool {
	if slices.ContainsFunc(s.OpenTasks(), Task.works) {
		return false
	}
	if s.Turn != nil {
		return s.Suspended()
	}
	return s.Stopped != nil || s.Halt != nil || s.Paused != nil || len(s.Queue) == 0 && !s.wakes() && !s.Cut
}

// wakes reports whether a result that came home starts a turn of its own (DL6, DL8).
func (s *Session) wakes() bool {
	return s.Continuations < s.Agent.maxContinuations() && s.wantsTurn()
}

// wantsTurn reports whether an ended task asks for a turn.
func (s *Session) wantsTurn() bool {
	return s.Nudged || slices.ContainsFunc(s.Ready, func(id TaskID) bool { return s.Tasks[id].Wake == WakeContinue })
}

// maxFresh is how many entries of a [Register] are copied with it before they join the old ones.
const maxFresh = 128

// Register is a map that only grows, and is copied at every step of a session: its old entries are shared between the
// copies and never changed, so that a copy costs no more when there are thousands. The zero value is empty.
// It is not safe for concurrent use; its copies may be used beside one another.
type Register[K ~string, V comparable] struct {
	old   map[K]V // shared with other copies
	fresh map[K]V // at most maxFresh
}

// Get returns the value of a key, and whether there is one.
func (r Register[K, V]) Get(key K) (V, bool) {
	if v, ok := r.fresh[key]; ok {
		return v, true
	}
	v, ok := r.old[key]
	return v, ok
}

// IsZero reports whether it is empty.
func (r Register[K, V]) IsZero() bool { return len(r.old) == 0 && len(r.fresh) == 0 }

// Equal reports whether two hold the same.
func (r Register[K, V]) Equal(other Register[K, V]) bool { return maps.Equal(r.all(), other.all()) }

func (r *Register[K, V]) put(key K, value V) {
	if len(r.fresh) >= maxFresh {
		r.old, r.fresh = r.all(), nil
	}
	if r.fresh == nil {
		r.fresh = map[K]V{}
	}
	r.fresh[key] = value
}

func (r Register[K, V]) clone() Register[K, V] {
	return Register[K, V]{old: r.old, fresh: maps.Clone(r.fresh)}
}

func (r Register[K, V]) all() map[K]V {
	all := make(map[K]V, len(r.old)+len(r.fresh))
	maps.Copy(all, r.old)
	maps.Copy(all, r.fresh)
	return all
}

// MarshalJSON writes it as an object.
func (r Register[K, V]) MarshalJSON() ([]byte, error) { return json.Marshal(r.all()) }

// UnmarshalJSON reads what MarshalJSON wrote.
func (r *Register[K, V]) UnmarshalJSON(text []byte) error {
	*r = Register[K, V]{}
	return json.Unmarshal(text, &r.old)
}

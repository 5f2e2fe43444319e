package perdure

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"time"
	"unicode/utf8"

	"github.com/perdure/perdure/internal/growmap"
)

// FoldVersion is the version of the fold that [Session.Apply] makes of a journal. A snapshot of
// another version is ignored, and the journal is folded from its start.
const FoldVersion = 8

// Session is a durable conversation: the fold of its journal. Only [Session.Apply] changes it.
// It is not safe for concurrent use; one goroutine owns a session.
type Session struct {
	ID            SessionID               `json:"id"`
	Seq           int64                   `json:"seq"` // of the last folded event
	Agent         Agent                   `json:"agent"`
	Lineage       *Lineage                `json:"lineage,omitempty"` // of a subagent
	Title         string                  `json:"title,omitempty"`
	Labels        Labels                  `json:"labels,omitempty"`
	Status        SessionStatus           `json:"status"`
	Transcript    []Message               `json:"transcript,omitempty"` // the conversation; see Context
	Queue         []Message               `json:"queue,omitempty"`      // received, not yet in the transcript
	Traces        map[MessageID]string    `json:"traces,omitempty"`     // traceparents of queued messages
	Notifications []Message               `json:"notices,omitempty"`    // waiting, without deliveries
	Turn          *Turn                   `json:"turn,omitempty"`       // nil while idle
	LastTurn      *TurnEnd                `json:"last_turn,omitempty"`  // of a subagent
	Stopped       *SessionStopped         `json:"stopped,omitempty"`    // until a person writes
	Tasks         map[TaskID]Task         `json:"tasks,omitempty"`      //
	Approvals     map[ApprovalID]Approval `json:"approvals,omitempty"`  // the open ones
	// undelivered to_loop results, in order
	Undelivered  []TaskID                  `json:"ready,omitempty"`
	UnknownCalls map[CallID]string         `json:"unknown,omitempty"`   // tools of calls of unknown outcome
	UsedCalls    growmap.Map[CallID, bool] `json:"used_calls,omitzero"` // all call ids of the session
	// idempotency keys of received messages, each with the seq of its event
	MessageKeys growmap.Map[string, int64] `json:"keys,omitzero"`
	// automatic turns since a person wrote
	Continuations int `json:"continuations,omitempty"`
	// delivery.held was recorded since then
	DeliveryHeld  bool `json:"held,omitempty"`
	TurnRequested bool `json:"nudged,omitempty"` // a task's message asks for a turn
	// what the model does not see any more
	Compacted     Compaction    `json:"compacted,omitzero"`
	CheckedLen    int           `json:"sound,omitempty"`  // number of messages without breaches
	Halt          *Halt         `json:"halt,omitempty"`   // the budget that stopped it
	Paused        *Pause        `json:"paused,omitempty"` // a person's pause
	CoveredStatus SessionStatus `json:"under,omitempty"`  // the status that Paused covers
	Waived        []Waiver      `json:"waived,omitempty"` // soft limits that no longer stop it
	CutByBudget   bool          `json:"cut,omitempty"`    // a budget cut its last turn short
	Usage         Usage         `json:"usage"`
	CreatedAt     time.Time     `json:"created_at"`
	UpdatedAt     time.Time     `json:"updated_at"`
}

// MaxTitleBytes limits the title of a session.
const MaxTitleBytes = 512

// CheckTitle returns an Invalid error if a session cannot be given the title.
func CheckTitle(title string) error {
	if title == "" || len(title) > MaxTitleBytes || !utf8.ValidString(title) {
		return fmt.Errorf("%w title: it has %d bytes; give 1 to %d bytes of UTF-8", Invalid, len(title), MaxTitleBytes)
	}
	return nil
}

// SessionStatus is the status of a session. None of them is terminal.
type SessionStatus string

// The statuses of a session.
const (
	SessionStarted SessionStatus = "started"
	SessionActive  SessionStatus = "active"
	SessionIdle    SessionStatus = "idle"
	SessionWaiting SessionStatus = "waiting_for_tool_results"
	SessionPaused  SessionStatus = "paused"
)

// Check returns an Invalid error if s is not one of the statuses.
func (s SessionStatus) Check() error {
	switch s {
	case SessionStarted, SessionActive, SessionIdle, SessionWaiting, SessionPaused:
		return nil
	}
	return fmt.Errorf("%w status %q: use started, active, idle, waiting_for_tool_results or paused", Invalid, s)
}

// NewSession returns the fold of an empty journal.
func NewSession(id SessionID) *Session {
	return &Session{
		ID:           id,
		Tasks:        map[TaskID]Task{},
		Approvals:    map[ApprovalID]Approval{},
		UnknownCalls: map[CallID]string{},
	}
}

// Clone returns an independent copy. Messages and tasks are never changed in place, so their
// contents are shared.
func (s *Session) Clone() *Session {
	c := s.Successor()
	c.Transcript = slices.Clip(s.Transcript)
	return c
}

// Successor returns a copy that becomes the next state of s. It appends to the transcript of s
// without copying it, because a copy for every step would make long conversations slow. s stays
// unchanged and readable, but it must not get a second successor unless the first one is discarded:
// both would append to the same array.
func (s *Session) Successor() *Session {
	c := *s
	c.Queue = slices.Clone(s.Queue)
	c.Notifications = slices.Clone(s.Notifications)
	c.Traces = maps.Clone(s.Traces)
	c.Undelivered = slices.Clone(s.Undelivered)
	c.Tasks = maps.Clone(s.Tasks)
	c.Approvals = maps.Clone(s.Approvals)
	c.UnknownCalls = maps.Clone(s.UnknownCalls)
	c.UsedCalls = s.UsedCalls.Clone()
	c.MessageKeys = s.MessageKeys.Clone()
	if s.Turn != nil {
		turn := *s.Turn
		turn.Calls = slices.Clone(s.Turn.Calls)
		c.Turn = &turn
	}
	return &c
}

// EncodeSnapshot encodes the fold for the cache.
func EncodeSnapshot(s *Session) ([]byte, error) { return json.Marshal(s) }

// DecodeSnapshot decodes a fold from the cache. Another version, or bytes that cannot be decoded,
// are Invalid; fold the journal instead.
func DecodeSnapshot(version int, body []byte) (*Session, error) {
	if version != FoldVersion {
		return nil, fmt.Errorf("%w snapshot: its version is %d, but this program reads version %d",
			Invalid, version, FoldVersion)
	}
	s := NewSession("")
	if err := json.Unmarshal(body, s); err != nil {
		return nil, fmt.Errorf("%w snapshot: %w", Invalid, err)
	}
	if s.ID == "" || s.Tasks == nil || s.UnknownCalls == nil {
		return nil, fmt.Errorf("%w snapshot: it is incomplete", Invalid)
	}
	if s.Approvals == nil { // absent if there were none
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

// HasLiveTask reports whether a live task carries the call, even if the call's turn has ended.
func (s *Session) HasLiveTask(id CallID) bool {
	for _, t := range s.Tasks {
		if t.Call == id && t.State.Live() {
			return true
		}
	}
	return false
}

// AtRest reports whether nothing is left to do. There must be no live task except monitors, and no
// turn except one that a pause holds. Unless a budget, a pause or a stop holds the session, there
// must also be no queued message, no turn that was cut short, and no result that would start a
// turn.
func (s *Session) AtRest() bool {
	if slices.ContainsFunc(s.OpenTasks(), Task.isWork) {
		return false
	}
	if s.Turn != nil {
		return s.Suspended()
	}
	return s.Stopped != nil || s.Halt != nil || s.Paused != nil || len(s.Queue) == 0 && !s.startsAutomaticTurn() && !s.CutByBudget
}

// startsAutomaticTurn reports whether an undelivered result or a task's message starts a turn now.
func (s *Session) startsAutomaticTurn() bool {
	return s.Continuations < s.Agent.maxContinuations() && s.requestsTurn()
}

// requestsTurn reports whether an undelivered result or a task's message asks for a turn, even
// beyond the limit of automatic turns.
func (s *Session) requestsTurn() bool {
	return s.TurnRequested || slices.ContainsFunc(s.Undelivered, func(id TaskID) bool { return s.Tasks[id].Wake == WakeContinue })
}

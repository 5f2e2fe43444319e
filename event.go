package perdure

import (
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"github.com/perdure/perdure/internal/strictjson"
)

// EventVersion is the version of the encoding that [EncodeEvent] writes. It stays the same when
// event types and fields are added.
const EventVersion = 1

// EventType names what happened, for example turn.started.
type EventType string

// Fact is the payload of an event. Each event type has one Go type.
type Fact interface {
	// EventType returns the one type of the payload, so that type and payload cannot disagree.
	EventType() EventType
}

// Event is one entry of a session's journal. The store assigns Seq in the commit: 1, 2, 3 … without
// a gap. Only Seq gives the order of events, never ID or At.
type Event struct {
	ID      EventID
	Seq     int64
	At      time.Time // UTC, with microseconds
	Session SessionID
	Actor   string // who caused it: user, agent, runtime, operator …
	Turn    TurnID
	Call    CallID
	Task    TaskID
	Attempt int
	Trace   string // the W3C traceparent of the cause; may be empty. No decision depends on it
	Fact    Fact
}

// Type returns the type of the event's fact; empty without a fact.
func (e Event) Type() EventType {
	if e.Fact == nil {
		return ""
	}
	return e.Fact.EventType()
}

// wireEvent is the form of an event in the store and in the API.
type wireEvent struct {
	V       int             `json:"v"`
	ID      EventID         `json:"id"`
	Seq     int64           `json:"seq"`
	Type    EventType       `json:"type"`
	At      time.Time       `json:"at"`
	Session SessionID       `json:"session_id"`
	Actor   string          `json:"actor,omitempty"`
	Turn    TurnID          `json:"turn_id,omitempty"`
	Call    CallID          `json:"call_id,omitempty"`
	Task    TaskID          `json:"task_id,omitempty"`
	Attempt int             `json:"attempt,omitempty"`
	TraceID string          `json:"trace_id,omitempty"`
	SpanID  string          `json:"span_id,omitempty"`
	Flags   string          `json:"trace_flags,omitempty"`
	Data    json.RawMessage `json:"data"`
}

// EncodeEvent writes an event in its stored form. Equal events have equal bytes.
func EncodeEvent(e Event) ([]byte, error) {
	if e.Fact == nil {
		return nil, fmt.Errorf("%w event: no fact", Invalid)
	}
	var data json.RawMessage
	if u, ok := e.Fact.(UnknownFact); ok {
		data = u.Data
	} else {
		body, err := strictjson.Encode(e.Fact)
		if err != nil {
			return nil, fmt.Errorf("encode %s: %w", e.Type(), err)
		}
		data = body
	}
	trace, span, flags := splitTrace(e.Trace)
	return strictjson.Encode(wireEvent{
		V: EventVersion, ID: e.ID, Seq: e.Seq, Type: e.Type(), At: e.At.UTC().Truncate(time.Microsecond), Session: e.Session, Actor: e.Actor,
		Turn: e.Turn, Call: e.Call, Task: e.Task, Attempt: e.Attempt, TraceID: trace, SpanID: span, Flags: flags, Data: data,
	})
}

// splitTrace splits a W3C traceparent into trace id, span id and flags. All are empty if parent is
// not a traceparent.
func splitTrace(parent string) (trace, span, flags string) {
	if len(parent) != 55 || parent[:3] != "00-" || parent[35] != '-' || parent[52] != '-' {
		return "", "", ""
	}
	return parent[3:35], parent[36:52], parent[53:]
}

// joinTrace is the inverse of splitTrace; empty if a part is missing.
func joinTrace(trace, span, flags string) string {
	if trace == "" || span == "" || flags == "" {
		return ""
	}
	return "00-" + trace + "-" + span + "-" + flags
}

// DecodeEvent reads what EncodeEvent wrote. An event of a type that this version does not know
// becomes an [UnknownFact], so that an older version can read newer journals. Another encoding
// version, or text that is not an event, is Invalid.
func DecodeEvent(text []byte) (Event, error) {
	var w wireEvent
	if err := json.Unmarshal(text, &w); err != nil {
		return Event{}, fmt.Errorf("%w event: %w", Invalid, err)
	}
	if w.V != EventVersion {
		return Event{}, fmt.Errorf("%w event: its encoding version is %d, but this program reads version %d",
			Invalid, w.V, EventVersion)
	}
	fact, err := decodeFact(w.Type, w.Data)
	if err != nil {
		return Event{}, fmt.Errorf("%w event %s, seq %d: %w", Invalid, w.Type, w.Seq, err)
	}
	return Event{
		ID: w.ID, Seq: w.Seq, At: w.At, Session: w.Session, Actor: w.Actor,
		Turn: w.Turn, Call: w.Call, Task: w.Task, Attempt: w.Attempt, Trace: joinTrace(w.TraceID, w.SpanID, w.Flags), Fact: fact,
	}, nil
}

// MarshalJSON writes the stored form; encoding/json then adds its HTML escapes.
func (e Event) MarshalJSON() ([]byte, error) { return EncodeEvent(e) }

// UnmarshalJSON reads the form that MarshalJSON writes.
func (e *Event) UnmarshalJSON(text []byte) error {
	decoded, err := DecodeEvent(text)
	*e = decoded
	return err
}

// UnknownFact is a fact of a type that this version does not know, with its original bytes.
type UnknownFact struct {
	Kind EventType
	Data json.RawMessage
}

// EventType returns the type that the fact was read with.
func (u UnknownFact) EventType() EventType { return u.Kind }

// decodeFact decodes the payload of an event type.
func decodeFact(t EventType, data json.RawMessage) (Fact, error) {
	switch t {
	case "session.created":
		return decodeAs[SessionCreated](data)
	case "session.updated":
		return decodeAs[SessionUpdated](data)
	case "session.activated":
		return decodeAs[SessionActivated](data)
	case "session.stopped":
		return decodeAs[SessionStopped](data)
	case "session.paused":
		return decodeAs[SessionPauses](data)
	case "session.resumed":
		return decodeAs[SessionResumes](data)
	case "session.idled":
		return decodeAs[SessionIdled](data)
	case "message.received":
		return decodeAs[MessageReceived](data)
	case "turn.started":
		return decodeAs[TurnStarted](data)
	case "turn.interrupt_requested":
		return decodeAs[InterruptRequested](data)
	case "turn.completed":
		return decodeAs[TurnCompleted](data)
	case "turn.failed":
		return decodeAs[TurnFailed](data)
	case "turn.canceled":
		return decodeAs[TurnCanceled](data)
	case "turn.sealed":
		return decodeAs[TurnSealed](data)
	case "reason.started":
		return decodeAs[ReasonStarted](data)
	case "reason.completed":
		return decodeAs[ReasonCompleted](data)
	case "reason.recovered":
		return decodeAs[ReasonRecovered](data)
	case "output.message.started":
		return decodeAs[OutputStarted](data)
	case "output.message.completed":
		return decodeAs[OutputCompleted](data)
	case "output.message.replaced":
		return decodeAs[OutputReplaced](data)
	case "turn.loop_detected":
		return decodeAs[LoopDetected](data)
	case "llm.generation":
		return decodeAs[Generation](data)
	case "act.started":
		return decodeAs[ActStarted](data)
	case "act.completed":
		return decodeAs[ActCompleted](data)
	case "tool.started":
		return decodeAs[ToolStarted](data)
	case "tool.taken_over":
		return decodeAs[ToolTakenOver](data)
	case "tool.completed":
		return decodeAs[ToolCompleted](data)
	case "tool.unknown":
		return decodeAs[ToolUnknown](data)
	case "tool.resolved":
		return decodeAs[ToolResolved](data)
	case "transcript.repaired":
		return decodeAs[TranscriptRepaired](data)
	case "":
		return nil, fmt.Errorf("no type")
	}
	return decodeLater(t, data)
}

// decodeLater decodes the payloads of tasks, approvals, schedules, budgets and other work that is
// not bound to a turn.
func decodeLater(t EventType, data json.RawMessage) (Fact, error) {
	switch t {
	case "task.created":
		return decodeAs[TaskCreated](data)
	case "task.updated":
		return decodeAs[TaskUpdated](data)
	case "task.reattached":
		return decodeAs[TaskReattached](data)
	case "task.resolved":
		return decodeAs[TaskResolved](data)
	case "task.cancel_requested":
		return decodeAs[TaskCancelRequested](data)
	case "task.cancel_receipt":
		return decodeAs[TaskCancelReceipt](data)
	case "task.delivered":
		return decodeAs[TaskDelivered](data)
	case "task.pruned":
		return decodeAs[TaskPruned](data)
	case "delivery.held":
		return decodeAs[DeliveryHeld](data)
	case "task.message.sent":
		return decodeAs[TaskMessageSent](data)
	case "task.message.received":
		return decodeAs[TaskMessageReceived](data)
	case "session.forked":
		return decodeAs[SessionForked](data)
	case "session.waiting":
		return decodeAs[SessionAwaits](data)
	case "tool.detach_requested":
		return decodeAs[ToolDetachRequested](data)
	case "tool.detach_refused":
		return decodeAs[ToolDetachRefused](data)
	case "tool.detached":
		return decodeAs[ToolDetached](data)
	case "tool.call_requested":
		return decodeAs[ToolCallRequested](data)
	case "tool.replanned":
		return decodeAs[CallReplanned](data)
	case "context.compacted":
		return decodeAs[ContextCompacted](data)
	case "approval.requested":
		return decodeAs[ApprovalRequested](data)
	case "approval.resolved":
		return decodeAs[ApprovalResolved](data)
	case "schedule.created":
		return decodeAs[ScheduleCreated](data)
	case "schedule.fired":
		return decodeAs[ScheduleFired](data)
	case "schedule.skipped":
		return decodeAs[ScheduleSkipped](data)
	case "schedule.paused":
		return decodeAs[SchedulePaused](data)
	case "schedule.canceled":
		return decodeAs[ScheduleCanceled](data)
	case "file.written":
		return decodeAs[FileWritten](data)
	case "egress.denied":
		return decodeAs[RequestDenied](data)
	case "audit.recorded":
		return decodeAs[AuditRecorded](data)
	case "resource.updated":
		return decodeAs[ResourceUpdated](data)
	case "budget.warning", "budget.paused", "budget.exhausted", "budget.resumed":
		return decodeBudget(t, data)
	case "lease.expired":
		return decodeAs[LeaseExpired](data)
	case "lease.cleanup_failed":
		return decodeAs[LeaseCleanupFailed](data)
	}
	if strings.HasPrefix(string(t), ToolEventPrefix) {
		return decodeToolEvent(t, data)
	}
	return UnknownFact{Kind: t, Data: data}, nil
}

// decodeToolEvent decodes an event of a tool. Its type must be the one that the payload has.
func decodeToolEvent(t EventType, data json.RawMessage) (Fact, error) {
	fact, err := decodeAs[ToolEvent](data)
	if err == nil && fact.EventType() != t {
		return nil, fmt.Errorf("the data are those of %s", fact.EventType())
	}
	return fact, err
}

func decodeAs[T Fact](data json.RawMessage) (Fact, error) {
	var fact T
	if err := json.Unmarshal(data, &fact); err != nil {
		return nil, err
	}
	return fact, nil
}

package perdure

import (
	"bytes"
	"encoding/json"
	"fmt"
	"time"
)

// EventVersion is the version of the encoding that [EncodeEvent] writes. Kinds and fields are only ever added.
const EventVersion = 1

// EventType names what happened.
type EventType string

// Fact is what an event says: the payload that goes with one type.
type Fact interface {
	// EventType is the one type that the payload stands for, so that the two cannot disagree (EV3).
	EventType() EventType
}

// Event is one entry of a session's journal (16.1). The store assigns Seq in the commit: 1, 2, 3 … without
// a gap; order is Seq, never ID or At (EV1).
type Event struct {
	ID      EventID
	Seq     int64
	At      time.Time // UTC, microseconds
	Session SessionID
	Actor   string // who did it: user, agent, runtime, operator …
	Turn    TurnID
	Call    CallID
	Task    TaskID
	Attempt int
	Trace   string // the W3C traceparent of whoever caused it; empty: nobody said. It takes no part in what is decided
	Fact    Fact
}

// Type is the type of the event's fact.
func (e Event) Type() EventType {
	if e.Fact == nil {
		return ""
	}
	return e.Fact.EventType()
}

// wireEvent is the stored and served form of an event.
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

// EncodeEvent writes an event in its stored form. Events with equal contents have equal bytes.
func EncodeEvent(e Event) ([]byte, error) {
	if e.Fact == nil {
		return nil, fmt.Errorf("%w event: no fact", Invalid)
	}
	var data json.RawMessage
	if u, ok := e.Fact.(UnknownFact); ok {
		data = u.Data
	} else {
		body, err := marshalPlain(e.Fact)
		if err != nil {
			return nil, fmt.Errorf("encode %s: %w", e.Type(), err)
		}
		data = body
	}
	trace, span, flags := splitTrace(e.Trace)
	return marshalPlain(wireEvent{
		V: EventVersion, ID: e.ID, Seq: e.Seq, Type: e.Type(), At: e.At.UTC().Truncate(time.Microsecond), Session: e.Session, Actor: e.Actor,
		Turn: e.Turn, Call: e.Call, Task: e.Task, Attempt: e.Attempt, TraceID: trace, SpanID: span, Flags: flags, Data: data,
	})
}

// splitTrace takes a traceparent apart: the ids of its trace and its span, and its flags. What is none has no parts.
func splitTrace(parent string) (trace, span, flags string) {
	if len(parent) != 55 || parent[:3] != "00-" || parent[35] != '-' || parent[52] != '-' {
		return "", "", ""
	}
	return parent[3:35], parent[36:52], parent[53:]
}

// joinTrace is the traceparent of its parts; without them, none.
func joinTrace(trace, span, flags string) string {
	if trace == "" || span == "" || flags == "" {
		return ""
	}
	return "00-" + trace + "-" + span + "-" + flags
}

// marshalPlain is json.Marshal without the escapes that only HTML minds, so that a result has the same bytes
// in the journal as in the ledger.
func marshalPlain(v any) ([]byte, error) {
	var out bytes.Buffer
	enc := json.NewEncoder(&out)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		return nil, err
	}
	return bytes.TrimSuffix(out.Bytes(), []byte{'\n'}), nil
}

// DecodeEvent reads what EncodeEvent wrote. A type that this version does not know becomes an
// [UnknownFact] with its bytes (EV10); a later encoding version, or text that is no event, is Invalid.
func DecodeEvent(text []byte) (Event, error) {
	var w wireEvent
	if err := json.Unmarshal(text, &w); err != nil {
		return Event{}, fmt.Errorf("%w event: %w", Invalid, err)
	}
	if w.V != EventVersion {
		return Event{}, fmt.Errorf("%w event: encoding version %d, this program reads %d", Invalid, w.V, EventVersion)
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

// MarshalJSON writes the stored form; the json package then escapes what HTML minds.
func (e Event) MarshalJSON() ([]byte, error) { return EncodeEvent(e) }

// UnmarshalJSON reads the served form.
func (e *Event) UnmarshalJSON(text []byte) error {
	decoded, err := DecodeEvent(text)
	*e = decoded
	return err
}

// UnknownFact is a fact of a type that this version does not know. It is kept as it is.
type UnknownFact struct {
	Kind EventType
	Data json.RawMessage
}

// EventType is the type that the fact came with.
func (u UnknownFact) EventType() EventType { return u.Kind }

// decodeFact picks the payload for a type.
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

// decodeLater picks the payload for what outlives a turn, and what waits for somebody.
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
	return UnknownFact{Kind: t, Data: data}, nil
}

func decodeAs[T Fact](data json.RawMessage) (Fact, error) {
	var fact T
	if err := json.Unmarshal(data, &fact); err != nil {
		return nil, err
	}
	return fact, nil
}

package perdure

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"strings"
	"time"
)

// The identifiers of rows, messages and steps. Each is a prefix and 32 lower-case hex digits (N1);
// the zero value is invalid and never stored (N2).
type (
	SessionID     string // session_…, v7
	TurnID        string // turn_…, v7, also the trace id
	ExecID        string // exec_…, v7: one reason step
	EventID       string // event_…, v7
	MessageID     string // message_…: in a transcript
	TaskID        string // task_…: v7 or derived
	RunID         string // bg_…: one background run, v7 or derived
	TaskMessageID string // tmsg_…, v7
	WorkerID      string // worker_…, v7: one process
	RequestID     string // req_…: an input request of a task
	ApprovalID    string // appr_…: one question to a person whether a call may run
	ImageID       string // image_…, v7
	LeaseID       string // resource_…, v7: a leased resource
	ScheduleID    string // sched_…, v7
	AgentID       string // agent_…, v7: a named configuration
	HarnessID     string // harness_…, v7: a configuration that others build upon
	ModelID       string // model_…, v7: a model of a provider
	ProviderID    string // provider_…, v7
	BudgetID      string // bdgt_…, v7: a cap on what may be spent
	WebhookID     string // webhook_…, v7: where events are sent
	// WebhookDeliveryID is whd_…, derived: an event on its way to a webhook, and what its receiver knows it by.
	WebhookDeliveryID string
	TokenID           string // token_…, v7: what lets somebody in; not the secret
	BulkID            string // bulk_…, v7: one thing done to many
)

// CallID names one tool invocation within its session. It comes from the model and is kept as it is (N7).
type CallID string

// CallKey is the key of a call in the effect ledger, for ever and across turns (N7).
type CallKey struct {
	Session SessionID `json:"session_id"`
	Call    CallID    `json:"call_id"`
}

// String writes the key as SESSION/CALL, the form that people type.
func (k CallKey) String() string { return string(k.Session) + "/" + string(k.Call) }

// IdempotencyKey is the key that every execution of the call carries, whoever owns it (LG10).
func (k CallKey) IdempotencyKey() string { return string(k.Session) + ":" + string(k.Call) }

// ID is any of the typed identifiers.
type ID interface {
	~string
	// Prefix is the noun's prefix, without the underscore.
	Prefix() string
}

// Prefix returns "session".
func (SessionID) Prefix() string { return "session" }

// Prefix returns "turn".
func (TurnID) Prefix() string { return "turn" }

// Prefix returns "exec".
func (ExecID) Prefix() string { return "exec" }

// Prefix returns "event".
func (EventID) Prefix() string { return "event" }

// Prefix returns "message".
func (MessageID) Prefix() string { return "message" }

// Prefix returns "image".
func (ImageID) Prefix() string { return "image" }

// Prefix returns "resource".
func (LeaseID) Prefix() string { return "resource" }

// Prefix returns "sched".
func (ScheduleID) Prefix() string { return "sched" }

// Prefix returns "agent".
func (AgentID) Prefix() string { return "agent" }

// Prefix returns "harness".
func (HarnessID) Prefix() string { return "harness" }

// Prefix returns "model".
func (ModelID) Prefix() string { return "model" }

// Prefix returns "provider".
func (ProviderID) Prefix() string { return "provider" }

// Prefix returns "bdgt".
func (BudgetID) Prefix() string { return "bdgt" }

// Prefix returns "webhook".
func (WebhookID) Prefix() string { return "webhook" }

// Prefix returns "whd".
func (WebhookDeliveryID) Prefix() string { return "whd" }

// Prefix returns "token".
func (TokenID) Prefix() string { return "token" }

// Prefix returns "bulk".
func (BulkID) Prefix() string { return "bulk" }

// Prefix returns "task".
func (TaskID) Prefix() string { return "task" }

// Prefix returns "bg".
func (RunID) Prefix() string { return "bg" }

// Prefix returns "tmsg".
func (TaskMessageID) Prefix() string { return "tmsg" }

// Prefix returns "worker".
func (WorkerID) Prefix() string { return "worker" }

// Prefix returns "req".
func (RequestID) Prefix() string { return "req" }

// Prefix returns "appr".
func (ApprovalID) Prefix() string { return "appr" }

// ParseID reads the public form of an identifier. Upper case, dashes, another prefix or another
// length are Invalid; the UUID's version is not checked (N1).
func ParseID[T ID](s string) (T, error) {
	var id T
	digits, ok := strings.CutPrefix(s, id.Prefix()+"_")
	if !ok || len(digits) != 32 || strings.Trim(digits, "0123456789abcdef") != "" || strings.Trim(digits, "0") == "" {
		return id, fmt.Errorf("%w %s id: %q", Invalid, id.Prefix(), s)
	}
	return T(s), nil
}

// FormatID writes a UUID as an identifier. The caller mints the UUID: this package has no randomness (N3).
func FormatID[T ID](uuid [16]byte) T {
	var id T
	return T(id.Prefix() + "_" + hex.EncodeToString(uuid[:]))
}

// Secret is the key of a session from which its derived ids come (N4). It is a column of the session's
// row and stands in no event, answer or log; it prints as a placeholder.
type Secret [32]byte

// String hides the secret.
func (Secret) String() string { return "<secret>" }

// Format hides the secret from every verb.
func (Secret) Format(f fmt.State, _ rune) { fmt.Fprint(f, "<secret>") }

// MarshalText hides the secret from JSON and from logs.
func (Secret) MarshalText() ([]byte, error) { return []byte("<secret>"), nil }

// DeriveID makes the identifier that the same parts give on every replay, and that nobody without the
// secret can guess: a UUIDv7 with the milliseconds of at in its time bits and HMAC-SHA-256 over the
// prefix and the parts in the others (N4, TK1). A message's id is a v4 without the time, since messages are
// shown to clients (N3).
func DeriveID[T ID](secret Secret, at time.Time, parts ...string) T {
	var id T
	mac := hmac.New(sha256.New, secret[:])
	mac.Write([]byte("perdure/" + id.Prefix() + "/1"))
	for _, part := range parts {
		mac.Write(binary.BigEndian.AppendUint64(nil, uint64(len(part))))
		mac.Write([]byte(part))
	}
	var uuid [16]byte
	copy(uuid[:], mac.Sum(nil))
	version := byte(0x40)
	if id.Prefix() != MessageID("").Prefix() {
		var ms [8]byte
		binary.BigEndian.PutUint64(ms[:], uint64(at.UnixMilli()))
		copy(uuid[:6], ms[2:])
		version = 0x70
	}
	uuid[6] = uuid[6]&0x0f | version
	uuid[8] = uuid[8]&0x3f | 0x80
	return FormatID[T](uuid)
}

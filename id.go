package perdure

import (
	"encoding/hex"
	"fmt"
	"strings"
	"time"

	"github.com/perdure/perdure/internal/hmacuuid"
)

// The identifiers of rows, messages and steps. Each is a prefix and 32 lower-case hex digits; v7
// means a time-ordered UUID. The zero value is invalid and never stored.
type (
	SessionID     string // session_…: v7, or v8 for a session with a key
	TurnID        string // turn_…, v7, also the trace id
	ExecID        string // exec_…, v7: one reason step
	EventID       string // event_…, v7
	MessageID     string // message_…: in a transcript
	TaskID        string // task_…: v7 or derived
	RunID         string // bg_…: one background run, v7 or derived
	TaskMessageID string // tmsg_…, v7
	WorkerID      string // worker_…, v7: one process
	HomeID        string // home_…, random: one data directory, with what tools left running there
	RequestID     string // req_…: an input request of a task
	ApprovalID    string // one approval
	ImageID       string // image_…, v7
	LeaseID       string // resource_…, v7: a leased resource
	ScheduleID    string // sched_…, v7
	AgentID       string // agent_…, v7: a named configuration
	HarnessID     string // a configuration that others inherit from
	ModelID       string // model_…, v7: a model of a provider
	ProviderID    string // provider_…, v7
	BudgetID      string // a limit on spending
	WebhookID     string // webhook_…, v7: where events are sent
	// WebhookDeliveryID is whd_…, derived: an event on its way to a webhook. The receiver
	// recognises repeated deliveries by it.
	WebhookDeliveryID string
	TokenID           string // an access token; not the secret itself
	BulkID            string // one operation on many sessions or tasks
)

// CallID names a call within its session. It comes from the model and is kept unchanged.
type CallID string

// CallKey is the key of a call in the effect ledger. It is unique across turns.
type CallKey struct {
	Session SessionID `json:"session_id"`
	Call    CallID    `json:"call_id"`
}

// String returns SESSION/CALL, the form that users type.
func (k CallKey) String() string { return string(k.Session) + "/" + string(k.Call) }

// IdempotencyKey is the key that every execution of the call carries, whichever worker owns it.
func (k CallKey) IdempotencyKey() string { return string(k.Session) + ":" + string(k.Call) }

// ID is any of the typed identifiers.
type ID interface {
	~string
	// Prefix returns the prefix without the underscore.
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

// Prefix returns "home".
func (HomeID) Prefix() string { return "home" }

// Prefix returns "req".
func (RequestID) Prefix() string { return "req" }

// Prefix returns "appr".
func (ApprovalID) Prefix() string { return "appr" }

// ParseID checks the public form of an identifier. Upper case, dashes, another prefix or another
// length are Invalid, and the error shows the form. The version of the UUID is not checked.
func ParseID[T ID](s string) (T, error) {
	var id T
	digits, ok := strings.CutPrefix(s, id.Prefix()+"_")
	if !ok || len(digits) != 32 || strings.Trim(digits, "0123456789abcdef") != "" || strings.Trim(digits, "0") == "" {
		return id, fmt.Errorf("%w %[2]s id: %.80[3]q: use %[2]s_ and 32 lower-case hexadecimal digits, as in %[2]s_%[4]s",
			Invalid, id.Prefix(), s, exampleDigits)
	}
	return T(s), nil
}

// exampleDigits are the digits of the id that shows the form of all ids.
const exampleDigits = "019aa0000000700080000000000000aa"

// ParseSessionID is ParseID for the id of a session.
func ParseSessionID(s string) (SessionID, error) { return ParseID[SessionID](s) }

// IDForKey returns the identifier that follows from a key, which is any list of texts: the same for
// ever, and another one for every other list. A program with keys of its own for its objects needs
// no table to find them again.
//
// The id is a UUIDv8, so no object without a key has it by chance. Everybody who knows the key can
// compute the id: it grants nothing.
func IDForKey[T ID](key ...string) T {
	var id T
	return FormatID[T](hmacuuid.V8([32]byte{}, "perdure/"+id.Prefix()+"-key/1", key...))
}

// SessionIDForKey returns the id of the session that an org names by a key of its own.
func SessionIDForKey(org, key string) SessionID { return IDForKey[SessionID](org, key) }

// HasKey reports whether the id has the form of those that IDForKey returns.
func (id SessionID) HasKey() bool {
	digits := strings.TrimPrefix(string(id), id.Prefix()+"_")
	return len(digits) == 32 && digits[12] == '8'
}

// FormatID writes a UUID as an identifier. The caller makes the UUID; this package has no
// randomness.
func FormatID[T ID](uuid [16]byte) T {
	var id T
	return T(id.Prefix() + "_" + hex.EncodeToString(uuid[:]))
}

// Secret is the key from which the derived ids of a session come. It is a column of the session's
// row and appears in no event, answer or log. Every way of printing it gives a placeholder.
type Secret [32]byte

// String returns a placeholder.
func (Secret) String() string { return "<secret>" }

// Format prints a placeholder for every verb.
func (Secret) Format(f fmt.State, _ rune) { fmt.Fprint(f, "<secret>") }

// MarshalText returns a placeholder, so that JSON and logs do not contain the secret.
func (Secret) MarshalText() ([]byte, error) { return []byte("<secret>"), nil }

// DeriveID returns an identifier that is the same on every replay and that cannot be guessed
// without the secret. It is a UUIDv7 with the time of at. The id of a message is a UUIDv4 without
// the time, because clients see it and must not learn the time from it.
func DeriveID[T ID](secret Secret, at time.Time, parts ...string) T {
	var id T
	name := "perdure/" + id.Prefix() + "/1"
	if id.Prefix() == MessageID("").Prefix() {
		return FormatID[T](hmacuuid.V4(secret, name, parts...))
	}
	return FormatID[T](hmacuuid.V7(secret, at, name, parts...))
}

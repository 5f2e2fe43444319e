package perdure

import (
	"encoding/json"
	"slices"
	"time"
)

// Permission is one thing that a call wants to do, as a policy judges it and a person reads it (AP1).
type Permission struct {
	Kind   string `json:"kind"`             // for instance tool, path, host, command
	Target string `json:"target"`           // the tool's name, the path, the host …
	Reason string `json:"reason,omitempty"` // why it is asked about, for instance a sensitive path; not trusted
}

// Decision is what a policy says of a permission. The zero value leaves it to the next policy.
type Decision string

// The decisions, the most careful last.
const (
	Undecided Decision = ""
	Allow     Decision = "allow"
	Ask       Decision = "ask"  // a person decides
	Deny      Decision = "deny" // whatever others say
)

// Careful returns the more careful of two decisions: a denial beats a question, whatever the order (AP1).
func (d Decision) Careful(other Decision) Decision {
	for _, careful := range []Decision{Deny, Ask, Allow} {
		if d == careful || other == careful {
			return careful
		}
	}
	return Undecided
}

// ApprovalState is where a question to a person stands (AP3).
type ApprovalState string

// The states of an approval. Only an open one can be answered.
const (
	ApprovalOpen     ApprovalState = "open"
	ApprovalApproved ApprovalState = "approved"
	ApprovalDenied   ApprovalState = "denied"
	ApprovalExpired  ApprovalState = "expired"
	ApprovalVoid     ApprovalState = "void" // its call was interrupted or canceled
)

// Valid reports whether s is a state of AP3.
func (s ApprovalState) Valid() bool {
	return s == ApprovalOpen || s == ApprovalApproved || s == ApprovalDenied || s == ApprovalExpired || s == ApprovalVoid
}

// Approval is a question to a person whether a call may run. It is bound to the exact arguments and the set of
// permissions, and used once (AP3).
type Approval struct {
	ID          ApprovalID        `json:"id"`
	Session     SessionID         `json:"session_id"`
	Call        CallID            `json:"call_id"`
	Task        TaskID            `json:"task_id,omitempty"` // of a background run
	Tool        string            `json:"tool"`
	Args        json.RawMessage   `json:"args"`
	ArgsHash    string            `json:"args_digest"` // the call's fingerprint (LG13)
	Class       EffectClass       `json:"class"`
	Permissions []Permission      `json:"permissions"`
	Kind        string            `json:"request_kind,omitempty"`
	Why         string            `json:"reason,omitempty"` // in the words of who asks; not trusted
	Summary     string            `json:"summary,omitempty"`
	Metadata    map[string]string `json:"metadata,omitempty"`
	RequestedAt time.Time         `json:"requested_at"`
	ExpiresAt   time.Time         `json:"expires_at,omitzero"` // zero: never
	State       ApprovalState     `json:"state"`
	By          string            `json:"decided_by,omitempty"` // who answered
	At          time.Time         `json:"decided_at,omitzero"`
	Note        string            `json:"note,omitempty"`     // of who answered
	NewArgs     json.RawMessage   `json:"new_args,omitempty"` // what the call was approved with instead; it is judged anew (AP5)
}

// Binds reports whether an answer to a is one to the same question: the same tool, arguments and set of
// permissions, in whatever order (AP3).
func (a Approval) Binds(tool, argsHash string, permissions []Permission) bool {
	return a.Tool == tool && a.ArgsHash == argsHash && slices.Equal(sorted(a.Permissions), sorted(permissions))
}

// sorted returns the permissions in an order of their own, without their reasons.
func sorted(permissions []Permission) []Permission {
	list := slices.Clone(permissions)
	for i := range list {
		list[i].Reason = ""
	}
	slices.SortFunc(list, func(a, b Permission) int {
		return slices.Compare([]string{a.Kind, a.Target}, []string{b.Kind, b.Target})
	})
	return list
}

// Verdict is a person's answer to an approval.
type Verdict struct {
	Approve  bool            `json:"approve"`
	By       string          `json:"by"`
	Note     string          `json:"note,omitempty"`
	ArgsHash string          `json:"args_digest,omitempty"` // what the person saw; empty: whatever it is. Another is Conflict
	Args     json.RawMessage `json:"args,omitempty"`        // approve with these instead (AP5)
}

// The results of calls that were not approved (AP6).
const (
	TextDenied      = "approval denied"
	TextExpired     = "approval expired"
	TextNotMatching = "approval does not match"
)

package perdure

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"time"
)

// Permission is one thing that a call wants to do, as a policy evaluates it and a person reads it.
type Permission struct {
	Kind   string `json:"kind"`             // for example tool, path, host or command
	Target string `json:"target"`           // the tool's name, the path, the host …
	Reason string `json:"reason,omitempty"` // why a decision is needed, for example a sensitive path; untrusted text
}

// In reports whether list has the same kind and target. The reasons may differ.
func (p Permission) In(list []Permission) bool {
	return slices.ContainsFunc(list, func(other Permission) bool { return other.Kind == p.Kind && other.Target == p.Target })
}

// Decision is what a policy says about a permission. The zero value leaves it to the next policy.
type Decision string

// The decisions, from the least to the most restrictive.
const (
	Undecided Decision = ""
	Allow     Decision = "allow"
	Ask       Decision = "ask"  // a person decides
	Deny      Decision = "deny" // no later policy can change it
)

// Valid reports whether d is a decision; the zero value counts.
func (d Decision) Valid() bool { return d == Undecided || d == Allow || d == Ask || d == Deny }

// Careful returns the more restrictive of two decisions. Deny wins over Ask, and Ask over Allow.
func (d Decision) Careful(other Decision) Decision {
	for _, careful := range []Decision{Deny, Ask, Allow} {
		if d == careful || other == careful {
			return careful
		}
	}
	return Undecided
}

// PermissionRule decides about permissions of one kind. An agent may have rules of its own, for
// instance that its calls may use a secret.
type PermissionRule struct {
	Kind     string   `json:"kind"`     // as in Permission
	Target   string   `json:"target"`   // as in Permission; * matches every target
	Decision Decision `json:"decision"` // allow, ask or deny
}

// Check returns an Invalid error if the rule is wrong.
func (r PermissionRule) Check() error {
	switch {
	case r.Kind == "" || r.Target == "":
		return fmt.Errorf("%w permission: kind and target are required; * is any target", Invalid)
	case r.Decision == Undecided || !r.Decision.Valid():
		return fmt.Errorf("%w decision %.40q about %.80q: use allow, ask or deny", Invalid, string(r.Decision), r.Kind)
	}
	return nil
}

// Decide returns the most restrictive decision of the rules that match a permission; Undecided:
// none matches.
func (p Permission) Decide(rules []PermissionRule) Decision {
	decision := Undecided
	for _, r := range rules {
		if r.Kind == p.Kind && (r.Target == p.Target || r.Target == "*") {
			decision = decision.Careful(r.Decision)
		}
	}
	return decision
}

// ApprovalState is the state of an approval.
type ApprovalState string

// The states of an approval. Only an open one can be decided.
const (
	ApprovalOpen     ApprovalState = "open"
	ApprovalApproved ApprovalState = "approved"
	ApprovalDenied   ApprovalState = "denied"
	ApprovalExpired  ApprovalState = "expired"
	ApprovalVoid     ApprovalState = "void" // its call was interrupted or canceled
)

// Valid reports whether s is one of the five states.
func (s ApprovalState) Valid() bool {
	return s == ApprovalOpen || s == ApprovalApproved || s == ApprovalDenied || s == ApprovalExpired || s == ApprovalVoid
}

// Approval asks a person whether a call may run. It is bound to the exact arguments and the set of
// permissions, and is valid for one use.
type Approval struct {
	ID          ApprovalID        `json:"id"`
	Session     SessionID         `json:"session_id"`
	Call        CallID            `json:"call_id"`
	Task        TaskID            `json:"task_id,omitempty"` // of a background run
	Tool        string            `json:"tool"`
	Args        json.RawMessage   `json:"args"`
	ArgsHash    string            `json:"args_digest"` // the call's fingerprint
	Class       EffectClass       `json:"class"`
	Permissions []Permission      `json:"permissions"`
	Kind        string            `json:"request_kind,omitempty"`
	Reason      string            `json:"reason,omitempty"` // written by the tool or the agent; untrusted text
	Summary     string            `json:"summary,omitempty"`
	Metadata    map[string]string `json:"metadata,omitempty"`
	RequestedAt time.Time         `json:"requested_at"`
	ExpiresAt   time.Time         `json:"expires_at,omitzero"` // zero: never
	State       ApprovalState     `json:"state"`
	DecidedBy   string            `json:"decided_by,omitempty"` // the person or component that decided
	DecidedAt   time.Time         `json:"decided_at,omitzero"`
	Note        string            `json:"note,omitempty"`     // by the person who decided
	NewArgs     json.RawMessage   `json:"new_args,omitempty"` // approved instead; the call is planned again with them
}

// Binds reports whether a decision about a also decides the given question: the same tool, the same
// fingerprint of its arguments and the same set of permissions, in any order and for any reasons.
// An approval without a fingerprint binds nothing, because it does not say what was approved.
func (a Approval) Binds(tool, argsHash string, permissions []Permission) bool {
	within := func(list, other []Permission) bool {
		return !slices.ContainsFunc(list, func(p Permission) bool { return !p.In(other) })
	}
	return a.ArgsHash != "" && a.Tool == tool && a.ArgsHash == argsHash && within(a.Permissions, permissions) && within(permissions, a.Permissions)
}

// Verdict is a person's decision about an approval.
type Verdict struct {
	Approve bool   `json:"approve"`
	By      string `json:"by"`
	Note    string `json:"note,omitempty"`
	// ArgsHash is the digest of the arguments that the person saw; empty: not checked. A different
	// digest is Conflict.
	ArgsHash string          `json:"args_digest,omitempty"`
	Args     json.RawMessage `json:"args,omitempty"` // with Approve: approve these arguments instead
}

// The results of calls that were not approved.
const (
	TextDenied      = "approval denied"
	TextExpired     = "approval expired"
	TextNotMatching = "approval does not match"
)

// ApprovalRequested asks a person for a decision. Until then the call or task waits and holds no
// slot.
type ApprovalRequested struct {
	Approval Approval `json:"approval"`
}

// ApprovalResolved closes an approval. An approved call is claimed in a later commit.
type ApprovalResolved struct {
	Approval ApprovalID      `json:"approval_id"`
	State    ApprovalState   `json:"state"`
	By       string          `json:"by"`
	Note     string          `json:"note,omitempty"`
	NewArgs  json.RawMessage `json:"new_args,omitempty"` // the arguments that were approved instead
}

// CallReplanned is a call with replaced arguments, as its tool and the policies evaluate it now.
type CallReplanned struct {
	Call PlannedCall `json:"call"`
}

// approvalRequest is the approval that a planned call needs. Its id is derived, so that a replay
// asks for the same approval.
func (s *Session) approvalRequest(m Moment, c TurnCall) ApprovalRequested {
	a := Approval{
		ID:      DeriveID[ApprovalID](m.Secret, m.Now, string(s.ID), string(c.ID), c.Fingerprint),
		Session: s.ID, Call: c.ID, Tool: c.Name, Args: c.Args, ArgsHash: c.Fingerprint, Class: c.Class, Permissions: c.Permissions,
		Kind: "tool", Reason: c.Permissions[0].Reason, Summary: cmp.Or(c.Narration, c.Name), RequestedAt: m.Now, State: ApprovalOpen,
	}
	if c.ApprovalTimeout > 0 {
		a.ExpiresAt = m.Now.Add(c.ApprovalTimeout)
	}
	return ApprovalRequested{Approval: a}
}

// Expired reports whether the approval can no longer be decided at the given time, even if its
// stored state is still open.
func (a Approval) Expired(at time.Time) bool { return !a.ExpiresAt.IsZero() && !at.Before(a.ExpiresAt) }

// Resolve returns the fact that records a verdict given at now. It is Conflict if the approval is
// closed or expired, or if the person saw other arguments, and Invalid if the verdict names nobody.
func (a Approval) Resolve(v Verdict, now time.Time) (ApprovalResolved, error) {
	if a.State == ApprovalOpen && a.Expired(now) {
		a.State = ApprovalExpired // its time is over, and the closing event follows
	}
	switch {
	case a.State != ApprovalOpen:
		return ApprovalResolved{}, fmt.Errorf("%w: approval %s is already closed: %s", Conflict, a.ID, a.State)
	case v.ArgsHash != "" && v.ArgsHash != a.ArgsHash:
		return ApprovalResolved{}, fmt.Errorf("%w: %s", Conflict, TextNotMatching)
	case v.By == "":
		return ApprovalResolved{}, fmt.Errorf("%w verdict: it must name the person who decided", Invalid)
	}
	r := ApprovalResolved{Approval: a.ID, State: ApprovalDenied, By: v.By, Note: v.Note}
	if v.Approve {
		r.State, r.NewArgs = ApprovalApproved, v.Args
	}
	return r, nil
}

// Resolved returns the approval as it is after it was closed.
func (a Approval) Resolved(r ApprovalResolved, at time.Time) Approval {
	a.State, a.DecidedBy, a.Note, a.NewArgs, a.DecidedAt = r.State, r.By, r.Note, r.NewArgs, at
	return a
}

// request folds a new approval.
func (s *Session) request(f ApprovalRequested) error {
	s.Approvals[f.Approval.ID] = f.Approval
	if f.Approval.Task != "" {
		return nil
	}
	c := s.planned(f.Approval.Call)
	if c == nil {
		return fmt.Errorf("%w: call %s is not in the phase planned", Conflict, f.Approval.Call)
	}
	c.Phase, c.Approval = CallAwaitingApproval, f.Approval.ID
	return nil
}

// resolve folds a decision: the call continues as planned, is planned again with new arguments, or
// is refused. A decision for a call that does not wait for it any more only removes the approval.
func (s *Session) resolve(f ApprovalResolved) {
	a, open := s.Approvals[f.Approval]
	delete(s.Approvals, f.Approval)
	if !open || a.Task != "" || s.Turn == nil {
		return
	}
	c := s.Turn.call(a.Call)
	if c == nil || c.Phase != CallAwaitingApproval {
		return
	}
	c.Phase, c.Permissions = CallPlanned, nil // the permissions are decided; nothing asks for them again
	switch {
	case f.State != ApprovalApproved:
		refused := f.refusal(c.ID)
		c.Refusal = &refused
	case f.NewArgs != nil:
		c.Phase, c.Args, c.ApprovedPermissions = CallReplanning, f.NewArgs, a.Permissions
	}
}

// refusal is the result of a call that was not approved.
func (f ApprovalResolved) refusal(call CallID) ToolResult {
	switch f.State {
	case ApprovalExpired:
		return Refused(call, ErrorDenied, TextExpired)
	case ApprovalVoid:
		return Refused(call, ErrorInterrupted, TextInterrupted)
	}
	return Refused(call, ErrorDenied, cmp.Or(f.Note, TextDenied))
}

// replan folds the new plan of a call whose arguments were replaced.
func (s *Session) replan(f CallReplanned) error {
	c := s.Turn.call(f.Call.ID)
	if c == nil || c.Phase != CallReplanning {
		return fmt.Errorf("%w: call %s is not in the phase replanning", Conflict, f.Call.ID)
	}
	c.PlannedCall, c.Phase = f.Call, CallPlanned
	if f.Call.Rewritten != nil {
		c.Args = f.Call.Rewritten
	}
	return nil
}

// Requested returns the call that waits for an answer of the client, or the result of a call that
// already has one. Both are nil if the session has no such call.
func (s *Session) Requested(id CallID) (waiting *TurnCall, given *ToolResult) {
	if s.Turn != nil {
		if c := s.Turn.call(id); c != nil {
			if c.Phase == CallAwaitingClient {
				return c, nil
			}
			return nil, c.Result
		}
	}
	for _, m := range slices.Backward(s.Transcript) {
		for _, part := range m.Parts {
			if part.Type == PartToolResult && part.Result != nil && part.Result.CallID == id {
				return nil, part.Result
			}
		}
	}
	return nil, nil
}

// planned returns the call of the running turn with this id if it is in the phase planned, else
// nil.
func (s *Session) planned(id CallID) *TurnCall {
	if s.Turn == nil {
		return nil
	}
	if c := s.Turn.call(id); c != nil && c.Phase == CallPlanned {
		return c
	}
	return nil
}

// expire closes the approvals of the turn whose time is over.
func (s *Session) expire(m Moment) (events []Event) {
	for _, c := range s.Turn.Calls {
		a, open := s.Approvals[c.Approval]
		if c.Phase == CallAwaitingApproval && open && a.Expired(m.Now) {
			events = append(events, s.resolution(m, c, ApprovalResolved{Approval: a.ID, State: ApprovalExpired, By: "runtime"}))
		}
	}
	return events
}

// resolution wraps the closing of a call's approval in an event.
func (s *Session) resolution(m Moment, c TurnCall, f ApprovalResolved) Event {
	e := s.event(m, f)
	e.Call = c.ID
	return e
}

package perdure

import (
	"encoding/json"
	"fmt"
	"slices"
	"time"
)

// Permission is one thing that a call wants to do, as a policy judges it and a person reads it (AP1).
type Permission struct {
	Kind   string `json:"kind"`             // for instance tool, path, host, command
	Target string `json:"target"`           // the tool's name, the path, the host …
	Reason string `json:"reason,omitempty"` // why it is asked about, for instance a sensitive path; not trusted
}

// In reports whether a list has the same permission, for whatever reason it is asked for.
func (p Permission) In(list []Permission) bool {
	return slices.ContainsFunc(list, func(other Permission) bool { return other.Kind == p.Kind && other.Target == p.Target })
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

// Valid reports whether d is a decision; the zero value counts.
func (d Decision) Valid() bool { return d == Undecided || d == Allow || d == Ask || d == Deny }

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

// Binds reports whether an answer to a is one to the same question: the same tool, the same fingerprint of its arguments and
// the same set of permissions, in whatever order and for whatever reason (AP3). Without a fingerprint a binds nothing: nobody
// knows then what was approved.
func (a Approval) Binds(tool, argsHash string, permissions []Permission) bool {
	within := func(list, other []Permission) bool {
		return !slices.ContainsFunc(list, func(p Permission) bool { return !p.In(other) })
	}
	return a.ArgsHash != "" && a.Tool == tool && a.ArgsHash == argsHash && within(a.Permissions, permissions) && within(permissions, a.Permissions)
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

// ApprovalRequested asks a person. Until it is answered, its call or task waits and holds nothing (AP7).
type ApprovalRequested struct {
	Approval Approval `json:"approval"`
}

// ApprovalResolved ends an approval. An approved call is claimed next, in a commit of its own.
type ApprovalResolved struct {
	Approval ApprovalID      `json:"approval_id"`
	State    ApprovalState   `json:"state"`
	By       string          `json:"by"`
	Note     string          `json:"note,omitempty"`
	NewArgs  json.RawMessage `json:"new_args,omitempty"` // approved with these instead (AP5)
}

// CallReplanned is a call whose arguments a person replaced, as its tool and the policies judge it now (AP5).
type CallReplanned struct {
	Call PlannedCall `json:"call"`
}

// approvalRequest is the question that a planned call puts. Its id is derived, so that a replay asks it once.
func (s *Session) approvalRequest(m Moment, c TurnCall) ApprovalRequested {
	a := Approval{
		ID:      DeriveID[ApprovalID](m.Secret, m.Now, string(s.ID), string(c.ID), c.Fingerprint),
		Session: s.ID, Call: c.ID, Tool: c.Name, Args: c.Args, ArgsHash: c.Fingerprint, Class: c.Class, Permissions: c.Permissions,
		Kind: "tool", Why: c.Permissions[0].Reason, Summary: orString(c.Narration, c.Name), RequestedAt: m.Now, State: ApprovalOpen,
	}
	if c.Expires > 0 {
		a.ExpiresAt = m.Now.Add(c.Expires)
	}
	return ApprovalRequested{Approval: a}
}

// Expired reports whether the time in which a can be answered is over at a moment, also where nobody has closed it yet.
func (a Approval) Expired(at time.Time) bool { return !a.ExpiresAt.IsZero() && !at.Before(a.ExpiresAt) }

// Resolve is the fact that a verdict given now comes to. Conflict: the approval is closed, its time is over, or the person saw
// other arguments. Invalid: the verdict names nobody.
func (a Approval) Resolve(v Verdict, now time.Time) (ApprovalResolved, error) {
	if a.State == ApprovalOpen && a.Expired(now) {
		a.State = ApprovalExpired // whoever closes it comes later
	}
	switch {
	case a.State != ApprovalOpen:
		return ApprovalResolved{}, fmt.Errorf("%w: approval %s is already closed: %s", Conflict, a.ID, a.State)
	case v.ArgsHash != "" && v.ArgsHash != a.ArgsHash:
		return ApprovalResolved{}, fmt.Errorf("%w: %s", Conflict, TextNotMatching)
	case v.By == "":
		return ApprovalResolved{}, fmt.Errorf("%w verdict: nobody is named who gives it", Invalid)
	}
	r := ApprovalResolved{Approval: a.ID, State: ApprovalDenied, By: v.By, Note: v.Note}
	if v.Approve {
		r.State, r.NewArgs = ApprovalApproved, v.Args
	}
	return r, nil
}

// Resolved is the approval after a fact ended it.
func (a Approval) Resolved(r ApprovalResolved, at time.Time) Approval {
	a.State, a.By, a.Note, a.NewArgs, a.At = r.State, r.By, r.Note, r.NewArgs, at
	return a
}

// request folds a question.
func (s *Session) request(f ApprovalRequested) error {
	s.Approvals[f.Approval.ID] = f.Approval
	if f.Approval.Task != "" {
		return nil
	}
	c := s.planned(f.Approval.Call)
	if c == nil {
		return fmt.Errorf("%w: call %s is not planned", Conflict, f.Approval.Call)
	}
	c.Phase, c.Approval = CallAsking, f.Approval.ID
	return nil
}

// resolve folds an answer: the call goes on as it was planned, or is refused. A call that is not waiting for it any more
// does not mind.
func (s *Session) resolve(f ApprovalResolved) {
	a, open := s.Approvals[f.Approval]
	delete(s.Approvals, f.Approval)
	if !open || a.Task != "" || s.Turn == nil {
		return
	}
	c := s.Turn.call(a.Call)
	if c == nil || c.Phase != CallAsking {
		return
	}
	c.Phase, c.Permissions = CallPlanned, nil // asked and answered, once
	switch {
	case f.State != ApprovalApproved:
		refused := f.refusal(c.ID)
		c.Refusal = &refused
	case f.NewArgs != nil:
		c.Phase, c.Args, c.Granted = CallReplanning, f.NewArgs, a.Permissions
	}
}

// refusal is the result of a call that was not approved (AP6).
func (f ApprovalResolved) refusal(call CallID) ToolResult {
	switch f.State {
	case ApprovalExpired:
		return Refused(call, ErrorDenied, TextExpired)
	case ApprovalVoid:
		return Refused(call, ErrorInterrupted, TextInterrupted)
	}
	return Refused(call, ErrorDenied, orString(f.Note, TextDenied))
}

// replan folds the new judgement of a call.
func (s *Session) replan(f CallReplanned) error {
	c := s.Turn.call(f.Call.ID)
	if c == nil || c.Phase != CallReplanning {
		return fmt.Errorf("%w: call %s is not judged anew", Conflict, f.Call.ID)
	}
	c.PlannedCall, c.Phase = f.Call, CallPlanned
	if f.Call.Rewritten != nil {
		c.Args = f.Call.Rewritten
	}
	return nil
}

// Requested returns the call that waits for its answer from the client, or the result that a call of the session has.
// Both nil: there is no such call.
func (s *Session) Requested(id CallID) (waiting *TurnCall, given *ToolResult) {
	if s.Turn != nil {
		if c := s.Turn.call(id); c != nil {
			if c.Phase == CallRequested {
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

// planned returns the call of the turn that is planned and waits for nothing, or nil.
func (s *Session) planned(id CallID) *TurnCall {
	if s.Turn == nil {
		return nil
	}
	if c := s.Turn.call(id); c != nil && c.Phase == CallPlanned {
		return c
	}
	return nil
}

// expire closes the approvals of the turn's calls whose time is over.
func (s *Session) expire(m Moment) (events []Event) {
	for _, c := range s.Turn.Calls {
		a, open := s.Approvals[c.Approval]
		if c.Phase == CallAsking && open && a.Expired(m.Now) {
			events = append(events, s.resolution(m, c, ApprovalResolved{Approval: a.ID, State: ApprovalExpired, By: "runtime"}))
		}
	}
	return events
}

// resolution wraps the end of a call's approval.
func (s *Session) resolution(m Moment, c TurnCall, f ApprovalResolved) Event {
	e := s.event(m, f)
	e.Call = c.ID
	return e
}

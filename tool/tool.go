// Package tool is the port of tools: what a tool says of itself, how it is run, and what it may reach.
//
// It may import the root, agent and the two JSON Schema libraries. The one thing to know: a tool's [Spec] states
// its effect class, and that class alone decides what happens to a call that a crash cut in half.
package tool

import (
	"context"
	"encoding/json"
	"time"

	"github.com/perdure/perdure"
)

// Never, as a soft budget, means that the call never leaves the foreground by itself (LN2, LN5).
const Never time.Duration = -1

// The defaults of a Spec's clocks.
const (
	DefaultSoftBudget = 600 * time.Second
	DefaultDeadline   = 2 * time.Hour
)

// Policy says whether a call may run without being asked about (AP1).
type Policy string

// The policies. The zero value is auto.
const (
	PolicyAuto             Policy = "auto"
	PolicyRequiresApproval Policy = "requires_approval"
	PolicyClientSide       Policy = "client_side"
)

// Deferrable says whether a tool's schema may be loaded later (TL37).
type Deferrable string

// The kinds of deferred loading. The zero value is automatic.
const (
	DeferAutomatic Deferrable = "automatic"
	DeferNever     Deferrable = "never"
	DeferAlways    Deferrable = "always"
)

// Hints advise; only policy, effect class and concurrency class bind the runtime (O7). A nil flag is unknown
// and is read conservatively.
type Hints struct {
	ReadOnly           *bool          `json:"readonly,omitempty"`
	Destructive        *bool          `json:"destructive,omitempty"`
	Idempotent         *bool          `json:"idempotent,omitempty"`
	OpenWorld          *bool          `json:"open_world,omitempty"`
	RequiresSecrets    *bool          `json:"requires_secrets,omitempty"`
	LongRunning        *bool          `json:"long_running,omitempty"`
	SupportsBackground *bool          `json:"supports_background,omitempty"` // follows from Background; only foreign definitions set it
	CPUBound           *bool          `json:"cpu_bound,omitempty"`
	PersistOutput      *bool          `json:"persist_output,omitempty"`
	Payment            *bool          `json:"payment,omitempty"` // its calls may pay; binds: the tool is at most once (PA2)
	NarrationNoun      string         `json:"narration_noun,omitempty"`
	CapabilityID       string         `json:"capability_id,omitempty"`
	CapabilityName     string         `json:"capability_name,omitempty"`
	Metadata           map[string]any `json:"metadata,omitempty"` // the host's own; never sent to a model
}

// Spec is what a tool says of itself: a value, the same on every call (TL1).
type Spec struct {
	Name         string              // ^[A-Za-z0-9_-]{1,64}$
	DisplayName  string              // for people; empty: the name
	Description  string              // what the model reads; required
	Parameters   json.RawMessage     // JSON Schema 2020-12 of an object; typed tools derive it; empty: {"type":"object"}
	OutputSchema json.RawMessage     // absent, or derived from Out
	Class        perdure.EffectClass // required (TL10)
	Policy       Policy
	Deferrable   Deferrable
	Hints        Hints
	Concurrency  string        // concurrency class: calls of one class in one step run one after another (TN11)
	SoftBudget   time.Duration // 0: DefaultSoftBudget; Never: the call never detaches
	Deadline     time.Duration // of execution; 0: DefaultDeadline
	Stall        time.Duration // 0: no stall timeout
	Waits        time.Duration // the longest that one call may wait for others as it is told to, and show no sign of life; 0: it does not (ER7)
	NeedsEnv     bool          // cannot work without a session (TL6)
	Inside       bool          // it reaches nothing but what the session itself keeps: its files, values, tasks
	Agent        bool          // it asks another agent, elsewhere: its tasks are of kind external_agent, and none is begun a second time (SA13, RC17)
	Trusted      bool          // nothing in its results was written by others: no page, no file, no output of a command (S3)
	DryAware     bool          // says by itself what it would do in a dry run (AP13); else it is not entered then
	Prompt       string        // what the system prompt says while the tool is there; empty: nothing
}

// Call is one invocation as the tool sees it (TL3). A tool keeps neither it nor Env after it returns.
type Call struct {
	Session   perdure.SessionID
	Org       string // whose the session is, for ever; empty: the default one, or a call that does not run yet
	User      string // of the org; empty: nobody in particular, or a call that does not run yet
	Turn      perdure.TurnID
	ID        perdure.CallID
	Task      perdure.TaskID // empty in the foreground
	Attempt   int            // of the task; 0 in the foreground
	Execution int            // runs begun for this call, from 1; an adopted run keeps its number
	Tool      string
	Args      json.RawMessage     // validated against the schema
	Key       string              // the idempotency key: the same for every execution, attempt and owner (LG10)
	Class     perdure.EffectClass // as claimed
	Deadline  time.Time           // zero: none

	// Granted is what of its permissions a policy or a person allowed expressly. It is told for [ReadSecret] only.
	Granted []perdure.Permission
}

// ReadUntrusted is the kind of the permission to reach further than the session after its model read what came from outside;
// its target is the tool. It is asked for by calls of tools that are not Inside, and granted unless the agent or a policy
// says otherwise (S3).
const ReadUntrusted = "untrusted"

// ReadSecret is the kind of the permission to show the value of a secret to the model; its target is the secret's name. What
// nobody allowed expressly is not allowed (SE3).
const ReadSecret = "secret.read"

// Tool is something that a model may call.
type Tool interface {
	// Spec returns the same value on every call.
	Spec() Spec
	// Run carries out one call. It is safe for concurrent use, unless a concurrency class says otherwise.
	// ctx ends on cancel, interrupt, deadline, stall, lost fence and shutdown; context.Cause tells which
	// as a perdure.Cause (TL4). A panic becomes an internal error (TL5).
	Run(ctx context.Context, call Call, env Env) Result
}

// Background is a tool that can be the target of spawn_background. Having it is the hint (TL2).
type Background interface {
	Tool
	// RunBackground carries out one attempt of a task. What it reports through sink is durable.
	RunBackground(ctx context.Context, call Call, env Env, sink Sink) Result
}

// Reconciler is a tool that can say whether an earlier execution of the call happened.
type Reconciler interface {
	Tool
	// Reconcile must change nothing. An error counts as CannotTell.
	Reconcile(ctx context.Context, call Call, env Env) (Reconciled, error)
}

// Reconciled is the answer of a Reconciler. The zero value is "cannot tell".
type Reconciled struct {
	Happened     bool
	DidNotHappen bool
	Result       Result // when it happened
}

// Reattacher is a tool that finds the work of a dead attempt again by itself, for instance a remote job.
type Reattacher interface {
	Background
	// Reattach goes on with the task's work. gone means that the work is not there any more.
	Reattach(ctx context.Context, task perdure.Task, env Env, sink Sink) (result Result, gone bool)
}

// Survivor is a tool whose work goes on while the runtime is dead, because a process of its own carries it
// (RC20). Call.Execution names the run.
type Survivor interface {
	Tool
	// Prepare makes the ticket of a run, before its claim is committed. Preparing again does nothing.
	Prepare(ctx context.Context, call Call) error
	// Look says what is left of a run whose runtime died. A ticket that was not used is revoked by this:
	// the run never started, and never will.
	Look(ctx context.Context, call Call) (perdure.Remains, error)
	// Adopt follows a run that is alive or has ended to its end, as if it had been started here.
	// Output that is in the task's log already is not reported again.
	Adopt(ctx context.Context, call Call, env Env, sink Sink) Result
	// Stop ends what is left of a run and returns when the whole process tree is gone.
	Stop(ctx context.Context, call Call) error
}

// Cleaner is a tool whose calls leave something behind outside the session's files, for instance what kept a command's
// output.
type Cleaner interface {
	Tool
	// Clean removes what is left of all executions of a call whose record was pruned (TK16). Call.Execution is the last one
	// that was begun; Call.Args and Call.Deadline are not set. Nothing asks for the call's work any more, and cleaning again does
	// nothing. An error leaves what still stands for the next time: work that yet lives stays.
	Clean(ctx context.Context, call Call) error
}

// Killer is a tool whose work can be stopped by more than its context (RC4).
type Killer interface {
	Tool
	// Kill stops the call's work, by force if told so. It may be called more than once.
	Kill(call Call, force bool)
}

// Guarded is a tool that says what one of its calls wants to do, so that a policy can judge it (AP1).
type Guarded interface {
	Tool
	// Permissions returns what the call needs beside the tool itself: the paths, hosts, commands it is about. It is a
	// pure function of the call.
	Permissions(call Call) []perdure.Permission
}

// Phase is where a call stands when it is narrated.
type Phase string

// The phases of a narration.
const (
	PhaseStarted   Phase = "started"
	PhaseCompleted Phase = "completed"
	PhaseFailed    Phase = "failed"
)

// Narrator is a tool that tells people what a call does, in a sentence (TL7).
type Narrator interface {
	Tool
	// Narrate returns a sentence, or the empty string for the default.
	Narrate(call Call, phase Phase, locale string) string
}

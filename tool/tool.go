// Package tool is the port of tools: how a tool describes itself, how it is run, and what it can
// access.
//
// The package may import the root package, agent, budget, internal/redact and the two JSON Schema
// libraries.
//
// The one thing to know: a tool's [Spec] states its effect class, and this class decides what crash
// recovery does with a call that was running.
package tool

import (
	"context"
	"encoding/json"
	"time"

	"github.com/perdure/perdure"
)

// Never as a soft budget means that the call never detaches by itself.
const Never time.Duration = -1

// The defaults of the times in a Spec.
const (
	DefaultSoftBudget = 600 * time.Second
	DefaultDeadline   = 2 * time.Hour
)

// Policy says whether a call needs an approval or runs on the client.
type Policy string

// The policies. The zero value is auto.
const (
	PolicyAuto             Policy = "auto"
	PolicyRequiresApproval Policy = "requires_approval"
	PolicyClientSide       Policy = "client_side"
)

// Deferrable says whether the model may receive the tool's schema later.
type Deferrable string

// The kinds of deferred loading. The zero value is automatic.
const (
	DeferAutomatic Deferrable = "automatic"
	DeferNever     Deferrable = "never"
	DeferAlways    Deferrable = "always"
)

// Hints are advice to people and programs. Only policy, effect class and concurrency class bind
// the runtime, except where a field says what the runtime does. A nil flag means unknown; see
// [AnnotationsOf] for the assumption that is made then.
type Hints struct {
	// ReadOnly, Destructive and Idempotent are advice: a call changes nothing; a call may remove or
	// replace something; another call with the same arguments changes nothing more. The last one is
	// stricter than the effect class idempotent, which is about one call that runs twice.
	ReadOnly    *bool `json:"readonly,omitempty"`
	Destructive *bool `json:"destructive,omitempty"`
	Idempotent  *bool `json:"idempotent,omitempty"`
	// OpenWorld: a call may reach things outside the session. Such calls count against the limit of
	// outbound calls ([IsOutgoing]).
	OpenWorld *bool `json:"open_world,omitempty"`
	// RequiresSecrets, LongRunning and CPUBound are advice: nothing is refused or scheduled
	// differently because of them.
	RequiresSecrets *bool `json:"requires_secrets,omitempty"`
	LongRunning     *bool `json:"long_running,omitempty"`
	CPUBound        *bool `json:"cpu_bound,omitempty"`
	// SupportsBackground: the tool can be the target of spawn_background. It follows from the
	// executor ([Background]); only a foreign definition can set it.
	SupportsBackground *bool `json:"supports_background,omitempty"`
	// PersistOutput is advice: the runtime stores every result that is too long for the model as a
	// file of the session, with or without this hint.
	PersistOutput *bool `json:"persist_output,omitempty"`
	// Payment: calls may pay. Such a tool must be at_most_once, and only it has the port Payments.
	Payment *bool `json:"payment,omitempty"`
	// NarrationNoun is the object of the sentence that describes a call to people ([Narrator]).
	NarrationNoun string `json:"narration_noun,omitempty"`
	// CapabilityID is the capability that brings the tool to a session, CapabilityName its name for
	// people.
	CapabilityID   string         `json:"capability_id,omitempty"`
	CapabilityName string         `json:"capability_name,omitempty"`
	Metadata       map[string]any `json:"metadata,omitempty"` // of the host; never sent to a model
}

// Spec describes a tool. It is a value and the same on every call.
type Spec struct {
	Name         string          // ^[A-Za-z0-9_-]{1,64}$
	DisplayName  string          // for people; empty: the name
	Description  string          // for the model; required
	Parameters   json.RawMessage // JSON Schema 2020-12; derived for typed tools; empty: {"type":"object"}
	OutputSchema json.RawMessage // derived for typed tools; may be empty
	// Checked is the schema against which arguments are checked, if Parameters has keywords that
	// cannot be checked here ([ReadForeignSchema]); empty: Parameters.
	Checked     json.RawMessage
	Class       perdure.EffectClass // required
	Policy      Policy
	Deferrable  Deferrable
	Hints       Hints
	Concurrency string        // concurrency class: calls of one class in a step run one after another
	SoftBudget  time.Duration // 0: DefaultSoftBudget; Never: the call never detaches
	Deadline    time.Duration // of execution; 0: DefaultDeadline
	Stall       time.Duration // 0: no stall timeout
	// MaxWait is the longest time for which a call may wait for other work, as its arguments say,
	// without a sign of life. 0: it does not wait.
	MaxWait     time.Duration
	NeedsEnv    bool // it cannot work without a session
	SessionOnly bool // it accesses nothing but the session's own files, values and tasks
	// ExternalAgent says that it calls an external agent: its tasks are of kind external_agent, and
	// crash recovery never starts one a second time.
	ExternalAgent bool
	// Trusted says that its results contain nothing that others wrote: no page, no file, no output
	// of a command.
	Trusted       bool
	HandlesDryRun bool   // in a dry run it says itself what it would do; false: it is not entered then
	Prompt        string // added to the system prompt while the tool is available; empty: nothing
	// Narration describes its calls to people; the zero value: the display name does.
	Narration Narration
}

// Call is one invocation as the tool sees it. A tool must keep neither Call nor Env after it
// returns.
type Call struct {
	Session   perdure.SessionID
	Org       string // of the session; empty: the default org, or a call that does not run yet
	User      string // of the org; empty: no particular user, or a call that does not run yet
	Turn      perdure.TurnID
	ID        perdure.CallID
	Task      perdure.TaskID // empty in the foreground
	Attempt   int            // of the task; 0 in the foreground
	Execution int            // starts of this call, from 1; adopting a process does not count
	Tool      string
	Args      json.RawMessage     // validated against the schema
	Key       string              // the idempotency key: the same for every execution, attempt and owner
	Class     perdure.EffectClass // as claimed
	Deadline  time.Time           // zero: none
	For       *Caller             // for whom it is made; nil: see [Call.Caller]

	// Granted has the permissions that a policy or a person explicitly allowed. Only permissions
	// for which [MustBeGranted] holds are listed.
	Granted []perdure.Permission
}

// ReadUntrusted is the kind of the permission to reach outside the session after the model read
// untrusted content; its target is the tool. Calls of tools that are not Inside need it. It is
// granted unless the agent or a policy says otherwise.
const ReadUntrusted = "untrusted"

// ReadSecret is the kind of the permission to show the value of a secret to the model; its target
// is the name of the secret. It must be allowed explicitly.
const ReadSecret = "secret.read"

// UseSecret is the kind of the permission to put a secret into the environment of a command; its
// target is the name of the secret. It must be allowed explicitly.
const UseSecret = "secret.use"

// MustBeGranted reports whether a permission is missing unless a policy or a person allowed it
// explicitly. Other permissions are granted unless a policy says otherwise.
func MustBeGranted(p perdure.Permission) bool { return p.Kind == ReadSecret || p.Kind == UseSecret }

// Tool is something that a model can call.
type Tool interface {
	// Spec returns the same value on every call.
	Spec() Spec
	// Run executes one call. It is safe for concurrent use, unless a concurrency class says
	// otherwise. ctx ends on cancel, interrupt, deadline, stall, lost fence and shutdown;
	// context.Cause returns the reason as a perdure.Cause. A panic becomes an internal error.
	Run(ctx context.Context, call Call, env Env) Result
}

// Background is a tool that can be the target of spawn_background.
type Background interface {
	Tool
	// RunBackground executes one attempt of a task. Everything reported through sink is durable.
	RunBackground(ctx context.Context, call Call, env Env, sink Sink) Result
}

// Reconciler is a tool that can tell whether an earlier execution of a call took effect.
type Reconciler interface {
	Tool
	// Reconcile must not change anything. An error means that it cannot tell.
	Reconcile(ctx context.Context, call Call, env Env) (Reconciled, error)
}

// Reconciled is the answer of a Reconciler. The zero value means that it cannot tell.
type Reconciled struct {
	Happened     bool
	DidNotHappen bool
	Result       Result // with Happened
}

// Reattacher is a tool that can find the work of a dead attempt again, for instance a remote job.
type Reattacher interface {
	Background
	// Reattach continues the work of the task. gone means that the work no longer exists.
	Reattach(ctx context.Context, task perdure.Task, env Env, sink Sink) (result Result, gone bool)
}

// Adoptable is a tool whose work continues while the engine is not running, because it has a
// process schema its own. Call.Execution identifies the execution.
type Adoptable interface {
	Tool
	// Prepare makes the start ticket of an execution, before the claim is committed. Preparing
	// again does nothing.
	Prepare(ctx context.Context, call Call) error
	// Inspect reports what is left of an execution whose engine has died. It revokes an unused
	// start ticket: the execution has not started then, and never will.
	Inspect(ctx context.Context, call Call) (perdure.ExecutionRemains, error)
	// Adopt follows a running or ended execution to its end, as if it had been started here. It
	// does not repeat output that is already in the task's log.
	Adopt(ctx context.Context, call Call, env Env, sink Sink) Result
	// Stop stops what is left of an execution and returns when the whole process tree has ended.
	Stop(ctx context.Context, call Call) error
}

// AdoptableAnywhere is an Adoptable tool whose executions run at a remote service: a process on any
// machine can inspect, adopt and stop them. Any other Adoptable tool is asked only on the machine
// on which it was started, by a process with the same data directory.
type AdoptableAnywhere interface {
	Adoptable
	// AdoptableAnywhere does nothing.
	AdoptableAnywhere()
}

// Cleaner is a tool whose calls leave something behind outside the session's files, for instance
// the stored output of a command.
type Cleaner interface {
	Tool
	// Clean removes what is left of all executions of a call whose record was pruned.
	// Call.Execution is the last one that started; Call.Args and Call.Deadline are not set. Nothing
	// asks for the work of the call any more. Cleaning again does nothing. Work that is still
	// running must not be removed; then Clean returns an error and is called again later.
	Clean(ctx context.Context, call Call) error
}

// Killer is a tool whose work can be stopped by more than its context.
type Killer interface {
	Tool
	// Kill stops the call's work, with force if the argument says so. It may be called more than
	// once.
	Kill(call Call, force bool)
}

// Forcer is a tool that gives canceled work time to stop by itself, and can end that time early.
type Forcer interface {
	Tool
	// Force ends the call's work without a grace period, and returns when the whole process tree
	// has ended, or with an error if it has not. Work that has ended is left alone, and work that
	// has not started never starts. It may be called more than once, and beside Adoptable.Stop.
	Force(ctx context.Context, call Call) error
}

// Supervised is an Adoptable tool whose work is processes of this machine, which can be looked at.
type Supervised interface {
	Adoptable
	// Processes returns what is known now of the processes of an execution. It changes nothing and
	// may be called at any time, also for an execution that never started. The engine sets Task,
	// Tool, Kind, Execution, Home, Host and At. It also redacts the texts, which may have secrets.
	Processes(ctx context.Context, call Call) (perdure.TaskProcesses, error)
}

// Guarded is a tool that declares what a call wants to do, so that a policy can evaluate it.
type Guarded interface {
	Tool
	// Permissions returns what the call needs in addition to the tool itself: paths, hosts,
	// commands. It is a pure function of the call.
	Permissions(call Call) []perdure.Permission
}

// Phase is the phase of a call that is narrated.
type Phase string

// The phases of a narration.
const (
	PhaseStarted   Phase = "started"
	PhaseCompleted Phase = "completed"
	PhaseFailed    Phase = "failed"
)

// Narrator is a tool that describes its calls to people in a sentence, where a [Narration] is not
// enough.
type Narrator interface {
	Tool
	// Narrate returns a sentence, or the empty string for the default. Secrets in the arguments are
	// masked.
	Narrate(call Call, phase Phase, locale string) string
}

// ResultNarrator is a Narrator whose sentence about an ended call depends on the result.
type ResultNarrator interface {
	Narrator
	// NarrateResult returns a sentence, or the empty string for that of Narrate. Secrets in the
	// arguments and in the result are masked; a result that shows a secret on purpose is absent.
	NarrateResult(call Call, result perdure.ToolResult, locale string) string
}

package perdure

import (
	"fmt"
	"maps"
	"slices"
)

// Agent is the configuration of a session: instructions, model, tools and limits. It is fixed when
// session.created is recorded. The zero value is an agent without instructions on the engine's
// default model.
type Agent struct {
	Name         string `json:"name,omitempty"`
	Instructions string `json:"instructions,omitempty"` // the system prompt; capabilities add their parts
	Model        string `json:"model,omitempty"`        // empty: the engine's default
	// Tools are the visible tools by name. nil means every tool of the engine, an empty list none.
	Tools []string `json:"tools,omitzero"`
	// MaxContextTokens is an estimate. A larger context is compacted before the model is called.
	// 0: the context is compacted only after the provider reports that it is too large.
	MaxContextTokens int  `json:"max_context_tokens,omitempty"`
	MaxIterations    int  `json:"max_iterations,omitempty"` // reason steps in a turn; 0: DefaultMaxIterations
	Summarise        bool `json:"summarise,omitempty"`      // the model summarises what leaves the context
	// Recovery says what happens to an answer that broke off with text, where the mode is possible.
	// Empty: continue if the provider supports it, else finalize.
	Recovery RecoveryMode `json:"recovery,omitempty"`
	// SealAfter is the number of identical calls that seals the turn, at least 3. 0: never.
	SealAfter         int    `json:"seal_after,omitempty"`
	SerialCalls       bool   `json:"serial_calls,omitempty"`       // the calls of a step run strictly one after another
	MaxParallelCalls  int    `json:"max_parallel_calls,omitempty"` // 0: DefaultParallelCalls
	MaxContinuations  int    `json:"max_continuations,omitempty"`  // automatic turns in a row; 0: the default
	Locale            string `json:"locale,omitempty"`             // BCP 47; empty: en
	Timezone          string `json:"timezone,omitempty"`           // IANA; empty: UTC
	Title             string `json:"title,omitempty"`              // initial title of the session; a tool may change it
	Labels            Labels `json:"labels,omitempty"`             // initial labels; users may change them
	DisableBackground bool   `json:"disable_background,omitempty"` // leaves out the capability background_execution
	DryRun            bool   `json:"dry_run,omitempty"`            // pure tools run, other tools say what they would do
	// AskEffects requires an approval for every call of a tool that is not pure, whatever the
	// policies allow.
	AskEffects bool `json:"ask_effects,omitempty"`
	// AskUntrusted requires an approval for every call that reaches outside the session once the
	// context holds untrusted content.
	AskUntrusted bool `json:"ask_untrusted,omitempty"`
	// Permissions are rules of this agent about what its calls may do. A policy of the engine, or a
	// tool that requires approval, can be stricter, and then decides.
	Permissions []PermissionRule `json:"permissions,omitempty"`
	// SoftBudgetMS is for tools that do not set a soft budget. 0: the engine's default; -1: calls
	// never detach.
	SoftBudgetMS int64 `json:"soft_budget_ms,omitempty"`
	// Limits tightens limits of the engine for the sessions of this agent.
	Limits            AgentLimits `json:"limits,omitzero"`
	ClientTools       bool        `json:"client_tools,omitempty"`       // the client answers client-side tools
	ClientConnections bool        `json:"client_connections,omitempty"` // the client sets up connections that tools need
	Subagent          bool        `json:"subagent,omitempty"`           // the session works for another one; set by Child
	// ID is the stored agent that this configuration comes from; empty: none. While that agent is
	// archived or deleted, turns stop with CodeDependency.
	ID AgentID `json:"agent_id,omitempty"`
	// Harness is the leaf of the chain of harnesses that this configuration inherits from. An
	// archived or deleted harness stops turns, too.
	Harness HarnessID `json:"harness_id,omitempty"`
	// Capabilities are the ids that were chosen. Tools and Instructions already hold what they
	// contribute.
	Capabilities []string `json:"capabilities,omitzero"`
	// Network narrows which hosts the tools may reach. It cannot allow more than the engine does.
	Network  NetworkList       `json:"network_access,omitzero"`
	Metadata map[string]string `json:"metadata,omitempty"`
	// CreateDigest is the digest of the request that created the session with an id chosen by the
	// client. The engine sets it, to tell a repeated request from a conflicting one. Empty: no id
	// was chosen.
	CreateDigest string `json:"order,omitempty"`
}

// AgentLimits tightens the limits of an engine for the sessions of an agent. A limit that is not
// lower than that of the engine has no effect, so no agent can loosen one. In each field 0 means
// the limit of the engine.
type AgentLimits struct {
	SlotsPerSession    int   `json:"slots_per_session,omitempty"`    // running background runs
	DetachedPerSession int   `json:"detached_per_session,omitempty"` // detached calls
	QueueLength        int   `json:"queue_length,omitempty"`         // queued background runs
	SubagentDepth      int   `json:"subagent_depth,omitempty"`       // levels of subagents below a root session
	SubagentsLive      int   `json:"subagents_live,omitempty"`       // live subagents below a root session
	SubagentsTotal     int   `json:"subagents_total,omitempty"`      // subagents ever started below it
	ApprovalExpiryMS   int64 `json:"approval_expiry_ms,omitempty"`   // how long an approval stays open
	// SoftBudgetsMS are the longest soft budgets of single tools, by name.
	SoftBudgetsMS map[string]int64 `json:"soft_budgets_ms,omitempty"`
}

// maxBudgetedTools bounds the tools with a soft budget of their own.
const maxBudgetedTools = 1_000

// Check returns an Invalid error if a limit or a rule of the agent is wrong.
func (a Agent) Check() error {
	for _, of := range []struct {
		name         string
		limit, least int64
	}{
		{"max_context_tokens", int64(a.MaxContextTokens), 0}, {"max_iterations", int64(a.MaxIterations), 0},
		{"seal_after", int64(a.SealAfter), 0}, {"max_parallel_calls", int64(a.MaxParallelCalls), 0},
		{"max_continuations", int64(a.MaxContinuations), 0}, {"soft_budget_ms", a.SoftBudgetMS, -1},
	} {
		if of.limit < of.least {
			return fmt.Errorf("%w %s: %d is negative: use a number from 1, or omit it for the default",
				Invalid, of.name, of.limit)
		}
	}
	if err := a.Limits.Check(); err != nil {
		return err
	}
	for _, r := range a.Permissions {
		if err := r.Check(); err != nil {
			return err
		}
	}
	return nil
}

// Tighten returns the lower of each limit. It is associative, and the zero value changes nothing.
// The result shares no memory with the arguments.
func (l AgentLimits) Tighten(o AgentLimits) AgentLimits {
	tight := AgentLimits{
		SlotsPerSession:    lowerLimit(l.SlotsPerSession, o.SlotsPerSession),
		DetachedPerSession: lowerLimit(l.DetachedPerSession, o.DetachedPerSession),
		QueueLength:        lowerLimit(l.QueueLength, o.QueueLength),
		SubagentDepth:      lowerLimit(l.SubagentDepth, o.SubagentDepth),
		SubagentsLive:      lowerLimit(l.SubagentsLive, o.SubagentsLive),
		SubagentsTotal:     lowerLimit(l.SubagentsTotal, o.SubagentsTotal),
		ApprovalExpiryMS:   lowerLimit(l.ApprovalExpiryMS, o.ApprovalExpiryMS),
		SoftBudgetsMS:      maps.Clone(l.SoftBudgetsMS),
	}
	for name, ms := range o.SoftBudgetsMS {
		if tight.SoftBudgetsMS == nil {
			tight.SoftBudgetsMS = map[string]int64{}
		}
		tight.SoftBudgetsMS[name] = lowerLimit(tight.SoftBudgetsMS[name], ms)
	}
	return tight
}

// Check returns an Invalid error if a limit is wrong.
func (l AgentLimits) Check() error {
	for _, of := range []struct {
		name  string
		limit int64
	}{
		{"slots_per_session", int64(l.SlotsPerSession)}, {"detached_per_session", int64(l.DetachedPerSession)},
		{"queue_length", int64(l.QueueLength)}, {"subagent_depth", int64(l.SubagentDepth)},
		{"subagents_live", int64(l.SubagentsLive)}, {"subagents_total", int64(l.SubagentsTotal)},
		{"approval_expiry_ms", l.ApprovalExpiryMS},
	} {
		if of.limit < 0 {
			return fmt.Errorf("%w limits.%s: %d: use a number from 1, or omit it for the limit of the engine",
				Invalid, of.name, of.limit)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(l.SoftBudgetsMS)) {
		if ms := l.SoftBudgetsMS[name]; name == "" || ms < 1 || ms > maxSoftBudgetMS {
			return fmt.Errorf("%w limits.soft_budgets_ms: %q has %d: name a tool and use milliseconds from 1 to %d",
				Invalid, name, ms, maxSoftBudgetMS)
		}
	}
	if len(l.SoftBudgetsMS) > maxBudgetedTools {
		return fmt.Errorf("%w limits.soft_budgets_ms: %d tools, at most %d are allowed",
			Invalid, len(l.SoftBudgetsMS), maxBudgetedTools)
	}
	return nil
}

// maxSoftBudgetMS is the longest soft budget of an agent for a tool, a year.
const maxSoftBudgetMS = 365 * 24 * 3600 * 1000

// Defaults of the limits that the rules use. A deployment can change them in its configuration.
const (
	DefaultMaxIterations    = 500 // reason steps in a turn
	DefaultParallelCalls    = 32  // calls of a step at once
	DefaultMaxContinuations = 20  // automatic turns in a row
	MaxCallsPerStep         = 64  // further calls of a message are refused
	DefaultNoProgress       = 3   // resumes without a new event, after which the turn is sealed
	DefaultModelAttempts    = 5   // model calls of one reason step
	DefaultMaxExecutions    = 3   // executions of a repeatable call
)

func (a Agent) maxIterations() int    { return orDefault(a.MaxIterations, DefaultMaxIterations) }
func (a Agent) maxParallelCalls() int { return orDefault(a.MaxParallelCalls, DefaultParallelCalls) }
func (a Agent) maxContinuations() int { return orDefault(a.MaxContinuations, DefaultMaxContinuations) }

func orDefault(n, fallback int) int {
	if n > 0 {
		return n
	}
	return fallback
}

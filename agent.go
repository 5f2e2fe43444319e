package perdure

// Agent is the configuration of a session: who the model is told to be, and its limits. It is fixed in
// session.created. The zero value is an agent without instructions, on the engine's default model.
type Agent struct {
	Name              string            `json:"name,omitempty"`
	Instructions      string            `json:"instructions,omitempty"`       // the system prompt; the tool sets add their parts
	Model             string            `json:"model,omitempty"`              // empty: the engine's default
	Tools             []string          `json:"tools,omitzero"`               // visible tools by name; nil: all that the engine has
	MaxContextTokens  int               `json:"max_context_tokens,omitempty"` // estimated; beyond, the context is compacted before the model is asked (TN23); 0: only when the provider says so
	MaxIterations     int               `json:"max_iterations,omitempty"`     // reason steps a turn; 0: DefaultMaxIterations
	Summarise         bool              `json:"summarise,omitempty"`          // what is left out of the context is summed up by the model first (TN23)
	Recovery          RecoveryMode      `json:"recovery,omitempty"`           // of an answer that broke off with text, where it is possible; empty: continue, else finalize (TN20)
	SealAfter         int               `json:"seal_after,omitempty"`         // so many calls of a loop seal the turn, at least 3; 0: none do (TN24)
	SerialCalls       bool              `json:"serial_calls,omitempty"`       // calls of a step strictly one after another (TN11)
	MaxParallelCalls  int               `json:"max_parallel_calls,omitempty"` // 0: DefaultParallelCalls
	MaxContinuations  int               `json:"max_continuations,omitempty"`  // automatic turns without a person; 0: DefaultMaxContinuations
	Locale            string            `json:"locale,omitempty"`             // BCP 47; empty: en
	Timezone          string            `json:"timezone,omitempty"`           // IANA; empty: UTC
	Title             string            `json:"title,omitempty"`              // of the session; a tool may change it
	Labels            Labels            `json:"labels,omitempty"`             // of the session, as it begins; people may change them
	DisableBackground bool              `json:"disable_background,omitempty"` // keeps the background set out (TL33)
	DryRun            bool              `json:"dry_run,omitempty"`            // pure tools run, others say what they would do (AP13)
	AskEffects        bool              `json:"ask_effects,omitempty"`        // a person is asked before every call of a tool that is not pure, whatever the policies allow
	AskUntrusted      bool              `json:"ask_untrusted,omitempty"`      // once anything from outside was read, a person is asked before every call that reaches further than the session (S3)
	SoftBudgetMS      int64             `json:"soft_budget_ms,omitempty"`     // of tools that name none; 0: the engine's; -1: they never leave their turn (LN2)
	ClientTools       bool              `json:"client_tools,omitempty"`       // the client answers client-side tools (AP11)
	ClientConnections bool              `json:"client_connections,omitempty"` // the client sets up connections that tools need (AP12)
	Subagent          bool              `json:"subagent,omitempty"`           // it works for another session; Child sets it (SA1)
	ID                AgentID           `json:"agent_id,omitempty"`           // the kept agent that it was made of; empty: of none. One that is archived stops the turn (N11)
	Harness           HarnessID         `json:"harness_id,omitempty"`         // the leaf of its chain of harnesses, likewise
	Capabilities      []string          `json:"capabilities,omitzero"`        // those that were chosen, by id; Tools and Instructions hold what they bring (TL32)
	Network           NetworkList       `json:"network_access,omitzero"`      // where its tools may reach, of what the engine lets out at all (NL2)
	Metadata          map[string]string `json:"metadata,omitempty"`
	Order             string            `json:"order,omitempty"` // the digest of the order that the session was made by, with its id (N5); the engine sets it. Empty: of none
}

// The defaults of chapter 18 that the rules use.
const (
	DefaultMaxIterations    = 500 // reason steps a turn
	DefaultParallelCalls    = 32  // calls of a step at once
	DefaultMaxContinuations = 20  // automatic turns in a row (DL8)
	MaxCallsPerStep         = 64  // TN9
	DefaultNoProgress       = 3   // take-ups without a new event (TN1)
	DefaultModelAttempts    = 5   // TN21
	DefaultMaxExecutions    = 3   // LG9
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

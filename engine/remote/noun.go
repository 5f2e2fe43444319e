package remote

import "github.com/perdure/perdure/engine"

// The nouns of the engine. Each has the methods of one interface of the port and shares the engine.
type (
	engineSessions    struct{ *Engine }
	engineArchives    struct{ *Engine }
	engineApprovals   struct{ *Engine }
	engineCalls       struct{ *Engine }
	engineHostCalls   struct{ *Engine }
	engineTasks       struct{ *Engine }
	engineTools       struct{ *Engine }
	engineSchedules   struct{ *Engine }
	engineBudgets     struct{ *Engine }
	engineWebhooks    struct{ *Engine }
	engineAgents      struct{ *Engine }
	engineHarnesses   struct{ *Engine }
	engineConnections struct{ *Engine }
	engineProviders   struct{ *Engine }
	engineTokens      struct{ *Engine }
	engineAudit       struct{ *Engine }
	engineFiles       struct{ *Engine }
	engineValues      struct{ *Engine }
	engineSecrets     struct{ *Engine }
	engineResources   struct{ *Engine }
)

// Sessions implements engine.Engine.
func (e *Engine) Sessions() engine.Sessions { return engineSessions{e} }

// Archives implements engine.Engine.
func (e *Engine) Archives() engine.Archives { return engineArchives{e} }

// Approvals implements engine.Engine.
func (e *Engine) Approvals() engine.Approvals { return engineApprovals{e} }

// Calls implements engine.Engine.
func (e *Engine) Calls() engine.Calls { return engineCalls{e} }

// HostCalls implements engine.Engine.
func (e *Engine) HostCalls() engine.HostCalls { return engineHostCalls{e} }

// Tasks implements engine.Engine.
func (e *Engine) Tasks() engine.Tasks { return engineTasks{e} }

// Tools implements engine.Engine.
func (e *Engine) Tools() engine.Tools { return engineTools{e} }

// Schedules implements engine.Engine.
func (e *Engine) Schedules() engine.Schedules { return engineSchedules{e} }

// Budgets implements engine.Engine.
func (e *Engine) Budgets() engine.Budgets { return engineBudgets{e} }

// Webhooks implements engine.Engine.
func (e *Engine) Webhooks() engine.Webhooks { return engineWebhooks{e} }

// Agents implements engine.Engine.
func (e *Engine) Agents() engine.Agents { return engineAgents{e} }

// Harnesses implements engine.Engine.
func (e *Engine) Harnesses() engine.Harnesses { return engineHarnesses{e} }

// Connections implements engine.Engine.
func (e *Engine) Connections() engine.Connections { return engineConnections{e} }

// Providers implements engine.Engine.
func (e *Engine) Providers() engine.Providers { return engineProviders{e} }

// Tokens implements engine.Engine.
func (e *Engine) Tokens() engine.Tokens { return engineTokens{e} }

// Audit implements engine.Engine.
func (e *Engine) Audit() engine.Audit { return engineAudit{e} }

// Files implements engine.Engine.
func (e *Engine) Files() engine.Files { return engineFiles{e} }

// Values implements engine.Engine.
func (e *Engine) Values() engine.Values { return engineValues{e} }

// Secrets implements engine.Engine.
func (e *Engine) Secrets() engine.Secrets { return engineSecrets{e} }

// Resources implements engine.Engine.
func (e *Engine) Resources() engine.Resources { return engineResources{e} }

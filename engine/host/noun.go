package host

import "github.com/perdure/perdure/engine"

// The nouns of the engine. Each has the methods of one interface of the port and shares the engine.
type (
	hostSessions    struct{ *Host }
	hostArchives    struct{ *Host }
	hostApprovals   struct{ *Host }
	hostCalls       struct{ *Host }
	hostHostCalls   struct{ *Host }
	hostTasks       struct{ *Host }
	hostTools       struct{ *Host }
	hostSchedules   struct{ *Host }
	hostBudgets     struct{ *Host }
	hostWebhooks    struct{ *Host }
	hostAgents      struct{ *Host }
	hostHarnesses   struct{ *Host }
	hostConnections struct{ *Host }
	hostProviders   struct{ *Host }
	hostTokens      struct{ *Host }
	hostAudit       struct{ *Host }
	hostFiles       struct{ *Host }
	hostValues      struct{ *Host }
	hostSecrets     struct{ *Host }
	hostResources   struct{ *Host }
)

// Sessions implements engine.Engine.
func (e *Host) Sessions() engine.Sessions { return hostSessions{e} }

// Archives implements engine.Engine.
func (e *Host) Archives() engine.Archives { return hostArchives{e} }

// Approvals implements engine.Engine.
func (e *Host) Approvals() engine.Approvals { return hostApprovals{e} }

// Calls implements engine.Engine.
func (e *Host) Calls() engine.Calls { return hostCalls{e} }

// HostCalls implements engine.Engine.
func (e *Host) HostCalls() engine.HostCalls { return hostHostCalls{e} }

// Tasks implements engine.Engine.
func (e *Host) Tasks() engine.Tasks { return hostTasks{e} }

// Tools implements engine.Engine.
func (e *Host) Tools() engine.Tools { return hostTools{e} }

// Schedules implements engine.Engine.
func (e *Host) Schedules() engine.Schedules { return hostSchedules{e} }

// Budgets implements engine.Engine.
func (e *Host) Budgets() engine.Budgets { return hostBudgets{e} }

// Webhooks implements engine.Engine.
func (e *Host) Webhooks() engine.Webhooks { return hostWebhooks{e} }

// Agents implements engine.Engine.
func (e *Host) Agents() engine.Agents { return hostAgents{e} }

// Harnesses implements engine.Engine.
func (e *Host) Harnesses() engine.Harnesses { return hostHarnesses{e} }

// Connections implements engine.Engine.
func (e *Host) Connections() engine.Connections { return hostConnections{e} }

// Providers implements engine.Engine.
func (e *Host) Providers() engine.Providers { return hostProviders{e} }

// Tokens implements engine.Engine.
func (e *Host) Tokens() engine.Tokens { return hostTokens{e} }

// Audit implements engine.Engine.
func (e *Host) Audit() engine.Audit { return hostAudit{e} }

// Files implements engine.Engine.
func (e *Host) Files() engine.Files { return hostFiles{e} }

// Values implements engine.Engine.
func (e *Host) Values() engine.Values { return hostValues{e} }

// Secrets implements engine.Engine.
func (e *Host) Secrets() engine.Secrets { return hostSecrets{e} }

// Resources implements engine.Engine.
func (e *Host) Resources() engine.Resources { return hostResources{e} }

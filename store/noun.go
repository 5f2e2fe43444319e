package store

import "time"

// Reader is one consistent view of the store, noun by noun. What is unknown, or belongs to another
// session, is NotFound.
type Reader interface {
	// Now reads and writes the clock of the store, by which leases are measured. UTC, microseconds.
	// It does not move during a transaction or view.
	Now() time.Time
	// Journal reads events, and the checkpoints of messages that are still open.
	Journal() JournalView
	// Sessions reads the rows of sessions, their snapshots and labels, and whole sessions for
	// export and import.
	Sessions() SessionsView
	// Calls reads the effect ledger.
	Calls() CallReader
	// Tasks reads tasks with their messages and logs, and the outbox.
	Tasks() TaskReader
	// Files reads the files of sessions.
	Files() FileReader
	// Workers reads the processes that execute work, with their leases.
	Workers() WorkerReader
	// Requests reads requests by idempotency key.
	Requests() RequestReader
	// Bulks reads operations on many objects.
	Bulks() BulkReader
	// Approvals reads approvals.
	Approvals() ApprovalReader
	// Spawns reads the handles of subagents.
	Spawns() SpawnReader
	// Resources reads resources of sessions, and the leases on them.
	Resources() ResourceReader
	// Schedules reads schedules and their fires.
	Schedules() ScheduleReader
	// Values reads the values of sessions.
	Values() ValueReader
	// Images reads images.
	Images() ImageReader
	// Secrets reads sealed secrets.
	Secrets() SecretReader
	// Payments reads payments.
	Payments() PaymentReader
	// Rates reads how often tools went out.
	Rates() RateReader
	// Budgets reads budgets with their reservations and entries.
	Budgets() BudgetReader
	// Webhooks reads webhooks and their deliveries.
	Webhooks() WebhookReader
	// Tokens reads access tokens.
	Tokens() TokenReader
	// Audit reads the audit log.
	Audit() AuditReader
	// Directory reads what agents are made of.
	Directory() DirectoryReader
}

// Tx is what a transaction can read and write, noun by noun. A transaction reads its own writes.
type Tx interface {
	// Now is Now of Reader.
	Now() time.Time
	// Reader is the same transaction, to read only.
	Reader() Reader
	// Journal reads and writes events, and the checkpoints of messages that are still open.
	Journal() Journal
	// Sessions reads and writes the rows of sessions, their snapshots and labels, and whole
	// sessions for export and import.
	Sessions() Sessions
	// Calls reads and writes the effect ledger.
	Calls() Calls
	// Tasks reads and writes tasks with their messages and logs, and the outbox.
	Tasks() Tasks
	// Files reads and writes the files of sessions.
	Files() Files
	// Workers reads and writes the processes that execute work, with their leases.
	Workers() Workers
	// Requests reads and writes requests by idempotency key.
	Requests() Requests
	// Bulks reads and writes operations on many objects.
	Bulks() Bulks
	// Approvals reads and writes approvals.
	Approvals() Approvals
	// Spawns reads and writes the handles of subagents.
	Spawns() Spawns
	// Resources reads and writes resources of sessions, and the leases on them.
	Resources() Resources
	// Schedules reads and writes schedules and their fires.
	Schedules() Schedules
	// Values reads and writes the values of sessions.
	Values() Values
	// Images reads and writes images.
	Images() Images
	// Secrets reads and writes sealed secrets.
	Secrets() Secrets
	// Payments reads and writes payments.
	Payments() Payments
	// Rates reads and writes how often tools went out.
	Rates() Rates
	// Budgets reads and writes budgets with their reservations and entries.
	Budgets() Budgets
	// Webhooks reads and writes webhooks and their deliveries.
	Webhooks() Webhooks
	// Tokens reads and writes access tokens.
	Tokens() Tokens
	// Audit reads and writes the audit log.
	Audit() Audit
	// Directory reads and writes what agents are made of.
	Directory() Directory
}

// DirectoryReader reads what agents are made of.
type DirectoryReader interface {
	// Agents reads agents.
	Agents() AgentReader
	// Harnesses reads harnesses.
	Harnesses() HarnessReader
	// Models reads models.
	Models() ModelReader
	// Providers reads providers.
	Providers() ProviderReader
	// Connections reads the connections of users.
	Connections() ConnectionReader
}

// Directory holds what agents are made of.
type Directory interface {
	// Agents reads and writes agents.
	Agents() Agents
	// Harnesses reads and writes harnesses.
	Harnesses() Harnesses
	// Models reads and writes models.
	Models() Models
	// Providers reads and writes providers.
	Providers() Providers
	// Connections reads and writes the connections of users.
	Connections() Connections
}

// The nouns of a transaction: what can be read, and what can be written.
type (
	// JournalView reads events, and the checkpoints of messages that are still open.
	JournalView interface {
		JournalReader
		PartialReader
	}
	// Journal reads and writes the part of a transaction for events, and the checkpoints of
	// messages that are still open.
	Journal interface {
		JournalReader
		PartialReader
		JournalWriter
		PartialWriter
	}
	// SessionsView reads the rows of sessions, their snapshots and labels, and whole sessions for
	// export and import.
	SessionsView interface {
		SessionReader
		DumpReader
	}
	// Sessions reads and writes the part of a transaction for the rows of sessions, their snapshots
	// and labels, and whole sessions for export and import.
	Sessions interface {
		SessionReader
		DumpReader
		SessionWriter
		LabelWriter
		HomeWriter
		SessionRemover
		DumpWriter
	}
	// Calls reads and writes the part of a transaction for the effect ledger.
	Calls interface {
		CallReader
		CallWriter
	}
	// Tasks reads and writes the part of a transaction for tasks with their messages and logs, and
	// the outbox.
	Tasks interface {
		TaskReader
		TaskWriter
	}
	// Files reads and writes the part of a transaction for the files of sessions.
	Files interface {
		FileReader
		FileWriter
	}
	// Workers reads and writes the part of a transaction for the processes that execute work, with
	// their leases.
	Workers interface {
		WorkerReader
		WorkerWriter
		WorkerEnder
	}
	// Requests reads and writes the part of a transaction for requests by idempotency key.
	Requests interface {
		RequestReader
		RequestWriter
	}
	// Bulks reads and writes the part of a transaction for operations on many objects.
	Bulks interface {
		BulkReader
		BulkWriter
	}
	// Approvals reads and writes the part of a transaction for approvals.
	Approvals interface {
		ApprovalReader
		ApprovalWriter
	}
	// Spawns reads and writes the part of a transaction for the handles of subagents.
	Spawns interface {
		SpawnReader
		SpawnWriter
	}
	// Resources reads and writes the part of a transaction for resources of sessions, and the
	// leases on them.
	Resources interface {
		ResourceReader
		ResourceWriter
		LeaseWriter
	}
	// Schedules reads and writes the part of a transaction for schedules and their fires.
	Schedules interface {
		ScheduleReader
		ScheduleWriter
	}
	// Values reads and writes the part of a transaction for the values of sessions.
	Values interface {
		ValueReader
		ValueWriter
	}
	// Images reads and writes the part of a transaction for images.
	Images interface {
		ImageReader
		ImageWriter
	}
	// Secrets reads and writes the part of a transaction for sealed secrets.
	Secrets interface {
		SecretReader
		SecretWriter
	}
	// Payments reads and writes the part of a transaction for payments.
	Payments interface {
		PaymentReader
		PaymentWriter
	}
	// Rates reads and writes the part of a transaction for how often tools went out.
	Rates interface {
		RateReader
		RateWriter
	}
	// Budgets reads and writes the part of a transaction for budgets with their reservations and
	// entries.
	Budgets interface {
		BudgetReader
		BudgetWriter
	}
	// Webhooks reads and writes the part of a transaction for webhooks and their deliveries.
	Webhooks interface {
		WebhookReader
		WebhookWriter
	}
	// Tokens reads and writes the part of a transaction for access tokens.
	Tokens interface {
		TokenReader
		TokenWriter
	}
	// Audit reads and writes the part of a transaction for the audit log.
	Audit interface {
		AuditReader
		AuditWriter
	}
	// Agents reads and writes the part of a transaction for agents.
	Agents interface {
		AgentReader
		AgentWriter
	}
	// Harnesses reads and writes the part of a transaction for harnesses.
	Harnesses interface {
		HarnessReader
		HarnessWriter
	}
	// Models reads and writes the part of a transaction for models.
	Models interface {
		ModelReader
		ModelWriter
	}
	// Providers reads and writes the part of a transaction for providers.
	Providers interface {
		ProviderReader
		ProviderWriter
	}
	// Connections reads and writes the part of a transaction for the connections of users.
	Connections interface {
		ConnectionReader
		ConnectionWriter
	}
)

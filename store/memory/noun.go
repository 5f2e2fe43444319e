package memory

import (
	"time"

	"github.com/perdure/perdure/store"
)

// The nouns of a transaction. Each has the methods of one part of the port and shares the
// transaction.
type (
	journalStore    struct{ *tx }
	sessionStore    struct{ *tx }
	callStore       struct{ *tx }
	taskStore       struct{ *tx }
	fileStore       struct{ *tx }
	workerStore     struct{ *tx }
	requestStore    struct{ *tx }
	approvalStore   struct{ *tx }
	spawnStore      struct{ *tx }
	resourceStore   struct{ *tx }
	scheduleStore   struct{ *tx }
	valueStore      struct{ *tx }
	imageStore      struct{ *tx }
	secretStore     struct{ *tx }
	paymentStore    struct{ *tx }
	rateStore       struct{ *tx }
	budgetStore     struct{ *tx }
	webhookStore    struct{ *tx }
	tokenStore      struct{ *tx }
	auditStore      struct{ *tx }
	agentStore      struct{ *tx }
	harnessStore    struct{ *tx }
	modelStore      struct{ *tx }
	providerStore   struct{ *tx }
	connectionStore struct{ *tx }

	// reader is a transaction, or a view, to read only.
	reader struct{ *tx }
	// directory is what agents are made of; directoryReader is the same, to read only.
	directoryStore  struct{ *tx }
	directoryReader struct{ *tx }
)

// Reader returns the same transaction, to read only.
func (tx *tx) Reader() store.Reader { return reader{tx} }

// Journal implements store.Tx.
func (tx *tx) Journal() store.Journal { return journalStore{tx} }

// Sessions implements store.Tx.
func (tx *tx) Sessions() store.Sessions { return sessionStore{tx} }

// Calls implements store.Tx.
func (tx *tx) Calls() store.Calls { return callStore{tx} }

// Tasks implements store.Tx.
func (tx *tx) Tasks() store.Tasks { return taskStore{tx} }

// Files implements store.Tx.
func (tx *tx) Files() store.Files { return fileStore{tx} }

// Workers implements store.Tx.
func (tx *tx) Workers() store.Workers { return workerStore{tx} }

// Requests implements store.Tx.
func (tx *tx) Requests() store.Requests { return requestStore{tx} }

// Approvals implements store.Tx.
func (tx *tx) Approvals() store.Approvals { return approvalStore{tx} }

// Spawns implements store.Tx.
func (tx *tx) Spawns() store.Spawns { return spawnStore{tx} }

// Resources implements store.Tx.
func (tx *tx) Resources() store.Resources { return resourceStore{tx} }

// Schedules implements store.Tx.
func (tx *tx) Schedules() store.Schedules { return scheduleStore{tx} }

// Values implements store.Tx.
func (tx *tx) Values() store.Values { return valueStore{tx} }

// Images implements store.Tx.
func (tx *tx) Images() store.Images { return imageStore{tx} }

// Secrets implements store.Tx.
func (tx *tx) Secrets() store.Secrets { return secretStore{tx} }

// Payments implements store.Tx.
func (tx *tx) Payments() store.Payments { return paymentStore{tx} }

// Rates implements store.Tx.
func (tx *tx) Rates() store.Rates { return rateStore{tx} }

// Budgets implements store.Tx.
func (tx *tx) Budgets() store.Budgets { return budgetStore{tx} }

// Webhooks implements store.Tx.
func (tx *tx) Webhooks() store.Webhooks { return webhookStore{tx} }

// Tokens implements store.Tx.
func (tx *tx) Tokens() store.Tokens { return tokenStore{tx} }

// Audit implements store.Tx.
func (tx *tx) Audit() store.Audit { return auditStore{tx} }

// Directory implements store.Tx.
func (tx *tx) Directory() store.Directory { return directoryStore{tx} }

// Agents implements store.Directory.
func (d directoryStore) Agents() store.Agents { return agentStore{d.tx} }

// Harnesses implements store.Directory.
func (d directoryStore) Harnesses() store.Harnesses { return harnessStore{d.tx} }

// Models implements store.Directory.
func (d directoryStore) Models() store.Models { return modelStore{d.tx} }

// Providers implements store.Directory.
func (d directoryStore) Providers() store.Providers { return providerStore{d.tx} }

// Connections implements store.Directory.
func (d directoryStore) Connections() store.Connections { return connectionStore{d.tx} }

// Now implements store.Reader.
func (r reader) Now() time.Time { return r.tx.Now() }

// Journal implements store.Reader.
func (r reader) Journal() store.JournalView { return journalStore{r.tx} }

// Sessions implements store.Reader.
func (r reader) Sessions() store.SessionsView { return sessionStore{r.tx} }

// Calls implements store.Reader.
func (r reader) Calls() store.CallReader { return callStore{r.tx} }

// Tasks implements store.Reader.
func (r reader) Tasks() store.TaskReader { return taskStore{r.tx} }

// Files implements store.Reader.
func (r reader) Files() store.FileReader { return fileStore{r.tx} }

// Workers implements store.Reader.
func (r reader) Workers() store.WorkerReader { return workerStore{r.tx} }

// Requests implements store.Reader.
func (r reader) Requests() store.RequestReader { return requestStore{r.tx} }

// Approvals implements store.Reader.
func (r reader) Approvals() store.ApprovalReader { return approvalStore{r.tx} }

// Spawns implements store.Reader.
func (r reader) Spawns() store.SpawnReader { return spawnStore{r.tx} }

// Resources implements store.Reader.
func (r reader) Resources() store.ResourceReader { return resourceStore{r.tx} }

// Schedules implements store.Reader.
func (r reader) Schedules() store.ScheduleReader { return scheduleStore{r.tx} }

// Values implements store.Reader.
func (r reader) Values() store.ValueReader { return valueStore{r.tx} }

// Images implements store.Reader.
func (r reader) Images() store.ImageReader { return imageStore{r.tx} }

// Secrets implements store.Reader.
func (r reader) Secrets() store.SecretReader { return secretStore{r.tx} }

// Payments implements store.Reader.
func (r reader) Payments() store.PaymentReader { return paymentStore{r.tx} }

// Rates implements store.Reader.
func (r reader) Rates() store.RateReader { return rateStore{r.tx} }

// Budgets implements store.Reader.
func (r reader) Budgets() store.BudgetReader { return budgetStore{r.tx} }

// Webhooks implements store.Reader.
func (r reader) Webhooks() store.WebhookReader { return webhookStore{r.tx} }

// Tokens implements store.Reader.
func (r reader) Tokens() store.TokenReader { return tokenStore{r.tx} }

// Audit implements store.Reader.
func (r reader) Audit() store.AuditReader { return auditStore{r.tx} }

// Directory implements store.Reader.
func (r reader) Directory() store.DirectoryReader { return directoryReader{r.tx} }

// Agents implements store.DirectoryReader.
func (d directoryReader) Agents() store.AgentReader { return agentStore{d.tx} }

// Harnesses implements store.DirectoryReader.
func (d directoryReader) Harnesses() store.HarnessReader { return harnessStore{d.tx} }

// Models implements store.DirectoryReader.
func (d directoryReader) Models() store.ModelReader { return modelStore{d.tx} }

// Providers implements store.DirectoryReader.
func (d directoryReader) Providers() store.ProviderReader { return providerStore{d.tx} }

// Connections implements store.DirectoryReader.
func (d directoryReader) Connections() store.ConnectionReader { return connectionStore{d.tx} }

package sqlstore

import (
	"time"

	"github.com/perdure/perdure/store"
)

// The nouns of a transaction. Each has the methods of one part of the port and shares the
// transaction.
type (
	journalStore    struct{ *Tx }
	sessionStore    struct{ *Tx }
	callStore       struct{ *Tx }
	taskStore       struct{ *Tx }
	fileStore       struct{ *Tx }
	workerStore     struct{ *Tx }
	requestStore    struct{ *Tx }
	bulkStore       struct{ *Tx }
	approvalStore   struct{ *Tx }
	spawnStore      struct{ *Tx }
	resourceStore   struct{ *Tx }
	scheduleStore   struct{ *Tx }
	valueStore      struct{ *Tx }
	imageStore      struct{ *Tx }
	secretStore     struct{ *Tx }
	paymentStore    struct{ *Tx }
	rateStore       struct{ *Tx }
	budgetStore     struct{ *Tx }
	webhookStore    struct{ *Tx }
	tokenStore      struct{ *Tx }
	auditStore      struct{ *Tx }
	agentStore      struct{ *Tx }
	harnessStore    struct{ *Tx }
	modelStore      struct{ *Tx }
	providerStore   struct{ *Tx }
	connectionStore struct{ *Tx }

	// reader is a transaction, or a view, to read only.
	reader struct{ *Tx }
	// directory is what agents are made of; directoryReader is the same, to read only.
	directoryStore  struct{ *Tx }
	directoryReader struct{ *Tx }
)

// Reader returns the same transaction, to read only.
func (tx *Tx) Reader() store.Reader { return reader{tx} }

// Journal implements store.Tx.
func (tx *Tx) Journal() store.Journal { return journalStore{tx} }

// Sessions implements store.Tx.
func (tx *Tx) Sessions() store.Sessions { return sessionStore{tx} }

// Calls implements store.Tx.
func (tx *Tx) Calls() store.Calls { return callStore{tx} }

// Tasks implements store.Tx.
func (tx *Tx) Tasks() store.Tasks { return taskStore{tx} }

// Files implements store.Tx.
func (tx *Tx) Files() store.Files { return fileStore{tx} }

// Workers implements store.Tx.
func (tx *Tx) Workers() store.Workers { return workerStore{tx} }

// Requests implements store.Tx.
func (tx *Tx) Requests() store.Requests { return requestStore{tx} }

// Bulks implements store.Tx.
func (tx *Tx) Bulks() store.Bulks { return bulkStore{tx} }

// Approvals implements store.Tx.
func (tx *Tx) Approvals() store.Approvals { return approvalStore{tx} }

// Spawns implements store.Tx.
func (tx *Tx) Spawns() store.Spawns { return spawnStore{tx} }

// Resources implements store.Tx.
func (tx *Tx) Resources() store.Resources { return resourceStore{tx} }

// Schedules implements store.Tx.
func (tx *Tx) Schedules() store.Schedules { return scheduleStore{tx} }

// Values implements store.Tx.
func (tx *Tx) Values() store.Values { return valueStore{tx} }

// Images implements store.Tx.
func (tx *Tx) Images() store.Images { return imageStore{tx} }

// Secrets implements store.Tx.
func (tx *Tx) Secrets() store.Secrets { return secretStore{tx} }

// Payments implements store.Tx.
func (tx *Tx) Payments() store.Payments { return paymentStore{tx} }

// Rates implements store.Tx.
func (tx *Tx) Rates() store.Rates { return rateStore{tx} }

// Budgets implements store.Tx.
func (tx *Tx) Budgets() store.Budgets { return budgetStore{tx} }

// Webhooks implements store.Tx.
func (tx *Tx) Webhooks() store.Webhooks { return webhookStore{tx} }

// Tokens implements store.Tx.
func (tx *Tx) Tokens() store.Tokens { return tokenStore{tx} }

// Audit implements store.Tx.
func (tx *Tx) Audit() store.Audit { return auditStore{tx} }

// Directory implements store.Tx.
func (tx *Tx) Directory() store.Directory { return directoryStore{tx} }

// The nouns of store.Directory.

func (d directoryStore) Agents() store.Agents           { return agentStore{d.Tx} }
func (d directoryStore) Harnesses() store.Harnesses     { return harnessStore{d.Tx} }
func (d directoryStore) Models() store.Models           { return modelStore{d.Tx} }
func (d directoryStore) Providers() store.Providers     { return providerStore{d.Tx} }
func (d directoryStore) Connections() store.Connections { return connectionStore{d.Tx} }

// The nouns of store.Reader.

func (r reader) Now() time.Time                   { return r.Tx.Now() }
func (r reader) Journal() store.JournalView       { return journalStore{r.Tx} }
func (r reader) Sessions() store.SessionsView     { return sessionStore{r.Tx} }
func (r reader) Calls() store.CallReader          { return callStore{r.Tx} }
func (r reader) Tasks() store.TaskReader          { return taskStore{r.Tx} }
func (r reader) Files() store.FileReader          { return fileStore{r.Tx} }
func (r reader) Workers() store.WorkerReader      { return workerStore{r.Tx} }
func (r reader) Requests() store.RequestReader    { return requestStore{r.Tx} }
func (r reader) Bulks() store.BulkReader          { return bulkStore{r.Tx} }
func (r reader) Approvals() store.ApprovalReader  { return approvalStore{r.Tx} }
func (r reader) Spawns() store.SpawnReader        { return spawnStore{r.Tx} }
func (r reader) Resources() store.ResourceReader  { return resourceStore{r.Tx} }
func (r reader) Schedules() store.ScheduleReader  { return scheduleStore{r.Tx} }
func (r reader) Values() store.ValueReader        { return valueStore{r.Tx} }
func (r reader) Images() store.ImageReader        { return imageStore{r.Tx} }
func (r reader) Secrets() store.SecretReader      { return secretStore{r.Tx} }
func (r reader) Payments() store.PaymentReader    { return paymentStore{r.Tx} }
func (r reader) Rates() store.RateReader          { return rateStore{r.Tx} }
func (r reader) Budgets() store.BudgetReader      { return budgetStore{r.Tx} }
func (r reader) Webhooks() store.WebhookReader    { return webhookStore{r.Tx} }
func (r reader) Tokens() store.TokenReader        { return tokenStore{r.Tx} }
func (r reader) Audit() store.AuditReader         { return auditStore{r.Tx} }
func (r reader) Directory() store.DirectoryReader { return directoryReader{r.Tx} }

// The nouns of store.DirectoryReader.

func (d directoryReader) Agents() store.AgentReader           { return agentStore{d.Tx} }
func (d directoryReader) Harnesses() store.HarnessReader      { return harnessStore{d.Tx} }
func (d directoryReader) Models() store.ModelReader           { return modelStore{d.Tx} }
func (d directoryReader) Providers() store.ProviderReader     { return providerStore{d.Tx} }
func (d directoryReader) Connections() store.ConnectionReader { return connectionStore{d.Tx} }

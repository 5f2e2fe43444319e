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
	bulkStore       struct{ *tx }
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

// The nouns of store.Tx; Reader is the same transaction, to read only.

func (tx *tx) Reader() store.Reader       { return reader{tx} }
func (tx *tx) Journal() store.Journal     { return journalStore{tx} }
func (tx *tx) Sessions() store.Sessions   { return sessionStore{tx} }
func (tx *tx) Calls() store.Calls         { return callStore{tx} }
func (tx *tx) Tasks() store.Tasks         { return taskStore{tx} }
func (tx *tx) Files() store.Files         { return fileStore{tx} }
func (tx *tx) Workers() store.Workers     { return workerStore{tx} }
func (tx *tx) Requests() store.Requests   { return requestStore{tx} }
func (tx *tx) Bulks() store.Bulks         { return bulkStore{tx} }
func (tx *tx) Approvals() store.Approvals { return approvalStore{tx} }
func (tx *tx) Spawns() store.Spawns       { return spawnStore{tx} }
func (tx *tx) Resources() store.Resources { return resourceStore{tx} }
func (tx *tx) Schedules() store.Schedules { return scheduleStore{tx} }
func (tx *tx) Values() store.Values       { return valueStore{tx} }
func (tx *tx) Images() store.Images       { return imageStore{tx} }
func (tx *tx) Secrets() store.Secrets     { return secretStore{tx} }
func (tx *tx) Payments() store.Payments   { return paymentStore{tx} }
func (tx *tx) Rates() store.Rates         { return rateStore{tx} }
func (tx *tx) Budgets() store.Budgets     { return budgetStore{tx} }
func (tx *tx) Webhooks() store.Webhooks   { return webhookStore{tx} }
func (tx *tx) Tokens() store.Tokens       { return tokenStore{tx} }
func (tx *tx) Audit() store.Audit         { return auditStore{tx} }
func (tx *tx) Directory() store.Directory { return directoryStore{tx} }

// The nouns of store.Directory.

func (d directoryStore) Agents() store.Agents           { return agentStore{d.tx} }
func (d directoryStore) Harnesses() store.Harnesses     { return harnessStore{d.tx} }
func (d directoryStore) Models() store.Models           { return modelStore{d.tx} }
func (d directoryStore) Providers() store.Providers     { return providerStore{d.tx} }
func (d directoryStore) Connections() store.Connections { return connectionStore{d.tx} }

// The nouns of store.Reader.

func (r reader) Now() time.Time                   { return r.tx.Now() }
func (r reader) Journal() store.JournalView       { return journalStore{r.tx} }
func (r reader) Sessions() store.SessionsView     { return sessionStore{r.tx} }
func (r reader) Calls() store.CallReader          { return callStore{r.tx} }
func (r reader) Tasks() store.TaskReader          { return taskStore{r.tx} }
func (r reader) Files() store.FileReader          { return fileStore{r.tx} }
func (r reader) Workers() store.WorkerReader      { return workerStore{r.tx} }
func (r reader) Requests() store.RequestReader    { return requestStore{r.tx} }
func (r reader) Bulks() store.BulkReader          { return bulkStore{r.tx} }
func (r reader) Approvals() store.ApprovalReader  { return approvalStore{r.tx} }
func (r reader) Spawns() store.SpawnReader        { return spawnStore{r.tx} }
func (r reader) Resources() store.ResourceReader  { return resourceStore{r.tx} }
func (r reader) Schedules() store.ScheduleReader  { return scheduleStore{r.tx} }
func (r reader) Values() store.ValueReader        { return valueStore{r.tx} }
func (r reader) Images() store.ImageReader        { return imageStore{r.tx} }
func (r reader) Secrets() store.SecretReader      { return secretStore{r.tx} }
func (r reader) Payments() store.PaymentReader    { return paymentStore{r.tx} }
func (r reader) Rates() store.RateReader          { return rateStore{r.tx} }
func (r reader) Budgets() store.BudgetReader      { return budgetStore{r.tx} }
func (r reader) Webhooks() store.WebhookReader    { return webhookStore{r.tx} }
func (r reader) Tokens() store.TokenReader        { return tokenStore{r.tx} }
func (r reader) Audit() store.AuditReader         { return auditStore{r.tx} }
func (r reader) Directory() store.DirectoryReader { return directoryReader{r.tx} }

// The nouns of store.DirectoryReader.

func (d directoryReader) Agents() store.AgentReader           { return agentStore{d.tx} }
func (d directoryReader) Harnesses() store.HarnessReader      { return harnessStore{d.tx} }
func (d directoryReader) Models() store.ModelReader           { return modelStore{d.tx} }
func (d directoryReader) Providers() store.ProviderReader     { return providerStore{d.tx} }
func (d directoryReader) Connections() store.ConnectionReader { return connectionStore{d.tx} }

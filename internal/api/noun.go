package api

// The handlers of the operations, one type for each noun. They share the API.
type (
	agentHandlers      struct{ *API }
	approvalHandlers   struct{ *API }
	archiveHandlers    struct{ *API }
	auditHandlers      struct{ *API }
	budgetHandlers     struct{ *API }
	bulkHandlers       struct{ *API }
	callHandlers       struct{ *API }
	connectionHandlers struct{ *API }
	databaseHandlers   struct{ *API }
	deliveryHandlers   struct{ *API }
	eventHandlers      struct{ *API }
	fileHandlers       struct{ *API }
	harnessHandlers    struct{ *API }
	healthHandlers     struct{ *API }
	imageHandlers      struct{ *API }
	machineHandlers    struct{ *API }
	manualHandlers     struct{ *API }
	messageHandlers    struct{ *API }
	paymentHandlers    struct{ *API }
	providerHandlers   struct{ *API }
	resourceHandlers   struct{ *API }
	scheduleHandlers   struct{ *API }
	sessionHandlers    struct{ *API }
	taskHandlers       struct{ *API }
	taskLogHandlers    struct{ *API }
	tokenHandlers      struct{ *API }
	toolHandlers       struct{ *API }
	topicHandlers      struct{ *API }
	valueHandlers      struct{ *API }
	webhookHandlers    struct{ *API }
)

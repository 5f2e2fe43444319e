package cli

// The parts of a running command, one type for each subject. They share the app: what a noun prints
// and advises belongs to the noun, and what all commands need belongs to the app.
type (
	commandParser struct{ *app } // the grammar, and the arguments that are parsed with it
	storeChoice   struct{ *app } // which data directory, database or server the command works with
	lifetime      struct{ *app } // signals, and how the command ends
	completer     struct{ *app } // completes ids
	manualWriter  struct{ *app } // writes the manual pages
	workList      struct{ *app } // the running work, grouped by what it needs

	agentText    struct{ *app }
	approvalText struct{ *app }
	budgetText   struct{ *app }
	egressText   struct{ *app }
	eventText    struct{ *app }
	fileText     struct{ *app }
	resourceText struct{ *app }
	scheduleText struct{ *app }
	sessionText  struct{ *app }
	taskText     struct{ *app }
	webhookText  struct{ *app }
)

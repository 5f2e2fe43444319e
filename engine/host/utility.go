package host

import "github.com/perdure/perdure/model"

// Utility is a small model that tools use for internal work, for the store's own ports. It has no
// tools, and its usage is charged to the session. It may be the engine's own model under another
// name. With the zero value there is none, and tools that need it return an error.
type Utility struct {
	Model     model.Model // nil: none
	Name      string      // a model name that Model knows; empty: its default
	MaxTokens int         // upper limit for a response, whatever a tool asks for; 0: 8,192
	// Titles lets the model name sessions without a title after their first turn. It is off by
	// default, because it costs a model call for each session.
	Titles bool
}

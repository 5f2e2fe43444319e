package local

import "github.com/perdure/perdure/model"

// Utility is a small model that tools ask for their inner work, where the ports are the store's own. It has no tools, and what
// it uses is billed to the session. The zero value is none: tools that need it say so. It may be the model of the engine, under
// another name.
type Utility struct {
	Model     model.Model // nil: there is none
	Name      string      // of a model that Model knows; empty: its default
	MaxTokens int         // of an answer, whatever a tool asks for; 0: 8,192
}

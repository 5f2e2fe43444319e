package tool

import "github.com/perdure/perdure"

// Caller says for whom a call is made. The zero value is a call outside of a session. Organisation
// and user are in [Call]. Its maps are shared and must not be changed.
type Caller struct {
	Agent    string            // name of the session's agent; empty: it has none
	AgentID  perdure.AgentID   // of the stored agent; empty: the session has an agent of its own
	Model    string            // that the turn asks for; empty: the engine's default
	Locale   string            // BCP 47
	Labels   perdure.Labels    // of the session
	Metadata map[string]string // of the agent
	// Request is the metadata of the messages that the turn works on, or of the request for a call
	// without a model. A task keeps that of its request.
	Request map[string]string
}

// Caller returns for whom the call is made.
func (c Call) Caller() Caller {
	if c.For == nil {
		return Caller{}
	}
	return *c.For
}

// Caller returns for whom the call is made.
func (e Env) Caller() Caller { return e.Call.Caller() }

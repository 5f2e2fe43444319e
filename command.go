package perdure

import "time"

// Moment is what a decision needs besides the session: the time, and what only the store knows.
type Moment struct {
	Now           time.Time
	Secret        Secret // of the session, for derived ids
	Resumes       int    // times the session was resumed in a row without a new event
	NoProgress    int    // resumes after which a turn is sealed; 0: never
	ModelAttempts int    // model calls of a reason step; 0: DefaultModelAttempts
}

// Command is something that is due. [Record] and [ClaimCall] are part of the commit that led to
// them. The others are carried out after that commit is durable.
//
// A command is due for as long as Decide returns it, so Decide returns the same command again while
// it is being carried out. An engine that has already started it does nothing. An engine that has
// not, because an earlier process crashed, starts it now. Resuming a session is therefore the
// ordinary way of starting it.
type Command interface{ command() }

// Record is facts that follow from the state, without any outside effect.
type Record struct{ Events []Event }

// ClaimCall is the intent to run a call. Its claim and Event are one commit. RunCall follows.
type ClaimCall struct {
	Turn  TurnID
	Call  TurnCall
	Event Event
}

// CallModel calls the model. The answer is reason.completed with the events that belong to it.
type CallModel struct {
	Turn      TurnID
	Exec      ExecID
	Message   MessageID
	Attempt   int
	NotBefore time.Time // zero: at once
	Stop      bool      // the turn ends: stop the model call, or complete it as interrupted
}

// RunCall runs a claimed call, or takes it over from a dead worker. The answer is tool.completed.
type RunCall struct {
	Turn  TurnID
	Call  TurnCall
	Stop  bool // the turn ends: cancel the call, or settle it as interrupted; nothing is run again
	Force bool // with Stop: without a grace period
	// Detach: a caller wants the call to continue as a task. The answer is tool.detached or
	// tool.detach_refused, unless the call ends before it
	Detach bool
}

// ReplanCall plans a call again after a person replaced its arguments. The answer is
// tool.replanned.
type ReplanCall struct {
	Turn TurnID
	Call TurnCall
}

// WaitUntil says that nothing is due before At. Then an approval or a call to the client times out.
type WaitUntil struct{ At time.Time }

// ReleaseSession says that nothing is left to do: the driver releases the session.
type ReleaseSession struct{}

func (Record) command()         {}
func (ClaimCall) command()      {}
func (CallModel) command()      {}
func (RunCall) command()        {}
func (ReplanCall) command()     {}
func (WaitUntil) command()      {}
func (ReleaseSession) command() {}

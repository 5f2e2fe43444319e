package temporal

// The payloads of workflows, activities and signals, as histories contain them: ids, numbers and
// names of capabilities and homes. Members are only added; the names in JSON never change.

// wake says that there is something to do for a session or a task.
type wake struct {
	Seq   int64  `json:"seq,omitempty"`   // of the session's journal
	Grant int64  `json:"grant,omitempty"` // as stored
	Queue string `json:"queue,omitempty"` // the capability that is needed
	Home  string `json:"home,omitempty"`
	Due   bool   `json:"due,omitempty"` // something is due even if Seq is known
}

// placement says where the next activity runs and with which grant. A continued workflow keeps it.
type placement struct {
	Grant    int64  `json:"grant,omitempty"` // the last one given out
	Queue    string `json:"queue,omitempty"`
	Home     string `json:"home,omitempty"` // the next activity goes there
	Present  bool   `json:"here,omitempty"` // Home is that of an owner that is alive
	Evict    bool   `json:"evict,omitempty"`
	HomeGone bool   `json:"gone,omitempty"`
	Absent   int    `json:"away,omitempty"`  // how often in a row nobody answered at the home
	Failures int    `json:"fails,omitempty"` // how often in a row the activity failed
}

// sessionState is what a Session workflow knows.
type sessionState struct {
	ID        string `json:"id"`
	Seq       int64  `json:"seq,omitempty"`   // the highest that was heard of
	Seen      int64  `json:"seen,omitempty"`  // up to which a driver has read
	Again     int64  `json:"again,omitempty"` // when something is due, in milliseconds since 1970; 0: never
	placement `json:"at"`
}

// runState is what a Run workflow knows.
type runState struct {
	Task      string `json:"task"`
	Full      int    `json:"full,omitempty"` // how often in a row the session had no slot
	placement `json:"at"`
}

// maintenanceState is what a Maintenance workflow knows.
type maintenanceState struct {
	Failures int `json:"failures,omitempty"`
}

// workInput is the input of an activity that works on a session or task.
type workInput struct {
	ID       string `json:"id"`
	Grant    int64  `json:"grant"`
	Evict    bool   `json:"evict,omitempty"`
	HomeGone bool   `json:"gone,omitempty"`
}

// driveResult is a Rest.
type driveResult struct {
	workResult
	Seq   int64 `json:"seq,omitempty"`
	Again int64 `json:"again,omitempty"` // in milliseconds since 1970
}

// runResult is a Ran.
type runResult struct {
	workResult
	Ended bool `json:"ended,omitempty"`
	Waits bool `json:"waits,omitempty"`
	Full  bool `json:"full,omitempty"`
}

// workResult is what the results of both kinds of work say. If Moved, Lost or Home is set, the work
// is to be placed again.
type workResult struct {
	Grant   int64  `json:"grant,omitempty"`
	Home    string `json:"home,omitempty"`
	Present bool   `json:"present,omitempty"`
	Moved   bool   `json:"moved,omitempty"` // the process stops, or may no longer work
	Lost    bool   `json:"lost,omitempty"`  // the grant was not above the stored one
}

// grantOf returns the grant of an activity.
func (in workInput) grantOf() Grant {
	return Grant{Number: in.Grant, Evict: in.Evict, HomeGone: in.HomeGone}
}

package perdure

// SessionCreated is the first event of every journal.
type SessionCreated struct {
	Agent   Agent    `json:"agent"`
	Lineage *Lineage `json:"lineage,omitempty"` // of a subagent; nil: the session has no parent
}

// SessionUpdated changes the title or the labels. An empty title keeps the old one.
type SessionUpdated struct {
	Title  string       `json:"title,omitempty"`
	Labels LabelChanges `json:"labels,omitempty"` // null removes a label
}

// SessionForked starts a session with the conversation of another one. It directly follows
// session.created and contains everything that is copied, so that neither session needs the other's
// journal. A fork is not a subagent of the other session.
type SessionForked struct {
	From       SessionID  `json:"from"`
	Seq        int64      `json:"seq"`                  // of the other journal, up to which it was folded
	Effects    string     `json:"effects"`              // ForkAsks or ForkDryRun: what happens to new effects
	Transcript []Message  `json:"transcript,omitempty"` // every call in it has its result
	UsedCalls  []CallID   `json:"used_calls,omitempty"` // call ids of the other session, which must not be used again
	Compaction Compaction `json:"compaction,omitzero"`
}

// What happens to new effects in a fork.
const (
	ForkAsks   = "ask"     // each needs an approval
	ForkDryRun = "dry_run" // none happens
)

// SessionActivated says that an idle session starts a turn.
type SessionActivated struct {
	TurnID TurnID `json:"turn_id"`
}

// SessionAwaits says that the turn waits for answers of the client.
type SessionAwaits struct {
	TurnID  TurnID   `json:"turn_id"`
	CallIDs []CallID `json:"call_ids"`
}

// SessionIdled says that the session is idle again.
type SessionIdled struct {
	TurnID     TurnID `json:"turn_id"`
	Iterations int    `json:"iterations"`
	Usage      Usage  `json:"usage"` // of the whole session
}

// MessageReceived is an input. It is acknowledged to the sender after the commit.
type MessageReceived struct {
	Message Message `json:"message"`
	Mode    Mode    `json:"mode"`
	Source  string  `json:"source,omitempty"` // user, api, schedule, parent
	Key     string  `json:"key,omitempty"`    // the sender's idempotency key
}

// FileWritten says that a file of the session was written or removed, or that a directory was
// created.
type FileWritten struct {
	Path      string `json:"path"`
	SizeBytes int64  `json:"size_bytes"`          // of the content; 0 after a removal
	Directory bool   `json:"directory,omitempty"` // a directory was created, or moved here with everything below it
	Removed   bool   `json:"removed,omitempty"`   // the path and everything below it
}

// AuditRead is the action of reading a secret.
const AuditRead = "secret.read"

// AuditRecorded says that somebody used a protected thing. It never contains a secret itself.
type AuditRecorded struct {
	Action  string `json:"action"`
	Subject string `json:"subject"`           // the name of the thing
	Hash    string `json:"hash,omitempty"`    // sha256 of its stored form, which is encrypted for a secret
	Purpose string `json:"purpose,omitempty"` // the tool that used it
}

package engine

import (
	"context"
	"time"

	"github.com/perdure/perdure"
)

// Files is the files of sessions, as their models see them (chapter 13): what a model may not write, nobody writes here.
// Paths are absolute, with forward slashes. Every change stands in the journal, with who made it. NotFound, in all of them:
// no such session, or nothing at the path.
type Files interface {
	// File returns a file with its content, or a directory. Without content nothing but the description is asked for.
	File(ctx context.Context, id perdure.SessionID, path string, content bool) (File, error)
	// Files lists what stands in a directory, by path; with deep, all below it.
	Files(ctx context.Context, id perdure.SessionID, dir string, deep bool) ([]File, error)
	// WriteFile writes a file and makes missing parents. Conflict: it is not what If says, something is there although it is
	// to be New, it is read-only or a directory. Limit: it is too large.
	WriteFile(ctx context.Context, id perdure.SessionID, w FileWrite) (File, error)
	// RemoveFile removes a file, or a directory. Conflict: it is not what If says, is read-only, or has something in it.
	RemoveFile(ctx context.Context, id perdure.SessionID, r FileRemoval) error
	// MoveFile gives a file, or a directory with all below it, another path. Conflict: something stands there.
	MoveFile(ctx context.Context, id perdure.SessionID, m FileMove) (File, error)
}

// File is a file or a directory of a session.
type File struct {
	Path      string    `json:"path"`
	Directory bool      `json:"is_directory"`
	ReadOnly  bool      `json:"is_readonly"`
	SizeBytes int64     `json:"size_bytes"`
	CreatedAt time.Time `json:"created_at"`
	UpdatedAt time.Time `json:"updated_at"`
	Content   []byte    `json:"-"` // nil where it was not asked for, and of a directory
}

// FileWrite is one write of a file.
type FileWrite struct {
	Path    string
	Content []byte
	If      *[]byte // the content that it is to have so far; nil: whatever it has
	New     bool    // nothing may be there; not with If
	By      string
}

// FileRemoval removes a file or directory.
type FileRemoval struct {
	Path      string
	Recursive bool    // a directory with all below it
	If        *[]byte // the content that the file is to have; nil: whatever it has
	By        string
}

// FileMove gives a file or directory another path.
type FileMove struct {
	From string `json:"from"`
	To   string `json:"to"`
	By   string `json:"-"`
}

// Values is what sessions keep by key (VA1), for their tools and for whoever asks here. NotFound, in all of them: no such
// session or value.
type Values interface {
	// Values lists the values whose keys begin with a prefix, by key, without their texts.
	Values(ctx context.Context, id perdure.SessionID, prefix string) ([]ValueStat, error)
	// Value returns a value.
	Value(ctx context.Context, id perdure.SessionID, key string) (Value, error)
	// SetValue writes a value. Conflict: it is not what If says, or is there although it is to be New. Invalid: the key or the
	// text is too long. Limit: the session has too many.
	SetValue(ctx context.Context, id perdure.SessionID, w ValueWrite) (Value, error)
	// RemoveValue removes a value. Conflict: it is not what was read; nil: whatever it is.
	RemoveValue(ctx context.Context, id perdure.SessionID, key string, read *ValueStat) error
}

// ValueStat describes a value. Version and UpdatedAt together are never those of another write.
type ValueStat struct {
	Key       string    `json:"key"`
	Version   int64     `json:"version"` // from 1, one more with each write
	CreatedAt time.Time `json:"created_at"`
	UpdatedAt time.Time `json:"updated_at"`
}

// Same reports whether both describe one write.
func (v ValueStat) Same(other ValueStat) bool {
	return v.Version == other.Version && v.UpdatedAt.Equal(other.UpdatedAt)
}

// Value is a value with its text.
type Value struct {
	ValueStat
	Text string `json:"value"`
}

// ValueWrite is one write of a value.
type ValueWrite struct {
	Key  string
	Text string
	If   *ValueStat // what it is to be so far; nil: whatever it is
	New  bool       // nothing may be there; not with If
}

// Secrets is what sessions keep under lock and key (SE1 to SE4). There is no way to a value here. NotFound, in all of them:
// no such session or secret. Unavailable: there are no keys to seal with.
type Secrets interface {
	// Secrets lists the secrets of a session by name.
	Secrets(ctx context.Context, id perdure.SessionID) ([]Secret, error)
	// SetSecret seals a value and writes it, or replaces it.
	SetSecret(ctx context.Context, id perdure.SessionID, w SecretWrite) error
	// RemoveSecret removes a secret.
	RemoveSecret(ctx context.Context, id perdure.SessionID, name string) error
}

// Secret describes a secret, never its value.
type Secret struct {
	Name      string    `json:"name"`
	Version   int64     `json:"version"`         // more with each write
	Hosts     []string  `json:"hosts,omitempty"` // where the value may be sent to
	CreatedAt time.Time `json:"created_at"`
	UpdatedAt time.Time `json:"updated_at"`
}

// SecretWrite is a secret on its way in.
type SecretWrite struct {
	Name  string
	Value string
	Hosts []string // where the value may be sent to; empty: nowhere, only into the environment of a process
}

// SessionChanges changes what a session is called, and what it is found by.
type SessionChanges interface {
	// ChangeSession changes the title and the labels of a session: one event, or none, when all of it is so already. Conflict: there
	// is an event after o.If. Invalid: nothing is to be changed, the title is empty or too long, or such labels a session may not
	// have.
	ChangeSession(ctx context.Context, id perdure.SessionID, o SessionChange) (Session, error)
}

// SessionChange is what is to become of a session.
type SessionChange struct {
	Title  *string              // nil: as it is
	Labels perdure.LabelChanges // nil: as they are
	If     int64                // the last seq that there is to be; 0: whatever there is
	By     string
}

// Bulks do one thing to many, and tell how far they are (H15).
type Bulks interface {
	// CancelWhere asks for the end of every live task that a filter matches, as CancelTask does. It returns at once; the wishes
	// become durable one after another. The same id is the same bulk for as long as it is known, and Conflict with another filter; a
	// bulk is known to the process that does it, and when that ends it stops: what it asked stands, and asking again asks the others.
	CancelWhere(ctx context.Context, o BulkCancel) (Bulk, error)
	// Bulk returns a bulk as it stands. NotFound: it is not known, or not any more.
	Bulk(ctx context.Context, id perdure.BulkID) (Bulk, error)
}

// BulkCancel asks for the end of many tasks.
type BulkCancel struct {
	ID     perdure.BulkID // empty: a new one
	Filter TaskFilter
	Older  time.Duration // what Filter.Before was reckoned from, so that the same words are the same bulk at any time; 0: it is a moment
	DryRun bool          // only say how many, and which
	// Of are the sessions that the caller may reach, where those are not all; nil: all. It never travels.
	Of  map[perdure.SessionID]bool
	By  string
	Why string
}

// TaskFilter narrows tasks. The zero value is all.
type TaskFilter struct {
	Session perdure.SessionID `json:"session_id,omitempty"`
	State   perdure.TaskState `json:"state,omitempty"`
	Kind    perdure.TaskKind  `json:"kind,omitempty"`
	Tool    string            `json:"tool,omitempty"`
	Before  time.Time         `json:"created_before,omitzero"`
}

// Matches reports whether a task passes.
func (f TaskFilter) Matches(t perdure.Task) bool {
	return (f.Session == "" || t.Session == f.Session) && (f.State == "" || t.State == f.State) && (f.Kind == "" || t.Kind == f.Kind) &&
		(f.Tool == "" || t.Tool == f.Tool) && (f.Before.IsZero() || t.CreatedAt.Before(f.Before))
}

// BulkState says how far a bulk is.
type BulkState string

// The states of a bulk.
const (
	BulkRunning BulkState = "running"
	BulkDone    BulkState = "done"    // each was asked, or failed
	BulkStopped BulkState = "stopped" // the process ended before
)

// Bulk is one thing done to many.
type Bulk struct {
	ID      perdure.BulkID   `json:"id"`
	Action  string           `json:"action"` // tasks:cancel
	State   BulkState        `json:"state"`
	DryRun  bool             `json:"dry_run,omitempty"`
	Matched int              `json:"matched"`
	Done    int              `json:"done"`            // were asked, or had ended meanwhile
	Failed  int              `json:"failed"`          //
	Error   string           `json:"error,omitempty"` // of the first that failed
	Tasks   []perdure.TaskID `json:"tasks,omitempty"` // of a dry run: the first 100
	BeganAt time.Time        `json:"started_at"`
	EndedAt time.Time        `json:"finished_at,omitzero"`
}

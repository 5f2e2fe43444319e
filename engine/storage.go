package engine

import (
	"context"
	"slices"
	"time"

	"github.com/perdure/perdure"
)

// Files accesses the files of sessions as their models see them (chapter 13). What a model may not
// write, a caller may not write here either. Paths are absolute, with forward slashes. The journal
// records every change and its author. NotFound, in every method: no such session, or no such path.
type Files interface {
	// Get returns a file or directory. With content it includes the content of a file.
	Get(ctx context.Context, id perdure.SessionID, path string, content bool) (File, error)
	// List lists a directory by path; with deep, everything below it.
	List(ctx context.Context, id perdure.SessionID, dir string, deep bool) ([]File, error)
	// Write writes a file and creates missing parents. Conflict: the content is not w.If, the
	// file exists although w.New is set, or the path is read-only or a directory. Limit: the
	// content is too large.
	Write(ctx context.Context, id perdure.SessionID, w FileWrite) (File, error)
	// Remove removes a file or a directory. Conflict: the content is not r.If, or the path is
	// read-only or a directory that is not empty.
	Remove(ctx context.Context, id perdure.SessionID, r FileRemoval) error
	// Move moves a file, or a directory with everything below it. Conflict: the target exists.
	Move(ctx context.Context, id perdure.SessionID, m FileMove) (File, error)
	// Grep searches the lines of text files for a regular expression (RE2), within the limits of
	// the tool grep_files; the result says what was not searched. Invalid: the pattern or the glob
	// is not valid. Limit: the search took too long.
	Grep(ctx context.Context, id perdure.SessionID, s FileSearch) (FileMatches, error)
}

// File is a file or a directory of a session.
type File struct {
	Path      string    `json:"path"`
	Directory bool      `json:"is_directory"`
	ReadOnly  bool      `json:"is_readonly"`
	SizeBytes int64     `json:"size_bytes"`
	CreatedAt time.Time `json:"created_at"`
	UpdatedAt time.Time `json:"updated_at"`
	Content   []byte    `json:"-"` // nil if it was not requested, and for a directory
}

// FileWrite is one write of a file.
type FileWrite struct {
	Path    string
	Content []byte
	If      *[]byte // the expected current content; nil: any
	New     bool    // the file must not exist; not together with If
	By      string
}

// FileRemoval removes a file or directory.
type FileRemoval struct {
	Path      string
	Recursive bool    // remove a directory with everything below it
	If        *[]byte // the expected current content; nil: any
	By        string
}

// FileMove is one move of a file or directory.
type FileMove struct {
	From string `json:"from"`
	To   string `json:"to"`
	By   string `json:"-"`
}

// FileSearch is a search in the files of a session.
type FileSearch struct {
	Pattern    string // RE2, matched against each line
	Directory  string // empty: /
	Glob       string // without a slash it is matched against the name of a file; empty: all files
	IgnoreCase bool
	Limit      int // of the matches, at most 1,000; 0: 200
}

// FileMatches is the result of a search.
type FileMatches struct {
	Matches   []FileMatch `json:"matches"`
	Truncated bool        `json:"truncated"` // there may be more matches
	Skipped   []FileSkip  `json:"skipped"`   // files that were not searched
}

// FileMatch is a line that matches.
type FileMatch struct {
	Path string `json:"path"`
	Line int    `json:"line_number"` // from 1
	Text string `json:"line"`        // shortened if it is long
}

// FileSkip is a file that was not searched.
type FileSkip struct {
	Path   string `json:"path"`
	Reason string `json:"reason"`
}

// Values accesses the key-value data of sessions (VA1), which their tools share. NotFound, in every
// method: no such session or value.
type Values interface {
	// List lists the values whose keys start with a prefix, by key, without their texts.
	List(ctx context.Context, id perdure.SessionID, prefix string) ([]ValueStat, error)
	// Get returns a value.
	Get(ctx context.Context, id perdure.SessionID, key string) (Value, error)
	// Set writes a value. Conflict: the value is not w.If, or exists although w.New is set.
	// Invalid: the key or the text is too long. Limit: the session has too many values.
	Set(ctx context.Context, id perdure.SessionID, w ValueWrite) (Value, error)
	// Remove removes a value. Conflict: the value is not read; nil means any.
	Remove(ctx context.Context, id perdure.SessionID, key string, read *ValueStat) error
}

// ValueStat describes a value. Version and UpdatedAt together identify one write.
type ValueStat struct {
	Key       string    `json:"key"`
	Version   int64     `json:"version"` // from 1, increased by each write
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
	If   *ValueStat // the expected current value; nil: any
	New  bool       // the value must not exist; not together with If
}

// Secrets writes the encrypted secrets of sessions (SE1 to SE4). No method returns a value.
// NotFound, in every method: no such session or secret. Unavailable: no encryption keys are
// configured.
type Secrets interface {
	// List lists the secrets of a session by name.
	List(ctx context.Context, id perdure.SessionID) ([]Secret, error)
	// Set encrypts a value and stores it, replacing an existing one.
	Set(ctx context.Context, id perdure.SessionID, w SecretWrite) error
	// Remove removes a secret.
	Remove(ctx context.Context, id perdure.SessionID, name string) error
}

// Secret describes a secret without its value.
type Secret struct {
	Name      string    `json:"name"`
	Version   int64     `json:"version"`         // increases with each write
	Hosts     []string  `json:"hosts,omitempty"` // the hosts that the value may be sent to
	CreatedAt time.Time `json:"created_at"`
	UpdatedAt time.Time `json:"updated_at"`
}

// SecretWrite is one write of a secret.
type SecretWrite struct {
	Name  string
	Value string
	Hosts []string // the hosts that the value may be sent to; empty: none, only process environments
}

// SessionChange is a change of a session.
type SessionChange struct {
	Title  *string              // nil: unchanged
	Labels perdure.LabelChanges // nil: unchanged
	If     int64                // the expected last seq; 0: any
	By     string
}

// BulkCancel describes the tasks to cancel.
type BulkCancel struct {
	ID     perdure.BulkID // empty: a new one
	Filter TaskFilter
	// OlderThan is the age that Filter.Before was computed from, so that a repeated request is the
	// same bulk at any time; 0: the caller named a time.
	OlderThan time.Duration
	DryRun    bool // only count and list the tasks
	// AllowedSessions contains the sessions that the caller has access to, if those are not all;
	// nil: all. It is not sent to a server.
	AllowedSessions map[perdure.SessionID]bool
	By              string
	Why             string
}

// TaskFilter narrows a list of tasks. The zero value matches all.
type TaskFilter struct {
	Session perdure.SessionID `json:"session_id,omitempty"`
	State   perdure.TaskState `json:"state,omitempty"`
	Kind    perdure.TaskKind  `json:"kind,omitempty"`
	Tool    string            `json:"tool,omitempty"`
	Before  time.Time         `json:"created_before,omitzero"`
}

// Matches reports whether a task matches the filter.
func (f TaskFilter) Matches(t perdure.Task) bool {
	return (f.Session == "" || t.Session == f.Session) && (f.State == "" || t.State == f.State) &&
		(f.Kind == "" || t.Kind == f.Kind) &&
		(f.Tool == "" || t.Tool == f.Tool) && (f.Before.IsZero() || t.CreatedAt.Before(f.Before))
}

// TaskQuery selects tasks and their order. The zero value lists all in the order of their creation.
type TaskQuery struct {
	TaskFilter
	States []perdure.TaskState // empty: every state
	Kinds  []perdure.TaskKind  // empty: every kind
	Newest bool                // the last created first
	After  perdure.TaskID      // only tasks that follow this one in the order of the list; empty: from the first
	Limit  int                 // 0: no limit
}

// Matches reports whether a task matches the query, apart from its order and limit.
func (q TaskQuery) Matches(t perdure.Task) bool {
	return q.TaskFilter.Matches(t) && (len(q.States) == 0 || slices.Contains(q.States, t.State)) &&
		(len(q.Kinds) == 0 || slices.Contains(q.Kinds, t.Kind))
}

// BulkState is the state of a bulk.
type BulkState string

// The states of a bulk.
const (
	BulkRunning BulkState = "running" // also while no process carries it out: the next one continues
	BulkDone    BulkState = "done"    // every task has been requested to end, or the request failed
)

// Bulk is one operation on many objects.
type Bulk struct {
	ID      perdure.BulkID   `json:"id"`
	Action  string           `json:"action"` // tasks:cancel
	State   BulkState        `json:"state"`
	DryRun  bool             `json:"dry_run,omitempty"`
	Matched int              `json:"matched"`
	Done    int              `json:"done"` // requested to end, or ended in the meantime
	Failed  int              `json:"failed"`
	Error   string           `json:"error,omitempty"` // the first failure
	Tasks   []perdure.TaskID `json:"tasks,omitempty"` // the first 100, for a dry run
	BeganAt time.Time        `json:"started_at"`
	EndedAt time.Time        `json:"finished_at,omitzero"`
}

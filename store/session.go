package store

import (
	"fmt"
	"time"

	"github.com/perdure/perdure"
)

// Session is a session's row: what lists show, who drives it, and what is kept out of the journal.
type Session struct {
	ID        perdure.SessionID
	Parent    perdure.SessionID // whose subagent it is; empty: nobody's
	Root      perdure.SessionID // of its tree; its own id without a parent
	Forked    perdure.SessionID // the session that it was forked from; lineage only (SA1)
	Org       string            // whose it is, for ever: a word of ours; empty: the default one
	User      string            // of the org; empty: nobody's in particular
	Title     string
	Labels    perdure.Labels
	Status    perdure.SessionStatus
	LastSeq   int64
	Epoch     int64            // rises by one each time a driver takes the session
	Worker    perdure.WorkerID // who drives it; empty at rest
	TakeUps   int              // take-ups in a row without a new event (TN1)
	TakenSeq  int64            // last seq when it was taken up or let go last
	Secret    perdure.Secret   // for derived ids (N4)
	CreatedAt time.Time
	UpdatedAt time.Time
}

// Unread reports whether the journal has something that no driver has looked at.
func (s Session) Unread() bool { return s.LastSeq > s.TakenSeq }

// SessionFilter narrows a list of sessions. The zero value lists all.
type SessionFilter struct {
	Unrested bool                  // only those that a worker drives or drove: Worker is set
	Parent   perdure.SessionID     // only its children; empty: everybody
	Org      string                // with OneOrg: only those of this org, which may be the empty one
	OneOrg   bool                  // else of all; not together with the two above
	Labels   perdure.LabelFilter   // only those that have all of these; not together with Unrested and Parent
	Status   perdure.SessionStatus // only those that stand there; empty: all; not together with Unrested and Parent
	Limit    int                   // 0: no limit
}

// Check says what is wrong with a filter; it is Invalid.
func (f SessionFilter) Check() error {
	byWork := f.Parent != "" || f.Unrested
	if byWork && (f.OneOrg || f.Matched()) {
		return fmt.Errorf("%w filter: of an org, with labels and by their status, or by their work", perdure.Invalid)
	}
	if f.Status != "" {
		if err := f.Status.Check(); err != nil {
			return fmt.Errorf("filter: %w", err)
		}
	}
	return f.Labels.Check()
}

// Matched reports whether a filter looks at what sessions say of themselves, beside whose they are.
func (f SessionFilter) Matched() bool { return len(f.Labels) > 0 || f.Status != "" }

// Snapshot is a cached fold of a session (O8). It is never the truth.
type Snapshot struct {
	Seq     int64
	Version int // of the fold that made it
	Body    []byte
}

// SessionReader reads sessions.
type SessionReader interface {
	// Session returns the row. NotFound: no such session.
	Session(id perdure.SessionID) (Session, error)
	// Sessions lists rows, newest first by creation, then the greater id first. Invalid: what a filter may not have together, or
	// no such labels.
	Sessions(filter SessionFilter) ([]Session, error)
	// Snapshot returns the cached fold; NotFound when there is none.
	Snapshot(id perdure.SessionID) (Snapshot, error)
}

// SessionWriter writes sessions.
type SessionWriter interface {
	// CreateSession adds a row of ID, Parent, Root, Forked, Org, User, Title, Labels, Status, Secret, CreatedAt and UpdatedAt, the moments
	// cut to microseconds. An empty Root is stored as ID. The other fields begin at zero, whatever s says. Conflict:
	// the id exists. Invalid: no such labels.
	CreateSession(s Session) error
	// TakeSession makes worker the driver: epoch+1, and take-ups+1 if no event came since the last taking or
	// release, else 0, and notes the last seq as seen. The first taking counts 0. It returns the row as it is
	// now. NotFound: no such session.
	TakeSession(id perdure.SessionID, worker perdure.WorkerID) (Session, error)
	// LockSession locks the row, checks the fence, and returns the seq of the last event: whoever has folded up to
	// there need not read the journal. Lost: epoch is not the stored one. NotFound: no such session.
	LockSession(id perdure.SessionID, epoch int64) (lastSeq int64, err error)
	// SaveSession writes title and status, and updated_at from the store's clock. NotFound: no such session.
	SaveSession(id perdure.SessionID, title string, status perdure.SessionStatus) error
	// ReleaseSession clears the driver under its epoch and notes the last seq as seen: Lost if epoch is not
	// the stored one. The epoch stays. NotFound: no such session.
	ReleaseSession(id perdure.SessionID, epoch int64) error
	// PutSnapshot replaces the cached fold.
	PutSnapshot(id perdure.SessionID, s Snapshot) error
}

// LabelWriter writes what sessions are found by.
type LabelWriter interface {
	// SetLabels replaces the labels of a session, and moves updated_at to the store's clock. Invalid: what Check says of them.
	// NotFound: no such session.
	SetLabels(id perdure.SessionID, labels perdure.Labels) error
}

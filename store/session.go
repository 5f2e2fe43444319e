package store

import (
	"fmt"
	"time"

	"github.com/perdure/perdure"
)

// Session is a session's row: what lists show, the driver, and what is kept out of the journal.
type Session struct {
	ID      perdure.SessionID
	Parent  perdure.SessionID // parent of a subagent; empty: none
	Root    perdure.SessionID // of its tree; its own id without a parent
	Forked  perdure.SessionID // session from which it was forked; for information only
	Org     string            // owner, never changed; empty: the default org
	User    string            // of the org; empty: no particular user
	Title   string
	Labels  perdure.Labels
	Status  perdure.SessionStatus
	LastSeq int64
	Epoch   int64            // rises by one when a driver acquires the session
	Worker  perdure.WorkerID // of the driver; empty: idle
	Resumes int              // acquisitions in a row without a new event
	SeenSeq int64            // last seq when it was last acquired or released
	Secret  perdure.Secret   // from which ids derive
	Home    perdure.HomeID   // where its files outside the store are; empty: it has none, or any worker can reach them
	// WaitsSince is when the session began to wait for its home; zero: it does not wait.
	WaitsSince time.Time
	CreatedAt  time.Time
	UpdatedAt  time.Time
}

// Unread reports whether the journal has events that no driver has seen.
func (s Session) Unread() bool { return s.LastSeq > s.SeenSeq }

// SessionFilter narrows a list of sessions. The zero value lists all.
type SessionFilter struct {
	HasDriver bool                  // only those with a driver, alive or dead: Worker is set
	Unread    bool                  // only those without a driver that have unread events
	Waiting   bool                  // only those that wait for their home; combined with Home and Limit only
	Home      perdure.HomeID        // with Waiting: only those of this home; empty: of any
	Parent    perdure.SessionID     // only its children; empty: all
	Org       string                // with OneOrg: only those of this org, possibly the empty one
	OneOrg    bool                  // otherwise all orgs; excludes HasDriver, Unread and Parent
	Labels    perdure.LabelFilter   // only those with all of these; excludes HasDriver, Unread and Parent
	Status    perdure.SessionStatus // only those with this status; empty: all; excludes HasDriver, Unread and Parent
	Roots     bool                  // only those without a parent; excludes HasDriver, Unread and Parent
	Title     perdure.TitleFilter   // only those whose title matches; empty: all
	After     SessionPlace          // only those listed after this place; excludes HasDriver, Unread, Waiting and Parent
	Limit     int                   // 0: no limit
}

// Matches reports whether a session passes a filter, apart from its limit.
func (f SessionFilter) Matches(s Session) bool {
	return (!f.HasDriver || s.Worker != "") && (!f.Unread || s.Worker == "" && s.Unread()) &&
		(!f.Waiting || !s.WaitsSince.IsZero()) && (f.Home == "" || f.Home == s.Home) && (f.Parent == "" || f.Parent == s.Parent) &&
		(!f.OneOrg || f.Org == s.Org) && (f.Status == "" || f.Status == s.Status) && (!f.Roots || s.Parent == "") &&
		f.Labels.Matches(s.Labels) && f.Title.Matcher()(s.Title) && f.After.Precedes(s)
}

// SessionPlace is a place in a list of sessions: that of the session with this id and this time of
// creation, whether it still exists or not. The zero value is the start of the list.
type SessionPlace struct {
	CreatedAt time.Time
	ID        perdure.SessionID
}

// Precedes reports whether a session is listed after this place.
func (p SessionPlace) Precedes(s Session) bool {
	if p.ID == "" {
		return true
	}
	if c := s.CreatedAt.Compare(p.CreatedAt); c != 0 {
		return c < 0
	}
	return s.ID < p.ID
}

// Check checks a filter. Invalid: the error says what is wrong.
func (f SessionFilter) Check() error {
	if f.Waiting && (f.Parent != "" || f.HasDriver || f.Unread || f.OneOrg || f.Title != "" || f.Matched()) || f.Home != "" && !f.Waiting {
		return fmt.Errorf("%w filter: waiting can be combined with a home and a limit only, and a home needs it", perdure.Invalid)
	}
	byWork := f.Parent != "" || f.HasDriver || f.Unread
	if f.After.ID != "" && (byWork || f.Waiting) {
		return fmt.Errorf("%w filter: a place to continue after cannot be combined with waiting, parent, has driver and"+
			" unread", perdure.Invalid)
	}
	if byWork && (f.OneOrg || f.Matched()) || f.Unread && (f.HasDriver || f.Parent != "") {
		return fmt.Errorf("%w filter: org, labels, status and roots cannot be combined with parent, has driver and"+
			" unread, nor unread with the other two", perdure.Invalid)
	}
	if f.Status != "" {
		if err := f.Status.Check(); err != nil {
			return fmt.Errorf("filter: %w", err)
		}
	}
	if err := f.Title.Check(); err != nil {
		return fmt.Errorf("filter: %w", err)
	}
	return f.Labels.Check()
}

// Matched reports whether a filter selects by labels, by status, or root sessions.
func (f SessionFilter) Matched() bool { return len(f.Labels) > 0 || f.Status != "" || f.Roots }

// Snapshot is a cached fold of a session. It is never the source of truth.
type Snapshot struct {
	Seq     int64
	Version int // of the fold function
	Body    []byte
}

// SessionReader reads sessions.
type SessionReader interface {
	// Get returns the row. NotFound: no such session.
	Get(id perdure.SessionID) (Session, error)
	// List lists rows, newest first by creation, then the greater id first. Invalid: fields of
	// the filter exclude each other, or its labels are not valid.
	List(filter SessionFilter) ([]Session, error)
	// Snapshot returns the cached fold. NotFound: there is none.
	Snapshot(id perdure.SessionID) (Snapshot, error)
}

// SessionWriter writes sessions.
type SessionWriter interface {
	// Create adds a row of ID, Parent, Root, Forked, Org, User, Title, Labels, Status, Secret,
	// Home, CreatedAt and UpdatedAt, the times truncated to microseconds. An empty Root is stored
	// as ID. The other fields start at zero. Conflict: the id exists. Invalid: the labels are not
	// valid.
	Create(s Session) error
	// Acquire makes worker the driver. It increments the epoch, and records the last seq as
	// seen. It increments Resumes if no event came since the session was last acquired or released,
	// and otherwise sets it to 0; the first acquisition counts 0. The session no longer waits for
	// its home. It returns the new row. NotFound: no such session.
	Acquire(id perdure.SessionID, worker perdure.WorkerID) (Session, error)
	// Lock locks the row, checks the fence, and returns the seq of the last event: a caller
	// that has folded up to there need not read the journal. Lost: epoch is not the stored one.
	// NotFound: no such session.
	Lock(id perdure.SessionID, epoch int64) (lastSeq int64, err error)
	// Update writes title and status, and sets updated_at from the store's clock. NotFound: no
	// such session.
	Update(id perdure.SessionID, title string, status perdure.SessionStatus) error
	// Release clears the driver and records the last seq as seen. The epoch stays. Lost:
	// epoch is not the stored one. NotFound: no such session.
	Release(id perdure.SessionID, epoch int64) error
	// PutSnapshot replaces the cached fold.
	PutSnapshot(id perdure.SessionID, s Snapshot) error
}

// HomeWriter writes the homes of sessions.
type HomeWriter interface {
	// SetHome sets the home of a session's files; empty: it has none. The session no longer waits
	// for a home. NotFound: no such session.
	SetHome(id perdure.SessionID, home perdure.HomeID) error
	// AwaitHome records that a session waits for its home, from now on by the store's clock. It
	// does nothing if the session has no home, or waits already. NotFound: no such session.
	AwaitHome(id perdure.SessionID) error
}

// LabelWriter writes labels.
type LabelWriter interface {
	// SetLabels replaces the labels of a session, and sets updated_at from the store's clock.
	// Invalid: as Check of the labels says. NotFound: no such session.
	SetLabels(id perdure.SessionID, labels perdure.Labels) error
}

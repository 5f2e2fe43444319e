package agent

// Status is where a harness or an agent is in its life (N11). It only goes forward: what is archived stops the turns that
// need it, and what is deleted is a tombstone.
type Status string

// The statuses, in their order. The zero value is active.
const (
	Active   Status = "active"
	Archived Status = "archived"
	Deleted  Status = "deleted"
)

// step is the place of a status in a life; 0: it is none.
func (s Status) step() int {
	switch s {
	case Active, "":
		return 1
	case Archived:
		return 2
	case Deleted:
		return 3
	}
	return 0
}

// Valid reports whether s is one of the statuses.
func (s Status) Valid() bool { return s.step() > 0 }

// Works reports whether turns may need what has this status.
func (s Status) Works() bool { return s.step() == 1 }

// Follows reports whether a thing may come from a status to this one. A tombstone stays as it is, and cannot be written
// again.
func (s Status) Follows(before Status) bool {
	return s.Valid() && before.step() <= s.step() && before != Deleted
}

// StatusFilter says which of a list are wanted.
type StatusFilter struct {
	Status Status // empty: active ones
	All    bool   // those of every status
}

// Fits reports whether a status is wanted.
func (f StatusFilter) Fits(s Status) bool { return f.All || s.step() == f.Status.step() }

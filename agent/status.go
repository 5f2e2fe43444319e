package agent

// Status is the status of a harness or an agent. It only moves forward. An archived one stops the
// turns that need it, and a deleted one remains as a tombstone.
type Status string

// The statuses, in their order. The zero value is active.
const (
	Active   Status = "active"
	Archived Status = "archived"
	Deleted  Status = "deleted"
)

// step is the position of a status in the order; 0: it is not a status.
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

// Usable reports whether turns may use a harness or an agent with this status.
func (s Status) Usable() bool { return s.step() == 1 }

// Follows reports whether the status may change from before to s. A tombstone cannot be written
// again.
func (s Status) Follows(before Status) bool {
	return s.Valid() && before.step() <= s.step() && before != Deleted
}

// StatusFilter selects statuses.
type StatusFilter struct {
	Status Status // empty: active
	All    bool   // every status
}

// Matches reports whether the filter selects the status.
func (f StatusFilter) Matches(s Status) bool { return f.All || s.step() == f.Status.step() }

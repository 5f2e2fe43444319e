package effect

import (
	"fmt"
	"time"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/store"
)

// owner is what work needs to know of its session. A fold says more, and every run that waits would keep one in memory.
// It is never changed.
type owner struct {
	session perdure.SessionID
	agent   perdure.Agent
	created time.Time
}

// ownerOf takes the owner out of a fold.
func ownerOf(s *perdure.Session) *owner {
	return &owner{session: s.ID, agent: s.Agent, created: s.CreatedAt}
}

// readOwner reads the owner from the first event of the journal, however long that is: no other event says who the agent
// is. NotFound: no such session. Invalid: its journal begins otherwise.
func readOwner(r store.Reader, id perdure.SessionID) (*owner, error) {
	first, err := r.Events(id, 0, 1)
	if err != nil {
		return nil, fmt.Errorf("read the agent of %s: %w", id, err)
	}
	if len(first) == 0 {
		return nil, fmt.Errorf("session %s: %w", id, perdure.NotFound)
	}
	told, ok := first[0].Fact.(perdure.SessionCreated)
	if !ok {
		return nil, fmt.Errorf("session %s: %w journal: it begins with %s", id, perdure.Invalid, first[0].Type())
	}
	return &owner{session: id, agent: told.Agent, created: first[0].At.UTC().Truncate(time.Microsecond)}, nil
}

package effect

import (
	"container/list"
	"sync"

	"github.com/perdure/perdure"
)

// maxFolds is how many sessions at rest keep their fold in memory.
const maxFolds = 256

// restedFold is a session as this process left it. Its fold is never changed, and never wrong: a journal only grows, and
// whoever takes the session folds what came since.
type restedFold struct {
	session *perdure.Session
	saved   int64 // seq of its last snapshot
}

// folds keeps the sessions that rested last. The zero value is empty. It is safe for concurrent use.
type folds struct {
	mu    sync.Mutex
	order list.List                           // guarded by mu; of restedFold, the last one first
	byID  map[perdure.SessionID]*list.Element // guarded by mu
}

// keep remembers a fold, and forgets the oldest beyond maxFolds.
func (f *folds) keep(r restedFold) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.byID == nil {
		f.byID = map[perdure.SessionID]*list.Element{}
	}
	if old, ok := f.byID[r.session.ID]; ok {
		f.order.Remove(old)
	}
	f.byID[r.session.ID] = f.order.PushFront(r)
	if f.order.Len() > maxFolds {
		oldest := f.order.Remove(f.order.Back()).(restedFold)
		delete(f.byID, oldest.session.ID)
	}
}

// take returns the fold of a session and forgets it.
func (f *folds) take(id perdure.SessionID) (restedFold, bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	found, ok := f.byID[id]
	if !ok {
		return restedFold{}, false
	}
	delete(f.byID, id)
	return f.order.Remove(found).(restedFold), true
}

package effect

import (
	"container/list"
	"sync"

	"github.com/perdure/perdure"
)

// maxFolds is how many sessions keep their fold in memory when nobody works on them.
const maxFolds = 256

// lastFold is a session as of its last commit here. It is never wrong: a journal only grows, and whoever takes the
// session folds what came since. It is not changed; only its driver makes a successor of it.
type lastFold struct {
	session *perdure.Session
	saved   int64 // seq of its last snapshot
}

// folds keeps the sessions that were worked on last. The zero value is empty. It is safe for concurrent use.
type folds struct {
	mu    sync.Mutex
	order list.List                           // guarded by mu; of lastFold, the newest first
	byID  map[perdure.SessionID]*list.Element // guarded by mu
}

// keep remembers a fold, and forgets the oldest beyond maxFolds. One that is older than what is known, because its
// driver was overtaken, is not kept.
func (f *folds) keep(last lastFold) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.byID == nil {
		f.byID = map[perdure.SessionID]*list.Element{}
	}
	if known, ok := f.byID[last.session.ID]; ok {
		if known.Value.(lastFold).session.Seq <= last.session.Seq {
			known.Value = last
		}
		f.order.MoveToFront(known)
		return
	}
	f.byID[last.session.ID] = f.order.PushFront(last)
	if f.order.Len() > maxFolds {
		oldest := f.order.Remove(f.order.Back()).(lastFold)
		delete(f.byID, oldest.session.ID)
	}
}

// get returns the fold of a session.
func (f *folds) get(id perdure.SessionID) (lastFold, bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if found, ok := f.byID[id]; ok {
		return found.Value.(lastFold), true
	}
	return lastFold{}, false
}

// Package sessioncache caches the sessions that a process worked on last, which saves folding their
// journals again.
//
// It may import the root. The one thing to know: a cached fold is never wrong, only old. The caller
// applies the events that were appended since.
package sessioncache

import (
	"container/list"
	"sync"

	"github.com/perdure/perdure"
)

// maxSessions is how many folds the cache holds.
const maxSessions = 256

// Fold is a session as of its last commit in this process. It is never changed; the driver makes a
// successor of it.
type Fold struct {
	Session *perdure.Session
	Saved   int64 // sequence number of its last snapshot
}

// Cache holds the last 256 sessions. The zero value is empty. Safe for concurrent use.
type Cache struct {
	mu    sync.Mutex
	order list.List                           // guarded by mu; of Fold, the most recently used first
	byID  map[perdure.SessionID]*list.Element // guarded by mu
}

// Put stores a fold, and drops the oldest one beyond maxSessions. A fold that is older than the
// stored one is ignored: its driver was overtaken by another.
func (c *Cache) Put(last Fold) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.byID == nil {
		c.byID = map[perdure.SessionID]*list.Element{}
	}
	if known, ok := c.byID[last.Session.ID]; ok {
		if known.Value.(Fold).Session.Seq <= last.Session.Seq {
			known.Value = last
		}
		c.order.MoveToFront(known)
		return
	}
	c.byID[last.Session.ID] = c.order.PushFront(last)
	if c.order.Len() > maxSessions {
		oldest := c.order.Remove(c.order.Back()).(Fold)
		delete(c.byID, oldest.Session.ID)
	}
}

// Drop removes a session from the cache.
func (c *Cache) Drop(id perdure.SessionID) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if known, ok := c.byID[id]; ok {
		c.order.Remove(known)
		delete(c.byID, id)
	}
}

// Get returns the fold of a session, if it is cached.
func (c *Cache) Get(id perdure.SessionID) (Fold, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if found, ok := c.byID[id]; ok {
		return found.Value.(Fold), true
	}
	return Fold{}, false
}

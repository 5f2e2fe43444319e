// Package foldcache keeps the sessions that a process worked on last, so that nobody folds their journals again.
//
// It may import the root. The one thing to know: a fold that is kept is never wrong, only old; who takes one folds what came
// since.
package foldcache

import (
	"container/list"
	"sync"

	"github.com/perdure/perdure"
)

// maxSessions is how many sessions keep their fold in memory when nobody works on them.
const maxSessions = 256

// Fold is a session as of its last commit here. It is not changed; only its driver makes a successor of it.
type Fold struct {
	Session *perdure.Session
	Saved   int64 // seq of its last snapshot
}

// Cache holds the last 256 sessions. The zero value is empty. It is safe for concurrent use.
type Cache struct {
	mu    sync.Mutex
	order list.List                           // guarded by mu; of Fold, the newest first
	byID  map[perdure.SessionID]*list.Element // guarded by mu
}

// Keep remembers a fold, and forgets the oldest beyond maxSessions. One that is older than what is known, because its
// driver was overtaken, is not kept.
func (c *Cache) Keep(last Fold) {
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

// Drop forgets a session that was removed.
func (c *Cache) Drop(id perdure.SessionID) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if known, ok := c.byID[id]; ok {
		c.order.Remove(known)
		delete(c.byID, id)
	}
}

// Get returns the fold of a session.
func (c *Cache) Get(id perdure.SessionID) (Fold, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if found, ok := c.byID[id]; ok {
		return found.Value.(Fold), true
	}
	return Fold{}, false
}

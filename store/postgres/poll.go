package postgres

import (
	"context"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/perdure/perdure"
)

const selectGrowth = `SELECT id, last_seq FROM session WHERE id = ANY($1)`

// pollLoop polls the watched sessions until ctx ends.
func (s *Store) pollLoop(ctx context.Context) {
	tick := time.NewTicker(s.cfg.Poll)
	defer tick.Stop()
	seen := map[perdure.SessionID]int64{}
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		s.forgetIdleRelays()
		if watched := s.hub.Watched(); len(watched) > 0 {
			seen = s.pollSessions(ctx, watched, seen)
		}
	}
}

// pollSessions wakes the watchers of sessions that grew since seen, or were removed, and returns
// their current lengths. After a failed read the next poll compares with seen again.
func (s *Store) pollSessions(ctx context.Context, watched []perdure.SessionID,
	seen map[perdure.SessionID]int64) map[perdure.SessionID]int64 {
	ctx, stop := context.WithTimeout(ctx, s.cfg.attempt())
	defer stop()
	var ids []string
	for _, id := range watched {
		if isText(string(id)) { // no session has another id, and it would make the query fail
			ids = append(ids, string(id))
		}
	}
	found, err := s.readers.QueryContext(ctx, selectGrowth, ids)
	if err != nil {
		return seen
	}
	defer found.Close()
	now := map[perdure.SessionID]int64{}
	for found.Next() {
		var id perdure.SessionID
		var last int64
		if found.Scan(&id, &last) != nil {
			return seen
		}
		now[id] = last
		if before, known := seen[id]; !known || before != last {
			s.hub.Notify(id)
		}
	}
	if found.Err() != nil {
		return seen
	}
	for id := range seen {
		if _, there := now[id]; !there {
			s.hub.Notify(id) // the session may have been removed
		}
	}
	return now
}

// isText reports whether the server accepts a string as text.
func isText(s string) bool { return utf8.ValidString(s) && !strings.Contains(s, "\x00") }

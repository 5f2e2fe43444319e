package memory

import (
	"fmt"
	"math"
	"slices"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/store"
)

// Events returns up to limit events of a session after seq, in order, or a page of them.
func (v journalStore) Events(id perdure.SessionID, after int64, limit int) ([]perdure.Event, error) {
	s, _ := v.sessions.get(string(id))
	from := min(max(after, 0), int64(len(s.journal)))
	left := math.MaxInt // bytes until the page is full
	if limit == store.Page {
		limit, left = store.PageEvents, store.PageBytes
	}
	var found []perdure.Event
	for _, body := range first(s.journal[from:], limit) {
		e, err := perdure.DecodeEvent(body)
		if err != nil {
			return nil, fmt.Errorf("read journal of %s: %w", id, err)
		}
		found = append(found, e)
		if left -= len(body); left <= 0 {
			break
		}
	}
	return found, nil
}

// Append adds events to a session's journal. After an error it has added none.
func (t journalStore) Append(id perdure.SessionID, events []perdure.Event) error {
	s, ok := t.sessions.get(string(id))
	if !ok {
		return fmt.Errorf("append to session %s: %w", id, perdure.NotFound)
	}
	ids, appended := t.events, slices.Clone(events)
	for i := range appended {
		e := &appended[i]
		s.LastSeq++
		e.Session, e.Seq, e.At = id, s.LastSeq, micro(e.At)
		body, err := perdure.EncodeEvent(*e)
		switch {
		case err != nil:
			return fmt.Errorf("append to session %s: %w", id, err)
		case ids.has(string(e.ID)):
			return fmt.Errorf("append to session %s: %w: event %s exists", id, perdure.Conflict, e.ID)
		}
		ids = ids.put(string(e.ID), struct{}{})
		s.journal = append(s.journal, body) // outside of what a snapshot sees of the same array
	}
	before := t.audits
	for _, e := range appended {
		entry, audited, err := store.AuditOf(e)
		if err == nil && audited {
			entry.Org = s.Org
			err = t.Audit().Add(entry)
		}
		if err != nil {
			t.audits = before
			return fmt.Errorf("append to session %s: %w", id, err)
		}
	}
	copy(events, appended)
	t.events, t.sessions = ids, t.sessions.put(string(id), s)
	if !slices.Contains(t.appended, id) {
		t.appended = append(t.appended, id)
	}
	return nil
}

package core

import (
	"context"
	"fmt"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/store"
)

// FoldBatch is the number of events that are folded in one view, or inside a commit. If others have
// appended more, for example a call that wrote many files, they are folded before the commit.
const FoldBatch = 1000

// Fold reads a session's fold from its snapshot and journal, as of one moment. NotFound: no such
// session.
func Fold(r store.Reader, id perdure.SessionID) (*perdure.Session, error) {
	s, _, err := FoldFromSnapshot(r, id)
	return s, err
}

// FoldFromSnapshot is Fold, and also returns the sequence number of the snapshot it started from.
func FoldFromSnapshot(r store.Reader, id perdure.SessionID) (s *perdure.Session, saved int64, err error) {
	s, saved = startFold(r, id)
	if err := FoldToEnd(r, s); err != nil {
		return nil, 0, err
	}
	if s.Seq == 0 {
		return nil, 0, fmt.Errorf("session %s: %w", id, perdure.NotFound)
	}
	return s, saved, nil
}

// Fold folds a session like the function Fold, starting from the cached session of this process if
// there is one. The caller may change the result.
func (c *Core) Fold(r store.Reader, id perdure.SessionID) (*perdure.Session, error) {
	last, ok := c.Folds.Get(id)
	if !ok {
		return Fold(r, id)
	}
	row, err := r.Sessions().Get(id)
	if err != nil {
		return nil, err
	}
	s := last.Session
	if s.Seq > row.LastSeq { // the reader's view is older than the cached session
		return Fold(r, id)
	}
	s = s.Clone()
	if s.Seq == row.LastSeq {
		return s, nil
	}
	return s, FoldToEnd(r, s)
}

// FoldInPages is Fold in several views, each of at most one page of the journal: a view occupies a
// connection of the store, which has few, and does not end with ctx. The result is as of the last
// view. The caller may change it.
func (c *Core) FoldInPages(ctx context.Context, id perdure.SessionID) (*perdure.Session, error) {
	var s *perdure.Session
	if last, ok := c.Folds.Get(id); ok {
		s = last.Session.Clone()
	}
	for {
		n, err := store.Read(ctx, c.Store, func(r store.Reader) (int, error) {
			row, err := r.Sessions().Get(id)
			if err != nil {
				return 0, err
			}
			if s == nil || s.Seq > row.LastSeq { // the cached session is newer than this view, or of another journal
				s, _ = startFold(r, id)
			}
			return FoldPage(r, s)
		})
		if err != nil || n < FoldBatch {
			return s, err
		}
	}
}

// startFold returns the session of the last snapshot and its sequence number, or an empty session.
func startFold(r store.Reader, id perdure.SessionID) (s *perdure.Session, saved int64) {
	if snap, err := r.Sessions().Snapshot(id); err == nil {
		cached, err := perdure.DecodeSnapshot(snap.Version, snap.Body)
		if err == nil && cached.Seq == snap.Seq && cached.ID == id {
			return cached, snap.Seq
		}
	}
	return perdure.NewSession(id), 0
}

// FoldToEnd applies what the journal has after s, page by page.
func FoldToEnd(r store.Reader, s *perdure.Session) error {
	for more := true; more; {
		n, err := FoldPage(r, s)
		if err != nil {
			return err
		}
		more = n == FoldBatch
	}
	return nil
}

// FoldPage applies the next page of the journal and returns the number of its events.
func FoldPage(r store.Reader, s *perdure.Session) (int, error) {
	page, err := r.Journal().Events(s.ID, s.Seq, FoldBatch)
	if err != nil {
		return 0, fmt.Errorf("read journal of %s: %w", s.ID, err)
	}
	for _, event := range page {
		if err := s.Apply(event); err != nil {
			return 0, err
		}
	}
	return len(page), nil
}

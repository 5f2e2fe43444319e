package sessionsql

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"

	"github.com/perdure/perdure"
)

// Copy is a database of a session as its file is, but for the counters that [uncounted] clears.
type Copy struct {
	Name    string
	Content []byte
}

// headerBytes is the length of the header of a database, the beginning of its first page.
const headerBytes = 100

// Frozen is sessions of which no statement runs until Release, so that their databases and what else belongs to them are as of
// one moment. It is used by one goroutine at a time.
type Frozen struct {
	store *Store
	held  map[perdure.SessionID]*session
}

// Freeze waits until no statement of the sessions runs, and lets none begin. The caller calls Release.
func (s *Store) Freeze(ctx context.Context, ids ...perdure.SessionID) (*Frozen, error) {
	f := &Frozen{store: s, held: map[perdure.SessionID]*session{}}
	ids = slices.Compact(slices.Sorted(slices.Values(ids))) // in one order, so that two that freeze the same do not wait for each other
	for _, id := range ids {
		own, err := s.enterTurn(ctx, id)
		if err != nil {
			f.Release()
			return nil, err
		}
		f.held[id] = own
	}
	return f, nil
}

func (s *Store) enterTurn(ctx context.Context, id perdure.SessionID) (*session, error) {
	if !sessionNames().MatchString(string(id)) {
		return nil, fmt.Errorf("%w: %q is no session that could have databases", perdure.Invalid, id)
	}
	own := s.enter(id)
	select {
	case own.turn <- struct{}{}:
		return own, nil
	case <-ctx.Done():
		s.leave(id, own)
		return nil, context.Cause(ctx)
	case <-s.gone:
		s.leave(id, own)
		return nil, errClosed
	}
}

// Release lets statements run again. Releasing again does nothing.
func (f *Frozen) Release() {
	for _, id := range slices.Collect(maps.Keys(f.held)) {
		own := f.held[id]
		delete(f.held, id)
		<-own.turn
		f.store.leave(id, own)
	}
}

// Copies returns the databases of a frozen session by name, at most Config.SessionBytes together. All of it is in memory.
// Storage: one cannot be read.
func (f *Frozen) Copies(ctx context.Context, id perdure.SessionID) ([]Copy, error) {
	s, own := f.store, f.held[id]
	if own == nil {
		return nil, fmt.Errorf("%w: session %s is not frozen", perdure.Invalid, id)
	}
	select {
	case s.slots <- struct{}{}: // Close waits for whoever has one
		defer func() { <-s.slots }()
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	case <-s.gone:
		return nil, errClosed
	}
	sizes, err := s.sizes(id)
	if err != nil {
		return nil, err
	}
	var all []Copy
	for _, name := range slices.Sorted(maps.Keys(sizes)) {
		content, err := s.serialize(ctx, id, own, name)
		if err != nil {
			return nil, fmt.Errorf("%w: copy the database %s of session %s: %w", perdure.Storage, name, id, err)
		}
		all = append(all, Copy{Name: name, Content: content})
	}
	return all, nil
}

// serialize reads a database through SQLite, which first takes back what a crash left half done.
func (s *Store) serialize(ctx context.Context, id perdure.SessionID, own *session, name string) (content []byte, err error) {
	d, giveBack, err := s.use(ctx, id, own, name)
	if err != nil {
		return nil, err
	}
	defer giveBack()
	d.policy.begin(ours)
	err = d.conn.Raw(func(conn any) error {
		c, ok := conn.(interface{ Serialize() ([]byte, error) })
		if !ok {
			return errors.New("the driver cannot copy a database")
		}
		content, err = c.Serialize()
		return err
	})
	uncounted(content)
	return content, err
}

// uncounted clears what the header of a database says of its writers: how often it was written, and by which version of SQLite. Every
// opening changes that, and without it the same database is the same bytes.
func uncounted(content []byte) {
	if len(content) >= headerBytes {
		clear(content[24:28])
		clear(content[92:100])
	}
}

// Check says whether copies that come from outside may become the databases of a session. Invalid: one is no database. Limit: they are
// too many or too large.
func (s *Store) Check(copies []Copy) error {
	if len(copies) > s.cfg.Databases {
		return fmt.Errorf("%w: %d databases; a session has at most %d", perdure.Limit, len(copies), s.cfg.Databases)
	}
	total, last := int64(0), ""
	for _, c := range copies {
		n := int64(len(c.Content))
		total += n
		switch {
		case !databaseNames().MatchString(c.Name) || c.Name <= last:
			return fmt.Errorf("%w database %.80q: its name is none, or out of order", perdure.Invalid, c.Name)
		case n > s.cfg.DatabaseBytes || total > s.cfg.SessionBytes:
			return fmt.Errorf("%w: database %s has %d bytes; one has at most %d, and those of a session %d", perdure.Limit, c.Name, n, s.cfg.DatabaseBytes, s.cfg.SessionBytes)
		case n > 0 && !isDatabase(c.Content):
			return fmt.Errorf("%w database %s: it is no SQLite database of one file", perdure.Invalid, c.Name)
		}
		last = c.Name
	}
	return nil
}

// isDatabase looks at the header of a database: its magic, the size of its pages, and that it needs no file beside it.
func isDatabase(content []byte) bool {
	if len(content) < headerBytes || !bytes.HasPrefix(content, []byte("SQLite format 3\x00")) {
		return false
	}
	page := int(binary.BigEndian.Uint16(content[16:18]))
	return page == pageBytes && len(content)%page == 0 && content[18] == 1 && content[19] == 1 // 2 is a write-ahead log
}

// Restore makes copies the databases of a session that is yet to be made, durably, in the place of whatever is there. The caller sees
// to it that nobody uses the session, and removes them if it is not made. Invalid and Limit: what Check says.
func (s *Store) Restore(ctx context.Context, id perdure.SessionID, copies []Copy) error {
	if err := s.Check(copies); err != nil {
		return err
	}
	if err := s.Remove(ctx, id); err != nil || len(copies) == 0 {
		return err
	}
	return s.with(ctx, id, func(*session) error {
		for _, c := range copies {
			if err := s.make(id, c.Name); err != nil {
				return err
			}
			if err := s.fill(id, c); err != nil {
				return unreadable(id, err)
			}
		}
		if err := durable(s.root.Open(string(id))); err != nil {
			return unreadable(id, err)
		}
		return nil
	})
}

func (s *Store) fill(id perdure.SessionID, c Copy) error {
	file, err := s.root.OpenFile(fileOf(id, c.Name), os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	_, err = file.Write(c.Content)
	if err == nil {
		err = file.Sync()
	}
	return errors.Join(err, file.Close())
}

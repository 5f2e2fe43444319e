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

// Copy is the content of a session's database file, without the counters that uncounted clears.
type Copy struct {
	Name    string
	Content []byte
}

// headerBytes is the length of the header at the start of a database's first page.
const headerBytes = 100

// Frozen holds sessions in which no statement runs until Release, so that their databases, and
// whatever else the caller reads of them, are of the same moment. It must not be used concurrently.
type Frozen struct {
	store    *Store
	sessions map[perdure.SessionID]*session
}

// Freeze waits until no statement of the sessions runs, and blocks further ones. The caller must
// call Release.
func (s *Store) Freeze(ctx context.Context, ids ...perdure.SessionID) (*Frozen, error) {
	f := &Frozen{store: s, sessions: map[perdure.SessionID]*session{}}
	// Always in sorted order, so that two calls with the same sessions cannot deadlock.
	ids = slices.Compact(slices.Sorted(slices.Values(ids)))
	for _, id := range ids {
		own, err := s.acquireTurn(ctx, id)
		if err != nil {
			f.Release()
			return nil, err
		}
		f.sessions[id] = own
	}
	return f, nil
}

// acquireTurn waits for the turn of a session and takes it. The caller must free turn and then call
// leave.
func (s *Store) acquireTurn(ctx context.Context, id perdure.SessionID) (*session, error) {
	if !sessionNamePattern().MatchString(string(id)) {
		return nil, fmt.Errorf("%w: %q is not a valid session id for databases", perdure.Invalid, id)
	}
	own := s.addUser(id)
	select {
	case own.turn <- struct{}{}:
		return own, nil
	case <-ctx.Done():
		s.removeUser(id, own)
		return nil, context.Cause(ctx)
	case <-s.closing:
		s.removeUser(id, own)
		return nil, errClosed
	}
}

// Release lets statements run again. Calling it again does nothing.
func (f *Frozen) Release() {
	for _, id := range slices.Collect(maps.Keys(f.sessions)) {
		own := f.sessions[id]
		delete(f.sessions, id)
		<-own.turn
		f.store.removeUser(id, own)
	}
}

// Copies returns the databases of a frozen session in the order of their names. All content is in
// memory, at most Config.MaxSessionBytes. Storage: a database cannot be read.
func (f *Frozen) Copies(ctx context.Context, id perdure.SessionID) ([]Copy, error) {
	s, own := f.store, f.sessions[id]
	if own == nil {
		return nil, fmt.Errorf("%w: session %s is not frozen", perdure.Invalid, id)
	}
	select {
	case s.slots <- struct{}{}: // Close waits until all slots are free
		defer func() { <-s.slots }()
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	case <-s.closing:
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
			return nil, fmt.Errorf("%w: copy database %s of session %s: %w", perdure.Storage, name, id, err)
		}
		all = append(all, Copy{Name: name, Content: content})
	}
	return all, nil
}

// serialize reads a database through SQLite, which first rolls back a transaction that a crash
// interrupted.
func (s *Store) serialize(
	ctx context.Context, id perdure.SessionID, own *session, name string,
) (content []byte, err error) {
	d, release, err := s.use(ctx, id, own, name)
	if err != nil {
		return nil, err
	}
	defer release()
	d.policy.begin(internalMode)
	err = d.conn.Raw(func(conn any) error {
		c, ok := conn.(interface{ Serialize() ([]byte, error) })
		if !ok {
			return errors.New("the driver cannot copy a database")
		}
		content, err = c.Serialize()
		return err
	})
	clearCounters(content)
	return content, err
}

// clearCounters clears the fields of the header that record how often the database was written and
// by which version of SQLite. They change with every opening; without them, equal databases have
// equal bytes.
func clearCounters(content []byte) {
	if len(content) >= headerBytes {
		clear(content[24:28])
		clear(content[92:100])
	}
}

// Check reports whether copies from outside may become the databases of a session. Invalid: a copy
// is not a database, or has no valid name. Limit: there are too many, or they are too large.
func (s *Store) Check(copies []Copy) error {
	if len(copies) > s.cfg.MaxDatabases {
		return fmt.Errorf("%w: %d databases; a session has at most %d", perdure.Limit, len(copies), s.cfg.MaxDatabases)
	}
	total, last := int64(0), ""
	for _, c := range copies {
		n := int64(len(c.Content))
		total += n
		switch {
		case !databaseNamePattern().MatchString(c.Name) || c.Name <= last:
			return fmt.Errorf("%w database %.80q: its name is not valid, or the names are not in order",
				perdure.Invalid, c.Name)
		case n > s.cfg.MaxDatabaseBytes || total > s.cfg.MaxSessionBytes:
			return fmt.Errorf("%w: database %s has %d bytes; the limit is %d, and %d for all databases of a session",
				perdure.Limit, c.Name, n, s.cfg.MaxDatabaseBytes, s.cfg.MaxSessionBytes)
		case n > 0 && !isDatabase(c.Content):
			return fmt.Errorf("%w database %s: it is not a SQLite database in a single file", perdure.Invalid, c.Name)
		}
		last = c.Name
	}
	return nil
}

// isDatabase checks the header of a database: the magic bytes, the page size, and that it uses no
// write-ahead log.
func isDatabase(content []byte) bool {
	if len(content) < headerBytes || !bytes.HasPrefix(content, []byte("SQLite format 3\x00")) {
		return false
	}
	page := int(binary.BigEndian.Uint16(content[16:18]))
	return page == pageBytes && len(content)%page == 0 && content[18] == 1 && content[19] == 1 // 2 is a write-ahead log
}

// Restore writes copies as the databases of a session that does not exist yet, durably, and
// replaces what is there. The caller ensures that nothing uses the session, and removes the
// databases if the session is not created. Invalid and Limit: see Check.
func (s *Store) Restore(ctx context.Context, id perdure.SessionID, copies []Copy) error {
	if err := s.Check(copies); err != nil {
		return err
	}
	if err := s.Remove(ctx, id); err != nil || len(copies) == 0 {
		return err
	}
	return s.withTurn(ctx, id, func(*session) error {
		for _, c := range copies {
			if err := s.createFile(id, c.Name); err != nil {
				return err
			}
			if err := s.writeFile(id, c); err != nil {
				return storageError(id, err)
			}
		}
		if err := syncDir(s.root.Open(string(id))); err != nil {
			return storageError(id, err)
		}
		return nil
	})
}

func (s *Store) writeFile(id perdure.SessionID, c Copy) error {
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

package backup

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/internal/chaos"
	"github.com/perdure/perdure/store"
	"github.com/perdure/perdure/store/sqlite"
)

// Report says what Verify read, and what is wrong with it.
type Report struct {
	Sessions  int `json:"sessions"`
	Events    int `json:"events"`
	Calls     int `json:"calls"`
	Tasks     int `json:"tasks"`
	Files     int `json:"files"` // of sessions
	Snapshots int `json:"snapshots"`
	Databases int `json:"session_databases"`
	Blobs     int `json:"blobs"`
	Audited   int `json:"audit_entries"`
	// It is a backup, and its files were compared with the manifest.
	Backup   bool     `json:"backup"`
	Problems []string `json:"wrong,omitempty"` // one sentence per problem
	// AuditHeads is where the audit log of each organisation ends. A copy stored elsewhere can
	// later show that the log was rewritten.
	AuditHeads []store.AuditHead `json:"audit_heads,omitempty"`

	damaged         []string                   // databases of sessions that were damaged before the backup
	databaseDamaged bool                       // the main database is damaged, so its rows are not read
	digests         map[perdure.EventID]string // of events, according to the audit log
	known           []store.AuditHead          // earlier ends of the audit logs, from the caller
}

// Verify reads a whole data directory or backup, while a server may use it: the pages, indexes and
// references of the databases; every journal, which must fold and agree with the rows; the
// snapshots and the invariants of the ledger; the contents of blobs; and every file of a backup.
// The report lists what is wrong.
//
// known are earlier ends of audit logs, stored elsewhere, as ORG:SEQ:HASH. NotFound: the directory
// is neither. Invalid: an element of known is malformed. Conflict: a different version wrote the
// database; everything that does not need its rows was checked.
func Verify(ctx context.Context, dir string, known ...string) (Report, error) {
	rep := Report{digests: map[perdure.EventID]string{}}
	for _, text := range known {
		head, err := parseHead(text)
		if err != nil {
			return rep, err
		}
		rep.known = append(rep.known, head)
	}
	m, err := Read(dir)
	switch {
	case err == nil:
		rep.Backup, rep.damaged = true, m.Damaged
		rep.Problems, err = m.compare(dir)
		if err == nil && len(rep.Problems) > 0 {
			return rep, nil // the contents are not those of the backup, so they are not checked further
		}
	case errors.Is(err, perdure.NotFound):
		err = nil // it is a data directory
	}
	for _, look := range []func(context.Context, string) error{rep.database, rep.sessionDatabases, rep.blobs, rep.sessions} {
		if err == nil {
			err = look(ctx, dir)
		}
	}
	if err != nil {
		return rep, fmt.Errorf("verify %s: %w", dir, err)
	}
	return rep, nil
}

func (r *Report) addProblem(format string, args ...any) {
	r.Problems = append(r.Problems, fmt.Sprintf(format, args...))
}

func (r *Report) database(ctx context.Context, dir string) error {
	found, err := sqlite.Check(ctx, filepath.Join(dir, sqlite.DatabaseName))
	for _, text := range found {
		r.addProblem("%s: %s", sqlite.DatabaseName, text)
	}
	r.databaseDamaged = len(found) > 0
	return err
}

func (r *Report) sessionDatabases(ctx context.Context, dir string) error {
	return walk(filepath.Join(dir, SQLFolder), func(file, name string, _ fs.FileInfo) error {
		if !strings.HasSuffix(name, ".db") {
			return nil
		}
		// Opening it could roll its journal back.
		if name = path.Join(SQLFolder, name); slices.Contains(r.damaged, name) {
			r.Databases++
			r.addProblem("%s: damaged before the backup, and copied unchanged", name)
			return nil
		}
		check := sqlite.CheckSession
		if r.Backup {
			check = sqlite.CheckSessionCopy // a backup is only read
		}
		found, err := check(ctx, file)
		if errors.Is(err, perdure.NotFound) {
			return nil // deleted meanwhile
		}
		r.Databases++
		for _, text := range found {
			r.addProblem("%s: %s", name, text)
		}
		return err
	})
}

// blobs compares the contents of blobs with their names.
func (r *Report) blobs(ctx context.Context, dir string) error {
	return walk(filepath.Join(dir, BlobFolder), func(_, name string, _ fs.FileInfo) error {
		name = path.Join(BlobFolder, name)
		if ctx.Err() != nil || !isBlob(name) {
			return context.Cause(ctx)
		}
		found, err := measure(dir, name)
		if errors.Is(err, fs.ErrNotExist) {
			return nil // deleted meanwhile
		}
		r.Blobs++
		if err == nil && found.SHA256 != path.Base(name) {
			r.addProblem("%s: the content has SHA-256 %s", name, found.SHA256)
		}
		return err
	})
}

// walk calls fn for each regular file below a folder, with its path and its slash-separated path
// inside the folder.
func walk(folder string, fn func(file, name string, about fs.FileInfo) error) error {
	return filepath.WalkDir(folder, func(file string, entry fs.DirEntry, err error) error {
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		if err != nil || !entry.Type().IsRegular() {
			return err
		}
		about, err := entry.Info()
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		if err != nil {
			return err
		}
		name, err := filepath.Rel(folder, file)
		if err != nil {
			return err
		}
		return fn(file, filepath.ToSlash(name), about)
	})
}

// sessions checks the rows, one tree of sessions at a time.
func (r *Report) sessions(ctx context.Context, dir string) (err error) {
	if r.databaseDamaged {
		return nil
	}
	st, err := sqlite.Open(ctx, sqlite.Config{Dir: dir, ReadOnly: true})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, st.Close()) }()
	return st.View(ctx, func(reader store.Reader) error {
		if err := r.audit(reader); err != nil {
			return err
		}
		rows, err := reader.Sessions().List(store.SessionFilter{})
		if err != nil {
			return err
		}
		trees := map[perdure.SessionID][]store.Session{}
		var roots []perdure.SessionID
		for _, row := range rows {
			if trees[row.Root] == nil {
				roots = append(roots, row.Root)
			}
			trees[row.Root] = append(trees[row.Root], row)
		}
		for _, root := range roots {
			if ctx.Err() != nil {
				return context.Cause(ctx)
			}
			if err := r.tree(reader, dir, trees[root]); err != nil {
				return err
			}
		}
		return nil
	})
}

// tree checks the sessions of one tree together.
func (r *Report) tree(reader store.Reader, dir string, rows []store.Session) error {
	record := chaos.Record{Live: true}
	for _, row := range rows {
		d, err := reader.Sessions().Dump(row.ID)
		if err == nil {
			err = d.Check()
		}
		switch {
		case err == nil:
		case errors.Is(err, perdure.Storage), errors.Is(err, perdure.Unavailable):
			return err
		default: // a row cannot be decoded, or does not match
			r.addProblem("session %s: %v", row.ID, err)
			continue
		}
		r.count(d)
		journal, rowsOf := r.journal(d)
		record.Journals, record.Rows = append(record.Journals, journal), append(record.Rows, rowsOf)
		if err := errors.Join(r.snapshot(reader, d, journal), r.images(reader, dir, row.ID)); err != nil {
			return err
		}
	}
	for _, v := range chaos.Check(record) {
		r.addProblem("session %s violates %s: %s", v.Session, v.Invariant, v.Text)
	}
	return nil
}

func (r *Report) count(d store.SessionDump) {
	r.Sessions++
	r.Events += len(d.Events)
	r.Calls += len(d.Calls)
	r.Tasks += len(d.Tasks)
	r.Files += len(d.Files)
}

// journal returns a session in the form that the invariants check.
func (r *Report) journal(d store.SessionDump) (chaos.Journal, chaos.Rows) {
	journal := chaos.Journal{Session: d.Session.ID}
	for _, body := range d.Events {
		e, err := perdure.DecodeEvent(body)
		if err != nil {
			r.addProblem("session %s: event %d cannot be decoded: %v", d.Session.ID, len(journal.Events)+1, err)
			break
		}
		if digest, audited := r.digests[e.ID]; audited && digest != store.AuditHash(body) {
			r.addProblem("session %s: event %d does not match its digest in the audit log", d.Session.ID, e.Seq)
		}
		journal.Events, journal.Stored = append(journal.Events, e), append(journal.Stored, body)
	}
	of := chaos.Rows{
		Session: d.Session.ID, Title: d.Session.Title, Status: d.Session.Status, LastSeq: d.Session.LastSeq,
		Tasks: d.Tasks, Calls: d.Calls, Approvals: d.Approvals,
	}
	for _, s := range d.Spawns {
		of.Handles = append(of.Handles, chaos.Handle{Call: s.Key.Call, Task: s.Task, Child: s.Child, Ended: s.State == store.SpawnSettled})
	}
	return journal, of
}

// snapshot compares the stored snapshot with the fold of the journal up to it. A snapshot of a
// different version is not used, and not checked.
func (r *Report) snapshot(reader store.Reader, d store.SessionDump, journal chaos.Journal) error {
	kept, err := reader.Sessions().Snapshot(d.Session.ID)
	if errors.Is(err, perdure.NotFound) || err == nil && kept.Version != perdure.FoldVersion {
		return nil
	}
	if err != nil {
		return err
	}
	r.Snapshots++
	fold := perdure.NewSession(d.Session.ID)
	for _, e := range journal.Events {
		if e.Seq > kept.Seq {
			break
		}
		if fold.Apply(e) != nil {
			return nil // the journal is reported already
		}
	}
	want, err := perdure.EncodeSnapshot(fold)
	if err == nil {
		want, err = reencode(want) // so that losses of the encoding do not count as differences
	}
	got, readErr := reencode(kept.Body)
	switch {
	case err != nil:
		return err
	case readErr != nil:
		r.addProblem("session %s: the snapshot cannot be decoded: %v", d.Session.ID, readErr)
	case fold.Seq != kept.Seq:
		r.addProblem("session %s: the snapshot is of event %d, but the journal ends at %d", d.Session.ID, kept.Seq, fold.Seq)
	case !bytes.Equal(got, want):
		r.addProblem("session %s: the snapshot of event %d does not match the fold of the journal", d.Session.ID, kept.Seq)
	}
	return nil
}

// images checks that the blobs of a session's images exist.
func (r *Report) images(reader store.Reader, dir string, id perdure.SessionID) error {
	images, err := reader.Images().List(id)
	for _, image := range images {
		if !image.Blob {
			continue
		}
		if _, err := os.Stat(filepath.Join(dir, BlobFolder, image.SHA256[:2], image.SHA256)); errors.Is(err, fs.ErrNotExist) {
			r.addProblem("session %s: blob %s of image %s is missing", id, image.SHA256, image.ID)
		}
	}
	return err
}

// reencode decodes a snapshot and encodes it again.
func reencode(body []byte) ([]byte, error) {
	s, err := perdure.DecodeSnapshot(perdure.FoldVersion, body)
	if err != nil {
		return nil, err
	}
	return perdure.EncodeSnapshot(s)
}

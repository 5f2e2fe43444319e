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

// Report is what Verify read, and what is wrong with it.
type Report struct {
	Sessions  int      `json:"sessions"`
	Events    int      `json:"events"`
	Calls     int      `json:"calls"`
	Tasks     int      `json:"tasks"`
	Files     int      `json:"files"` // of sessions
	Snapshots int      `json:"snapshots"`
	Databases int      `json:"session_databases"`
	Blobs     int      `json:"blobs"`
	Audited   int      `json:"audit_entries"`
	Backup    bool     `json:"backup"`          // it is one, whose files were compared with its manifest
	Wrong     []string `json:"wrong,omitempty"` // a sentence each
	// AuditHeads says where the audit log of each org ends. Kept elsewhere, they show that it was made anew.
	AuditHeads []store.AuditHead `json:"audit_heads,omitempty"`

	damaged []string                   // databases of sessions that a backup has as they were
	unread  bool                       // our own database is damaged, so its rows say nothing
	digests map[perdure.EventID]string // of events, as the audit log has them
	known   []store.AuditHead          // where it ended, by what was kept elsewhere
}

// Verify reads a data directory or a backup whole, beside whoever holds it: pages, indexes and references of the databases,
// every journal, which must fold and agree with the rows, the snapshots and the invariants of the ledger, the contents of
// blobs, and of a backup every file with its manifest. What is wrong stands in the report.
//
// known says where the audit log of orgs ended once, by what was kept elsewhere: ORG:SEQ:HASH. NotFound: there is neither.
// Invalid: known says no such thing. Conflict: another version wrote the database; what does not need its rows was looked at.
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
		rep.Wrong, err = m.compare(dir)
		if err == nil && len(rep.Wrong) > 0 {
			return rep, nil // what it has is not what was backed up, so nobody asks what it says
		}
	case errors.Is(err, perdure.NotFound):
		err = nil // a data directory
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

func (r *Report) wrong(format string, args ...any) {
	r.Wrong = append(r.Wrong, fmt.Sprintf(format, args...))
}

func (r *Report) database(ctx context.Context, dir string) error {
	found, err := sqlite.Check(ctx, filepath.Join(dir, sqlite.DatabaseName))
	for _, text := range found {
		r.wrong("%s: %s", sqlite.DatabaseName, text)
	}
	r.unread = len(found) > 0
	return err
}

func (r *Report) sessionDatabases(ctx context.Context, dir string) error {
	return walk(filepath.Join(dir, SQLFolder), func(file, name string, _ fs.FileInfo) error {
		if !strings.HasSuffix(name, ".db") {
			return nil
		}
		if name = path.Join(SQLFolder, name); slices.Contains(r.damaged, name) { // and nobody may roll it back here
			r.Databases++
			r.wrong("%s: it was damaged when it was backed up, and is here as it was", name)
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
			r.wrong("%s: %s", name, text)
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
			r.wrong("%s: its contents have the SHA-256 %s", name, found.SHA256)
		}
		return err
	})
}

// walk calls fn with every file below a folder: where it is, and its path in the folder, with slashes.
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

// sessions looks at what the rows say, a tree of sessions at a time.
func (r *Report) sessions(ctx context.Context, dir string) (err error) {
	if r.unread {
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
		rows, err := reader.Sessions(store.SessionFilter{})
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

// tree judges the sessions of one tree together.
func (r *Report) tree(reader store.Reader, dir string, rows []store.Session) error {
	record := chaos.Record{Live: true}
	for _, row := range rows {
		d, err := reader.Dump(row.ID)
		if err == nil {
			err = d.Check()
		}
		switch {
		case err == nil:
		case errors.Is(err, perdure.Storage), errors.Is(err, perdure.Unavailable):
			return err
		default: // a row that cannot be read, or does not fit
			r.wrong("session %s: %v", row.ID, err)
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
		r.wrong("session %s breaks %s: %s", v.Session, v.Invariant, v.Text)
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

// journal is a session as the invariants look at it.
func (r *Report) journal(d store.SessionDump) (chaos.Journal, chaos.Rows) {
	journal := chaos.Journal{Session: d.Session.ID}
	for _, body := range d.Events {
		e, err := perdure.DecodeEvent(body)
		if err != nil {
			r.wrong("session %s: event %d cannot be read: %v", d.Session.ID, len(journal.Events)+1, err)
			break
		}
		if digest, audited := r.digests[e.ID]; audited && digest != store.AuditHash(body) {
			r.wrong("session %s: event %d is not what the audit log has of it", d.Session.ID, e.Seq)
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

// snapshot compares the cached fold with the journal up to there. One of another version is not used, so it is not judged.
func (r *Report) snapshot(reader store.Reader, d store.SessionDump, journal chaos.Journal) error {
	kept, err := reader.Snapshot(d.Session.ID)
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
			return nil // the journal is told of
		}
	}
	want, err := perdure.EncodeSnapshot(fold)
	if err == nil {
		want, err = again(want) // what both lose on the way is no difference
	}
	got, readErr := again(kept.Body)
	switch {
	case err != nil:
		return err
	case readErr != nil:
		r.wrong("session %s: its snapshot cannot be read: %v", d.Session.ID, readErr)
	case fold.Seq != kept.Seq:
		r.wrong("session %s: its snapshot is of event %d, and the journal ends at %d", d.Session.ID, kept.Seq, fold.Seq)
	case !bytes.Equal(got, want):
		r.wrong("session %s: its snapshot of event %d is not what the journal folds to", d.Session.ID, kept.Seq)
	}
	return nil
}

// images looks for the blobs of a session's images.
func (r *Report) images(reader store.Reader, dir string, id perdure.SessionID) error {
	images, err := reader.Images(id)
	for _, image := range images {
		if !image.Blob {
			continue
		}
		if _, err := os.Stat(filepath.Join(dir, BlobFolder, image.SHA256[:2], image.SHA256)); errors.Is(err, fs.ErrNotExist) {
			r.wrong("session %s: the blob %s of image %s is not there", id, image.SHA256, image.ID)
		}
	}
	return err
}

// again reads a snapshot and writes it.
func again(body []byte) ([]byte, error) {
	s, err := perdure.DecodeSnapshot(perdure.FoldVersion, body)
	if err != nil {
		return nil, err
	}
	return perdure.EncodeSnapshot(s)
}

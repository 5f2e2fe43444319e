// Package sessionfile implements the files of a session in the store.
//
// It may import the root, store and tool. The one thing to know: everything below /.background
// belongs to the runtime; the model can read it and cannot write it.
package sessionfile

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"path"
	"strings"
	"time"

	"github.com/google/uuid"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/store"
	"github.com/perdure/perdure/tool"
)

// runtimeDir can only be written by the runtime (FI7).
const runtimeDir = "/.background"

// Files is the file port of a session. Every change is one commit, which also checks the quotas
// (FI6) and, with [Files.Recording], records the change in the journal.
type Files struct {
	store   store.Store
	session perdure.SessionID
	runtime bool // may write below runtimeDir and exceed the session's quota
	limits  tool.FileLimits
	by      *tool.Call          // the author of changes, for the journal; nil: changes are not recorded
	actor   string              // the author if it is not a call; empty: runtime
	mask    func(string) string // masks recorded paths; nil: nothing is secret
}

var (
	_ tool.Files  = (*Files)(nil)
	_ tool.Seeder = (*Files)(nil)
)

// New returns the files of a session as the model sees them or, with runtime, as the runtime writes
// them. Files of the runtime count for the session's quota but are never refused for it: a model
// that fills its files must not lose the results of its runs.
func New(s store.Store, session perdure.SessionID, runtime bool) *Files {
	return &Files{store: s, session: session, runtime: runtime}
}

// Limit returns a view with these limits instead of the default ones.
func (f *Files) Limit(l tool.FileLimits) *Files {
	view := *f
	view.limits = l
	return &view
}

// Recording returns a view that records every change in the journal, in the same commit (FI9), as a
// change of the given call. If by has no id, it is a change of the runtime on behalf of the
// session. Seeding is not recorded, because it belongs to the host.
func (f *Files) Recording(by tool.Call) *Files {
	view := *f
	view.by = &by
	return &view
}

// Fenced returns a view whose changes check a fence first, in the same commit. If the fence returns
// an error, nothing changes. nil: no fence.
func (f *Files) Fenced(fence func(store.Reader) error) *Files {
	if fence == nil {
		return f
	}
	view := *f
	view.store = store.Fenced{Store: f.store, Fence: fence}
	return &view
}

// As returns a view whose changes are recorded for an actor other than a call: a person or a
// program.
func (f *Files) As(actor string) *Files {
	view := *f
	view.actor = actor
	return &view
}

// Masked returns a view that masks recorded paths, because a tool may put a secret into a path
// (SE4).
func (f *Files) Masked(mask func(string) string) *Files {
	view := *f
	view.mask = mask
	return &view
}

// maskedPath returns a path as the journal records it. It is called before a transaction, because
// the mask may read the store.
func (f *Files) maskedPath(name string) string {
	if f.by == nil || f.mask == nil {
		return name
	}
	return f.mask(name)
}

// record appends the events for changes.
func (f *Files) record(tx store.Tx, facts ...perdure.FileWritten) error {
	if f.by == nil {
		return nil
	}
	var events []perdure.Event
	for _, fact := range facts {
		events = append(events, Event(*f.by, f.actor, tx.Now(), fact))
	}
	return tx.Journal().Append(f.session, events)
}

// Event returns the event for something that a call did besides its result, or that another actor
// did; an empty actor is the runtime.
func Event(by tool.Call, actor string, at time.Time, fact perdure.Fact) perdure.Event {
	return perdure.Event{
		ID: perdure.FormatID[perdure.EventID](uuid.Must(uuid.NewV7())), At: at, Actor: cmp.Or(actor, "runtime"),
		Turn: by.Turn, Call: by.ID, Task: by.Task, Attempt: by.Attempt, Fact: fact,
	}
}

// Stat describes a file or directory.
func (f *Files) Stat(ctx context.Context, name string) (tool.FileStat, error) {
	found, err := f.find(ctx, name)
	return fileStat(found), err
}

// Read returns a file with its content.
func (f *Files) Read(ctx context.Context, name string) (tool.File, error) {
	found, err := f.find(ctx, name)
	if err != nil {
		return tool.File{}, err
	}
	if found.Directory {
		return tool.File{}, isDirectory(found.Path)
	}
	return tool.File{FileStat: fileStat(found), Content: found.Content}, nil
}

func (f *Files) find(ctx context.Context, name string) (found store.File, err error) {
	name, err = tool.CleanPath(name)
	if err != nil {
		return found, err
	}
	found, err = store.Read(ctx, f.store, func(r store.Reader) (store.File, error) {
		return r.Files().Get(f.session, name)
	})
	if errors.Is(err, perdure.NotFound) {
		err = failed(perdure.NotFound, "File not found: "+name)
	}
	return found, err
}

// Write replaces a file, or creates it.
func (f *Files) Write(ctx context.Context, w tool.FileWrite) (created bool, err error) {
	name, err := f.checkWrite(w)
	if err != nil {
		return false, err
	}
	shown := f.maskedPath(name)
	err = f.store.InTx(ctx, func(tx store.Tx) error {
		var fact perdure.FileWritten
		if created, fact, err = f.write(tx, w, name, shown); err != nil {
			return err
		}
		return f.record(tx, fact)
	})
	return created, err
}

// WriteIn is Write for several files, in a transaction of the caller. It does not mask their paths,
// so these must not contain secrets.
func (f *Files) WriteIn(tx store.Tx, writes ...tool.FileWrite) error {
	var facts []perdure.FileWritten
	for _, w := range writes {
		name, err := f.checkWrite(w)
		if err != nil {
			return err
		}
		_, fact, err := f.write(tx, w, name, name)
		if err != nil {
			return err
		}
		facts = append(facts, fact)
	}
	return f.record(tx, facts...)
}

// checkWrite returns the clean path of a write, and checks whether the write is allowed.
func (f *Files) checkWrite(w tool.FileWrite) (name string, err error) {
	if name, err = f.writable(w.Path); err != nil {
		return "", err
	}
	return name, f.limits.CheckFile(name, int64(len(w.Content)))
}

// write is Write for a clean path. It returns the fact for the journal, with the path shown.
func (f *Files) write(
	tx store.Tx, w tool.FileWrite, name, shown string,
) (created bool, fact perdure.FileWritten, err error) {
	old, err := tx.Files().Get(f.session, name)
	missing := errors.Is(err, perdure.NotFound)
	switch {
	case err != nil && !missing:
		return false, fact, err
	case !missing && old.Directory:
		return false, fact, isDirectory(name)
	case !missing && old.ReadOnly:
		return false, fact, isReadOnly(name)
	case w.IfContent != nil && (missing || !bytes.Equal(old.Content, *w.IfContent)):
		return false, fact, isChanged(name)
	case w.MustNotExist && !missing:
		return false, fact, alreadyExists(name)
	}
	if err := f.checkQuota(tx, name, int64(len(w.Content))-old.SizeBytes); err != nil {
		return false, fact, err
	}
	if created, err = put(tx, f.session, store.File{Path: name, Content: w.Content}); err != nil {
		return false, fact, err
	}
	return created, perdure.FileWritten{Path: shown, SizeBytes: int64(len(w.Content))}, nil
}

// checkQuota returns Limit if the session's files would exceed their quota (FI6).
func (f *Files) checkQuota(tx store.Tx, name string, grown int64) error {
	if f.runtime || grown <= 0 {
		return nil
	}
	used, err := tx.Files().TotalBytes(f.session)
	if err != nil {
		return err
	}
	return f.limits.CheckSession(name, used, grown)
}

// put writes a file or directory in a transaction. If a parent is a file, the error names that
// file.
func put(tx store.Tx, session perdure.SessionID, f store.File) (created bool, err error) {
	if !f.Directory {
		_, encoding := tool.EncodeContent(f.Content)
		f.Encoding = store.Encoding(encoding)
	}
	created, err = tx.Files().Put(session, f)
	if !errors.Is(err, perdure.Conflict) {
		return created, err
	}
	for place := f.Path; place != "/"; place = path.Dir(place) {
		if found, findErr := tx.Files().Get(session, place); findErr == nil && !found.Directory {
			return false, failed(perdure.Conflict, "path exists but is not a directory: "+place)
		}
	}
	return false, isDirectory(f.Path)
}

// Seed writes an initial file, read-only or not, and replaces an existing one (FI5). It is for the
// host.
func (f *Files) Seed(ctx context.Context, initial tool.InitialFile) error {
	return f.store.InTx(ctx, func(tx store.Tx) error { return f.SeedIn(tx, initial) })
}

// SeedIn is Seed in a transaction of the caller, so that a session and its initial files can be one
// commit.
func (f *Files) SeedIn(tx store.Tx, initial tool.InitialFile) error {
	name, err := tool.CleanPath(initial.Path)
	if err != nil {
		return err
	}
	content, err := tool.DecodeContent(initial.Content, initial.Encoding)
	if err != nil {
		return err
	}
	if err := f.limits.CheckFile(name, int64(len(content))); err != nil {
		return err
	}
	old, err := tx.Files().Get(f.session, name)
	if err != nil && !errors.Is(err, perdure.NotFound) {
		return err
	}
	if err := f.checkQuota(tx, name, int64(len(content))-old.SizeBytes); err != nil {
		return err
	}
	_, err = put(tx, f.session, store.File{Path: name, Content: content, ReadOnly: initial.IsReadOnly})
	return err
}

// Remove deletes a file or an empty directory or, with recursive, a directory with everything below
// it.
func (f *Files) Remove(ctx context.Context, name string, recursive bool) (removed bool, err error) {
	name, err = f.writable(name)
	if err != nil {
		return false, err
	}
	if name == "/" {
		return false, failed(perdure.Invalid, "The root directory cannot be deleted.")
	}
	shown := f.maskedPath(name)
	err = f.store.InTx(ctx, func(tx store.Tx) error {
		old, err := tx.Files().Get(f.session, name)
		if errors.Is(err, perdure.NotFound) {
			removed = false
			return nil
		}
		if err != nil {
			return err
		}
		if err := f.removable(tx, old, recursive); err != nil {
			return err
		}
		if removed, err = tx.Files().Remove(f.session, name); err != nil || !removed {
			return err
		}
		return f.record(tx, perdure.FileWritten{Path: shown, Removed: true})
	})
	return removed, err
}

// removable refuses read-only files and, without recursive, directories that are not empty.
func (f *Files) removable(tx store.Tx, old store.File, recursive bool) error {
	if old.ReadOnly {
		return isReadOnly(old.Path)
	}
	if !old.Directory {
		return nil
	}
	below, err := tx.Files().List(f.session, old.Path, true)
	if err != nil {
		return err
	}
	if len(below) > 0 && !recursive {
		return failed(perdure.Conflict, fmt.Sprintf("Directory not empty: %s. Set recursive to true.", old.Path))
	}
	for _, file := range below {
		if file.ReadOnly {
			return isReadOnly(file.Path)
		}
	}
	return nil
}

// List lists a directory.
func (f *Files) List(ctx context.Context, dir string, deep bool) ([]tool.FileStat, error) {
	dir, err := tool.CleanPath(dir)
	if err != nil {
		return nil, err
	}
	var stats []tool.FileStat
	err = f.store.View(ctx, func(r store.Reader) error {
		stats = nil
		files, err := r.Files().List(f.session, dir, deep)
		for _, file := range files {
			stats = append(stats, fileStat(file))
		}
		return err
	})
	if errors.Is(err, perdure.NotFound) {
		err = failed(perdure.NotFound, "Directory not found: "+dir)
	}
	return stats, err
}

// MakeDirectory creates a directory and its parents.
func (f *Files) MakeDirectory(ctx context.Context, name string) (tool.FileStat, error) {
	name, err := f.writable(name)
	if err != nil {
		return tool.FileStat{}, err
	}
	var made store.File
	shown := f.maskedPath(name)
	err = f.store.InTx(ctx, func(tx store.Tx) error {
		created, err := put(tx, f.session, store.File{Path: name, Directory: true})
		if err != nil {
			return err
		}
		if made, err = tx.Files().Get(f.session, name); err != nil || !created {
			return err
		}
		return f.record(tx, perdure.FileWritten{Path: shown, Directory: true})
	})
	return fileStat(made), err
}

// writable cleans a path, and refuses what only the runtime may write (FI7).
func (f *Files) writable(name string) (string, error) {
	name, err := tool.CleanPath(name)
	if err != nil {
		return "", err
	}
	if !f.runtime && (name == runtimeDir || strings.HasPrefix(name, runtimeDir+"/")) {
		return "", isReadOnly(name)
	}
	return name, nil
}

// The texts of TL28.

func isDirectory(name string) error { return failed(perdure.Conflict, "Is a directory: "+name) }
func isReadOnly(name string) error  { return failed(perdure.Conflict, "File is read-only: "+name) }

func isChanged(name string) error {
	return failed(perdure.Conflict, fmt.Sprintf("File changed since it was read: %s. Read it again.", name))
}
func alreadyExists(name string) error { return failed(perdure.Conflict, "Path already exists: "+name) }

func failed(kind perdure.Kind, text string) error { return &tool.FileError{Kind: kind, Text: text} }

func fileStat(f store.File) tool.FileStat {
	return tool.FileStat{
		Path: f.Path, Name: path.Base(f.Path), IsDirectory: f.Directory, IsReadOnly: f.ReadOnly,
		SizeBytes: f.SizeBytes, CreatedAt: f.CreatedAt, UpdatedAt: f.UpdatedAt,
	}
}

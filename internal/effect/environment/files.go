package environment

import (
	"context"
	"errors"
	"fmt"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/internal/effect/core"
	"github.com/perdure/perdure/internal/sessionfile"
	"github.com/perdure/perdure/store"
	"github.com/perdure/perdure/tool"
)

// files opens the files of a call's session, as the model sees them and as the runtime writes them.
// Every change appends file.written: in the same commit if files are stored in the store, otherwise
// right after it. A change is checked against the fence in the same way: in its commit, or right
// before it. nil: no fence.
func (en *Environment) files(by tool.Call, fence func(store.Reader) error) (model, runtime tool.Files) {
	model, runtime = en.core.Ports.Files(by.Session)
	return en.journaled(model, by, fence), en.journaled(runtime, by, fence)
}

// journaled returns files whose changes are recorded in the journal.
func (en *Environment) journaled(files tool.Files, by tool.Call, fence func(store.Reader) error) tool.Files {
	switch f := files.(type) {
	case nil, tool.DisabledFiles:
		return files
	case *sessionfile.Files:
		return f.Fenced(fence).Recording(by)
	}
	return journaledFiles{Files: files, environment: en, by: by, fence: fence}
}

// FilesOf opens the files of a session as its model sees them, for a caller that is not a call of
// the session. Changes are recorded in the journal under that actor. Unavailable: the files cannot
// be opened.
func (en *Environment) FilesOf(id perdure.SessionID, actor string) (tool.Files, error) {
	files, _ := en.files(tool.Call{Session: id}, nil)
	if files == nil {
		return nil, fmt.Errorf("open files of %s: %w: the folder cannot be opened", id, perdure.Unavailable)
	}
	if known := en.secrets.Known(id); known != nil {
		files = masked(files, known.Mask)
	}
	switch f := files.(type) {
	case *sessionfile.Files:
		return f.As(actor), nil
	case journaledFiles:
		f.as = actor
		return f, nil
	}
	return files, nil
}

// masked returns files whose journal records have secrets masked.
func masked(files tool.Files, mask func(string) string) tool.Files {
	switch f := files.(type) {
	case *sessionfile.Files:
		return f.Masked(mask)
	case journaledFiles:
		f.mask = mask
		return f
	}
	return files
}

// journaledFiles is files that are not stored in the store. Its changes are recorded right after
// they are made.
type journaledFiles struct {
	tool.Files
	environment *Environment
	by          tool.Call
	as          string              // actor of the changes, if no call makes them
	mask        func(string) string // masks secrets in the record; nil: there are none
	// fence is checked right before a change, because a change and the fence cannot be one commit;
	// nil: there is none
	fence func(store.Reader) error
}

// allowed checks the fence.
func (t journaledFiles) allowed(ctx context.Context) error {
	if t.fence == nil {
		return nil
	}
	return t.environment.core.Store.View(ctx, t.fence)
}

// Write replaces a file, or creates it.
func (t journaledFiles) Write(ctx context.Context, w tool.FileWrite) (created bool, err error) {
	if err := t.allowed(ctx); err != nil {
		return false, err
	}
	if created, err = t.Files.Write(ctx, w); err == nil {
		t.record(perdure.FileWritten{Path: w.Path, SizeBytes: int64(len(w.Content))})
	}
	return created, err
}

// Remove deletes a file or directory.
func (t journaledFiles) Remove(ctx context.Context, path string, recursive bool) (removed bool, err error) {
	if err := t.allowed(ctx); err != nil {
		return false, err
	}
	if removed, err = t.Files.Remove(ctx, path, recursive); err == nil && removed {
		t.record(perdure.FileWritten{Path: path, Removed: true})
	}
	return removed, err
}

// MakeDirectory makes a directory. A directory that exists already is not a change.
func (t journaledFiles) MakeDirectory(ctx context.Context, path string) (tool.FileStat, error) {
	if err := t.allowed(ctx); err != nil {
		return tool.FileStat{}, err
	}
	_, missing := t.Files.Stat(ctx, path)
	made, err := t.Files.MakeDirectory(ctx, path)
	if err == nil && errors.Is(missing, perdure.NotFound) {
		t.record(perdure.FileWritten{Path: path, Directory: true})
	}
	return made, err
}

// Move moves a file or directory.
func (t journaledFiles) Move(ctx context.Context, from, to string) (tool.FileStat, error) {
	mover, ok := t.Files.(tool.Mover)
	if !ok {
		return tool.FileStat{}, cannotMove()
	}
	if err := t.allowed(ctx); err != nil {
		return tool.FileStat{}, err
	}
	moved, err := mover.Move(ctx, from, to)
	if err == nil {
		t.record(perdure.FileWritten{Path: from, Removed: true})
		t.record(perdure.FileWritten{Path: moved.Path, SizeBytes: moved.SizeBytes, Directory: moved.IsDirectory})
	}
	return moved, err
}

// RemoveIf deletes a file if it has the given content.
func (t journaledFiles) RemoveIf(ctx context.Context, path string, content []byte) (bool, error) {
	mover, ok := t.Files.(tool.Mover)
	if !ok {
		return false, cannotMove()
	}
	if err := t.allowed(ctx); err != nil {
		return false, err
	}
	removed, err := mover.RemoveIf(ctx, path, content)
	if err == nil && removed {
		t.record(perdure.FileWritten{Path: path, Removed: true})
	}
	return removed, err
}

// Grep implements [tool.Grepper] for files that search their content themselves. Others return
// errors.ErrUnsupported.
func (t journaledFiles) Grep(ctx context.Context, s tool.FileSearch) (tool.FileMatches, error) {
	if own, ok := t.Files.(tool.Grepper); ok {
		return own.Grep(ctx, s)
	}
	return tool.FileMatches{}, errors.ErrUnsupported
}

// record records a change in the journal. The change is done, so an error is logged and not
// returned.
func (t journaledFiles) record(fact perdure.FileWritten) {
	if clean, err := tool.CleanPath(fact.Path); err == nil {
		fact.Path = clean // one name for each file, as the store writes it
	}
	if t.mask != nil {
		fact.Path = t.mask(fact.Path)
	}
	ctx, cancel := core.SettleContext(context.Background())
	defer cancel()
	err := t.environment.core.Work.InTx(ctx, func(tx store.Tx) error {
		return tx.Journal().Append(t.by.Session, []perdure.Event{sessionfile.Event(t.by, t.as, tx.Now(), fact)})
	})
	if err != nil && !errors.Is(err, perdure.NotFound) { // NotFound: the session and its journal were removed
		t.environment.core.Log.Warn("file change not recorded in the journal", "session", t.by.Session, "path", fact.Path,
			"error", err)
	}
}

func cannotMove() error {
	return fmt.Errorf("%w: the host's file store cannot move files or compare their content", perdure.Unavailable)
}

// CallOfTask names a task as the source of a file change.
func CallOfTask(t perdure.Task) tool.Call {
	return tool.Call{Session: t.Session, Turn: t.Turn, Task: t.ID, Attempt: t.Attempt}
}

// WriteFile writes a file of the runtime without a fence. It does not end with the context of the
// work that the file describes.
func (en *Environment) WriteFile(by tool.Call, w tool.FileWrite) error {
	return en.WriteFenced(by, w, nil)
}

// WriteFenced is WriteFile if fence allows it. The fence is checked in the same commit if files are
// stored in the store, otherwise right before the write.
func (en *Environment) WriteFenced(by tool.Call, w tool.FileWrite, fence func(store.Reader) error) error {
	ctx, cancel := core.SettleContext(context.Background())
	defer cancel()
	return en.core.Guarded("write "+w.Path, func() error {
		_, files := en.files(by, fence)
		if files == nil {
			return fmt.Errorf("write %s: %w: no file store", w.Path, perdure.Unavailable)
		}
		_, err := files.Write(ctx, w)
		return err
	})
}

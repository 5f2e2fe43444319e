package host

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/engine"
	"github.com/perdure/perdure/store"
	"github.com/perdure/perdure/tool"
	"github.com/perdure/perdure/tool/file"
)

// filesOf opens the files of a session for a caller.
func (e hostFiles) filesOf(ctx context.Context, id perdure.SessionID, by string) (tool.Files, error) {
	if err := e.checkFiles(ctx, id); err != nil {
		return nil, err
	}
	return e.effects.FilesOf(id, by)
}

// checkSession returns NotFound if the session does not exist.
func (e *Host) checkSession(ctx context.Context, id perdure.SessionID) error {
	return e.view(ctx, func(r store.Reader) error {
		_, err := r.Sessions().Get(id)
		return err
	})
}

// checkFiles returns NotFound if the session does not exist, and Conflict if its files are at
// another home.
func (e *Host) checkFiles(ctx context.Context, id perdure.SessionID) error {
	return e.view(ctx, func(r store.Reader) error {
		s, err := r.Sessions().Get(id)
		if err != nil {
			return err
		}
		return e.effects.CheckFiles(r, s)
	})
}

func fileOf(f tool.FileStat) engine.File {
	return engine.File{
		Path: f.Path, Directory: f.IsDirectory, ReadOnly: f.IsReadOnly, SizeBytes: f.SizeBytes,
		CreatedAt: f.CreatedAt, UpdatedAt: f.UpdatedAt,
	}
}

func (e hostFiles) Get(ctx context.Context, id perdure.SessionID, path string, content bool) (engine.File, error) {
	files, err := e.filesOf(ctx, id, "")
	if err != nil {
		return engine.File{}, err
	}
	found, err := files.Stat(ctx, path)
	if err != nil || !content || found.IsDirectory {
		return fileOf(found), err
	}
	read, err := files.Read(ctx, path)
	f := fileOf(read.FileStat)
	if f.Content = read.Content; f.Content == nil {
		f.Content = []byte{}
	}
	return f, err
}

func (e hostFiles) List(
	ctx context.Context, id perdure.SessionID, dir string, deep bool,
) (found []engine.File, err error) {
	files, err := e.filesOf(ctx, id, "")
	if err != nil {
		return nil, err
	}
	all, err := files.List(ctx, dir, deep)
	for _, f := range all {
		found = append(found, fileOf(f))
	}
	return found, err
}

func (e hostFiles) Write(ctx context.Context, id perdure.SessionID, w engine.FileWrite) (engine.File, error) {
	files, err := e.filesOf(ctx, id, w.By)
	if err != nil {
		return engine.File{}, err
	}
	if _, err := files.Write(ctx, tool.FileWrite{Path: w.Path, Content: w.Content, IfContent: w.If, MustNotExist: w.New}); err != nil {
		return engine.File{}, err
	}
	there, err := files.Stat(ctx, w.Path)
	if err != nil { // written, but removed or unavailable since
		there = tool.FileStat{Path: w.Path, SizeBytes: int64(len(w.Content))}
	}
	return fileOf(there), nil
}

func (e hostFiles) Remove(ctx context.Context, id perdure.SessionID, r engine.FileRemoval) error {
	files, err := e.filesOf(ctx, id, r.By)
	if err != nil {
		return err
	}
	var removed bool
	if r.If == nil {
		removed, err = files.Remove(ctx, r.Path, r.Recursive)
	} else if mover, ok := files.(tool.Mover); ok {
		removed, err = mover.RemoveIf(ctx, r.Path, *r.If)
	} else {
		err = fmt.Errorf("remove %s: %w: the host's files do not support conditional removal",
			r.Path, perdure.Unavailable)
	}
	if err == nil && !removed {
		err = &tool.FileError{Kind: perdure.NotFound, Text: "File not found: " + r.Path}
	}
	return err
}

func (e hostFiles) Move(ctx context.Context, id perdure.SessionID, m engine.FileMove) (engine.File, error) {
	files, err := e.filesOf(ctx, id, m.By)
	if err != nil {
		return engine.File{}, err
	}
	mover, ok := files.(tool.Mover)
	if !ok {
		return engine.File{}, fmt.Errorf("move %s: %w: the host's files do not support moving",
			m.From, perdure.Unavailable)
	}
	moved, err := mover.Move(ctx, m.From, m.To)
	return fileOf(moved), err
}

// grepTime is how long a search in files may take.
const grepTime = 30 * time.Second

// Grep searches the files of a session as the tool grep_files does.
func (e hostFiles) Grep(
	ctx context.Context, id perdure.SessionID, s engine.FileSearch,
) (found engine.FileMatches, err error) {
	files, err := e.filesOf(ctx, id, "")
	if err != nil {
		return found, err
	}
	ctx, cancel := context.WithTimeoutCause(ctx, grepTime,
		fmt.Errorf("search files of %s: %w: it took longer than %s; search a smaller directory", id, perdure.Limit, grepTime))
	defer cancel()
	all, err := file.Grep(ctx, files, tool.FileSearch{Pattern: s.Pattern, Directory: s.Directory, Glob: s.Glob,
		IgnoreCase: s.IgnoreCase, Max: s.Limit})
	if err != nil {
		return found, err
	}
	found = engine.FileMatches{Matches: []engine.FileMatch{}, Truncated: all.Truncated, Skipped: []engine.FileSkip{}}
	for _, m := range all.Matches {
		found.Matches = append(found.Matches, engine.FileMatch{Path: m.Path, Line: m.LineNumber, Text: m.Line})
	}
	for _, skipped := range all.Skipped {
		found.Skipped = append(found.Skipped, engine.FileSkip(skipped))
	}
	return found, nil
}

func (e hostValues) List(
	ctx context.Context, id perdure.SessionID, prefix string,
) (found []engine.ValueStat, err error) {
	err = e.view(ctx, func(r store.Reader) error {
		found = nil
		if _, err := r.Sessions().Get(id); err != nil {
			return err
		}
		all, err := r.Values().List(id)
		for _, v := range all {
			if strings.HasPrefix(v.Key, prefix) {
				found = append(found, valueOf(v).ValueStat)
			}
		}
		return err
	})
	return found, err
}

func (e hostValues) Get(ctx context.Context, id perdure.SessionID, key string) (v engine.Value, err error) {
	err = e.view(ctx, func(r store.Reader) error {
		if _, err := r.Sessions().Get(id); err != nil {
			return err
		}
		found, err := r.Values().Get(id, key)
		v = valueOf(found)
		return noValue(key, err)
	})
	return v, err
}

func noValue(key string, err error) error {
	if errors.Is(err, perdure.NotFound) {
		return fmt.Errorf("value %q: %w", key, perdure.NotFound)
	}
	return err
}

func valueOf(v store.Value) engine.Value {
	stat := engine.ValueStat{Key: v.Key, Version: v.Version, CreatedAt: v.CreatedAt, UpdatedAt: v.UpdatedAt}
	return engine.Value{ValueStat: stat, Text: v.Text}
}

// Set writes a value. It checks the expected value in the same commit.
func (e hostValues) Set(
	ctx context.Context, id perdure.SessionID, w engine.ValueWrite,
) (set engine.Value, err error) {
	v := store.Value{Session: id, Key: w.Key, Text: w.Text}
	if err := v.Check(); err != nil {
		return set, err
	}
	err = e.cfg.Store.InTx(ctx, func(tx store.Tx) error {
		if _, err := tx.Sessions().Get(id); err != nil { // locks the session's row
			return err
		}
		old, err := tx.Values().Get(id, w.Key)
		missing := errors.Is(err, perdure.NotFound)
		switch {
		case err != nil && !missing:
			return err
		case w.New && !missing:
			return fmt.Errorf("value %q: %w: it already exists", w.Key, perdure.Conflict)
		case w.If != nil && (missing || !valueOf(old).Same(*w.If)):
			return valueChanged(w.Key)
		}
		put, err := tx.Values().Put(v)
		put.Text = w.Text
		set = valueOf(put)
		return err
	})
	if errors.Is(err, perdure.Limit) {
		err = fmt.Errorf("%w: a session keeps at most %d values; delete one first", perdure.Limit, store.MaxKeys)
	}
	return set, err
}

func valueChanged(key string) error {
	return fmt.Errorf("value %q: %w: it changed since it was read; read it again", key, perdure.Conflict)
}

// Remove removes a value. It checks the expected value in the same commit.
func (e hostValues) Remove(ctx context.Context, id perdure.SessionID, key string, read *engine.ValueStat) error {
	return e.cfg.Store.InTx(ctx, func(tx store.Tx) error {
		if _, err := tx.Sessions().Get(id); err != nil {
			return err
		}
		old, err := tx.Values().Get(id, key)
		if err != nil {
			return noValue(key, err)
		}
		if read != nil && !valueOf(old).Same(*read) {
			return valueChanged(key)
		}
		_, err = tx.Values().Remove(id, key)
		return err
	})
}

// secretsOf opens the secrets of a session.
func (e hostSecrets) secretsOf(ctx context.Context, id perdure.SessionID) (tool.Secrets, error) {
	if err := e.checkSession(ctx, id); err != nil {
		return nil, err
	}
	if ports := e.cfg.Ports.Open(id, tool.Call{Session: id}); ports.Secrets != nil {
		return ports.Secrets, nil
	}
	return nil, fmt.Errorf("secrets of %s: %w: this host stores no secrets", id, perdure.Unavailable)
}

func (e hostSecrets) List(ctx context.Context, id perdure.SessionID) (found []engine.Secret, err error) {
	secrets, err := e.secretsOf(ctx, id)
	if err != nil {
		return nil, err
	}
	all, err := secrets.Secrets(ctx)
	for _, s := range all {
		found = append(found, engine.Secret{
			Name: s.Name, Version: s.Version, Hosts: s.Hosts, CreatedAt: s.CreatedAt, UpdatedAt: s.UpdatedAt,
		})
	}
	return found, err
}

func (e hostSecrets) Set(ctx context.Context, id perdure.SessionID, w engine.SecretWrite) error {
	secrets, err := e.secretsOf(ctx, id)
	if err != nil {
		return err
	}
	return secrets.SetSecret(ctx, tool.SecretWrite{Name: w.Name, Value: w.Value, Hosts: w.Hosts})
}

func (e hostSecrets) Remove(ctx context.Context, id perdure.SessionID, name string) error {
	secrets, err := e.secretsOf(ctx, id)
	if err != nil {
		return err
	}
	there, err := secrets.RemoveSecret(ctx, name)
	if err == nil && !there {
		err = fmt.Errorf("secret %q: %w", name, perdure.NotFound)
	}
	return err
}

// Change changes title and labels: an event and the session's row, in one commit. A change
// without effect adds no event.
func (e hostSessions) Change(
	ctx context.Context, id perdure.SessionID, o engine.SessionChange,
) (s engine.Session, err error) {
	if err := checkChange(o); err != nil {
		return s, fmt.Errorf("change session %s: %w", id, err)
	}
	err = e.cfg.Store.InTx(ctx, func(tx store.Tx) error {
		row, err := tx.Sessions().Get(id)
		if err != nil {
			return err
		}
		if o.If != 0 && row.LastSeq != o.If {
			return fmt.Errorf("%w: it has changed since it was read; read it again", perdure.Conflict)
		}
		if err := e.changeIn(tx, row, o); err != nil {
			return err
		}
		if row, err = tx.Sessions().Get(id); err != nil {
			return err
		}
		s, err = e.describeFull(tx.Reader(), row)
		return err
	})
	if err != nil {
		return engine.Session{}, fmt.Errorf("change session %s: %w", id, err)
	}
	return s, nil
}

func checkChange(o engine.SessionChange) error {
	switch {
	case o.Title != nil:
		return perdure.CheckTitle(*o.Title)
	case o.Labels == nil:
		return fmt.Errorf("%w change: give a title or labels", perdure.Invalid)
	}
	return nil
}

// changeIn records the part of a change that has an effect.
func (e hostSessions) changeIn(tx store.Tx, row store.Session, o engine.SessionChange) error {
	fact := perdure.SessionUpdated{Labels: o.Labels.Against(row.Labels)}
	if o.Title != nil && *o.Title != row.Title {
		fact.Title = *o.Title
	}
	if fact.Title == "" && len(fact.Labels) == 0 {
		return nil
	}
	if err := e.append(tx, row.ID, perdure.Event{Actor: o.By, Fact: fact}); err != nil {
		return err
	}
	if fact.Title != "" {
		if err := tx.Sessions().Update(row.ID, fact.Title, row.Status); err != nil {
			return err
		}
	}
	if len(fact.Labels) == 0 {
		return nil
	}
	return tx.Sessions().SetLabels(row.ID, row.Labels.With(fact.Labels))
}

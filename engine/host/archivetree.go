package host

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/internal/sessionfile"
	"github.com/perdure/perdure/internal/sessionsql"
	"github.com/perdure/perdure/store"
)

// undoTime limits the cleanup after a session could not be created.
const undoTime = 30 * time.Second

// archivedSession is a session with its databases outside the store.
type archivedSession struct {
	store.SessionDump
	databases []sessionsql.Copy
}

// omission is something that belongs to a session but is not part of its archive.
type omission struct {
	Kind    string            `json:"kind"` // secret, resource, lease, image or folder
	Name    string            `json:"name"`
	Session perdure.SessionID `json:"session_id"`
}

// collectTree reads a session and its subagents as of one moment. None of their SQL statements runs
// in the meantime.
func (e hostSessions) collectTree(ctx context.Context, id perdure.SessionID) (parcels []archivedSession, left []omission, err error) {
	frozen, ids, err := e.freezeTree(ctx, id)
	if err != nil {
		return nil, nil, err
	}
	for {
		var dumps []store.SessionDump
		err = e.view(ctx, func(r store.Reader) (err error) {
			if dumps, err = dumpTree(r, id); err == nil {
				err = e.checkDumpedFiles(r, dumps)
			}
			if err == nil {
				left, err = e.omissions(r, dumps)
			}
			return err
		})
		missing := func(d store.SessionDump) bool { return !slices.Contains(ids, d.Session.ID) }
		if err != nil || !slices.ContainsFunc(dumps, missing) {
			defer frozen.Release()
			if err == nil {
				parcels, err = e.addDatabases(ctx, frozen, dumps)
			}
			break
		}
		frozen.Release() // a subagent has started in between
		if frozen, ids, err = e.freezeTree(ctx, id); err != nil {
			return nil, nil, err
		}
	}
	if err == nil {
		left, err = e.addBlobs(parcels, left)
	}
	return parcels, left, err
}

// freezeTree stops the SQL statements of a session and its subagents. Without databases there is
// nothing to release.
func (e hostSessions) freezeTree(
	ctx context.Context, id perdure.SessionID,
) (frozen *frozenSQL, ids []perdure.SessionID, err error) {
	err = e.view(ctx, func(r store.Reader) error {
		ids = []perdure.SessionID{id}
		for i := 0; i < len(ids); i++ { // ids grows
			children, err := r.Sessions().List(store.SessionFilter{Parent: ids[i]})
			if err != nil {
				return err
			}
			for _, child := range children {
				ids = append(ids, child.ID)
			}
		}
		return nil
	})
	if err != nil {
		return nil, nil, err
	}
	frozen, err = e.freeze(ctx, ids...)
	return frozen, ids, err
}

// frozenSQL holds the frozen databases of sessions. The zero value is for an engine without
// databases.
type frozenSQL struct{ frozen *sessionsql.Frozen }

func (e hostSessions) freeze(ctx context.Context, ids ...perdure.SessionID) (*frozenSQL, error) {
	if e.cfg.Storage.SQL == nil {
		return &frozenSQL{}, nil
	}
	frozen, err := e.cfg.Storage.SQL.Freeze(ctx, ids...)
	if err != nil {
		return nil, err
	}
	return &frozenSQL{frozen}, nil
}

// Release lets SQL statements run again.
func (f *frozenSQL) Release() {
	if f.frozen != nil {
		f.frozen.Release()
	}
}

func (f *frozenSQL) copies(ctx context.Context, id perdure.SessionID) ([]sessionsql.Copy, error) {
	if f.frozen == nil {
		return nil, nil
	}
	return f.frozen.Copies(ctx, id)
}

func (e hostSessions) addDatabases(
	ctx context.Context, frozen *frozenSQL, dumps []store.SessionDump,
) (parcels []archivedSession, err error) {
	for _, d := range dumps {
		copies, err := frozen.copies(ctx, d.Session.ID)
		if err != nil {
			return nil, err
		}
		parcels = append(parcels, archivedSession{d, copies})
	}
	return parcels, nil
}

// addBlobs adds the bytes of large images to their rows. Images without bytes are left out.
func (e hostSessions) addBlobs(parcels []archivedSession, left []omission) ([]omission, error) {
	for n := range parcels {
		d := &parcels[n]
		var whole []store.Image
		for _, i := range d.Images {
			if i.Blob {
				content, err := e.blob(i.SHA256)
				if errors.Is(err, perdure.NotFound) {
					left = append(left, omission{"image", string(i.ID), i.Session})
					continue
				}
				if err != nil {
					return nil, err
				}
				i.Blob, i.Data = false, content
			}
			whole = append(whole, i)
		}
		d.Images = whole
	}
	return left, nil
}

func (e hostSessions) blob(sum string) ([]byte, error) {
	if e.cfg.Storage.Blobs == nil {
		return nil, perdure.NotFound
	}
	return e.cfg.Storage.Blobs.Get(sum)
}

// omissions lists what belongs to sessions but is not part of their archive: secrets, which are
// encrypted for one data directory; external resources; files in a host directory; and images that
// a fork shares with its source.
func (e hostSessions) omissions(r store.Reader, dumps []store.SessionDump) (left []omission, err error) {
	for _, d := range dumps {
		id := d.Session.ID
		add := func(kind, name string) { left = append(left, omission{kind, name, id}) }
		secrets, err := r.Secrets().List(store.SecretFilter{Session: id, WithoutValue: true})
		for _, s := range secrets {
			add("secret", s.Name)
		}
		if err != nil {
			return nil, err
		}
		resources, err := r.Resources().List(store.ResourceFilter{Session: id})
		for _, one := range resources {
			add("resource", one.ID)
		}
		if err != nil {
			return nil, err
		}
		leases, err := r.Resources().Leases(id)
		for _, l := range leases {
			if l.Status != perdure.LeaseReleased {
				add("lease", l.Provider+" "+l.Type+" "+l.ExternalID)
			}
		}
		if err != nil {
			return nil, err
		}
		if e.usesHostDir(id) {
			add("folder", "the files in the host directory that it works in")
		}
		if left, err = inheritedImages(r, d.Session, left); err != nil {
			return nil, err
		}
	}
	return left, nil
}

// usesHostDir reports whether the files of a session are in a host directory.
func (e hostSessions) usesHostDir(id perdure.SessionID) bool {
	if e.cfg.Ports.Files == nil {
		return false
	}
	files, _ := e.cfg.Ports.Files(id)
	_, ours := files.(*sessionfile.Files)
	return files != nil && !ours
}

// inheritedImages adds the images that a fork reads from its source sessions.
func inheritedImages(r store.Reader, fork store.Session, left []omission) ([]omission, error) {
	for from := fork.Forked; from != ""; {
		row, err := r.Sessions().Get(from)
		if errors.Is(err, perdure.NotFound) {
			return left, nil
		}
		if err != nil {
			return nil, err
		}
		images, err := r.Images().List(from)
		if err != nil {
			return nil, err
		}
		for _, i := range images {
			left = append(left, omission{"image", string(i.ID), from})
		}
		from = row.Forked
	}
	return left, nil
}

// restoreOutsideStore writes the databases and blobs of new sessions before the sessions are
// created. A crash in between leaves files without a session, which are collected later. undo
// removes the databases if the sessions are not created. The caller holds e.making. Conflict: one
// of the sessions exists.
func (e hostSessions) restoreOutsideStore(ctx context.Context, parcels []archivedSession) (undo func(), err error) {
	var ids []perdure.SessionID
	for _, p := range parcels {
		if there, err := e.sessionExists(ctx, p.Session.ID); err != nil || there {
			return nil, errors.Join(err, conflictIfExists(there, p.Session.ID))
		}
	}
	undo = func() { e.removeDatabases(ids) }
	for n := range parcels {
		p := &parcels[n]
		if sql := e.cfg.Storage.SQL; sql != nil {
			ids = append(ids, p.Session.ID)
			err = sql.Restore(ctx, p.Session.ID, p.databases)
		} else if len(p.databases) > 0 {
			err = fmt.Errorf("%w: session %s has databases, but this engine has no directory for them",
				perdure.Unavailable, p.Session.ID)
		}
		for i := range p.Images {
			if err == nil && e.cfg.Storage.Blobs != nil && len(p.Images[i].Data) > store.MaxInlineImageBytes {
				_, err = e.cfg.Storage.Blobs.Put(p.Images[i].Data)
				p.Images[i].Blob, p.Images[i].Data = true, nil
			}
		}
		if err != nil {
			undo()
			return nil, err
		}
	}
	return undo, nil
}

func conflictIfExists(there bool, id perdure.SessionID) error {
	if !there {
		return nil
	}
	return fmt.Errorf("%w: session %s already exists", perdure.Conflict, id)
}

func (e hostSessions) sessionExists(ctx context.Context, id perdure.SessionID) (there bool, err error) {
	err = e.view(ctx, func(r store.Reader) error {
		_, err := r.Sessions().Get(id)
		there = err == nil
		if errors.Is(err, perdure.NotFound) {
			err = nil
		}
		return err
	})
	return there, err
}

// removeDatabases removes the databases of sessions that were not created. If it cannot check
// whether a session exists, the databases stay.
func (e hostSessions) removeDatabases(ids []perdure.SessionID) {
	ctx, cancel := context.WithTimeout(context.Background(), undoTime)
	defer cancel()
	for _, id := range ids {
		there, err := e.sessionExists(ctx, id)
		if err == nil && !there {
			err = e.cfg.Storage.SQL.Remove(ctx, id)
		}
		if err != nil {
			e.cfg.Log.Warn("databases of a session that was not created may remain", "session", id, "error", err)
		}
	}
}

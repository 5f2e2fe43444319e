package local

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

// undoTime bounds what is taken back after a session was not made.
const undoTime = 30 * time.Second

// parcel is a session with what it has beside the store.
type parcel struct {
	store.SessionDump
	databases []sessionsql.Copy
}

// leftOut is something that belongs to a session and is not in its archive.
type leftOut struct {
	Kind    string            `json:"kind"` // secret, resource, lease, image or folder
	Name    string            `json:"name"`
	Session perdure.SessionID `json:"session_id"`
}

// pack reads a session and its subagents' as of one moment: no statement of theirs runs meanwhile.
func (e *Engine) pack(ctx context.Context, id perdure.SessionID) (parcels []parcel, left []leftOut, err error) {
	frozen, ids, err := e.freezeFamily(ctx, id)
	if err != nil {
		return nil, nil, err
	}
	for {
		var dumps []store.SessionDump
		err = e.view(ctx, func(r store.Reader) (err error) {
			if dumps, err = family(r, id); err == nil {
				left, err = e.leaves(r, dumps)
			}
			return err
		})
		if err != nil || !slices.ContainsFunc(dumps, func(d store.SessionDump) bool { return !slices.Contains(ids, d.Session.ID) }) {
			defer frozen.Release()
			if err == nil {
				parcels, err = e.withDatabases(ctx, frozen, dumps)
			}
			break
		}
		frozen.Release() // a subagent came
		if frozen, ids, err = e.freezeFamily(ctx, id); err != nil {
			return nil, nil, err
		}
	}
	if err == nil {
		left, err = e.withBlobs(parcels, left)
	}
	return parcels, left, err
}

// freezeFamily lets no statement of a session and its subagents' run. Without databases there is nothing to be released.
func (e *Engine) freezeFamily(ctx context.Context, id perdure.SessionID) (frozen *frozenSQL, ids []perdure.SessionID, err error) {
	err = e.view(ctx, func(r store.Reader) error {
		ids = []perdure.SessionID{id}
		for i := 0; i < len(ids); i++ { // it grows
			children, err := r.Sessions(store.SessionFilter{Parent: ids[i]})
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

// frozenSQL is the frozen databases of sessions; the zero value is those of an engine that has none.
type frozenSQL struct{ frozen *sessionsql.Frozen }

func (e *Engine) freeze(ctx context.Context, ids ...perdure.SessionID) (*frozenSQL, error) {
	if e.cfg.Beside.SQL == nil {
		return &frozenSQL{}, nil
	}
	frozen, err := e.cfg.Beside.SQL.Freeze(ctx, ids...)
	if err != nil {
		return nil, err
	}
	return &frozenSQL{frozen}, nil
}

// Release lets statements run again.
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

func (e *Engine) withDatabases(ctx context.Context, frozen *frozenSQL, dumps []store.SessionDump) (parcels []parcel, err error) {
	for _, d := range dumps {
		copies, err := frozen.copies(ctx, d.Session.ID)
		if err != nil {
			return nil, err
		}
		parcels = append(parcels, parcel{d, copies})
	}
	return parcels, nil
}

// withBlobs puts the bytes of large images to their rows. Those whose bytes are nowhere are left out.
func (e *Engine) withBlobs(parcels []parcel, left []leftOut) ([]leftOut, error) {
	for n := range parcels {
		d := &parcels[n]
		var whole []store.Image
		for _, i := range d.Images {
			if i.Blob {
				content, err := e.blob(i.SHA256)
				if errors.Is(err, perdure.NotFound) {
					left = append(left, leftOut{"image", string(i.ID), i.Session})
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

func (e *Engine) blob(sum string) ([]byte, error) {
	if e.cfg.Beside.Blobs == nil {
		return nil, perdure.NotFound
	}
	return e.cfg.Beside.Blobs.Get(sum)
}

// leaves names what belongs to sessions and is not in an archive of them: secrets, which are sealed for their data directory, what
// stands for something elsewhere, the host's folder, and images that a fork has from what it was forked from.
func (e *Engine) leaves(r store.Reader, dumps []store.SessionDump) (left []leftOut, err error) {
	for _, d := range dumps {
		id := d.Session.ID
		add := func(kind, name string) { left = append(left, leftOut{kind, name, id}) }
		secrets, err := r.Secrets(store.SecretFilter{Session: id, Bare: true})
		for _, s := range secrets {
			add("secret", s.Name)
		}
		if err != nil {
			return nil, err
		}
		resources, err := r.Resources(store.ResourceFilter{Session: id})
		for _, one := range resources {
			add("resource", one.ID)
		}
		if err != nil {
			return nil, err
		}
		leases, err := r.Leases(id)
		for _, l := range leases {
			if l.Status != perdure.LeaseReleased {
				add("lease", l.Provider+" "+l.Type+" "+l.ExternalID)
			}
		}
		if err != nil {
			return nil, err
		}
		if e.inFolder(id) {
			add("folder", "the files of the host's folder that it works in")
		}
		if left, err = inherited(r, d.Session, left); err != nil {
			return nil, err
		}
	}
	return left, nil
}

// inFolder reports whether the files of a session stand in a folder of the host's.
func (e *Engine) inFolder(id perdure.SessionID) bool {
	if e.cfg.Files == nil {
		return false
	}
	files, _ := e.cfg.Files(id)
	_, ours := files.(*sessionfile.Files)
	return files != nil && !ours
}

// inherited adds the images that a fork reads from the sessions that it comes from.
func inherited(r store.Reader, fork store.Session, left []leftOut) ([]leftOut, error) {
	for from := fork.Forked; from != ""; {
		row, err := r.Session(from)
		if errors.Is(err, perdure.NotFound) {
			return left, nil
		}
		if err != nil {
			return nil, err
		}
		images, err := r.Images(from)
		if err != nil {
			return nil, err
		}
		for _, i := range images {
			left = append(left, leftOut{"image", string(i.ID), from})
		}
		from = row.Forked
	}
	return left, nil
}

// putBeside writes what new sessions have beside the store, before they are made: a crash in between leaves files of no session,
// which are collected. What it returns takes the databases back where the sessions were not made. Its caller holds e.making. Conflict:
// one of the sessions is there.
func (e *Engine) putBeside(ctx context.Context, parcels []parcel) (undo func(), err error) {
	var ids []perdure.SessionID
	for _, p := range parcels {
		if there, err := e.there(ctx, p.Session.ID); err != nil || there {
			return nil, errors.Join(err, exists(there, p.Session.ID))
		}
	}
	undo = func() { e.removeDatabases(ids) }
	for n := range parcels {
		p := &parcels[n]
		if sql := e.cfg.Beside.SQL; sql != nil {
			ids = append(ids, p.Session.ID)
			err = sql.Restore(ctx, p.Session.ID, p.databases)
		} else if len(p.databases) > 0 {
			err = fmt.Errorf("%w: session %s has databases, and this engine was given no folder for them", perdure.Unavailable, p.Session.ID)
		}
		for i := range p.Images {
			if err == nil && e.cfg.Beside.Blobs != nil && len(p.Images[i].Data) > store.MaxInlineImageBytes {
				_, err = e.cfg.Beside.Blobs.Put(p.Images[i].Data)
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

func exists(there bool, id perdure.SessionID) error {
	if !there {
		return nil
	}
	return fmt.Errorf("%w: session %s: it exists", perdure.Conflict, id)
}

func (e *Engine) there(ctx context.Context, id perdure.SessionID) (there bool, err error) {
	err = e.view(ctx, func(r store.Reader) error {
		_, err := r.Session(id)
		there = err == nil
		if errors.Is(err, perdure.NotFound) {
			err = nil
		}
		return err
	})
	return there, err
}

// removeDatabases removes the databases of sessions that were not made after all. Where that cannot be told they stay.
func (e *Engine) removeDatabases(ids []perdure.SessionID) {
	ctx, cancel := context.WithTimeout(context.Background(), undoTime)
	defer cancel()
	for _, id := range ids {
		there, err := e.there(ctx, id)
		if err == nil && !there {
			err = e.cfg.Beside.SQL.Remove(ctx, id)
		}
		if err != nil {
			e.cfg.Log.Warn("the databases of a session that was not made may be left", "session", id, "error", err)
		}
	}
}

package local

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/store"
	"github.com/perdure/perdure/tool"
)

// removedSessions is where the notes of deleted sessions stand until the host has forgotten them, too: files of no session,
// as those of pruned tasks.
const removedSessions perdure.SessionID = "removed_sessions"

// errGrown says that a subagent came whose files were not opened, and nothing is to be committed.
var errGrown = errors.New("the session has more subagents now")

// DeleteSession removes a session and its subagents', in one commit; what they left outside the store goes after it. What
// cannot be removed then, or was not because the process died, is removed by a later pass of retention. The host finds the
// files of a session by its journal, so their files are opened before the commit: a process that dies right after it leaves
// the output of background runs in a folder of the host, where nobody finds it any more.
func (e *Engine) DeleteSession(ctx context.Context, id perdure.SessionID) error {
	var opened, gone []perdure.SessionID
	err := errGrown
	for errors.Is(err, errGrown) {
		if opened, err = e.openFiles(ctx, id); err != nil {
			break
		}
		err = e.cfg.Store.InTx(ctx, func(tx store.Tx) (err error) {
			gone, err = e.removeRoot(tx, id, opened)
			return err
		})
	}
	if err != nil {
		return fmt.Errorf("delete %s: %w", id, err)
	}
	e.forget(gone)
	if _, err := e.cleanLeft(ctx, gone...); err != nil {
		e.cfg.Log.Warn("what deleted sessions left was not looked for, and will be", "session", id, "error", tool.Chain(err))
	}
	return nil
}

// openFiles opens the files of a session and its subagents', so that the host knows where they are when their journals are
// gone. It returns the sessions.
func (e *Engine) openFiles(ctx context.Context, id perdure.SessionID) (tree []perdure.SessionID, err error) {
	err = e.view(ctx, func(r store.Reader) error {
		tree = []perdure.SessionID{id}
		for i := 0; i < len(tree); i++ { // it grows
			children, err := r.Sessions(store.SessionFilter{Parent: tree[i]})
			if err != nil {
				return err
			}
			for _, child := range children {
				tree = append(tree, child.ID)
			}
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	if e.cfg.Files != nil {
		for _, id := range tree {
			e.cfg.Files(id)
		}
	}
	return tree, nil
}

// removeRoot removes a session with its tree. errGrown: one of those was not opened. The sessions are locked first, in the order
// of their ids, as by whoever else locks several: so the parents, which are older, come first.
func (e *Engine) removeRoot(tx store.Tx, id perdure.SessionID, opened []perdure.SessionID) (gone []perdure.SessionID, err error) {
	for _, id := range slices.Sorted(slices.Values(opened)) {
		if _, err := tx.Session(id); err != nil && !errors.Is(err, perdure.NotFound) {
			return nil, err
		}
	}
	row, err := tx.Session(id)
	if err == nil && row.Parent != "" {
		err = fmt.Errorf("%w session: it is a subagent of %s; delete %s, which takes it with it", perdure.Invalid, row.Parent, row.Root)
	}
	if err == nil {
		gone, err = e.removeTree(tx, id)
	}
	if err == nil && slices.ContainsFunc(gone, func(id perdure.SessionID) bool { return !slices.Contains(opened, id) }) {
		err = errGrown
	}
	return gone, err
}

// cleanLeft removes what is noted, of some sessions or of all: what calls left, then what the host keeps of sessions. Each note is
// cleaned by one at a time, for what it names may be another's once it is gone. It waits for nobody, and says when others were at
// work: the last of them to end goes on to what waits for them.
func (e *Engine) cleanLeft(ctx context.Context, only ...perdure.SessionID) (busy bool, err error) {
	calls, err := e.effects.CleanPruned(ctx, only...)
	sessions, failed := e.cleanRemoved(ctx, only)
	return calls || sessions, errors.Join(err, failed)
}

// removeTree removes a session after its subagents', and returns them all. One that is at work keeps all of them.
func (e *Engine) removeTree(tx store.Tx, id perdure.SessionID) (gone []perdure.SessionID, err error) {
	children, err := tx.Sessions(store.SessionFilter{Parent: id})
	if err != nil {
		return nil, err
	}
	for _, child := range children {
		below, err := e.removeTree(tx, child.ID)
		if err != nil {
			return nil, err
		}
		gone = append(gone, below...)
	}
	if err := e.effects.NoteRemoved(tx, id); err != nil {
		return nil, err
	}
	if err := tx.RemoveSession(id); err != nil {
		return nil, err
	}
	if e.cfg.Forget != nil {
		_, err = tx.PutFile(removedSessions, store.File{Path: "/" + string(id), Encoding: store.EncodingText})
	}
	return append(gone, id), err
}

// forget drops what this process remembers of sessions, so that others which come under their ids begin anew.
func (e *Engine) forget(ids []perdure.SessionID) {
	e.mu.Lock()
	defer e.mu.Unlock()
	for _, id := range ids {
		e.effects.Forget(id)
		delete(e.woken, id)
	}
}

// nothingLeft refuses sessions that come under the ids of deleted ones while something is left of those, which would be theirs
// until it is removed, with what they have by then.
func (e *Engine) nothingLeft(r store.Reader, ids ...perdure.SessionID) error {
	left, err := e.effects.Leftovers(r)
	if err != nil {
		return err
	}
	for _, id := range ids {
		switch _, err := r.File(removedSessions, "/"+string(id)); {
		case err == nil || left[id]:
			return fmt.Errorf("%w: what session %s left is still being removed: try again", perdure.Unavailable, id)
		case !errors.Is(err, perdure.NotFound):
			return err
		}
	}
	return nil
}

// cleanRemoved lets the host forget the sessions that were deleted, each when nothing is left of its calls, for which the host
// may need to know where it worked. One that it cannot forget now is logged and stays noted.
func (e *Engine) cleanRemoved(ctx context.Context, only []perdure.SessionID) (busy bool, err error) {
	if e.cfg.Forget == nil {
		return false, nil
	}
	var going []perdure.SessionID
	err = e.view(ctx, func(r store.Reader) error {
		going = nil
		notes, err := r.Files(removedSessions, "/", false)
		if err != nil || len(notes) == 0 {
			return err
		}
		left, err := e.effects.Leftovers(r)
		for _, note := range notes {
			id := perdure.SessionID(note.Path[1:])
			if !left[id] && (len(only) == 0 || slices.Contains(only, id)) {
				going = append(going, id)
			}
		}
		return err
	})
	for _, id := range going {
		at, failed := e.effects.CleanNote(ctx, removedSessions, "/"+string(id), func(ctx context.Context) error {
			return e.forgetRemoved(ctx, id)
		})
		if store.Broken(failed) || ctx.Err() != nil {
			return busy, errors.Join(err, failed)
		}
		if failed != nil {
			e.cfg.Log.Warn("what the host keeps of a deleted session was not removed", "session", id, "error", tool.Chain(failed))
		}
		busy = busy || at
	}
	return busy, err
}

// forgetRemoved lets the host forget a session. Of one that was started anew under its id, which only Import refuses, nothing is
// removed: it may be the new one's.
func (e *Engine) forgetRemoved(ctx context.Context, id perdure.SessionID) error {
	err := e.view(ctx, func(r store.Reader) error {
		_, err := r.Session(id)
		return err
	})
	switch {
	case err == nil:
		e.cfg.Log.Warn("a deleted session was started anew before the host had forgotten it, and keeps what that left", "session", id)
		return nil
	case !errors.Is(err, perdure.NotFound):
		return err
	}
	return e.cfg.Forget(ctx, id)
}

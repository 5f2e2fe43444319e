package host

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/store"
	"github.com/perdure/perdure/tool"
)

// removedSessions is a file tree of no session. It has one note per deleted session that the host
// has yet to forget, like the notes of pruned tasks.
const removedSessions perdure.SessionID = "removed_sessions"

// errMoreSubagents means that a subagent has started whose files were not opened, and that nothing
// may be committed.
var errMoreSubagents = errors.New("the session has more subagents now")

// Delete removes a session and its subagents in one commit, and then their data outside the
// store. Data that cannot be removed then, or not before a crash, is removed by a later retention
// pass.
//
// The host locates the files of a session by its journal, so the files are opened before the
// commit. A process that crashes right after the commit therefore leaves the output of background
// runs in a host directory, where no later pass finds it.
func (e hostSessions) Delete(ctx context.Context, id perdure.SessionID) error {
	var opened, gone []perdure.SessionID
	err := errMoreSubagents
	for errors.Is(err, errMoreSubagents) {
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
	if _, err := e.Retention().cleanLeftovers(ctx, gone...); err != nil {
		e.cfg.Log.Warn("leftovers of deleted sessions not checked, will retry", "session", id, "error", tool.Chain(err))
	}
	return nil
}

// openFiles opens the files of a session and its subagents, so that the host still knows their
// location when the journals are gone. It returns the sessions.
func (e hostSessions) openFiles(ctx context.Context, id perdure.SessionID) (tree []perdure.SessionID, err error) {
	err = e.view(ctx, func(r store.Reader) error {
		tree = []perdure.SessionID{id}
		for i := 0; i < len(tree); i++ { // tree grows
			children, err := r.Sessions().List(store.SessionFilter{Parent: tree[i]})
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
	if e.cfg.Ports.Files != nil {
		for _, id := range tree {
			e.cfg.Ports.Files(id)
		}
	}
	return tree, nil
}

// removeRoot removes a session with its tree. errMoreSubagents: the files of one of the sessions
// were not opened. It first locks the sessions in the order of their ids, like every transaction
// that locks several sessions; parents are older, so they come first.
func (e hostSessions) removeRoot(
	tx store.Tx, id perdure.SessionID, opened []perdure.SessionID,
) (gone []perdure.SessionID, err error) {
	for _, id := range slices.Sorted(slices.Values(opened)) {
		if _, err := tx.Sessions().Get(id); err != nil && !errors.Is(err, perdure.NotFound) {
			return nil, err
		}
	}
	row, err := tx.Sessions().Get(id)
	if err == nil && row.Parent != "" {
		err = fmt.Errorf("%w session: it is a subagent of %s; delete its root %s instead",
			perdure.Invalid, row.Parent, row.Root)
	}
	if err == nil {
		gone, err = e.removeTree(tx, id)
	}
	if err == nil &&
		slices.ContainsFunc(gone, func(id perdure.SessionID) bool { return !slices.Contains(opened, id) }) {
		err = errMoreSubagents
	}
	return gone, err
}

// cleanLeftovers removes the noted leftovers of some sessions, or of all: first of calls, then of
// sessions. Only one cleaner at a time handles a note, because what the note names may belong to a
// new session once the note is gone. cleanLeftovers does not wait for other cleaners; busy reports
// that there were some. The last of them to finish continues with what remains.
func (rt Retention) cleanLeftovers(ctx context.Context, only ...perdure.SessionID) (busy bool, err error) {
	calls, err := rt.e.effects.Cleanup().CleanPruned(ctx, only...)
	sessions, failed := rt.cleanRemoved(ctx, only)
	return calls || sessions, errors.Join(err, failed)
}

// removeTree removes a session after its subagents, and returns all of them. If one of them has
// running work, none is removed.
func (e hostSessions) removeTree(tx store.Tx, id perdure.SessionID) (gone []perdure.SessionID, err error) {
	children, err := tx.Sessions().List(store.SessionFilter{Parent: id})
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
	if err := e.effects.Cleanup().RecordRemoved(tx, id); err != nil {
		return nil, err
	}
	row, err := tx.Sessions().Get(id)
	if err == nil {
		err = tx.Sessions().Remove(id)
	}
	if err != nil {
		return nil, err
	}
	if e.cfg.Storage.Forget != nil { // the note names the home of the session's files
		_, err = tx.Files().Put(removedSessions, store.File{Path: "/" + string(id), Content: []byte(row.Home), Encoding: store.EncodingText})
	}
	return append(gone, id), err
}

// forget drops the in-memory state of sessions, so that new sessions with the same ids start
// without it.
func (e hostSessions) forget(ids []perdure.SessionID) {
	for _, id := range ids {
		e.effects.Forget(id)
		e.scheduler.Forget(id)
	}
}

// checkNoLeftovers returns Unavailable if a new session would get the id of a deleted one whose
// leftovers still exist: the leftovers would appear as its own, and their removal would remove its
// data too.
func (e hostSessions) checkNoLeftovers(r store.Reader, ids ...perdure.SessionID) error {
	left, err := e.effects.Cleanup().Leftovers(r)
	if err != nil {
		return err
	}
	for _, id := range ids {
		switch _, err := r.Files().Get(removedSessions, "/"+string(id)); {
		case err == nil || left[id]:
			return fmt.Errorf("%w: the remains of the deleted session %s are still being removed; try again",
				perdure.Unavailable, id)
		case !errors.Is(err, perdure.NotFound):
			return err
		}
	}
	return nil
}

// cleanRemoved lets the host forget deleted sessions. It waits until the leftovers of a session's
// calls are removed, because the host may have to know where they are. A session that the
// host cannot forget now is logged, and its note stays.
func (rt Retention) cleanRemoved(ctx context.Context, only []perdure.SessionID) (busy bool, err error) {
	if rt.e.cfg.Storage.Forget == nil {
		return false, nil
	}
	var going []perdure.SessionID
	err = rt.e.view(ctx, func(r store.Reader) error {
		going = nil
		notes, err := r.Files().List(removedSessions, "/", false)
		if err != nil || len(notes) == 0 {
			return err
		}
		left, err := rt.e.effects.Cleanup().Leftovers(r)
		for _, note := range notes {
			id := perdure.SessionID(note.Path[1:])
			if left[id] || len(only) > 0 && !slices.Contains(only, id) {
				continue
			}
			mine, failed := rt.forgetsHere(r, note.Path)
			if err = errors.Join(err, failed); mine {
				going = append(going, id)
			}
		}
		return err
	})
	for _, id := range going {
		at, failed := rt.e.effects.Cleanup().CleanNote(ctx, removedSessions, "/"+string(id), func(ctx context.Context) error {
			return rt.forgetRemoved(ctx, id)
		})
		if store.Broken(failed) || ctx.Err() != nil {
			return busy, errors.Join(err, failed)
		}
		if failed != nil {
			rt.e.cfg.Log.Warn("host data of deleted session not removed", "session", id, "error", tool.Chain(failed))
		}
		busy = busy || at
	}
	return busy, err
}

// forgetsHere reports whether this worker lets the host forget a session: the data are removed at
// the home of the session's files (RC29).
func (rt Retention) forgetsHere(r store.Reader, note string) (bool, error) {
	found, err := r.Files().Get(removedSessions, note)
	if err != nil {
		return false, ignoreMissing(err)
	}
	here, lost, err := rt.e.effects.Cleanup().LeftoversIn(r, perdure.HomeID(found.Content))
	if lost {
		rt.e.cfg.Log.Warn("host data of deleted session given up: no server of its home was seen for as long as tasks are kept",
			"session", note[1:], "home", string(found.Content))
	}
	return here || lost, err
}

// ignoreMissing returns an error, or nil if it says that something does not exist.
func ignoreMissing(err error) error {
	if errors.Is(err, perdure.NotFound) {
		return nil
	}
	return err
}

// forgetRemoved lets the host forget a session. If a session with this id has been created again,
// which only Import prevents, nothing is removed: the data may belong to the new session.
func (rt Retention) forgetRemoved(ctx context.Context, id perdure.SessionID) error {
	err := rt.e.view(ctx, func(r store.Reader) error {
		_, err := r.Sessions().Get(id)
		return err
	})
	switch {
	case err == nil:
		rt.e.cfg.Log.Warn("deleted session created again before its host data was removed; host data kept", "session", id)
		return nil
	case !errors.Is(err, perdure.NotFound):
		return err
	}
	return rt.e.cfg.Storage.Forget(ctx, id)
}

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

// DeleteSession removes a session and its subagents', in one commit; what they left outside the store goes after it. What
// cannot be removed then, or was not because the process died, is removed by a later pass of retention.
func (e *Engine) DeleteSession(ctx context.Context, id perdure.SessionID) error {
	var gone []perdure.SessionID
	err := e.cfg.Store.InTx(ctx, func(tx store.Tx) (err error) {
		row, err := tx.Session(id)
		if err == nil && row.Parent != "" {
			err = fmt.Errorf("%w session: it is a subagent of %s; delete %s, which takes it with it", perdure.Invalid, row.Parent, row.Root)
		}
		if err == nil {
			gone, err = e.removeTree(tx, id)
		}
		return err
	})
	if err != nil {
		return fmt.Errorf("delete %s: %w", id, err)
	}
	e.forget(gone)
	if err := errors.Join(e.effects.CleanPruned(ctx), e.cleanRemoved(ctx)); err != nil {
		e.cfg.Log.Warn("what deleted sessions left was not looked for, and will be", "session", id, "error", tool.Chain(err))
	}
	return nil
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

// cleanRemoved lets the host forget the sessions that were deleted. One that it cannot forget now is logged and stays noted. A
// note of a session that is there again, because it was imported, only goes.
func (e *Engine) cleanRemoved(ctx context.Context) error {
	if e.cfg.Forget == nil {
		return nil
	}
	var notes []store.File
	var there []string
	err := e.view(ctx, func(r store.Reader) (err error) {
		notes, err = r.Files(removedSessions, "/", false)
		for _, note := range notes {
			if _, lookErr := r.Session(perdure.SessionID(note.Path[1:])); lookErr == nil {
				there = append(there, note.Path)
			}
		}
		return err
	})
	for _, note := range notes {
		id := perdure.SessionID(note.Path[1:])
		if !slices.Contains(there, note.Path) {
			if failed := e.cfg.Forget(ctx, id); failed != nil {
				e.cfg.Log.Warn("what the host keeps of a deleted session was not removed", "session", id, "error", tool.Chain(failed))
				continue
			}
		}
		err = errors.Join(err, e.cfg.Store.InTx(ctx, func(tx store.Tx) error {
			_, err := tx.RemoveFile(removedSessions, note.Path)
			return err
		}))
	}
	return err
}

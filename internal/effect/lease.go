package effect

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/store"
)

// Elsewhere is the answer of Take for a session that another worker drives, which lives. It is of kind Lost.
var Elsewhere = fmt.Errorf("%w: another worker has it", perdure.Lost)

// elsewhere reports whether a worker that is not this one lives, by its lease and the store's clock (LG3). Under the
// data-directory lock every other worker is dead (LG20). What cannot be read is not taken from anybody.
func (e *Effects) elsewhere(r store.Reader, id perdure.WorkerID) bool {
	if !e.cfg.Shared || id == "" || id == e.cfg.Worker {
		return false
	}
	w, err := r.Worker(id)
	if err != nil {
		return !errors.Is(err, perdure.NotFound)
	}
	return w.LeaseUntil.After(r.Now())
}

// elsewhereNow is elsewhere outside a transaction.
func (e *Effects) elsewhereNow(ctx context.Context, id perdure.WorkerID) (is bool) {
	if !e.cfg.Shared {
		return false
	}
	err := e.cfg.Store.View(context.WithoutCancel(ctx), func(r store.Reader) error {
		is = e.elsewhere(r, id)
		return nil
	})
	return is || err != nil
}

// live returns the question whether a worker still lives.
func (e *Effects) live(r store.Reader) func(perdure.WorkerID) bool {
	return func(id perdure.WorkerID) bool { return id == e.cfg.Worker || e.elsewhere(r, id) }
}

// LeaseHolds is the fence of all that this worker's work writes where the store is shared: its lease, by the store's clock.
// Lost: it has passed, and others may take what this worker has. Nothing brings it back: a worker dies once.
func (e *Effects) LeaseHolds(r store.Reader) error {
	w, err := r.Worker(e.cfg.Worker)
	if errors.Is(err, perdure.NotFound) || err == nil && !w.LeaseUntil.After(r.Now()) {
		return fmt.Errorf("worker %s: %w: its lease has passed", e.cfg.Worker, perdure.Lost)
	}
	return err
}

// fenced is a store whose transactions ask a fence first, in the same commit. An error of the fence is the transaction's.
type fenced struct {
	store.Store
	fence func(store.Reader) error
}

// InTx runs fn if the fence lets it.
func (f fenced) InTx(ctx context.Context, fn func(store.Tx) error) error {
	return f.Store.InTx(ctx, func(tx store.Tx) error {
		if err := f.fence(tx); err != nil {
			return err
		}
		return fn(tx)
	})
}

// Running lists the tasks whose work runs here and is committed. It is what to ask before a beat: a task that began after
// it is not lost because the beat does not know it.
func (e *Effects) Running() (ids []perdure.TaskID) {
	e.tasks.Range(func(id, _ any) bool {
		ids = append(ids, id.(perdure.TaskID))
		return true
	})
	e.calls.Range(func(_, c any) bool {
		if task, _ := c.(*callRun).asTask(); task.ID != "" {
			ids = append(ids, task.ID)
		}
		return true
	})
	return ids
}

// Beat ends what the store says is canceled, and of what ran here before the beat what is another's by now (LG19, TK8).
func (e *Effects) Beat(ran []perdure.TaskID, beat store.Beat) {
	for _, id := range beat.Canceled {
		e.cancelWork(id, perdure.CauseCanceled)
	}
	if !e.cfg.Shared {
		return
	}
	ours := map[perdure.TaskID]bool{}
	for _, task := range beat.Tasks {
		ours[task.ID] = true
	}
	for _, id := range ran {
		if !ours[id] {
			e.cancelWork(id, perdure.CauseSuperseded)
		}
	}
}

// Abandon ends all work of this worker as another's: its lease has passed, so nothing more of it is written (TK8).
func (e *Effects) Abandon() {
	e.tasks.Range(func(id, _ any) bool {
		e.cfg.Runner.Cancel(string(id.(perdure.TaskID)), perdure.CauseSuperseded)
		return true
	})
	e.calls.Range(func(key, _ any) bool {
		e.cfg.Runner.Cancel(key.(perdure.CallKey).String(), perdure.CauseSuperseded)
		return true
	})
}

// cleaners is where it stands who removes what a note names, where the store is shared: files of no session.
const cleaners perdure.SessionID = "note_cleaners"

// NoteClaim is how long a note is its cleaner's, where the store is shared. A cleaner has as long; what it did not come to by
// then is somebody's with the next claim, and so is what one had that died.
const NoteClaim = time.Minute

// CleanNote lets clean remove what a note names, a file of no session, and removes the note when it has. Of several that come at
// once, in this process or another, one does: to the others it is busy. A note that is gone was cleaned.
func (e *Effects) CleanNote(ctx context.Context, notes perdure.SessionID, name string, clean func(context.Context) error) (busy bool, err error) {
	n := note{of: notes, name: name, claim: []byte(newToken())}
	if _, here := e.cleaning.LoadOrStore(n.claimed(), true); here {
		return true, nil
	}
	defer e.cleaning.Delete(n.claimed())
	has, busy, err := e.claimNote(ctx, n)
	if err != nil || !has {
		return busy, err
	}
	working := ctx
	if e.cfg.Shared {
		var stop context.CancelFunc
		working, stop = context.WithTimeout(ctx, NoteClaim)
		defer stop()
	}
	err = clean(working)
	return false, errors.Join(err, e.endNote(ctx, n, err == nil))
}

// note is one that is being cleaned.
type note struct {
	of    perdure.SessionID
	name  string
	claim []byte
}

// claimed is where its claim stands.
func (n note) claimed() string { return "/" + string(n.of) + "." + n.name[1:] }

// claimNote makes sure that a note is there, and claims it.
func (e *Effects) claimNote(ctx context.Context, n note) (has, busy bool, err error) {
	if !e.cfg.Shared { // nobody else has the store
		err = e.cfg.Store.View(ctx, func(r store.Reader) error {
			_, err := r.File(n.of, n.name)
			return err
		})
	} else {
		err = e.cfg.Store.InTx(ctx, func(tx store.Tx) error {
			busy = false
			if _, err := tx.File(n.of, n.name); err != nil { // the note comes before its claim
				return err
			}
			last, err := tx.File(cleaners, n.claimed())
			since := tx.Now().Sub(last.UpdatedAt)
			if busy = err == nil && since >= 0 && since < NoteClaim; busy || err != nil && !errors.Is(err, perdure.NotFound) {
				return err
			}
			_, err = tx.PutFile(cleaners, store.File{Path: n.claimed(), Content: n.claim, Encoding: store.EncodingText})
			return err
		})
	}
	if errors.Is(err, perdure.NotFound) {
		return false, false, nil
	}
	return err == nil && !busy, busy, err
}

// endNote ends the claim of a note, and the note if it was cleaned. One that is another's by now is left to it.
func (e *Effects) endNote(ctx context.Context, n note, cleaned bool) error {
	ctx, stop := settleContext(ctx)
	defer stop()
	if !e.cfg.Shared && !cleaned {
		return nil
	}
	return e.cfg.Store.InTx(ctx, func(tx store.Tx) error {
		if e.cfg.Shared {
			if _, err := tx.File(n.of, n.name); err != nil && !errors.Is(err, perdure.NotFound) { // in the order of claimNote
				return err
			}
			last, err := tx.File(cleaners, n.claimed())
			if errors.Is(err, perdure.NotFound) || err == nil && !bytes.Equal(last.Content, n.claim) {
				return nil
			}
			if err == nil {
				_, err = tx.RemoveFile(cleaners, n.claimed())
			}
			if err != nil || !cleaned {
				return err
			}
		}
		_, err := tx.RemoveFile(n.of, n.name)
		return err
	})
}

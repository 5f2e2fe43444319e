package effect

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/internal/effect/core"
	"github.com/perdure/perdure/store"
)

// OwnedElsewhere is the error of Take for a session that another live worker drives. It is of kind
// Lost.
var OwnedElsewhere = fmt.Errorf("%w: another worker drives it", perdure.Lost)

// RunningTasks lists the committed tasks that run in this process. Call it before a heartbeat, and
// pass the result to Beat: a task that started after the call is not in the heartbeat's answer
// either, and must not count as lost.
func (e *Effects) RunningTasks() (ids []perdure.TaskID) {
	return append(e.runningTasks(), e.detachedTasks()...)
}

// runningTasks lists the attempts that run in this process.
func (e *Effects) runningTasks() (ids []perdure.TaskID) {
	e.tasks.Range(func(id, _ any) bool {
		ids = append(ids, id.(perdure.TaskID))
		return true
	})
	return ids
}

// detachedTasks lists the tasks of calls that left their turns and still run in this process.
func (e *Effects) detachedTasks() (ids []perdure.TaskID) {
	e.calls.Range(func(_, c any) bool {
		if task, _ := c.(*callRun).taskAndRow(); task.ID != "" {
			ids = append(ids, task.ID)
		}
		return true
	})
	return ids
}

// ApplyHeartbeat stops the tasks that the store reports as canceled. Of the tasks that ran before
// the heartbeat, it also stops those that another worker owns now.
func (e *Effects) ApplyHeartbeat(ran []perdure.TaskID, beat store.Heartbeat) {
	for _, id := range beat.Canceled {
		e.cancelWork(id, perdure.CauseCanceled)
	}
	if !e.core.Shared {
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

// SupersedeAll stops all work of this worker as superseded: its lease has expired, so it must write
// nothing more.
func (e *Effects) SupersedeAll() {
	e.supersedeTasks()
	e.supersedeCalls()
}

// supersedeTasks stops the attempts that run in this process as superseded.
func (e *Effects) supersedeTasks() {
	e.tasks.Range(func(id, _ any) bool {
		e.core.Runner.Cancel(string(id.(perdure.TaskID)), perdure.CauseSuperseded)
		return true
	})
}

// supersedeCalls stops the foreground calls of this process as superseded.
func (e *Effects) supersedeCalls() {
	e.calls.Range(func(key, _ any) bool {
		e.core.Runner.Cancel(key.(perdure.CallKey).String(), perdure.CauseSuperseded)
		return true
	})
}

// cleanupClaims holds the claims of cleanup notes if the store is shared: files that belong to no
// session.
const cleanupClaims perdure.SessionID = "note_cleaners"

// CleanupClaimTTL is how long a cleaner owns a note if the store is shared, and the time it has for
// the cleanup. After that another worker may claim the note, whether the cleaner was too slow or
// crashed.
const CleanupClaimTTL = time.Minute

// CleanNote calls clean to remove what a note names, and then removes the note, a file that belongs
// to no session. If several cleaners come at once, in this process or another, one cleans and the
// others get busy. A note that does not exist was cleaned before.
func (e *Effects) CleanNote(ctx context.Context, notes perdure.SessionID, name string,
	clean func(context.Context) error) (busy bool, err error) {
	n := note{of: notes, name: name, claim: []byte(core.NewToken())}
	if _, here := e.cleaning.LoadOrStore(n.claimPath(), true); here {
		return true, nil
	}
	defer e.cleaning.Delete(n.claimPath())
	has, busy, err := e.claimNote(ctx, n)
	if err != nil || !has {
		return busy, err
	}
	working := ctx
	if e.core.Shared {
		var stop context.CancelFunc
		working, stop = context.WithTimeout(ctx, CleanupClaimTTL)
		defer stop()
	}
	err = clean(working)
	return false, errors.Join(err, e.endNote(ctx, n, err == nil))
}

// note is a note that is being cleaned.
type note struct {
	of    perdure.SessionID
	name  string
	claim []byte
}

// claimPath returns the path of the note's claim.
func (n note) claimPath() string { return "/" + string(n.of) + "." + n.name[1:] }

// claimNote checks that a note exists, and claims it.
func (e *Effects) claimNote(ctx context.Context, n note) (has, busy bool, err error) {
	if !e.core.Shared { // no other worker uses the store
		err = e.core.Store.View(ctx, func(r store.Reader) error {
			_, err := r.Files().Get(n.of, n.name)
			return err
		})
	} else {
		err = e.core.Store.InTx(ctx, func(tx store.Tx) error {
			busy = false
			// read the note before its claim, in every transaction
			if _, err := tx.Files().Get(n.of, n.name); err != nil {
				return err
			}
			last, err := tx.Files().Get(cleanupClaims, n.claimPath())
			since := tx.Now().Sub(last.UpdatedAt)
			if busy = err == nil && since >= 0 && since < CleanupClaimTTL; busy || err != nil &&
				!errors.Is(err, perdure.NotFound) {
				return err
			}
			_, err = tx.Files().Put(cleanupClaims, store.File{Path: n.claimPath(), Content: n.claim, Encoding: store.EncodingText})
			return err
		})
	}
	if errors.Is(err, perdure.NotFound) {
		return false, false, nil
	}
	return err == nil && !busy, busy, err
}

// endNote releases the claim of a note, and removes the note if it was cleaned. If another worker
// has claimed the note in the meantime, endNote leaves both alone.
func (e *Effects) endNote(ctx context.Context, n note, cleaned bool) error {
	ctx, stop := core.SettleContext(ctx)
	defer stop()
	if !e.core.Shared && !cleaned {
		return nil
	}
	return e.core.Store.InTx(ctx, func(tx store.Tx) error {
		if e.core.Shared {
			if _, err := tx.Files().Get(n.of, n.name); err != nil && !errors.Is(err, perdure.NotFound) {
				// in the order of claimNote
				return err
			}
			last, err := tx.Files().Get(cleanupClaims, n.claimPath())
			if errors.Is(err, perdure.NotFound) || err == nil && !bytes.Equal(last.Content, n.claim) {
				return nil
			}
			if err == nil {
				_, err = tx.Files().Remove(cleanupClaims, n.claimPath())
			}
			if err != nil || !cleaned {
				return err
			}
		}
		_, err := tx.Files().Remove(n.of, n.name)
		return err
	})
}

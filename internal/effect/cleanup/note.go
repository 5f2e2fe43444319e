package cleanup

import (
	"bytes"
	"context"
	"errors"
	"time"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/internal/effect/core"
	"github.com/perdure/perdure/store"
)

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
func (cl *Cleanup) CleanNote(ctx context.Context, notes perdure.SessionID, name string,
	clean func(context.Context) error) (busy bool, err error) {
	n := note{of: notes, name: name, claim: []byte(core.NewToken())}
	if _, here := cl.cleaning.LoadOrStore(n.claimPath(), true); here {
		return true, nil
	}
	defer cl.cleaning.Delete(n.claimPath())
	has, busy, err := cl.claimNote(ctx, n)
	if err != nil || !has {
		return busy, err
	}
	working := ctx
	if cl.core.Shared {
		var stop context.CancelFunc
		working, stop = context.WithTimeout(ctx, CleanupClaimTTL)
		defer stop()
	}
	err = clean(working)
	return false, errors.Join(err, cl.endNote(ctx, n, err == nil))
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
func (cl *Cleanup) claimNote(ctx context.Context, n note) (has, busy bool, err error) {
	if !cl.core.Shared { // no other worker uses the store
		err = cl.core.Store.View(ctx, func(r store.Reader) error {
			_, err := r.Files().Get(n.of, n.name)
			return err
		})
	} else {
		err = cl.core.Store.InTx(ctx, func(tx store.Tx) error {
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
func (cl *Cleanup) endNote(ctx context.Context, n note, cleaned bool) error {
	ctx, stop := core.SettleContext(ctx)
	defer stop()
	if !cl.core.Shared && !cleaned {
		return nil
	}
	return cl.core.Store.InTx(ctx, func(tx store.Tx) error {
		if cl.core.Shared {
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

package host

import (
	"context"
	"errors"
	"fmt"
	"regexp"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/store"
)

// LocalScheduler names engine/local in a store. The name of a scheduler on Temporal is
// temporal:NAMESPACE/PREFIX.
const LocalScheduler = "local"

// The scheduler of a store is noted in a file that belongs to no session. Without the file, no
// worker has used the store yet.
const (
	schedulers    perdure.SessionID = "scheduler"
	schedulerFile                   = "/name"
	schedulerRole                   = "scheduler" // of the transaction that reads or changes the note
)

// schedulerName is the form of a scheduler's name.
var schedulerName = regexp.MustCompile(`^(local|temporal:[A-Za-z0-9._-]{1,255}/[A-Za-z0-9._-]{1,48})$`)

// StoreScheduler returns the name of the scheduler that works on a store; empty: none has yet.
func StoreScheduler(r store.Reader) (string, error) {
	note, err := r.Files().Get(schedulers, schedulerFile)
	if errors.Is(err, perdure.NotFound) {
		return "", nil
	}
	return string(note.Content), err
}

// CheckScheduler returns an error unless the scheduler with this name may work on a store (RC32).
// Conflict: another one does.
func CheckScheduler(r store.Reader, name string) error {
	noted, err := StoreScheduler(r)
	if err != nil || noted == "" || noted == name {
		return err
	}
	return fmt.Errorf("%w: scheduler %s does the work of this store, and not %s", perdure.Conflict, noted, name)
}

// ClaimStore notes that the scheduler with this name works on a store (RC32). A worker calls it in
// the transaction that registers it. Conflict: another scheduler does. free is false where another
// transaction has the note: nothing may be committed, and the call must be repeated.
func ClaimStore(tx store.Tx, name string) (free bool, err error) {
	if free, err = tx.Workers().Elect(schedulerRole); err != nil || !free {
		return false, err
	}
	noted, err := StoreScheduler(tx.Reader())
	switch {
	case err != nil:
		return false, err
	case noted == "":
		return true, noteScheduler(tx, name)
	}
	return true, CheckScheduler(tx.Reader(), name)
}

// ChangeScheduler notes another scheduler in a store that no worker uses, and returns the former
// one. exclusive says that no other process can use the store, so that the workers in it are dead.
// Invalid: the name has another form. Conflict: a worker has a lease. Unavailable: a worker starts,
// or another process changes the note.
func ChangeScheduler(ctx context.Context, st store.Store, to string, exclusive bool) (from string, err error) {
	if !schedulerName.MatchString(to) {
		return "", fmt.Errorf("%w scheduler %.80q: want local, or temporal:NAMESPACE/PREFIX", perdure.Invalid, to)
	}
	err = st.InTx(ctx, func(tx store.Tx) error {
		free, err := tx.Workers().Elect(schedulerRole)
		if err == nil && !free {
			err = fmt.Errorf("%w: a worker starts at this moment", perdure.Unavailable)
		}
		if err == nil && !exclusive {
			err = noWorker(tx)
		}
		if err == nil {
			from, err = StoreScheduler(tx.Reader())
		}
		if err != nil {
			return err
		}
		return noteScheduler(tx, to)
	})
	return from, err
}

// noWorker returns Conflict if a worker has a valid lease.
func noWorker(tx store.Tx) error {
	workers, err := tx.Workers().List()
	for _, w := range workers {
		if w.LeaseUntil.After(tx.Now()) {
			return fmt.Errorf("%w: process %d on %s does the work of this store: stop it first; after a crash, wait until its lease has expired",
				perdure.Conflict, w.PID, w.Host)
		}
	}
	return err
}

func noteScheduler(tx store.Tx, name string) error {
	_, err := tx.Files().Put(schedulers, store.File{Path: schedulerFile, Content: []byte(name), Encoding: store.EncodingText})
	return err
}

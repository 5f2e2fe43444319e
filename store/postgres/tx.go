package postgres

import (
	"context"
	"fmt"
	"time"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/store"
	"github.com/perdure/perdure/store/sqlstore"
)

// InTx runs fn in one transaction, which is durable when InTx returns nil.
//
// fn runs in the caller's goroutine, again when the database undid it: for a deadlock, for a connection that broke, for a
// server that went away. After Config.Patience the answer is Unavailable, and where the outcome of a commit could not be found
// out, it says so. The end of ctx ends the transaction where it stands; only a COMMIT that is under way is waited for.
func (s *Store) InTx(ctx context.Context, fn func(store.Tx) error) error {
	if err := s.enter(ctx); err != nil {
		return err
	}
	defer s.running.Done()
	if s.cfg.ReadOnly {
		return fmt.Errorf("%w: the database was opened for reading", perdure.Conflict)
	}
	t := trying{store: s, ctx: ctx, doubles: maxDoubles}
	return t.run(func(ctx context.Context) error { return s.try(ctx, &t, fn) })
}

// try runs a transaction once.
func (s *Store) try(waiting context.Context, t *trying, fn func(store.Tx) error) error {
	ctx, stop := context.WithTimeout(waiting, s.cfg.attempt())
	defer stop()
	conn, err := connect(ctx, s.writers, beginWrite)
	if err != nil {
		return undoneBy(err)
	}
	open := true
	defer func() {
		if open { // also when fn panics, or ends its goroutine
			conn.undo()
		}
	}()
	tx := sqlstore.New(ctx, conn, writing())
	err = fn(tx)
	if failure := tx.Failure(); failure != nil {
		return t.spoiled(failure, err)
	}
	if err != nil {
		return err
	}
	open = false
	if conn.begin != "" { // it asked for nothing
		conn.release()
		return nil
	}
	err = s.commit(waiting, conn)
	for _, id := range tx.Appended() { // also when nobody knows: to look once too often does no harm
		s.hub.Notify(id)
		s.outbox.add(id)
	}
	return err
}

// commit ends a transaction and gives its connection back.
func (s *Store) commit(ctx context.Context, conn *connection) error {
	patient, stop := linger(ctx, s.cfg.attempt())
	results, err := conn.simply(patient, commit)
	stop()
	switch {
	case err == nil && results[0].CommandTag.String() == commit:
		conn.release()
		return nil
	case err == nil: // the server had given up the transaction, and says ROLLBACK
		conn.release()
		return undone{fmt.Errorf("%w: the database did not commit", perdure.Unavailable)}
	case state(err) != "" && !isLost(err): // it refused, and goes on
		conn.discard()
		return undoneBy(err)
	}
	conn.discard()
	return s.settle(ctx, conn.begun, err)
}

// linger is ctx for a COMMIT, which is short: an end of ctx cuts it off only after a second, and the answer is known nearly always.
func linger(ctx context.Context, limit time.Duration) (context.Context, context.CancelFunc) {
	patient, cancel := context.WithTimeout(context.WithoutCancel(ctx), limit)
	late := make(chan struct{})
	unhook := context.AfterFunc(ctx, func() {
		grace := time.NewTimer(min(time.Second, limit))
		defer grace.Stop()
		select {
		case <-grace.C:
			cancel()
		case <-late:
		}
	})
	return patient, func() {
		unhook()
		close(late)
		cancel()
	}
}

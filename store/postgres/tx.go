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
// fn runs in the caller's goroutine. It runs again if the database rolled the transaction back:
// because of a deadlock, a broken connection or an unavailable server. After Config.RetryTimeout
// the error is Unavailable; it says so if the outcome of a commit is unknown. The end of ctx ends
// the transaction, except that InTx waits for a COMMIT that was already sent.
func (s *Store) InTx(ctx context.Context, fn func(store.Tx) error) error {
	if err := s.enter(ctx); err != nil {
		return err
	}
	defer s.running.Done()
	if s.cfg.ReadOnly {
		return fmt.Errorf("%w: the database was opened for reading only", perdure.Conflict)
	}
	t := retry{store: s, ctx: ctx, duplicatesLeft: maxDuplicates}
	return t.run(func(ctx context.Context) error { return s.txOnce(ctx, &t, fn) })
}

// txOnce runs a transaction once.
func (s *Store) txOnce(waiting context.Context, t *retry, fn func(store.Tx) error) error {
	ctx, stop := context.WithTimeout(waiting, s.cfg.attempt())
	defer stop()
	conn, err := connect(ctx, s.writers, beginWrite)
	if err != nil {
		return rolledBackBy(err)
	}
	open := true
	defer func() {
		if open { // including when fn panics, or ends its goroutine
			conn.undo()
		}
	}()
	tx := sqlstore.New(ctx, conn, s.writeDialect())
	err = fn(tx)
	if failure := tx.Failure(); failure != nil {
		return t.afterFailure(failure, err)
	}
	if err != nil {
		return err
	}
	open = false
	if conn.begin != "" { // fn ran no statement
		conn.release()
		return nil
	}
	err = s.commit(waiting, conn)
	for _, id := range tx.Appended() { // even if the outcome is unknown: a superfluous notification does no harm
		s.hub.Notify(id)
		s.outbox.add(journalGrew, id)
	}
	return err
}

// commit ends a transaction and releases its connection.
func (s *Store) commit(ctx context.Context, conn *connection) error {
	waiting, stop := linger(ctx, s.cfg.attempt())
	results, err := conn.execSimple(waiting, commit)
	stop()
	switch {
	case err == nil && results[0].CommandTag.String() == commit:
		conn.release()
		return nil
	case err == nil: // the server had rolled the transaction back, and answers ROLLBACK
		conn.release()
		return rolledBack{fmt.Errorf("%w: the database did not commit", perdure.Unavailable)}
	case state(err) != "" && !isLost(err): // the server refused, and still runs
		conn.discard()
		return rolledBackBy(err)
	}
	conn.discard()
	return s.settle(ctx, conn.transaction, err)
}

// linger returns the context of a COMMIT. A COMMIT is short, so the end of ctx cancels it only
// after a second; its outcome is then nearly always known.
func linger(ctx context.Context, limit time.Duration) (context.Context, context.CancelFunc) {
	waiting, cancel := context.WithTimeout(context.WithoutCancel(ctx), limit)
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
	return waiting, func() {
		unhook()
		close(late)
		cancel()
	}
}

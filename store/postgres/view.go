package postgres

import (
	"context"

	"github.com/perdure/perdure/store"
	"github.com/perdure/perdure/store/sqlstore"
)

// View runs fn on one consistent snapshot, in the caller's goroutine, and does not wait for
// transactions. fn runs again on another snapshot if its connection broke.
func (s *Store) View(ctx context.Context, fn func(store.Reader) error) error {
	if err := s.enter(ctx); err != nil {
		return err
	}
	defer s.running.Done()
	t := retry{store: s, ctx: ctx}
	return t.run(func(waiting context.Context) error { return s.viewOnce(ctx, waiting, &t, fn) })
}

// viewOnce runs a view once. waiting limits the wait for a connection; the view itself may take
// longer.
func (s *Store) viewOnce(ctx, waiting context.Context, t *retry, fn func(store.Reader) error) error {
	conn, err := connect(waiting, s.readers, beginRead)
	if err != nil {
		return rolledBackBy(err)
	}
	defer conn.undo()
	ctx, stop := context.WithTimeout(ctx, s.cfg.view())
	defer stop()
	tx := sqlstore.New(ctx, conn, s.readDialect())
	err = fn(tx.Reader())
	if failure := tx.Failure(); failure != nil {
		return t.afterFailure(failure, err)
	}
	return err
}

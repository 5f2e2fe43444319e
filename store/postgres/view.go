package postgres

import (
	"context"

	"github.com/perdure/perdure/store"
	"github.com/perdure/perdure/store/sqlstore"
)

// View runs fn on one consistent snapshot, in the caller's goroutine, and waits for no transaction. fn runs again on another
// snapshot when the connection broke under it.
func (s *Store) View(ctx context.Context, fn func(store.Reader) error) error {
	if err := s.enter(ctx); err != nil {
		return err
	}
	defer s.running.Done()
	t := trying{store: s, ctx: ctx}
	return t.run(func(waiting context.Context) error { return s.look(ctx, waiting, &t, fn) })
}

// look runs a view once. waiting bounds the wait for a connection; the view itself may take longer.
func (s *Store) look(ctx, waiting context.Context, t *trying, fn func(store.Reader) error) error {
	conn, err := connect(waiting, s.readers, beginRead)
	if err != nil {
		return undoneBy(err)
	}
	defer conn.undo()
	ctx, stop := context.WithTimeout(ctx, s.cfg.view())
	defer stop()
	tx := sqlstore.New(ctx, conn, reading())
	err = fn(tx)
	if failure := tx.Failure(); failure != nil {
		return t.spoiled(failure, err)
	}
	return err
}

package app

import (
	"context"
	"errors"
	"fmt"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/engine/host"
	"github.com/perdure/perdure/internal/cli"
	"github.com/perdure/perdure/internal/cli/admin"
	"github.com/perdure/perdure/store"
)

// checkStore refuses a store on which another scheduler works, before anything is opened for it
// (RC32).
func (s Scheduler) checkStore(ctx context.Context, st store.Store) error {
	err := st.View(ctx, func(r store.Reader) error { return host.CheckScheduler(r, s.Name) })
	if errors.Is(err, perdure.Conflict) {
		return fmt.Errorf("%w: use the program of that scheduler, or stop all servers of the store and run perdure admin scheduler --to %s", err, s.Name)
	}
	return err
}

// schedulerOf returns the name of the scheduler that works on a store.
func schedulerOf(ctx context.Context, p admin.StoreLocation) (name string, err error) {
	st, err := openStore(ctx, cli.OpenOptions{Access: cli.Reading, Dir: p.Dir, Database: p.Database})
	if err != nil {
		return "", err
	}
	defer func() { err = errors.Join(err, st.Close()) }()
	err = st.View(ctx, func(r store.Reader) (err error) {
		name, err = host.StoreScheduler(r)
		return err
	})
	return name, err
}

// changeScheduler gives a store to another scheduler. The lock of a data directory proves that no
// process works on its own database.
func changeScheduler(ctx context.Context, p admin.StoreLocation, to string) (from string, err error) {
	st, err := openStore(ctx, cli.OpenOptions{Access: cli.Writing, Dir: p.Dir, Database: p.Database})
	if err != nil {
		return "", err
	}
	defer func() { err = errors.Join(err, st.Close()) }()
	return host.ChangeScheduler(ctx, st, to, p.Database == "")
}

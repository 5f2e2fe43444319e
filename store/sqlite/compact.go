package sqlite

import (
	"context"
	"errors"
	"fmt"
)

// Compact gives the pages that a database does not use any more back to the disk. It holds the data directory meanwhile,
// and needs as much space again as what is in use.
//
// Conflict: somebody holds the directory. Storage: there is no space, and nothing was changed, or a write failed.
func Compact(ctx context.Context, cfg Config) (err error) {
	s, err := Open(ctx, cfg)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.Close()) }()
	cfg.Dir = s.dir
	db, err := openDatabase(cfg, writerPragmas(cfg)) // beside the writer, for which there is no work
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	db.SetMaxOpenConns(1)
	for _, statement := range []string{`VACUUM`, `PRAGMA wal_checkpoint(TRUNCATE)`} {
		if _, err := db.ExecContext(ctx, statement); err != nil {
			return fmt.Errorf("compact %s: %w", cfg.Dir, explain(cfg.Dir, err))
		}
	}
	return nil
}

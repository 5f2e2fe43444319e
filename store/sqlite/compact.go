package sqlite

import (
	"context"
	"errors"
	"fmt"
)

// Compact returns unused pages of a database to the disk. It holds the lock of the data directory
// meanwhile, and needs as much free space as the used pages take.
//
// Conflict: another process holds the directory. Storage: there was not enough space and nothing
// was changed, or a write failed.
func Compact(ctx context.Context, cfg Config) (err error) {
	s, err := Open(ctx, cfg)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.Close()) }()
	cfg.Dir = s.dir
	db, err := openDatabase(cfg, writerPragmas(cfg)) // next to the writer, which is idle
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

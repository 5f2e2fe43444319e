package chaoscmd

import (
	"context"
	"errors"
	"fmt"

	"github.com/perdure/perdure/internal/pgserver"
)

// openDatabase determines the database of the server, and starts a Postgres server where one is
// needed and none was given. end removes that server with all its data; the report and the server's
// log remain.
func (p *runDir) openDatabase(ctx context.Context) (end func(), err error) {
	p.database = p.Database
	if p.Store != postgres || p.database != "" {
		return func() {}, nil
	}
	server, err := pgserver.NewCluster(pgserver.Config{Fsync: true})
	if err != nil {
		return nil, fmt.Errorf("start a database: %w", err)
	}
	p.ownDatabase = server
	if p.database, err = server.Database(ctx, nil); err != nil {
		return nil, errors.Join(err, server.Close())
	}
	return func() {
		if err := server.Close(); err != nil {
			fmt.Fprintf(p.Stderr, "chaos: could not remove the database: %v\n", err)
		}
	}, nil
}

// stopDatabase kills the database, like a crash of its machine, and startDatabase starts it again.
func (p *runDir) stopDatabase() error  { return p.ownDatabase.Stop() }
func (p *runDir) startDatabase() error { return p.ownDatabase.Start() }

package storm

import (
	"context"
	"errors"
	"fmt"

	"github.com/perdure/perdure/internal/pgserver"
)

// openDatabase finds the database of the server, and starts one where it is to have one and none was named. end takes that away
// again, with all that is in it: what broke is then told by the report and the server's log.
func (p *place) openDatabase(ctx context.Context) (end func(), err error) {
	p.database = p.Database
	if p.Store != postgres || p.database != "" {
		return func() {}, nil
	}
	server, err := pgserver.NewCluster(pgserver.Config{Fsync: true})
	if err != nil {
		return nil, fmt.Errorf("start a database: %w", err)
	}
	p.own = server
	if p.database, err = server.Database(ctx, nil); err != nil {
		return nil, errors.Join(err, server.Close())
	}
	return func() {
		if err := server.Close(); err != nil {
			fmt.Fprintf(p.Talk, "chaos: the database is left over: %v\n", err)
		}
	}, nil
}

// leave kills the database, as a crash of its machine would, and comeBack starts it again.
func (p *place) leave() error    { return p.own.Stop() }
func (p *place) comeBack() error { return p.own.Start() }

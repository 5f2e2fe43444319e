package sessionsql

import (
	"context"
	"errors"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/tool"
)

// Execute runs one statement that writes, in a transaction of its own. The first statement for a
// database that succeeds creates it.
func (p port) Execute(ctx context.Context, in tool.SQLStatement) (done tool.SQLResult, err error) {
	r, err := check(in)
	if err != nil {
		return tool.SQLResult{}, err
	}
	s := p.store
	err = s.withTurn(ctx, p.session, func(own *session) error {
		sizes, err := s.sizes(p.session)
		if err != nil {
			return err
		}
		_, exists := sizes[r.database]
		if !exists {
			if len(sizes) >= s.cfg.MaxDatabases {
				return limitError("A session has at most %d databases. Use one of the existing ones.", s.cfg.MaxDatabases)
			}
			if err := s.createFile(p.session, r.database); err != nil {
				return err
			}
		}
		done, err = s.execute(ctx, p.session, own, r, s.pageLimit(sizes, r.database))
		if err != nil && !exists {
			s.closeDatabase(own, r.database)
			s.removeFile(p.session, r.database)
		}
		if err != nil && errors.Is(err, perdure.Storage) {
			s.closeDatabase(own, r.database) // the state of the open connection is in doubt
		}
		return err
	})
	if err != nil {
		return tool.SQLResult{}, err
	}
	return done, nil
}

// pageLimit returns the number of pages that a database may have beside the other databases of its
// session.
func (s *Store) pageLimit(sizes map[string]int64, name string) int64 {
	free := s.cfg.MaxSessionBytes
	for other, size := range sizes {
		if other != name {
			free -= size
		}
	}
	return min(free, s.cfg.MaxDatabaseBytes) / pageBytes
}

func (s *Store) execute(
	ctx context.Context, id perdure.SessionID, own *session, r request, pages int64,
) (tool.SQLResult, error) {
	d, release, err := s.use(ctx, id, own, r.database)
	if err != nil {
		return tool.SQLResult{}, err
	}
	defer release()
	run, end := s.startLimits(ctx)
	defer end()
	if err := errors.Join(d.setPages(run, pages), d.runInternal(run, "BEGIN IMMEDIATE")); err != nil {
		return tool.SQLResult{}, s.statementError(ctx, run, d, err)
	}
	done, err := d.write(run, r)
	err = s.statementError(ctx, run, d, err) // first, because the next statement resets the policy's reason
	if err == nil {
		err = s.statementError(ctx, run, d, d.runInternal(run, "COMMIT"))
	}
	if err != nil {
		_ = d.runInternal(run, "ROLLBACK") // an error may have ended the transaction already
		return tool.SQLResult{}, err
	}
	return done, nil
}

// write runs the statement inside the transaction.
func (d *database) write(ctx context.Context, r request) (done tool.SQLResult, err error) {
	before, err := d.queryNumber(ctx, "SELECT total_changes()")
	if err != nil {
		return done, err
	}
	d.policy.begin(writeMode)
	result, err := d.conn.ExecContext(ctx, r.text, r.args...)
	switch {
	case err != nil:
		return done, err
	case ctx.Err() != nil:
		return done, context.Cause(ctx)
	case !d.policy.writes:
		return done, invalidError("This statement changes nothing. Use sql_query for statements that only read.")
	}
	rows, err := result.RowsAffected()
	if err != nil {
		return done, err
	}
	last, err := result.LastInsertId()
	if err != nil {
		return done, err
	}
	after, err := d.queryNumber(ctx, "SELECT total_changes()")
	if err != nil || after == before { // otherwise the numbers are those of an earlier statement
		return done, err
	}
	done.RowsAffected = rows
	if !r.begins("UPDATE", "DELETE") {
		done.LastInsertID = last
	}
	return done, nil
}

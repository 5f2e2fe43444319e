package sessionsql

import (
	"context"
	"errors"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/tool"
)

// Execute runs one statement that writes, in a transaction of its own. A database is made by the first statement for it
// that succeeds.
func (p port) Execute(ctx context.Context, in tool.SQLStatement) (done tool.SQLDone, err error) {
	r, err := check(in)
	if err != nil {
		return tool.SQLDone{}, err
	}
	s := p.store
	err = s.with(ctx, p.session, func(own *session) error {
		sizes, err := s.sizes(p.session)
		if err != nil {
			return err
		}
		_, exists := sizes[r.database]
		if !exists {
			if len(sizes) >= s.cfg.Databases {
				return limited("A session has at most %d databases. Use one of those that are there.", s.cfg.Databases)
			}
			if err := s.make(p.session, r.database); err != nil {
				return err
			}
		}
		done, err = s.execute(ctx, p.session, own, r, s.pages(sizes, r.database))
		if err != nil && !exists {
			s.shut(own, r.database)
			s.unmake(p.session, r.database)
		}
		if err != nil && errors.Is(err, perdure.Storage) {
			s.shut(own, r.database) // whatever it still holds is in doubt
		}
		return err
	})
	if err != nil {
		return tool.SQLDone{}, err
	}
	return done, nil
}

// pages is how many pages a database may have beside the others of its session.
func (s *Store) pages(sizes map[string]int64, name string) int64 {
	room := s.cfg.SessionBytes
	for other, size := range sizes {
		if other != name {
			room -= size
		}
	}
	return min(room, s.cfg.DatabaseBytes) / pageBytes
}

func (s *Store) execute(ctx context.Context, id perdure.SessionID, own *session, r request, pages int64) (tool.SQLDone, error) {
	d, giveBack, err := s.use(ctx, id, own, r.database)
	if err != nil {
		return tool.SQLDone{}, err
	}
	defer giveBack()
	run, end := s.begin(ctx)
	defer end()
	if err := errors.Join(d.setPages(run, pages), d.own(run, "BEGIN IMMEDIATE")); err != nil {
		return tool.SQLDone{}, s.explain(ctx, run, d, err)
	}
	done, err := d.write(run, r)
	err = s.explain(ctx, run, d, err) // before anything else is asked of the database
	if err == nil {
		err = s.explain(ctx, run, d, d.own(run, "COMMIT"))
	}
	if err != nil {
		_ = d.own(run, "ROLLBACK") // an error may have ended the transaction already
		return tool.SQLDone{}, err
	}
	return done, nil
}

// write runs the statement within the transaction.
func (d *database) write(ctx context.Context, r request) (done tool.SQLDone, err error) {
	before, err := d.number(ctx, "SELECT total_changes()")
	if err != nil {
		return done, err
	}
	d.policy.begin(writing)
	result, err := d.conn.ExecContext(ctx, r.text, r.args...)
	switch {
	case err != nil:
		return done, err
	case ctx.Err() != nil:
		return done, context.Cause(ctx)
	case !d.policy.writes:
		return done, invalid("This statement changes nothing. Use sql_query for what reads.")
	}
	rows, err := result.RowsAffected()
	if err != nil {
		return done, err
	}
	last, err := result.LastInsertId()
	if err != nil {
		return done, err
	}
	after, err := d.number(ctx, "SELECT total_changes()")
	if err != nil || after == before { // else the numbers are those of a statement before
		return done, err
	}
	done.RowsAffected = rows
	if !r.begins("UPDATE", "DELETE") {
		done.LastInsertID = last
	}
	return done, nil
}

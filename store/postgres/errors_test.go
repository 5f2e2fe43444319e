package postgres_test

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"io"
	"testing"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/store"
	"github.com/perdure/perdure/store/postgres"
)

// TestExplain: an error that passes is unavailable, a disk error of the server is storage, and a
// fault of Perdure has no kind.
func TestExplain(t *testing.T) {
	t.Parallel()
	cases := []struct {
		code   string
		kind   error // nil: none
		passes bool
	}{
		{"40001", perdure.Unavailable, true},
		{"40P01", perdure.Unavailable, true},
		{"55P03", perdure.Unavailable, true},
		{"57014", perdure.Unavailable, true},
		{"25P03", perdure.Unavailable, true},
		{"25006", perdure.Unavailable, true},
		{"08006", perdure.Unavailable, true},
		{"53300", perdure.Unavailable, true},
		{"57P01", perdure.Unavailable, true},
		{"57P02", perdure.Unavailable, true},
		{"57P03", perdure.Unavailable, true},
		{"28P01", perdure.Unavailable, false},
		{"3D000", perdure.Unavailable, false},
		{"53100", store.Full, false},
		{"58030", perdure.Storage, false},
		{"XX001", perdure.Storage, false},
		{"XX002", perdure.Storage, false},
		{"54000", perdure.Limit, false},
		{"22021", perdure.Invalid, false},
		{"42601", nil, false},
		{"23505", nil, false},
	}
	for _, c := range cases {
		cause := error(&pgconn.PgError{Code: c.code, Message: "because"})

		got := postgres.Explain(fmt.Errorf("claim: %w", cause))

		var kind perdure.Kind
		if !errors.Is(got, cause) || c.kind != nil && !errors.Is(got, c.kind) || c.kind == nil &&
			errors.As(got, &kind) {
			t.Errorf("%s: got %v, want kind %v and the cause in it", c.code, got, c.kind)
		}
		if store.Broken(got) != (c.kind == perdure.Storage) {
			t.Errorf("%s: broken is %t", c.code, store.Broken(got))
		}
		if postgres.Passes(got) != c.passes {
			t.Errorf("%s: passes is %t, want %t", c.code, !c.passes, c.passes)
		}
	}
	for _, cause := range []error{
		io.EOF, io.ErrUnexpectedEOF, context.DeadlineExceeded, driver.ErrBadConn, sql.ErrConnDone, pgconn.ErrConnClosed,
	} {
		if got := postgres.Explain(cause); !errors.Is(got, perdure.Unavailable) || !postgres.Passes(got) {
			t.Errorf("%v: got %v, want unavailable, which passes", cause, got)
		}
	}
	if got := postgres.Explain(context.Canceled); got != context.Canceled {
		t.Errorf("got %v, want it as it is", got)
	}
}

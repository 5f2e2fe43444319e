package postgres_test

import (
	"errors"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/internal/pgserver"
	"github.com/perdure/perdure/internal/pgtest"
	"github.com/perdure/perdure/store"
	"github.com/perdure/perdure/store/postgres"
)

func TestOpen(t *testing.T) {
	t.Parallel()
	cases := []struct {
		name  string
		spoil string // prepares the database
		url   func(url string) string
		kind  error
		want  string
	}{
		{"refuses_what_a_newer_version_wrote",
			`INSERT INTO goose_db_version (version_id, is_applied) VALUES (99, TRUE)`, nil,
			perdure.Conflict, "was written by a newer version (schema 99"},
		{"refuses_a_url_that_it_cannot_read", "", func(string) string {
			return "postgres://:x:y"
		}, perdure.Invalid, "database URL"},
		{"refuses_a_server_that_is_not_there", "", func(string) string {
			return "postgres://postgres@/x?host=/nowhere"
		},
			perdure.Unavailable, "check whether its server is running"},
		{"refuses_a_database_that_is_not_there", "", func(url string) string {
			return strings.Replace(url, "/test_", "/none_", 1)
		},
			perdure.Unavailable, "check the user, the password and the name of the database"},
		{"refuses_commits_that_may_be_lost",
			`DO $$ BEGIN EXECUTE format('ALTER DATABASE %I SET synchronous_commit = off', current_database()); END $$`,
			nil,
			perdure.Conflict, "synchronous_commit is off"},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			url, err := pgtest.Shared(t).Database(t.Context(), nil)
			if err != nil {
				t.Fatal(err)
			}
			if err := migrated(url); err != nil {
				t.Fatal(err)
			}
			if c.spoil != "" {
				if _, err := postgres.OpenSQL(t, url).Exec(c.spoil); err != nil {
					t.Fatal(err)
				}
			}
			if c.url != nil {
				url = c.url(url)
			}

			_, err = postgres.Open(t.Context(), postgres.Config{URL: url})

			if !errors.Is(err, c.kind) || !contains(err, c.want) {
				t.Errorf("got %v, want a %v with %q", err, c.kind, c.want)
			}
		})
	}
}

// TestOpenTogether has several processes open an empty database at once. One makes the schema, and
// all can use it.
func TestOpenTogether(t *testing.T) {
	t.Parallel()
	url := pgtest.Database(t, nil)
	var all sync.WaitGroup
	for range 4 {
		all.Go(func() {
			s, err := postgres.Open(t.Context(), postgres.Config{URL: url})
			if err == nil {
				err = errors.Join(s.View(t.Context(), func(r store.Reader) error {
					_, err := r.Workers().List()
					return err
				}), s.Close())
			}
			if err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
}

// TestClose leaves nothing behind, even while a transaction is being retried in vain.
func TestClose(t *testing.T) {
	c := pgtest.Own(t, pgserver.Config{})
	url, err := c.Database(t.Context(), migrated)
	if err != nil {
		t.Fatal(err)
	}
	noLeaks(t)
	s, err := postgres.Open(t.Context(), postgres.Config{URL: url})
	if err != nil {
		t.Fatal(err)
	}
	begun(t, s)
	if err := c.Stop(); err != nil {
		t.Fatal(err)
	}
	tried := make(chan error, 1)
	started := make(chan struct{})
	go func() {
		close(started)
		tried <- s.InTx(t.Context(), grow)
	}()
	<-started

	closed(t, s)

	if err := <-tried; !errors.Is(err, perdure.Unavailable) {
		t.Errorf("got %v, want unavailable", err)
	}
	closed(t, s)
}

// TestOpenForReading opens databases for reading only.
func TestOpenForReading(t *testing.T) {
	t.Parallel()
	cases := []struct {
		name  string
		fill  func(url string) error
		spoil string // prepares the database
		kind  error  // nil: it is readable
		want  string
	}{
		{"reads", migrated, ``, nil, ""},
		{"refuses_an_empty_one", nil, ``, perdure.NotFound, "this database has no Perdure data yet"},
		{"refuses_what_an_older_version_wrote", migrated,
			`DELETE FROM goose_db_version WHERE version_id = (SELECT MAX(version_id) FROM goose_db_version)`,
			perdure.Conflict, "written by an older version"},
		{"refuses_what_a_newer_version_wrote", migrated,
			`INSERT INTO goose_db_version (version_id, is_applied) VALUES (99, TRUE)`, perdure.Conflict,
			"written by a newer version"},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			url, err := pgtest.Shared(t).Database(t.Context(), nil)
			if err == nil && c.fill != nil {
				err = c.fill(url)
			}
			if err != nil {
				t.Fatal(err)
			}
			if _, err := postgres.OpenSQL(t, url).Exec(c.spoil); err != nil {
				t.Fatal(err)
			}
			const frozen = `DO $$ BEGIN EXECUTE format('ALTER DATABASE %I SET default_transaction_read_only = on', current_database()); END $$`
			if _, err := postgres.OpenSQL(t, url).Exec(frozen); err != nil {
				t.Fatal(err)
			}

			s, err := postgres.Open(t.Context(), postgres.Config{URL: url, ReadOnly: true})

			if c.kind != nil {
				if !errors.Is(err, c.kind) || !contains(err, c.want) {
					t.Errorf("got %v, want a %v with %q", err, c.kind, c.want)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			defer closed(t, s)
			if err := s.View(t.Context(), func(r store.Reader) error {
				_, err := r.Workers().List()
				return err
			}); err != nil {
				t.Error(err)
			}
			if err := s.InTx(t.Context(), grow); !errors.Is(err, perdure.Conflict) {
				t.Errorf("a transaction: got %v, want a conflict", err)
			}
		})
	}
}

// TestMigrationMayTakeLong has a migration step take longer than the statement timeout of a
// transaction.
func TestMigrationMayTakeLong(t *testing.T) {
	t.Parallel()
	url, err := pgtest.Shared(t).Database(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, statement := range []string{
		`CREATE FUNCTION dawdle() RETURNS event_trigger LANGUAGE plpgsql AS $$ BEGIN PERFORM pg_sleep(1.5); END $$`,
		`CREATE EVENT TRIGGER slow ON ddl_command_start WHEN TAG IN ('DROP INDEX') EXECUTE FUNCTION dawdle()`,
	} {
		if _, err := postgres.OpenSQL(t, url).Exec(statement); err != nil {
			t.Fatal(err)
		}
	}

	s, err := postgres.Open(t.Context(), postgres.Config{URL: url, RetryTimeout: 3 * time.Second})
	if err != nil {
		t.Fatal(err)
	}
	closed(t, s)
}

package postgres_test

import (
	"errors"
	"strings"
	"sync"
	"testing"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/internal/pgtest"
	"github.com/perdure/perdure/store"
	"github.com/perdure/perdure/store/postgres"
)

func TestOpen(t *testing.T) {
	t.Parallel()
	cases := []struct {
		name  string
		spoil string // done to the database before
		url   func(url string) string
		kind  error
		want  string
	}{
		{"refuses_what_a_newer_version_wrote", `INSERT INTO goose_db_version (version_id, is_applied) VALUES (99, TRUE)`, nil,
			perdure.Conflict, "was written by a newer version (schema 99"},
		{"refuses_a_url_that_it_cannot_read", "", func(string) string { return "postgres://:x:y" }, perdure.Invalid, "database URL"},
		{"refuses_a_server_that_is_not_there", "", func(string) string { return "postgres://postgres@/x?host=/nowhere" },
			perdure.Unavailable, "look whether its server runs"},
		{"refuses_a_database_that_is_not_there", "", func(url string) string { return strings.Replace(url, "/test_", "/none_", 1) },
			perdure.Unavailable, "check the user, the password and the name of the database"},
		{"refuses_commits_that_may_be_lost", `DO $$ BEGIN EXECUTE format('ALTER DATABASE %I SET synchronous_commit = off', current_database()); END $$`, nil,
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

// TestOpenTogether has several processes open an empty database at once. One makes the schema, and all can use it.
func TestOpenTogether(t *testing.T) {
	t.Parallel()
	url := pgtest.Database(t, nil)
	var all sync.WaitGroup
	for range 4 {
		all.Go(func() {
			s, err := postgres.Open(t.Context(), postgres.Config{URL: url})
			if err == nil {
				err = errors.Join(s.View(t.Context(), func(r store.Reader) error { _, err := r.Workers(); return err }), s.Close())
			}
			if err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
}

// TestClose leaves nothing behind, also when something is tried in vain.
func TestClose(t *testing.T) {
	c := pgtest.Own(t, pgtest.Config{})
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

package app

import (
	"bytes"
	"compress/gzip"
	"database/sql"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/perdure/perdure/internal/cli"
	"github.com/perdure/perdure/internal/cli/admin"
	"github.com/perdure/perdure/internal/pgtest"
	"github.com/perdure/perdure/store/sqlstore"
)

// oldStore NUMBER replaces the data directory with one of the given schema version.
func oldStore(ts *testscript.TestScript, _ bool, args []string) {
	packed, err := os.ReadFile(filepath.Join("..", "..", "store", "sqlite", "testdata", "schema-"+args[0]+".db.gz"))
	ts.Check(err)
	text, err := gzip.NewReader(bytes.NewReader(packed))
	ts.Check(err)
	content, err := io.ReadAll(text)
	ts.Check(err)
	ts.Check(os.MkdirAll(ts.Getenv("PERDURE_DATA"), 0o700))
	ts.Check(os.WriteFile(filepath.Join(ts.Getenv("PERDURE_DATA"), "perdure.db"), content, 0o600))
}

// TestAdminMigratePostgres is the script migrate for a Postgres database, which Perdure does not
// back up.
func TestAdminMigratePostgres(t *testing.T) {
	t.Parallel()
	url := pgtest.Database(t, nil)
	db, err := sql.Open("pgx", url)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	perdure := func(code int, args ...string) string {
		t.Helper()
		out, talk, got := runHere(t, append(args, "--data", t.TempDir(), "--database", url)...)
		if got != code {
			t.Fatalf("%v: exit code %d, want %d: %s", args, got, code, talk)
		}
		return out + talk
	}
	wants := func(text, part string) {
		t.Helper()
		if !strings.Contains(text, part) {
			t.Errorf("got %q, want %q", text, part)
		}
	}

	wants(perdure(3, "admin", "migrate"), "this database has no Perdure data yet")
	const old = 13
	if err := sqlstore.MigrateTo(t.Context(), db, sqlstore.Dialect{Goose: "postgres", Explain: func(err error) error { return err }}, old); err != nil {
		t.Fatal(err)
	}
	steps, err := sqlstore.Steps(old)
	if err != nil || len(steps) < 3 || steps[0] != "0014_payments" {
		t.Fatalf("the steps are %v, %v", steps, err)
	}
	wants(perdure(0, "admin", "migrate", "--dry-run"), fmt.Sprintf("would migrate schema %d to %d: 0014_payments, ", old, old+len(steps)))
	wants(perdure(2, "admin", "migrate"), "pg_dump")
	wants(perdure(0, "admin", "migrate", "--dry-run", "-o", "json"), fmt.Sprintf(`"stored": %d`, old)) // unchanged
	wants(perdure(0, "admin", "migrate", "--no-backup", "-o", "json"), `"done": true`)
	wants(perdure(0, "admin", "migrate"), "there is nothing to do")
	perdure(0, "session", "list")
}

// runHere runs a command in this process.
func runHere(t *testing.T, args ...string) (out, talk string, code int) {
	t.Helper()
	var data, said bytes.Buffer
	code = cli.Main(t.Context(), cli.Dependencies{
		Args: args, Stdin: strings.NewReader(""), Stdout: &data, Stderr: &said, Open: Program{}.open,
		Log:   func(cli.LogStyle) *slog.Logger { return slog.New(slog.DiscardHandler) },
		Admin: admin.Operations{Schema: schemaOf, Migrate: migrate},
	})
	return data.String(), said.String(), code
}

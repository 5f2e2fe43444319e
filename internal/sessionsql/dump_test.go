package sessionsql_test

import (
	"bytes"
	"errors"
	"strings"
	"testing"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/internal/sessionsql"
	"github.com/perdure/perdure/tool"
)

// TestDump pins that a dump creates the same database again: every type of value, names with
// quotes, generated columns, sequences, indexes, views and triggers.
func TestDump(t *testing.T) {
	t.Parallel()
	s := open(t, sessionsql.Config{})
	from := s.For("from")
	statements := []string{
		`CREATE TABLE "odd ""name" (id INTEGER PRIMARY KEY AUTOINCREMENT, "a b" TEXT, at DATETIME, raw BLOB, n REAL, twice AS (n * 2))`,
		`INSERT INTO "odd ""name" ("a b", at, raw, n) VALUES ('it''s', '2026-01-02', x'00ff', 2.0), ('', NULL, x'', -1e300), (CAST(x'610062' AS TEXT), 'x', 'text', 9e999)`,
		`DELETE FROM "odd ""name" WHERE id = 2`,
		`CREATE TABLE log (what)`,
		`CREATE TRIGGER logged AFTER INSERT ON "odd ""name" BEGIN INSERT INTO log VALUES ('fired'); END`,
		`CREATE INDEX by_at ON "odd ""name" (at)`,
		`CREATE VIEW seen AS SELECT "a b" AS word FROM "odd ""name"`,
	}
	for _, text := range statements {
		if _, err := from.Execute(t.Context(), tool.SQLStatement{Text: text}); err != nil {
			t.Fatalf("%s: %v", text, err)
		}
	}
	dump := func(db tool.SQL) string {
		t.Helper()
		var out bytes.Buffer
		if err := db.(tool.SQLDumper).Dump(t.Context(), "", &out); err != nil {
			t.Fatal(err)
		}
		return out.String()
	}

	first := dump(from)

	to := s.For("to")
	for _, text := range strings.Split(strings.TrimSpace(first), ";\n") {
		if text = strings.TrimSuffix(text, ";"); strings.HasPrefix(text, "PRAGMA") || text == "BEGIN TRANSACTION" || text == "COMMIT" {
			continue
		}
		if _, err := to.Execute(t.Context(), tool.SQLStatement{Text: text}); err != nil && !strings.Contains(err.Error(), "changes nothing") {
			t.Fatalf("%s: %v", text, err)
		}
	}
	if second := dump(to); second != first {
		t.Errorf("the copy is another database:\n%s\nwant:\n%s", second, first)
	}
	for _, part := range []string{"CAST(x'610062' AS TEXT)", "x'00ff'", "9.0e+999", "2.0", "'it''s'", "DELETE FROM sqlite_sequence", "CREATE TRIGGER", "CREATE VIEW", "CREATE INDEX"} {
		if !strings.Contains(first, part) {
			t.Errorf("the dump has no %s:\n%s", part, first)
		}
	}
	var none bytes.Buffer
	if err := s.For("from").(tool.SQLDumper).Dump(t.Context(), "other", &none); !errors.Is(err, perdure.NotFound) {
		t.Errorf("a database that does not exist: %v", err)
	}
}

package sessionsql_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/internal/sessionsql"
	"github.com/perdure/perdure/tool"
)

const (
	allowed = 500 * time.Millisecond // for a statement
	// without a limit some run for ever; not a measure of speed, which depends on the machine
	hangs = 5 * time.Minute
)

const endless = "WITH RECURSIVE c(x) AS (VALUES (1) UNION ALL SELECT x + 1 FROM c) "

// letters is an expression for a text of n times a letter.
func letters(letter string, n int) string {
	return fmt.Sprintf("replace(hex(zeroblob(%d)), '0', '%s')", n/2, letter)
}

// TestRunaways: no statement exceeds its time, or uses much memory, and the session remains usable
// after it.
func TestRunaways(t *testing.T) {
	t.Parallel()
	wide := strings.TrimSuffix(strings.Repeat(letters("x", 500_000)+",", 99), ",")
	for name, c := range map[string]struct {
		text string
		kind perdure.Kind // empty: it ends in time
		says string
	}{
		"recursion":            {endless + "SELECT count(*) FROM c", perdure.Limit, "stopped after"},
		"recursion_later":      {"SELECT 1 UNION ALL SELECT * FROM (" + endless + "SELECT count(*) FROM c)", perdure.Limit, "stopped after"},
		"recursion_sorted":     {endless + "SELECT x FROM c ORDER BY -x", perdure.Limit, "stopped"},
		"sorter_in_memory":     {endless + "SELECT x FROM c ORDER BY randomblob(100000)", perdure.Limit, "stopped"},
		"queue_in_memory":      {"WITH RECURSIVE c(x, y) AS (VALUES (1, '') UNION SELECT x + 1, randomblob(100000) FROM c) SELECT count(*) FROM c", perdure.Limit, "stopped"},
		"randomblob":           {"SELECT randomblob(900000000)", perdure.Limit, "larger than"},
		"zeroblob":             {"SELECT length(zeroblob(900000000) || 'x')", perdure.Limit, "larger than"},
		"printf":               {"SELECT printf('%900000000d', 1)", perdure.Limit, "larger than"},
		"printf_twice":         {"SELECT length(printf('%.*c', 900000000, 'x'))", perdure.Limit, "larger than"},
		"group_concat":         {endless + "SELECT length(group_concat(x, " + letters("x", 5000) + ")) FROM c", perdure.Limit, ""},
		"doubling":             {"WITH RECURSIVE c(x) AS (VALUES ('x') UNION ALL SELECT x || x FROM c) SELECT max(length(x)) FROM c", perdure.Limit, "larger than"},
		"wide_rows":            {"SELECT " + wide, "slow", ""},
		"cross_join":           {"WITH RECURSIVE n(x) AS (VALUES (1) UNION ALL SELECT x + 1 FROM n LIMIT 5000) SELECT count(*) FROM n a, n b, n c, n d", perdure.Limit, "stopped after"},
		"like":                 {"SELECT " + letters("a", 200_000) + " LIKE '" + strings.Repeat("%a", 5000) + "b'", perdure.Invalid, "pattern too complex"},
		"like_that_fits":       {"SELECT " + letters("a", 1_000_000) + " LIKE '" + strings.Repeat("%a", 90) + "%b'", "slow", ""},
		"like_blanks":          {"SELECT " + letters("a", 500_000) + " LIKE '%" + strings.Repeat("_", 190) + "b'", "slow", ""},
		"glob":                 {"SELECT " + letters("a", 200_000) + " GLOB '" + strings.Repeat("*a", 5000) + "b'", perdure.Invalid, "pattern too complex"},
		"glob_that_fits":       {"SELECT " + letters("a", 500_000) + " GLOB '" + strings.Repeat("*[a-z]", 30) + "*b'", "slow", ""},
		"instr":                {"SELECT instr(" + letters("a", 1_000_000) + ", " + letters("a", 500_000) + " || 'b')", "", ""},
		"instr_bytes":          {"SELECT instr(zeroblob(1000000), CAST(zeroblob(500000) || x'01' AS BLOB))", "", ""},
		"replace":              {"SELECT length(replace(" + letters("a", 1_000_000) + ", " + letters("a", 500_000) + " || 'b', 'c'))", "", ""},
		"replace_grows":        {"SELECT length(replace(" + letters("a", 1_000_000) + ", 'a', " + letters("b", 1_000_000) + "))", perdure.Invalid, "too big"},
		"trim":                 {"SELECT length(trim(" + letters("a", 500_000) + ", " + letters("b", 500_000) + " || 'a'))", "", ""},
		"unhex":                {"SELECT unhex(" + letters("-", 500_000) + ", " + letters(".", 500_000) + " || '-')", perdure.Invalid, "one argument"},
		"json_patch":           {"SELECT json_patch('{}', '{}')", perdure.Invalid, "json_patch"},
		"nested_queries":       {doubled(16), perdure.Invalid, "too deep"},
		"deep_expression":      {"SELECT " + strings.Repeat("(", 5000) + "1" + strings.Repeat(")", 5000), perdure.Invalid, ""},
		"many_terms":           {"SELECT 1" + strings.Repeat(" UNION ALL SELECT 1", 5000), perdure.Invalid, "too many terms"},
		"many_columns":         {"SELECT 1" + strings.Repeat(", 1", 5000), perdure.Invalid, "too many columns"},
		"long_statement":       {"SELECT '" + strings.Repeat("x", 2<<20) + "'", perdure.Limit, "larger than"},
		"million_rows":         {endless + "SELECT x FROM c LIMIT 1000000", "", ""},
		"million_rows_grouped": {"WITH RECURSIVE c(x) AS (VALUES (1) UNION ALL SELECT x + 1 FROM c LIMIT 1000000) SELECT x % 7 AS k, count(*) FROM c GROUP BY k", "slow", ""},
		"collision":            {"SELECT perdure_row(1, 0, 1)", perdure.Invalid, "Not allowed here: the function perdure_row"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			limit := sessionsql.DefaultTimeout // for statements that end
			if c.kind == "slow" || c.kind == perdure.Limit && !strings.HasPrefix(c.says, "larger") {
				limit = allowed
			}
			db := open(t, sessionsql.Config{Timeout: limit}).For(owner)
			begun := time.Now()

			_, err := db.Query(t.Context(), text(c.text))

			if took := time.Since(begun); took > limit+hangs {
				t.Errorf("it took %s", took)
			}
			switch {
			case c.kind == "slow": // in time or stopped, as fast as the machine is
			case c.kind != "":
				refused(t, err, c.kind, c.says)
			case err != nil:
				t.Error(err)
			}
			if got := one(t, db, "SELECT 1"); got != int64(1) {
				t.Errorf("after it: got %v", got)
			}
		})
	}
}

// doubled is a nested query, in which each level contains two of the level below.
func doubled(n int) string {
	parts := []string{"c0 AS (SELECT 1 AS x)"}
	for i := range n {
		parts = append(parts, fmt.Sprintf("c%d AS (SELECT a.x FROM c%d a, c%d b LIMIT 1)", i+1, i, i))
	}
	return fmt.Sprintf("WITH %s SELECT * FROM c%d", strings.Join(parts, ", "), n)
}

// TestForbidden: a statement that accesses anything outside its database, or changes how it is
// stored, is refused with the reason, through either tool, and leaves nothing behind.
func TestForbidden(t *testing.T) {
	t.Parallel()
	outside := filepath.Join(t.TempDir(), "outside.db")
	db := sqlOf(t)
	run(t, db, "CREATE TABLE t (x)", "INSERT INTO t VALUES (1)")
	for s, words := range map[string]string{
		"ATTACH '" + outside + "' AS o":                  "ATTACH",
		"ATTACH ':memory:' AS o":                         "ATTACH",
		"DETACH main":                                    "DETACH",
		"VACUUM":                                         "",
		"VACUUM INTO '" + outside + "'":                  "",
		"SELECT load_extension('libm.so')":               "load_extension",
		"SELECT LOAD_EXTENSION('libm.so')":               "load_extension",
		"PRAGMA writable_schema = ON":                    "PRAGMA writable_schema",
		"PRAGMA main.Writable_Schema(1)":                 "PRAGMA writable_schema",
		"SELECT * FROM pragma_journal_mode('OFF')":       "",
		"PRAGMA journal_mode = WAL":                      "PRAGMA journal_mode",
		"PRAGMA max_page_count = 1000000":                "PRAGMA max_page_count",
		"PRAGMA temp_store_directory = '/'":              "PRAGMA temp_store_directory",
		"PRAGMA query_only = 0":                          "PRAGMA query_only",
		"PRAGMA synchronous = OFF":                       "PRAGMA synchronous",
		"PRAGMA recursive_triggers = 1":                  "PRAGMA recursive_triggers",
		"PRAGMA user_version = 7":                        "PRAGMA user_version",
		"PRAGMA hard_heap_limit = 1":                     "PRAGMA hard_heap_limit",
		"PRAGMA wal_checkpoint":                          "PRAGMA wal_checkpoint",
		"UPDATE sqlite_schema SET sql = 'x'":             "",
		"DELETE FROM sqlite_master":                      "",
		"UPDATE sqlite_dbpage SET data = zeroblob(4096)": "",
		"BEGIN":                                "Each statement is a transaction",
		"COMMIT":                               "Each statement is a transaction",
		"ROLLBACK":                             "Each statement is a transaction",
		"SAVEPOINT a":                          "Each statement is a transaction",
		"RELEASE a":                            "Each statement is a transaction",
		"CREATE TEMP TABLE n (x)":              "",
		"CREATE TABLE temp.n (x)":              "",
		"CREATE VIRTUAL TABLE n USING fts5(x)": "",
		"CREATE VIRTUAL TABLE n USING rtree(a, b, c)":       "",
		"CREATE TABLE a (x); ATTACH '" + outside + "' AS o": "Only one statement",
		"SELECT 1; COMMIT":                                        "Only one statement",
		"EXPLAIN ATTACH '" + outside + "' AS o":                   "ATTACH",
		"SELECT writefile('" + outside + "', 'x')":                "no such function",
		"SELECT readfile('/etc/passwd')":                          "no such function",
		"SELECT edit('x')":                                        "no such function",
		"CREATE TABLE n AS SELECT load_extension('libm.so') AS x": "",
	} {
		for way, do := range both(db) {
			if err := do(t.Context(), text(s)); err == nil {
				t.Errorf("%s: %s was run", way, s)
			} else {
				refused(t, err, perdure.Invalid, words)
			}
		}
	}

	t.Run("within_triggers_and_views", func(t *testing.T) {
		run(t, db, "CREATE VIEW v AS SELECT load_extension('libm.so') AS x")
		_, err := db.Query(t.Context(), text("SELECT * FROM v"))
		refused(t, err, perdure.Invalid, "load_extension")
	})
	if _, err := os.Lstat(outside); err == nil {
		t.Error("a file was made outside")
	}
	if got := one(t, db, "SELECT x FROM t"); got != int64(1) {
		t.Errorf("got %v", got)
	}
	if got := one(t, db, "PRAGMA integrity_check"); got != "ok" {
		t.Errorf("got %v", got)
	}
}

// TestTriggersEnd: triggers that call each other end, or are stopped.
func TestTriggersEnd(t *testing.T) {
	t.Parallel()
	db := open(t, sessionsql.Config{Timeout: allowed}).For(owner)
	run(t, db, "CREATE TABLE a (x)", "CREATE TABLE b (x)",
		"CREATE TRIGGER ab AFTER INSERT ON a BEGIN INSERT INTO b VALUES (new.x); INSERT INTO b VALUES (new.x); END",
		"CREATE TRIGGER ba AFTER INSERT ON b BEGIN INSERT INTO a VALUES (new.x); INSERT INTO a VALUES (new.x); END")

	begun := time.Now()
	_, err := db.Execute(t.Context(), text("INSERT INTO a VALUES (1)"))

	if took := time.Since(begun); took > allowed+hangs {
		t.Errorf("it took %s", took)
	}
	if n := one(t, db, "SELECT count(*) FROM a"); err != nil && n != int64(0) {
		t.Errorf("%v, and %v rows are left", err, n)
	}
}

// TestWritesAreStopped: a write that runs away changes nothing.
func TestWritesAreStopped(t *testing.T) {
	t.Parallel()
	db := open(t, sessionsql.Config{Timeout: allowed, MaxDatabaseBytes: 1 << 30, MaxSessionBytes: 1 << 30}).For(owner)
	run(t, db, "CREATE TABLE t (x)")

	_, err := db.Execute(t.Context(), text("INSERT INTO t "+endless+"SELECT x FROM c"))

	refused(t, err, perdure.Limit, "stopped after")
	if n := one(t, db, "SELECT count(*) FROM t"); n != int64(0) {
		t.Errorf("%v rows are left", n)
	}
	run(t, db, "INSERT INTO t VALUES (1)")
}

// TestQuotas fills a database and a session, and frees space again.
func TestQuotas(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	db := open(t, sessionsql.Config{Dir: dir, MaxDatabaseBytes: 1 << 20, MaxSessionBytes: 3 << 19}).For(owner)
	in := func(database, s string) error {
		_, err := db.Execute(t.Context(), tool.SQLStatement{Database: database, Text: s})
		return err
	}
	const fill = "INSERT INTO t " + endless + "SELECT zeroblob(20000) FROM c LIMIT 20"
	for _, database := range []string{"a", "b"} {
		if err := in(database, "CREATE TABLE t (x)"); err != nil {
			t.Fatal(err)
		}
		for in(database, fill) == nil { // until it is full
		}
		refused(t, in(database, fill), perdure.Limit, "The database is full")
	}
	sizes, err := db.Databases(t.Context())
	if err != nil || len(sizes) != 2 || sizes[0].SizeBytes > 1<<20 || sizes[0].SizeBytes < 1<<19 || sizes[0].SizeBytes+sizes[1].SizeBytes > 3<<19 {
		t.Errorf("got %v, %v", sizes, err)
	}

	for _, s := range []string{"DELETE FROM t", "CREATE TABLE u (x)", fill} {
		if err := in("a", s); err != nil {
			t.Errorf("after the quota: %s: %v", s, err)
		}
	}
	if err := in("b", fill); err != nil {
		t.Errorf("what one database gave back another one cannot have: %v", err)
	}
}

package sessionsql_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/internal/sessionsql"
	"github.com/perdure/perdure/tool"
)

func TestExecute(t *testing.T) {
	t.Parallel()
	db := sqlOf(t)

	t.Run("says what it did", func(t *testing.T) {
		for _, c := range []struct {
			text string
			want tool.SQLResult
		}{
			{"CREATE TABLE t (id INTEGER PRIMARY KEY, x TEXT)", tool.SQLResult{}},
			{"INSERT INTO t (x) VALUES ('a'), ('b'), ('c')", tool.SQLResult{RowsAffected: 3, LastInsertID: 3}},
			{"UPDATE t SET x = 'z' WHERE id > 1", tool.SQLResult{RowsAffected: 2}},
			{"CREATE INDEX t_x ON t (x)", tool.SQLResult{}},
			{"DELETE FROM t WHERE id = 7", tool.SQLResult{}},
			{"WITH n(i) AS (VALUES (10)) INSERT INTO t SELECT i, 'n' FROM n", tool.SQLResult{RowsAffected: 1, LastInsertID: 10}},
			{"DELETE FROM t;  -- all", tool.SQLResult{RowsAffected: 4}},
		} {
			if got := run(t, db, c.text); got != c.want {
				t.Errorf("%s: got %+v, want %+v", c.text, got, c.want)
			}
		}
	})
	t.Run("takes the arguments of JSON", func(t *testing.T) {
		run(t, db, "CREATE TABLE a (v)")
		for _, v := range []any{nil, true, 1.0, 1.5, "text", "nul \x00 byte"} {
			if _, err := db.Execute(t.Context(), text("INSERT INTO a VALUES (?)", v)); err != nil {
				t.Fatal(err)
			}
		}
		got := ask(t, db, "SELECT v, typeof(v) FROM a")
		want := [][]any{
			{nil, "null"}, {int64(1), "integer"}, {int64(1), "integer"}, {1.5, "real"}, {"text", "text"}, {"nul \x00 byte", "text"},
		}
		if diff := cmp.Diff(want, got.Rows); diff != "" {
			t.Error(diff)
		}
	})
	t.Run("is all or nothing", func(t *testing.T) {
		run(t, db, "CREATE TABLE u (x UNIQUE)", "INSERT INTO u VALUES (5)")
		_, err := db.Execute(t.Context(), text("INSERT INTO u VALUES (1), (2), (5)"))
		refused(t, err, perdure.Invalid, "UNIQUE constraint failed: u.x")
		if n := one(t, db, "SELECT count(*) FROM u"); n != int64(1) {
			t.Errorf("got %v rows, want 1", n)
		}
	})
	t.Run("rolls back whatever a conflict clause says", func(t *testing.T) {
		run(t, db, "CREATE TABLE f (x UNIQUE)", "INSERT INTO f VALUES (5)")
		for _, clause := range []string{"FAIL", "ROLLBACK", "ABORT"} {
			if _, err := db.Execute(t.Context(), text("INSERT OR "+clause+" INTO f VALUES (1), (5)")); err == nil {
				t.Errorf("%s: a duplicate is in", clause)
			}
			if n := one(t, db, "SELECT count(*) FROM f"); n != int64(1) {
				t.Errorf("%s: got %v rows, want 1", clause, n)
			}
		}
		run(t, db, "INSERT INTO f VALUES (6)") // and works
	})
	t.Run("refuses what only reads", func(t *testing.T) {
		for _, s := range []string{"SELECT 1", "PRAGMA table_list", "VALUES (1)"} {
			_, err := db.Execute(t.Context(), text(s))
			refused(t, err, perdure.Invalid, "sql_query")
		}
	})
	t.Run("runs triggers", func(t *testing.T) {
		run(t, db, "CREATE TABLE p (x)", "CREATE TABLE q (x)",
			"CREATE TRIGGER copy AFTER INSERT ON p BEGIN INSERT INTO q VALUES (new.x); UPDATE q SET x = x + 1; END;", "INSERT INTO p VALUES (1)")
		if got := one(t, db, "SELECT x FROM q"); got != int64(2) {
			t.Errorf("got %v, want 2", got)
		}
	})
	t.Run("keeps foreign keys", func(t *testing.T) {
		run(t, db, "CREATE TABLE parent (id INTEGER PRIMARY KEY)", "CREATE TABLE child (p REFERENCES parent(id))")
		_, err := db.Execute(t.Context(), text("INSERT INTO child VALUES (1)"))
		refused(t, err, perdure.Invalid, "FOREIGN KEY constraint failed")
	})
}

func TestQuery(t *testing.T) {
	t.Parallel()
	db := sqlOf(t)
	run(t, db, "CREATE TABLE t (id INTEGER PRIMARY KEY, name TEXT, born DATE, seen DATETIME, score REAL, body BLOB, ok BOOLEAN)",
		`INSERT INTO t VALUES (1, 'a', '2024-02-30', '2024-01-01 10:00', 1.0, x'00ff', 1), (2, NULL, NULL, 17, 9e999, '', 0)`)

	t.Run("returns values as they are stored", func(t *testing.T) {
		got := ask(t, db, "SELECT * FROM t ORDER BY id; ")
		want := tool.SQLRows{
			Columns: []string{"id", "name", "born", "seen", "score", "body", "ok"},
			Rows: [][]any{
				{int64(1), "a", "2024-02-30", "2024-01-01 10:00", 1.0, map[string]string{"base64": "AP8="}, int64(1)},
				{int64(2), nil, nil, int64(17), "+Inf", "", int64(0)},
			},
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Error(diff)
		}
	})
	t.Run("keeps the order", func(t *testing.T) {
		run(t, db, "CREATE TABLE o (x)", "WITH RECURSIVE c(x) AS (VALUES (1) UNION ALL SELECT x + 1 FROM c LIMIT 900) INSERT INTO o SELECT (x * 7919) % 907 FROM c")
		got := ask(t, db, "SELECT x FROM o ORDER BY x DESC")
		for i := 1; i < len(got.Rows); i++ {
			if got.Rows[i-1][0].(int64) < got.Rows[i][0].(int64) {
				t.Fatalf("row %d: %v before %v", i, got.Rows[i-1][0], got.Rows[i][0])
			}
		}
		if len(got.Rows) != 900 {
			t.Errorf("got %d rows, want 900", len(got.Rows))
		}
	})
	t.Run("takes all that reads", func(t *testing.T) {
		for s, want := range map[string]int{
			"VALUES (1, 'a'), (2, 'b')":                                    2,
			"WITH x AS (SELECT 1 AS a, 2 AS a) SELECT * FROM x -- end":     1,
			"SELECT 1 /* not closed":                                       1,
			"SELECT ?2, ?1":                                                1,
			"SELECT 1 UNION SELECT 2 UNION ALL SELECT 2 ORDER BY 1":        3,
			"SELECT name FROM t WHERE 0":                                   0,
			"PRAGMA table_info(t)":                                         7,
			"SELECT * FROM pragma_table_info('t')":                         7,
			"PRAGMA integrity_check":                                       1,
			"EXPLAIN QUERY PLAN SELECT * FROM t":                           1,
			"SELECT row_number() OVER (ORDER BY id), json_array(1) FROM t": 2,
		} {
			if got := ask(t, db, s, "one", "two"); len(got.Rows) != want {
				t.Errorf("%s: got %d rows, want %d", s, len(got.Rows), want)
			}
		}
	})
}

func TestQueryRefuses(t *testing.T) {
	t.Parallel()
	db := sqlOf(t)
	run(t, db, "CREATE TABLE t (id INTEGER PRIMARY KEY, name TEXT)", "INSERT INTO t VALUES (1, 'a'), (2, 'b')")

	t.Run("refuses what writes", func(t *testing.T) {
		for _, s := range []string{
			"INSERT INTO t (id) VALUES (9)", "INSERT INTO t (id) VALUES (9) RETURNING id", "UPDATE t SET name = 'x' RETURNING *", "DELETE FROM t",
			"CREATE TABLE n (x)", "DROP TABLE t", "ALTER TABLE t ADD COLUMN z", "REINDEX", "ANALYZE", "EXPLAIN DELETE FROM t",
			"WITH x AS (SELECT 1) DELETE FROM t", "CREATE VIEW v AS SELECT 1",
		} {
			_, err := db.Query(t.Context(), text(s))
			refused(t, err, perdure.Invalid, "sql_execute")
		}
		if n := one(t, db, "SELECT count(*) FROM t"); n != int64(2) {
			t.Errorf("got %v rows, want 2", n)
		}
	})
	t.Run("says what the database says", func(t *testing.T) {
		for s, words := range map[string]string{
			"SELECT * FROM nowhere": "no such table: nowhere", "SELEC 1": `near "SELEC": syntax error`, `SELECT "nobody"`: "no such column",
			"SELECT 1; SELECT 2": "Only one statement", " ; -- \n": "no statement", "SELECT 'a\x00b'": "NUL", "SELECT ?": "missing argument",
			"SELECT abs(-9223372036854775808)": "integer overflow", "SELECT instr(1)": "wrong number of arguments",
			"SELECT 1) SELECT (2": "syntax error",
		} {
			_, err := db.Query(t.Context(), text(s))
			refused(t, err, perdure.Invalid, words)
			if err != nil && (strings.Contains(err.Error(), "SQL logic error") || strings.Contains(err.Error(), "perdure")) {
				t.Errorf("%s: got %v, which means nothing to a model", s, err)
			}
		}
		for _, bad := range []any{[]any{1}, map[string]any{}} {
			_, err := db.Query(t.Context(), text("SELECT ?", bad))
			refused(t, err, perdure.Invalid, "Argument 1")
		}
	})
	t.Run("of a database that does not exist is of an empty one", func(t *testing.T) {
		got, err := db.Query(t.Context(), tool.SQLStatement{Database: "other", Text: "SELECT count(*) FROM sqlite_schema"})
		if err != nil || got.Rows[0][0] != int64(0) {
			t.Errorf("got %v, %v", got, err)
		}
		if all, err := db.Databases(t.Context()); err != nil || len(all) != 1 {
			t.Errorf("got %v, %v: a question made a database", all, err)
		}
	})
}

func TestResultIsCut(t *testing.T) {
	t.Parallel()
	db := sqlOf(t)

	t.Run("at a thousand rows", func(t *testing.T) {
		got := ask(t, db, "WITH RECURSIVE c(x) AS (VALUES (1) UNION ALL SELECT x + 1 FROM c LIMIT 1000000) SELECT x FROM c")
		if len(got.Rows) != 1000 || got.Rows[999][0] != int64(1000) || !strings.Contains(got.Note, "1000") {
			t.Errorf("got %d rows, %q", len(got.Rows), got.Note)
		}
		if got := ask(t, db, "WITH RECURSIVE c(x) AS (VALUES (1) UNION ALL SELECT x + 1 FROM c LIMIT 1000) SELECT x FROM c"); len(got.Rows) != 1000 || got.Note != "" {
			t.Errorf("got %d rows, %q", len(got.Rows), got.Note)
		}
	})
	t.Run("at a megabyte", func(t *testing.T) {
		got := ask(t, db, "WITH RECURSIVE c(x) AS (VALUES (1) UNION ALL SELECT x + 1 FROM c LIMIT 500) SELECT x, hex(zeroblob(5000)) FROM c")
		if len(got.Rows) < 100 || len(got.Rows) > 105 || !strings.Contains(got.Note, "1024 KB") {
			t.Errorf("got %d rows, %q", len(got.Rows), got.Note)
		}
	})
}

func TestSchema(t *testing.T) {
	t.Parallel()
	db := sqlOf(t)
	run(t, db, `CREATE TABLE "b % c" (id INTEGER PRIMARY KEY AUTOINCREMENT, x TEXT NOT NULL, y)`, "CREATE TABLE a (k, l, PRIMARY KEY (k, l))",
		"CREATE VIEW v AS SELECT x AS z FROM \"b % c\"", "CREATE VIEW broken AS SELECT missing FROM nowhere")

	got, err := db.Schema(t.Context(), "")

	want := []tool.SQLTable{
		{Name: "a", Kind: "table", Columns: []tool.SQLColumn{{Name: "k", PrimaryKey: true}, {Name: "l", PrimaryKey: true}}},
		{Name: "b % c", Kind: "table", Columns: []tool.SQLColumn{
			{Name: "id", Type: "INTEGER", PrimaryKey: true}, {Name: "x", Type: "TEXT", NotNull: true}, {Name: "y"},
		}},
		{Name: "broken", Kind: "view", Columns: []tool.SQLColumn{}},
		{Name: "v", Kind: "view", Columns: []tool.SQLColumn{{Name: "z", Type: "TEXT"}}},
	}
	if diff := cmp.Diff(want, got); diff != "" || err != nil {
		t.Errorf("%v\n%s", err, diff)
	}
	if got, err := db.Schema(t.Context(), "other"); len(got) != 0 || err != nil {
		t.Errorf("got %v, %v of a database that does not exist", got, err)
	}
}

func TestDatabases(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	s := open(t, sessionsql.Config{Dir: dir, MaxIdleOpen: 1})
	db := s.For(owner)
	make := func(session perdure.SessionID, name string) error {
		_, err := s.For(session).Execute(t.Context(), tool.SQLStatement{Database: name, Text: "CREATE TABLE t (x)"})
		return err
	}

	t.Run("are ten at most", func(t *testing.T) {
		for i := range 10 {
			if err := make(owner, fmt.Sprintf("db-%d", i)); err != nil {
				t.Fatal(err)
			}
		}
		refused(t, make(owner, "one_more"), perdure.Limit, "at most 10")
		all, err := db.Databases(t.Context())
		if err != nil || len(all) != 10 || all[0].Name != "db-0" || all[0].SizeBytes == 0 {
			t.Errorf("got %v, %v", all, err)
		}
	})
	t.Run("are none after a statement that failed", func(t *testing.T) {
		_, err := s.For("session_02").Execute(t.Context(), text("CREATE TABEL t (x)"))
		refused(t, err, perdure.Invalid, "syntax error")
		if all, err := s.For("session_02").Databases(t.Context()); len(all) != 0 || err != nil {
			t.Errorf("got %v, %v", all, err)
		}
	})
	t.Run("are one file each", func(t *testing.T) {
		entries, err := os.ReadDir(filepath.Join(dir, string(owner)))
		if err != nil || len(entries) != 10 {
			t.Errorf("got %v, %v", entries, err)
		}
	})
	t.Run("of others are out of sight", func(t *testing.T) {
		if err := make("session_05", "own"); err != nil {
			t.Fatal(err)
		}
		got, err := db.Query(t.Context(), tool.SQLStatement{Database: "own", Text: "SELECT count(*) FROM sqlite_schema"})
		if err != nil || got.Rows[0][0] != int64(0) {
			t.Errorf("got %v, %v", got, err)
		}
	})
	t.Run("go with the session", func(t *testing.T) {
		for range 2 {
			if err := s.Remove(t.Context(), owner); err != nil {
				t.Fatal(err)
			}
		}
		if _, err := os.Lstat(filepath.Join(dir, string(owner))); !errors.Is(err, os.ErrNotExist) {
			t.Errorf("got %v", err)
		}
		if err := make(owner, "main"); err != nil {
			t.Errorf("after it: %v", err)
		}
	})
}

func TestDatabasesStayInTheirFolder(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	s := open(t, sessionsql.Config{Dir: dir})
	make := func(session perdure.SessionID, name string) error {
		_, err := s.For(session).Execute(t.Context(), tool.SQLStatement{Database: name, Text: "CREATE TABLE t (x)"})
		return err
	}

	t.Run("have names that lead nowhere", func(t *testing.T) {
		for _, name := range []string{"..", "a/b", "../session_03/main", "a.db", "a\x00", "ü", "a b", strings.Repeat("a", 65), `a?mode=ro`} {
			refused(t, make(owner, name), perdure.Invalid, "name")
		}
		for _, session := range []perdure.SessionID{"", "..", "a/b", "../x"} {
			if err := make(session, "main"); !errors.Is(err, perdure.Invalid) {
				t.Errorf("session %q: got %v", session, err)
			}
		}
	})
	t.Run("are no links", func(t *testing.T) {
		foreign := filepath.Join(t.TempDir(), "foreign.db")
		if err := os.Mkdir(filepath.Join(dir, "session_04"), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.Symlink(foreign, filepath.Join(dir, "session_04", "main.db")); err != nil {
			t.Fatal(err)
		}
		if err := make("session_04", "main"); !errors.Is(err, perdure.Storage) {
			t.Errorf("got %v", err)
		}
		if _, err := os.Lstat(foreign); err == nil {
			t.Error("a link was followed")
		}
	})
}

func TestDatabaseSurvives(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	s, err := sessionsql.New(sessionsql.Config{Dir: dir, IdleTimeout: time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	run(t, s.For(owner), "CREATE TABLE t (x)", "INSERT INTO t VALUES (1)")
	if err := errors.Join(s.Close(), s.Close()); err != nil {
		t.Fatal(err)
	}
	if _, err := s.For(owner).Query(t.Context(), text("SELECT 1")); !errors.Is(err, perdure.Unavailable) {
		t.Errorf("got %v of a closed store", err)
	}

	if got := one(t, open(t, sessionsql.Config{Dir: dir}).For(owner), "SELECT x FROM t"); got != int64(1) {
		t.Errorf("got %v", got)
	}
}

// TestManyAtOnce runs many goroutines on a few databases with hardly any of them open, and closed
// at once when idle.
func TestManyAtOnce(t *testing.T) {
	t.Parallel()
	s := open(t, sessionsql.Config{MaxIdleOpen: 2, IdleTimeout: time.Microsecond, MaxParallel: 3})
	const sessions, writers, each = 3, 4, 10
	var all sync.WaitGroup
	for i := range sessions {
		db := s.For(perdure.SessionID(fmt.Sprintf("session_%d", i)))
		run(t, db, "CREATE TABLE t (x)")
		for range writers {
			all.Go(func() {
				for range each {
					if _, err := db.Execute(t.Context(), text("INSERT INTO t VALUES (1)")); err != nil {
						t.Error(err)
					}
					if _, err := db.Query(t.Context(), text("SELECT * FROM t")); err != nil {
						t.Error(err)
					}
				}
			})
		}
	}
	all.Wait()

	for i := range sessions {
		if n := one(t, s.For(perdure.SessionID(fmt.Sprintf("session_%d", i))), "SELECT count(*) FROM t"); n != int64(writers*each) {
			t.Errorf("session %d: got %v rows, want %d", i, n, writers*each)
		}
	}
}

// TestCallerEnds: a caller may stop waiting, and its statement stops too.
func TestCallerEnds(t *testing.T) {
	t.Parallel()
	db := sqlOf(t)
	for name, do := range both(db) {
		ctx, cancel := context.WithCancelCause(t.Context())
		timer := time.AfterFunc(100*time.Millisecond, func() { cancel(perdure.CauseInterrupt) })
		err := do(ctx, text(map[string]string{
			"query":   "WITH RECURSIVE c(x) AS (VALUES (1) UNION ALL SELECT x + 1 FROM c) SELECT count(*) FROM c",
			"execute": "CREATE TABLE t AS WITH RECURSIVE c(x) AS (VALUES (1) UNION ALL SELECT x + 1 FROM c) SELECT count(*) FROM c",
		}[name]))
		timer.Stop()
		if !errors.Is(err, perdure.CauseInterrupt) {
			t.Errorf("%s: got %v", name, err)
		}
	}
	if n := one(t, db, "SELECT count(*) FROM sqlite_schema"); n != int64(0) {
		t.Errorf("%v tables are left", n)
	}
}

// TestRelativeFolder: a relative directory is resolved when the store is opened.
func TestRelativeFolder(t *testing.T) {
	dir := t.TempDir()
	t.Chdir(dir)
	s := open(t, sessionsql.Config{Dir: "databases"})
	t.Chdir(t.TempDir())

	run(t, s.For(owner), "CREATE TABLE t (x)", "INSERT INTO t VALUES (1)")

	if got := one(t, s.For(owner), "SELECT x FROM t"); got != int64(1) {
		t.Errorf("got %v", got)
	}
	if _, err := os.Stat(filepath.Join(dir, "databases", string(owner), "main.db")); err != nil {
		t.Error(err)
	}
}

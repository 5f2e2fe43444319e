package sessionsql

import (
	"database/sql"
	"strings"
	"testing"

	sdk "modernc.org/sqlite"
)

func TestSingle(t *testing.T) {
	t.Parallel()
	for in, want := range map[string]string{
		"SELECT 1":                            "SELECT 1",
		" ;; SELECT 1 ; ; -- end":             "SELECT 1",
		"/* a;b */ SELECT ';' ; /* open":      "SELECT ';'",
		`SELECT "a;""b", [c;d], ` + "`e;``f`": `SELECT "a;""b", [c;d], ` + "`e;``f`",
		"SELECT 'it''s; fine';":               "SELECT 'it''s; fine'",
		"SELECT 'open; end":                   "SELECT 'open; end",
		"SELECT 1 - -1 -- ; \n + 2;":          "SELECT 1 - -1 -- ; \n + 2",
		"create trigger a after insert on t begin select 1; select 2; end;":                  "create trigger a after insert on t begin select 1; select 2; end",
		"EXPLAIN QUERY PLAN CREATE TEMP TRIGGER a AFTER INSERT ON t BEGIN SELECT 1; END ; ;": "EXPLAIN QUERY PLAN CREATE TEMP TRIGGER a AFTER INSERT ON t BEGIN SELECT 1; END",
		"CREATE TABLE trigger_end (a); -- CREATE TRIGGER":                                    "CREATE TABLE trigger_end (a)",
	} {
		if got, err := parseSingle(in); err != nil || got.text != want {
			t.Errorf("%s: got %q, %v", in, got.text, err)
		}
	}
	for _, in := range []string{
		"", " ", ";", "-- SELECT 1", "SELECT 1; SELECT 2", "SELECT 1;x", "CREATE TABLE trigger_a (x); DROP TABLE t",
		"CREATE TRIGGER a AFTER INSERT ON t BEGIN SELECT 1; END; SELECT 2", "SELECT 'a\x00b'", "SELECT 1; 'x'", "SELECT end; end; select 2",
	} {
		if got, err := parseSingle(in); err == nil {
			t.Errorf("%q: got %q, want an error", in, got.text)
		}
	}
}

// FuzzSingle: the result is one statement of the text, parsing it again finds the same one, and a
// second statement after it is detected.
func FuzzSingle(f *testing.F) {
	for _, seed := range []string{"SELECT 1", "SELECT ';'--x", "CREATE TRIGGER a AFTER INSERT ON t BEGIN SELECT 1; END;", "/*", "'", "[x", "é;"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		got, err := parseSingle(text)
		if err != nil {
			return
		}
		if got.text == "" || !strings.Contains(text, got.text) {
			t.Errorf("%q: got %q", text, got.text)
		}
		if again, err := parseSingle(got.text); err != nil || again.text != got.text {
			t.Errorf("%q, then: got %q, %v", got.text, again.text, err)
		}
		if _, err := parseSingle(got.text + "\n;END;\n;SELECT 1"); err == nil && !strings.ContainsAny(got.text, "'\"`[") && !strings.Contains(got.text, "/*") {
			t.Errorf("%q: a second statement was not seen", got.text)
		}
	})
}

// TestQuickFunctions: the replaced functions return the same results as SQLite's own.
func TestQuickFunctions(t *testing.T) {
	t.Parallel()
	plainDB := sql.OpenDB(connector{driver: &sdk.Driver{}, dsn: "file::memory:", policy: &policy{}})
	own := &sdk.Driver{}
	if err := new(collectors).register(own); err != nil {
		t.Fatal(err)
	}
	ownDB := sql.OpenDB(connector{driver: own, dsn: "file::memory:", policy: &policy{}})
	for _, db := range []*sql.DB{plainDB, ownDB} {
		db.SetMaxOpenConns(1)
		t.Cleanup(func() { _ = db.Close() })
	}
	values := []string{
		"NULL", "''", "'a'", "'aXbXa'", "'X'", "'ab'", "'ü€🙂ü'", "'€'", "'üa'", "x'6158'", "x'58'", "x''", "0", "1", "-17", "10", "1.0", "1.5", "0.1",
		"1e20", "1e15", "123456789012345678", "1e-5", "0.0001", "1.0e+20", "9e999", "-9e999", "3.14159265358979", "100000.0", "1234567890123456.0", "0.1 + 0.2", "1e16", "1e17", "-2.5e7", "-123456.5", "-0.0", "123456.789e3", "1e300", "-1.5e-7", "' a '", "'  '",
	}
	compare := func(expression string) {
		t.Helper()
		var want, got, wantType, gotType any
		query := "SELECT " + expression + ", typeof(" + expression + ")"
		wantErr, gotErr := plainDB.QueryRow(query).Scan(&want, &wantType), ownDB.QueryRow(query).Scan(&got, &gotType)
		if wantErr != nil || gotErr != nil {
			t.Fatalf("%s: %v, %v", expression, wantErr, gotErr)
		}
		if b, ok := want.([]byte); ok {
			want = string(b)
		}
		if b, ok := got.([]byte); ok {
			got = string(b)
		}
		if got != want || gotType != wantType {
			t.Errorf("%s: got %v %v, want %v %v", expression, gotType, got, wantType, want)
		}
	}
	for _, a := range values {
		for _, b := range values {
			compare("instr(" + a + ", " + b + ")")
			for _, name := range []string{"trim", "ltrim", "rtrim"} {
				compare(name + "(" + a + ", " + b + ")")
			}
			for _, c := range []string{"NULL", "''", "'yy'", "2.5", "x'79'"} {
				compare("replace(" + a + ", " + b + ", " + c + ")")
			}
		}
	}
}

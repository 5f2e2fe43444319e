package api_test

import (
	"strings"
	"testing"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/engine"
	"github.com/perdure/perdure/tool"
)

// readTable is a query of the database that database makes.
const readTable = `{"sql":"SELECT a FROM t"}`

// database makes a session with the database main, and returns its path.
func (r *rig) database() string {
	r.t.Helper()
	s := r.session()
	sql := r.databases.For(perdure.SessionID(strings.TrimPrefix(s, "/v1/sessions/")))
	for _, text := range []string{"CREATE TABLE t (a INTEGER)", "INSERT INTO t VALUES (9007199254740993), (2)"} {
		if _, err := sql.Execute(r.t.Context(), tool.SQLStatement{Text: text}); err != nil {
			r.t.Fatal(err)
		}
	}
	return s
}

// TestDatabases: what the model wrote can be read over HTTP, and nothing can be written.
func TestDatabases(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil)
	s := r.database()

	all := want[struct {
		Items []engine.Database `json:"items"`
	}](r, 200, get(s+"/databases"))
	if len(all.Items) != 1 || all.Items[0].Name != "main" || len(all.Items[0].Tables) != 1 || all.Items[0].Tables[0].Columns[0].Name != "a" {
		t.Errorf("listed %+v", all)
	}
	rows := r.do(post(s+"/databases/main/query", `{"sql":"SELECT a, 'x' AS b FROM t WHERE a > ? ORDER BY a","args":[9007199254740992]}`))
	if got := strings.TrimSpace(string(rows.body)); rows.status != 200 || got != `{"columns":["a","b"],"rows":[[9007199254740993,"x"]]}` {
		t.Errorf("got %d %s", rows.status, got)
	}
	dump := r.do(get(s + "/databases/main/dump"))
	if dump.status != 200 || dump.header.Get("Content-Type") != "application/sql" || !strings.Contains(string(dump.body), `INSERT INTO "t"("a") VALUES(9007199254740993);`) {
		t.Errorf("dumped %d %s", dump.status, dump.body)
	}
	for _, sql := range []string{"DELETE FROM t", "DROP TABLE t", "ATTACH 'x' AS y", "PRAGMA user_version = 3", "SELECT 1; DELETE FROM t", "INSERT INTO t VALUES (1) RETURNING a"} {
		if got := r.do(post(s+"/databases/main/query", `{"sql":"`+sql+`"}`)); got.status != 400 {
			t.Errorf("%s: got %d %s, want 400", sql, got.status, got.body)
		}
	}
	for path, status := range map[string]int{"/databases/other/dump": 404, "/databases/..%2Fmain/dump": 404} {
		if got := r.do(get(s + path)); got.status != status {
			t.Errorf("%s: got %d %s, want %d", path, got.status, got.body, status)
		}
	}
	if got := r.do(post(r.session()+"/databases/main/query", `{"sql":"SELECT 1"}`)); got.status != 404 {
		t.Errorf("a session without databases: got %d %s, want 404", got.status, got.body)
	}
}

package session_test

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/txtar"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/internal/sessionsql"
	"github.com/perdure/perdure/tool"
	"github.com/perdure/perdure/tool/core"
	"github.com/perdure/perdure/tool/session"
)

// sqlCall calls one of the SQL tools over real databases, or over none.
func sqlCall(t *testing.T, db tool.SQL, name, args string) perdure.ToolResult {
	t.Helper()
	return execute(t, session.SQLTools(), tool.Call{Tool: name, Args: []byte(args)}, tool.Env{Ports: tool.Ports{SQL: db}})
}

func TestSQLTools(t *testing.T) {
	t.Parallel()
	s, err := sessionsql.New(sessionsql.Config{Dir: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	db := s.For("session_1")
	for _, c := range []struct{ name, args, want string }{
		{"sql_schema", `{}`, `{"databases":[],"tables":[]}`},
		{"sql_execute", `{"sql":"CREATE TABLE t (a INTEGER PRIMARY KEY, b)"}`, `{"rows_affected":0,"last_insert_id":0}`},
		{"sql_execute", `{"sql":"INSERT INTO t (b) VALUES (?), (?), (?)","args":["x",2.5,null]}`, `{"rows_affected":3,"last_insert_id":3}`},
		{"sql_query", `{"sql":"SELECT b, typeof(b) FROM t WHERE a < ? ORDER BY a","args":[3]}`, `{"columns":["b","typeof(b)"],"rows":[["x","text"],[2.5,"real"]]}`},
		{"sql_query", `{"sql":"SELECT 9007199254740993, x'00'"}`, `{"columns":["9007199254740993","x'00'"],"rows":[[9007199254740993,{"base64":"AA=="}]]}`},
		{"sql_query", `{"sql":"SELECT 1 WHERE 0","database":"other"}`, `{"columns":["1"],"rows":[]}`},
		{"sql_schema", `{"database":"main"}`, `"tables":[{"name":"t","kind":"table","columns":[{"name":"a","type":"INTEGER","not_null":false,"primary_key":true},{"name":"b","type":"","not_null":false,"primary_key":false}]}]`},
	} {
		got := sqlCall(t, db, c.name, c.args)
		if got.IsError() || !strings.Contains(string(got.Result), c.want) {
			t.Errorf("%s %s: got %s, want %s", c.name, c.args, got.Result, c.want)
		}
	}
	for _, c := range []struct{ name, args, want string }{
		{"sql_query", `{"sql":"SELECT * FROM nowhere"}`, "no such table: nowhere"},
		{"sql_query", `{"sql":"DELETE FROM t"}`, "the tool for others is sql_execute"},
		{"sql_execute", `{"sql":"SELECT 1"}`, "Use sql_query"},
		{"sql_query", `{"sql":"SELECT 1","database":"../x"}`, "database"},
		{"sql_query", `{"sql":"SELECT ?","args":[[1]]}`, "Argument 1"},
		{"sql_query", `{"sql":" ;"}`, "There is no statement"},
	} {
		got := sqlCall(t, db, c.name, c.args)
		if got.ErrorKind != "tool_error" || !strings.Contains(got.Error, c.want) {
			t.Errorf("%s %s: got %s %q, want %q", c.name, c.args, got.ErrorKind, got.Error, c.want)
		}
	}
	for _, name := range []string{"sql_query", "sql_execute", "sql_schema"} {
		args := `{"sql":"SELECT 1"}`
		if name == "sql_schema" {
			args = `{}`
		}
		if got := sqlCall(t, nil, name, args); !strings.Contains(got.Error, "Session SQL store not available in this context") {
			t.Errorf("%s without databases: got %q", name, got.Error)
		}
	}
}

// TestSQLGolden compares what a model reads of the tools with testdata, and pins what binds the
// runtime (SQ1, TL32).
func TestSQLGolden(t *testing.T) {
	t.Parallel()
	var archive txtar.Archive
	classes := map[string]perdure.EffectClass{"sql_query": perdure.Pure, "sql_execute": perdure.AtMostOnce, "sql_schema": perdure.Pure}
	for _, found := range session.SQLTools() {
		spec := found.Spec()
		if spec.Class != classes[spec.Name] || spec.Concurrency != "session_sql" || spec.Hints.CapabilityID != "session_sql" || !spec.NeedsEnv {
			t.Errorf("%s: got %+v", spec.Name, spec)
		}
		var schema bytes.Buffer
		if err := json.Indent(&schema, spec.Parameters, "", "  "); err != nil {
			t.Fatal(err)
		}
		archive.Files = append(archive.Files,
			txtar.File{Name: spec.Name + ".txt", Data: []byte(spec.DisplayName + "\n\n" + spec.Description)},
			txtar.File{Name: spec.Name + ".json", Data: schema.Bytes()})
	}
	if err := tool.NewRegistry(session.SQLTools()...).Err(); err != nil {
		t.Error(err)
	}
	for _, d := range core.Tools() {
		if _, ours := classes[d.Spec().Name]; ours {
			t.Errorf("%s is among the defaults", d.Spec().Name)
		}
	}
	path := filepath.Join("testdata", "sql.txtar")
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if got := txtar.Format(&archive); !bytes.Equal(got, want) {
		t.Errorf("%s is not what the tools say; got:\n%s", path, got)
	}
}

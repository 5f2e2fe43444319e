package sqlite_test

import (
	"bytes"
	"compress/gzip"
	"context"
	"database/sql"
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/store"
	"github.com/perdure/perdure/store/sqlite"
)

// update writes missing golden databases. An existing one is never written again: a released
// version made it.
var update = flag.Bool("update", false, "write the databases of schemas that have none in testdata")

// TestGolden requires a database of every schema in testdata, with the rows that its version wrote.
// This program must open it, keep every row and find no fault. The newest schema needs one once
// there is a newer schema.
func TestGolden(t *testing.T) {
	t.Parallel()
	newest := lastSchema(t)
	for schema := int64(1); schema <= newest; schema++ {
		name := fmt.Sprintf("testdata/schema-%d.db.gz", schema)
		if _, err := os.Stat(name); errors.Is(err, fs.ErrNotExist) {
			switch {
			case *update:
				writeGolden(t, name, schema)
			case schema == newest:
				continue
			default:
				t.Errorf("%s does not exist: go test ./store/sqlite -run TestGolden -update writes it", name)
				continue
			}
		}
		t.Run(fmt.Sprint(schema), func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			file := filepath.Join(dir, "perdure.db")
			unpack(t, name, file)
			before := rowCounts(t, file)

			migrated := open(t, sqlite.Config{Dir: dir})
			checkOld(t, migrated)
			closed(t, migrated)

			after := rowCounts(t, file)
			for table, n := range before {
				if table != "goose_db_version" && after[table] != n {
					t.Errorf("%s: got %d rows, want the %d that were there", table, after[table], n)
				}
			}
			sound(t, file)
		})
	}
}

// sound requires a database without a fault.
func sound(t *testing.T, file string) {
	t.Helper()
	wrong, err := sqlite.Check(context.Background(), file)
	if err != nil || len(wrong) > 0 {
		t.Errorf("got %q, %v, want a whole database", wrong, err)
	}
}

// TestNewerSchema opens a database of a later version. It is refused, for writing and for reading,
// and stays unchanged.
func TestNewerSchema(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	closed(t, open(t, sqlite.Config{Dir: dir}))
	file := filepath.Join(dir, "perdure.db")
	newest := newestSchema(t)
	db := bare(t, file)
	if _, err := db.Exec(`INSERT INTO goose_db_version (version_id, is_applied) VALUES ($1, TRUE)`,
		newest+1); err != nil {
		t.Fatal(err)
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	before := readFile(t, file)

	for _, readOnly := range []bool{false, true} {
		_, err := sqlite.Open(context.Background(), sqlite.Config{Dir: dir, ReadOnly: readOnly})
		want := fmt.Sprintf("was written by a newer version (schema %d, this program knows %d): use that version or "+
			"a newer one", newest+1, newest)
		if !errors.Is(err, perdure.Conflict) || !strings.Contains(err.Error(), want) {
			t.Errorf("read-only %t: got %v, want a conflict that says %q", readOnly, err, want)
		}
	}
	if !bytes.Equal(readFile(t, file), before) {
		t.Error("the database was changed")
	}
}

// lastSchema is the number of the last migration before a gap.
func lastSchema(t *testing.T) (n int64) {
	t.Helper()
	for {
		found, err := filepath.Glob(fmt.Sprintf("../sqlstore/migrations/%04d_*.sql", n+1))
		if err != nil || len(found) > 1 {
			t.Fatalf("got migrations %v, %v, want one of each number", found, err)
		}
		if len(found) == 0 {
			return n
		}
		n++
	}
}

// newestSchema is the number of the last migration.
func newestSchema(t *testing.T) int64 {
	t.Helper()
	dir := t.TempDir()
	closed(t, open(t, sqlite.Config{Dir: dir}))
	_, known, err := sqlite.Versions(context.Background(), filepath.Join(dir, "perdure.db"))
	if err != nil || known < 6 {
		t.Fatalf("got schema %d, %v, want one of at least 6", known, err)
	}
	return known
}

// bare opens a database without the store.
func bare(t *testing.T, file string) *sql.DB {
	t.Helper()
	dsn := url.URL{Scheme: "file", Path: file, RawQuery: "_pragma=foreign_keys(1)&_pragma=busy_timeout(5000)"}
	db, err := sql.Open("sqlite", dsn.String())
	if err != nil {
		t.Fatal(err)
	}
	db.SetMaxOpenConns(1)
	return db
}

// rowCounts counts the rows of every table.
func rowCounts(t *testing.T, file string) map[string]int {
	t.Helper()
	db := bare(t, file)
	defer db.Close()
	rows, err := db.Query(`SELECT name FROM sqlite_schema WHERE type = 'table' AND name NOT LIKE 'sqlite_%'`)
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for rows.Next() {
		var name string
		if err := rows.Scan(&name); err != nil {
			t.Fatal(err)
		}
		names = append(names, name)
	}
	if err := errors.Join(rows.Err(), rows.Close()); err != nil {
		t.Fatal(err)
	}
	counts := map[string]int{}
	for _, name := range names {
		var n int
		if err := db.QueryRow(`SELECT COUNT(*) FROM ` + name).Scan(&n); err != nil {
			t.Fatal(err)
		}
		counts[name] = n
	}
	return counts
}

// writeGolden makes a database with the schema of one step and a row in every table.
func writeGolden(t *testing.T, name string, schema int64) {
	t.Helper()
	file := filepath.Join(t.TempDir(), "perdure.db")
	db := bare(t, file)
	migrateTo(t, db, schema)
	for _, statement := range goldenRows() {
		if _, err := db.Exec(statement); err != nil {
			t.Fatalf("schema %d: %s: %v", schema, statement, err)
		}
	}
	if schema >= 5 {
		if _, err := db.Exec(`UPDATE session SET root_id = id`); err != nil {
			t.Fatal(err)
		}
	}
	fillEmpty(t, db)
	if _, err := db.Exec(`VACUUM`); err != nil {
		t.Fatal(err)
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	for table, n := range rowCounts(t, file) {
		if n == 0 {
			t.Fatalf("schema %d: %s is empty: goldenRows has no row for it", schema, table)
		}
	}
	var packed bytes.Buffer
	out, err := gzip.NewWriterLevel(&packed, gzip.BestCompression)
	if err == nil {
		_, err = out.Write(readFile(t, file))
	}
	if err = errors.Join(err, out.Close()); err != nil {
		t.Fatal(err)
	}
	writeFile(t, name, packed.Bytes())
}

// migrateTo makes an empty Perdure database with the schema of one step.
func migrateTo(t *testing.T, db *sql.DB, schema int64) {
	t.Helper()
	if _, err := db.Exec(`PRAGMA application_id = 1348825700`); err != nil {
		t.Fatal(err)
	}
	if err := sqlite.MigrateTo(context.Background(), db, schema); err != nil {
		t.Fatal(err)
	}
}

// fillEmpty adds a row to every empty table, with the session in each column of that name and any
// text in the others.
func fillEmpty(t *testing.T, db *sql.DB) {
	t.Helper()
	rows, err := db.Query(`SELECT t.name, c.name, c.type FROM sqlite_schema AS t, pragma_table_info(t.name) AS c
		WHERE t.type = 'table' AND t.name NOT LIKE 'sqlite_%' AND t.name NOT LIKE 'goose_%' ORDER BY t.name, c.cid`)
	if err != nil {
		t.Fatal(err)
	}
	columns, values := map[string][]string{}, map[string][]string{}
	for rows.Next() {
		var table, column, kind string
		if err := rows.Scan(&table, &column, &kind); err != nil {
			t.Fatal(err)
		}
		value := map[string]string{"TEXT": `'word'`, "BYTEA": `X'776F7264'`, "BIGINT": `1`, "BOOLEAN": `0`}[kind]
		if column == "session_id" {
			value = "'" + string(theSession) + "'"
		}
		columns[table], values[table] = append(columns[table], column), append(values[table], value)
	}
	if err := errors.Join(rows.Err(), rows.Close()); err != nil {
		t.Fatal(err)
	}
	for table := range columns {
		insert := fmt.Sprintf(`INSERT INTO %[1]s (%[2]s) SELECT %[3]s WHERE NOT EXISTS (SELECT 1 FROM %[1]s)`,
			table, strings.Join(columns[table], ", "), strings.Join(values[table], ", "))
		if _, err := db.Exec(insert); err != nil {
			t.Fatalf("%s: %v", insert, err)
		}
	}
}

// goldenRows are rows of the first schema, which every later one accepts. checkOld reads them.
func goldenRows() []string {
	return []string{
		`INSERT INTO session (id, title, status, last_seq, epoch, worker_id, take_ups, taken_seq, secret, created_us, updated_us) VALUES ('session_00000000000070008000000000000001',X'6F6620736368656D612031','idle',1,0,'',0,0,X'0000000000000000000000000000000000000000000000000000000000000000',1772366400000000,1772366400000000)`,
		`INSERT INTO event (session_id, seq, id, type, at_us, body) VALUES ('session_00000000000070008000000000000001',1,'event_1','session.updated',1772366400000000,X'7B2276223A312C226964223A226576656E745F31222C22736571223A312C2274797065223A2273657373696F6E2E75706461746564222C226174223A22323032362D30332D30315431323A30303A30305A222C2273657373696F6E5F6964223A2273657373696F6E5F3030303030303030303030303730303038303030303030303030303030303031222C2264617461223A7B227469746C65223A226F6620736368656D612031227D7D')`,
		`INSERT INTO task (id, session_id, position, kind, state, worker_id, attempt, heartbeat_us, record) VALUES ('task_00000000000070008000000000000002','session_00000000000070008000000000000001',1,'','running','',1,0,X'7B226964223A227461736B5F3030303030303030303030303730303038303030303030303030303030303032222C2273657373696F6E5F6964223A2273657373696F6E5F3030303030303030303030303730303038303030303030303030303030303031222C22726F6F745F73657373696F6E5F6964223A22222C226B696E64223A22222C226F726967696E223A22222C22746F6F6C223A22222C2273706563223A7B22746F6F6C223A22222C22617267756D656E7473223A6E756C6C2C22726561747461636861626C65223A66616C73652C227369676E616C5F6F6E5F636F6D706C6574696F6E223A66616C73657D2C226566666563745F636C617373223A22222C226C616E65223A22222C227374617465223A2272756E6E696E67222C226C6F675F6279746573223A302C22617474656D7074223A312C22657865637574696F6E73223A302C2264656C6976657279223A22222C2277616B65223A22222C2264656C697665726564223A22222C22637265617465645F6174223A22303030312D30312D30315430303A30303A30305A222C22757064617465645F6174223A22303030312D30312D30315430303A30303A30305A227D')`,
		`INSERT INTO task_log (task_id, byte_offset, size_bytes, stream, attempt, at_us, body) VALUES ('task_00000000000070008000000000000002',0,18,X'7374646F7574',1,1772366400000000,X'6F7574707574206F6620736368656D612031')`,
		`INSERT INTO call (session_id, call_id, position, turn_id, task_id, attempt, tool, args, fingerprint, class, state, token, worker_id, epoch, executions, result, resolved_by, claimed_us, settled_us) VALUES ('session_00000000000070008000000000000001',X'63616C6C5F31',1,'','',0,X'746F6F6C',X'','','pure','settled','token','',0,1,X'7B22746F6F6C5F63616C6C5F6964223A2263616C6C5F31227D',X'',1772366400000000,1772366400000000)`,
		`INSERT INTO delivery (task_id, attempt, state, session_id, position, settled_us, claimed) VALUES ('task_00000000000070008000000000000002',1,'succeeded','session_00000000000070008000000000000001',1,1772366400000000,0)`,
		`INSERT INTO file (session_id, path, parent, directory, read_only, encoding, size_bytes, created_us, updated_us, content) VALUES ('session_00000000000070008000000000000001',X'2F6E6F7465732E747874',X'2F',0,0,'text',19,1772366400000000,1772366400000000,X'636F6E74656E74206F6620736368656D612031')`,
		`INSERT INTO worker (id, host, boot_id, pid, started_us, lease_us) VALUES ('worker_1',X'686F7374',X'',0,1772366400000000,1772366400000000)`,
		`INSERT INTO snapshot (session_id, seq, version, body) VALUES ('session_00000000000070008000000000000001', 1, 0, X'776F7264')`,
		`INSERT INTO task_message (id, task_id, position, direction, body, data, in_reply_to, created_us) VALUES ('message_1', 'task_00000000000070008000000000000002', 1, 'inbound', X'776F7264', X'', '', 1772366400000000)`,
	}
}

// TestOrgOfOlderRows: connections from before 0022 belong to the default org, and a lease belongs
// to the org of its session.
func TestOrgOfOlderRows(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	db := bare(t, filepath.Join(dir, "perdure.db"))
	migrateTo(t, db, 20)
	for _, statement := range append(goldenRows(), `UPDATE session SET root_id = id, org = 'acme'`) {
		if _, err := db.Exec(statement); err != nil {
			t.Fatalf("%s: %v", statement, err)
		}
	}
	fillEmpty(t, db)
	if _, err := db.Exec(`UPDATE lease SET status = 'active'`); err != nil {
		t.Fatal(err)
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}

	migrated := open(t, sqlite.Config{Dir: dir})

	connections := read(t, migrated, func(r store.Reader) ([]store.Connection, error) { return r.Directory().Connections().List() })
	if len(connections) != 1 || connections[0].Key() != (store.ConnectionKey{User: "word", Provider: "word"}) ||
		string(connections[0].Sealed) != "word" {
		t.Errorf("connections: got %+v", connections)
	}
	leases := read(t, migrated, func(r store.Reader) ([]perdure.Lease, error) { return r.Resources().Leases(theSession) })
	if len(leases) != 1 || leases[0].Org != "acme" {
		t.Errorf("leases: got %+v", leases)
	}
}

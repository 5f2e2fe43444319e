package backup_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/internal/backup"
	"github.com/perdure/perdure/store"
	"github.com/perdure/perdure/store/sqlite"
)

// TestVerifyFinds damages a data directory in many ways, one at a time: each is found, and named.
func TestVerifyFinds(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		sql  string
		do   func(p place)
		want string
	}{
		"an event that is gone":           {sql: `DELETE FROM event WHERE seq = 2`, want: "seq 3 of 2 events"},
		"a row behind its journal":        {sql: `UPDATE session SET last_seq = 2`, want: "seq 2 of 3 events"},
		"an event that is none":           {sql: `UPDATE event SET body = X'7B7D' WHERE seq = 2`, want: "event 2"},
		"an event of another session":     {sql: `UPDATE event SET body = replace(body, 'session_0', 'session_1') WHERE seq = 2`, want: "event 2"},
		"a snapshot of other words":       {sql: `UPDATE snapshot SET body = replace(body, 'kept', 'lost')`, want: "does not match the fold of the journal"},
		"a snapshot beyond the end":       {sql: `UPDATE snapshot SET seq = 9`, want: "the snapshot is of event 9"},
		"a snapshot that cannot be read":  {sql: `UPDATE snapshot SET body = X'7B'`, want: "the snapshot cannot be decoded"},
		"a row that refers to nothing":    {sql: `INSERT INTO task_log VALUES ('task_x', 0, 1, X'', 1, 0, X'61')`, want: "refers to a row of task"},
		"a call in no state":              {sql: `INSERT INTO call (session_id, call_id, position, turn_id, task_id, attempt, tool, args, fingerprint, class, state, token, worker_id, epoch, executions, resolved_by, claimed_us, settled_us) VALUES ('` + string(session) + `', X'61', 1, '', '', 0, X'', X'', '', 'pure', 'odd', 't', '', 0, 1, X'', 0, 0)`, want: `state "odd"`},
		"a task that the journal has not": {do: func(p place) { p.write(strayTask) }, want: "violates I6: tasks"},
		"pages of a session's database":   {do: func(p place) { p.spoil(filepath.Join(backup.SQLFolder, string(session), "main.db")) }, want: "sql/" + string(session) + "/main.db"},
		"an audit entry of other words":   {do: audited, sql: `UPDATE audit_entry SET record = replace(record, 'token_1', 'token_2') WHERE seq = 1`, want: "entry 1 of the audit log of default does not match its hash"},
		"an audit entry that is gone":     {do: audited, sql: `DELETE FROM audit_entry WHERE seq = 1`, want: "entries between 0 and 2 are missing"},
		"an audit log that was cut":       {do: audited, sql: `DELETE FROM audit_entry WHERE seq = 2`, want: "it ends with entry 1, but its head says 2"},
		"an audit log without its head":   {do: audited, sql: `DELETE FROM audit_head`, want: "its head says 0"},
		"an event that was answered for":  {do: audited, sql: `UPDATE event SET body = replace(body, 'evil.test', 'good.test')`, want: "event 4 does not match its digest in the audit log"},
		"a blob that is gone": {do: func(p place) {
			if err := os.Remove(filepath.Join(p.dir, filepath.FromSlash(p.blobName("a picture")))); err != nil {
				p.Fatal(err)
			}
		}, want: "of image image_00000000000070008000000000000001 is missing"},
		"pages of the database":            {do: func(p place) { p.closeStore(); p.spoil(sqlite.DatabaseName) }, want: "perdure.db"},
		"a blob with other bytes":          {do: func(p place) { p.file(p.blobName("a picture"), "another picture") }, want: "the content has SHA-256"},
		"an index that lacks one of rows":  {sql: `PRAGMA writable_schema = 1; UPDATE sqlite_schema SET sql = 'CREATE INDEX session_created ON session (updated_us, id)' WHERE name = 'session_created'`, want: "session_created"},
		"a foreign key that was off a day": {sql: `INSERT INTO event VALUES ('session_x', 1, 'event_x', 't', 0, X'7B7D')`, want: "refers to a row of session"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := newPlace(t)
			whole(t, p.dir)
			if c.do != nil {
				c.do(p)
			}
			if c.sql != "" {
				exec(t, filepath.Join(p.dir, sqlite.DatabaseName), c.sql)
			}

			wrong(t, p.dir, c.want)
		})
	}
}

// audited adds two entries to the audit log, the second of an event.
func audited(p place) {
	p.Helper()
	p.write(func(tx store.Tx) error {
		return tx.Audit().Add(store.AuditEntry{Actor: "ada", Action: "token.created", Subject: "token_1"})
	})
	p.write(func(tx store.Tx) error {
		return tx.Journal().Append(session, []perdure.Event{{ID: "event_00000000000070008000000000000077", At: noon, Fact: perdure.RequestDenied{Host: "evil.test", Layer: "session"}}})
	})
	whole(p.T, p.dir)
}

// TestVerifyKnownEnd compares an audit log with where it ended once, which shows that it was made
// anew.
func TestVerifyKnownEnd(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	audited(p)
	end := whole(t, p.dir).AuditHeads[0]
	known := fmt.Sprintf("%s:%d:%s", end.Org, end.Seq, end.Hash)
	p.write(func(tx store.Tx) error {
		return tx.Audit().Add(store.AuditEntry{Action: "token.revoked", Subject: "token_1"})
	})

	rep, err := backup.Verify(t.Context(), p.dir, known)
	if err != nil || len(rep.Problems) > 0 || rep.Audited != 3 {
		t.Errorf("that goes on: got %v, %q, %d entries", err, rep.Problems, rep.Audited)
	}
	rep, err = backup.Verify(t.Context(), p.dir, strings.Replace(known, ":2:", ":3:", 1))
	if err != nil || len(rep.Problems) != 1 || !strings.Contains(rep.Problems[0], "is not the entry given as known") {
		t.Errorf("another entry: got %v, %q", err, rep.Problems)
	}
	if _, err := backup.Verify(t.Context(), p.dir, "default:x"); !errors.Is(err, perdure.Invalid) {
		t.Errorf("nonsense: got %v, want %v", err, perdure.Invalid)
	}
}

// strayTask adds a task row without an event.
func strayTask(tx store.Tx) error {
	_, _, err := tx.Tasks().Create(perdure.Task{ID: "task_00000000000070008000000000000009", Session: session, State: perdure.TaskSucceeded, FinishedAt: noon})
	return err
}

func (p place) closeStore() {
	p.Helper()
	if err := p.st.Close(); err != nil {
		p.Fatal(err)
	}
}

// spoil writes nonsense over the second page of a file.
func (p place) spoil(name string) {
	p.Helper()
	file, err := os.OpenFile(filepath.Join(p.dir, name), os.O_WRONLY, 0)
	if err != nil {
		p.Fatal(err)
	}
	_, err = file.WriteAt([]byte("nonsense nonsense nonsense nonsense"), 4096)
	if err := errors.Join(err, file.Close()); err != nil {
		p.Fatal(err)
	}
}

func (p place) blobName(text string) string {
	p.Helper()
	name, err := filepath.Rel(p.dir, p.blob(text))
	if err != nil {
		p.Fatal(err)
	}
	return filepath.ToSlash(name)
}

func TestVerifyNothing(t *testing.T) {
	t.Parallel()
	if _, err := backup.Verify(context.Background(), t.TempDir()); !errors.Is(err, perdure.NotFound) {
		t.Errorf("got %v, want not found", err)
	}
}

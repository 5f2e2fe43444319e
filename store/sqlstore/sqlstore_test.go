package sqlstore_test

import (
	"context"
	"database/sql"
	"errors"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/store"
	"github.com/perdure/perdure/store/sqlite"
	"github.com/perdure/perdure/store/sqlstore"
)

const (
	session = perdure.SessionID("session_00000000000070008000000000000001")
	task    = perdure.TaskID("task_00000000000070008000000000000002")

	approval = perdure.ApprovalID("appr_00000000000070008000000000000003")
)

var call = perdure.CallKey{Session: session, Call: "call_1"}

// TestUnreadableRows corrupts a row in the database: reading it is an error that names the row,
// never a default (TK5).
func TestUnreadableRows(t *testing.T) {
	t.Parallel()
	readTask := func(r store.Reader) error { _, err := r.Tasks().Get(session, task); return err }
	readCall := func(r store.Reader) error { _, err := r.Calls().Get(call); return err }
	readApproval := func(r store.Reader) error { _, err := r.Approvals().Get(approval); return err }
	readSpawn := func(r store.Reader) error { _, err := r.Spawns().Get(call); return err }
	cases := []struct {
		name  string
		spoil string
		read  func(store.Reader) error
		want  string
	}{
		{"task state", `UPDATE task SET state = 'asleep'`, readTask, string(task) + `: its stored state is "asleep"`},
		{"task state in a list", `UPDATE task SET state = 'asleep'`,
			func(r store.Reader) error { _, err := r.Tasks().List(store.TaskFilter{}); return err }, string(task)},
		{"task state beside its record", `UPDATE task SET state = 'failed'`, readTask, `its record says "running"`},
		{"task record", `UPDATE task SET record = x'7b'`, readTask, string(task) + ": its stored record is not readable"},
		{"task record of another", `UPDATE task SET id = 'task_3'`,
			func(r store.Reader) error { _, err := r.Tasks().Get("", "task_3"); return err }, "task task_3 of " + string(session)},
		{"call state", `UPDATE call SET state = 'lost'`, readCall, call.String() + `: its stored state "lost" is not known`},
		{"call result", `UPDATE call SET result = x'7b'`, readCall, call.String() + ": its stored result is not readable"},
		{"delivery state", `UPDATE delivery SET state = 'running'`,
			func(r store.Reader) error { _, err := r.Tasks().Deliveries(session); return err }, string(task) + `: its stored state "running" is not known`},
		{"approval state", `UPDATE approval SET state = 'asked'`, readApproval, string(approval) + `: its stored state is "asked"`},
		{"approval state that differs from its record", `UPDATE approval SET state = 'approved'`, readApproval, `its record says "open"`},
		{"approval record", `UPDATE approval SET record = x'7b'`, readApproval, string(approval) + ": its stored record is not readable"},
		{"approval of another call", `UPDATE approval SET call_id = x'63'`, readApproval, string(approval) + " of call c of " + string(session)},
		{"approval of another session in a list", `UPDATE approval SET session_id = 'session_3'`,
			func(r store.Reader) error { _, err := r.Approvals().List(store.ApprovalFilter{}); return err }, " of call call_1 of session_3"},
		{"spawn state", `UPDATE spawn SET state = 'born'`, readSpawn, call.String() + `: its stored state "born" is not known`},
		{"spawn settled without a status", `UPDATE spawn SET state = 'settled'`, readSpawn, call.String() + `: its stored status "" does not match its state settled`},
		{"spawn status in a list", `UPDATE spawn SET status = 'failed'`,
			func(r store.Reader) error { _, err := r.Spawns().List(session); return err }, `its stored status "failed" does not match its state pending`},
		{"event body", `UPDATE event SET body = x'7b'`,
			func(r store.Reader) error { _, err := r.Journal().Events(session, 0, 0); return err }, "event 1 of " + string(session)},
		{"event in another's place", `UPDATE event SET seq = 7`,
			func(r store.Reader) error { _, err := r.Journal().Events(session, 0, 0); return err }, "its body says 1"},
		{"session secret", `UPDATE session SET secret = x'00'`,
			func(r store.Reader) error { _, err := r.Sessions().Get(session); return err }, string(session) + ": its secret has 1 bytes"},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			s := filled(t, dir)
			spoil(t, dir, c.spoil)

			err := s.View(context.Background(), c.read)

			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("got %v, want %q", err, c.want)
			}
			if errors.Is(err, perdure.NotFound) || errors.Is(err, perdure.Storage) {
				t.Errorf("got %v, which says that the row is missing or the disk is broken", err)
			}
		})
	}
}

// TestFailure has a database that fails: afterwards a Tx returns the first error and runs no more
// statements.
func TestFailure(t *testing.T) {
	t.Parallel()
	cases := []struct {
		name string
		fail func(*sqlstore.Tx)
	}{
		{"of a statement", func(tx *sqlstore.Tx) { _ = tx.Workers().Remove("worker_1") }},
		{"of a query", func(tx *sqlstore.Tx) { _, _ = tx.Workers().List() }},
		{"of the clock", func(tx *sqlstore.Tx) { tx.Now() }},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			db := &failingDB{}
			tx := sqlstore.New(context.Background(), db, sqlstore.Dialect{
				Clock:   func(context.Context, sqlstore.DB) (time.Time, error) { return time.Time{}, errors.New("first") },
				Explain: func(err error) error { return errors.Join(perdure.Storage, err) },
			})

			c.fail(tx)
			ran := db.ran
			later := tx.Sessions().Create(store.Session{ID: session})

			if failure := tx.Failure(); !errors.Is(failure, perdure.Storage) || !strings.Contains(failure.Error(), "first") {
				t.Errorf("got failure %v, want the first error as storage", failure)
			}
			if !errors.Is(later, perdure.Storage) || !strings.Contains(later.Error(), "first") {
				t.Errorf("got %v from the next call, want the first error", later)
			}
			if db.ran != ran || !tx.Now().IsZero() {
				t.Errorf("ran %d statements after the failure, now is %v", db.ran-ran, tx.Now())
			}
		})
	}
}

// failingDB fails every statement, the first one with "first".
type failingDB struct{ ran int }

func (db *failingDB) fail() error {
	db.ran++
	if db.ran == 1 {
		return errors.New("first")
	}
	return errors.New("later")
}

func (db *failingDB) ExecContext(context.Context, string, ...any) (sql.Result, error) {
	return nil, db.fail()
}
func (db *failingDB) QueryContext(context.Context, string, ...any) (*sql.Rows, error) {
	return nil, db.fail()
}

// filled opens a store with one row of each noun that has a stored form to spoil.
func filled(t *testing.T, dir string) *sqlite.Store {
	t.Helper()
	s, err := sqlite.Open(context.Background(), sqlite.Config{Dir: dir})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	err = s.InTx(context.Background(), func(tx store.Tx) error {
		claimed := perdure.Call{Key: call, Tool: "tool", Token: "token", Class: perdure.Pure}
		_, _, claim := tx.Calls().Claim(claimed, func(perdure.WorkerID) bool { return false })
		_, _, create := tx.Tasks().Create(perdure.Task{ID: task, Session: session, Attempt: 1, State: perdure.TaskRunning})
		_, _, spawn := tx.Spawns().Claim(store.Spawn{Key: call, Root: session, Token: "token"})
		return errors.Join(
			tx.Sessions().Create(store.Session{ID: session}), spawn,
			tx.Journal().Append(session, []perdure.Event{{ID: "event_1", Fact: perdure.SessionUpdated{Title: "title"}}}),
			claim, create,
			tx.Calls().Settle(call, "token", perdure.CallSettled, perdure.ToolResult{CallID: "call_1"}),
			tx.Tasks().AddDelivery(store.Delivery{Session: session, Task: task, Attempt: 1, State: perdure.TaskSucceeded}),
			tx.Approvals().Put(perdure.Approval{ID: approval, Session: session, Call: "call_1", State: perdure.ApprovalOpen}),
		)
	})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func spoil(t *testing.T, dir, statement string) {
	t.Helper()
	db, err := sql.Open("sqlite", filepath.Join(dir, "perdure.db"))
	if err != nil {
		t.Fatal(err)
	}
	result, err := db.Exec(statement)
	if err == nil {
		if n, _ := result.RowsAffected(); n != 1 {
			t.Errorf("%s changed %d rows, want 1", statement, n)
		}
	}
	if err := errors.Join(err, db.Close()); err != nil {
		t.Fatal(err)
	}
}

package sqlite_test

import (
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"testing"
	"time"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/store"
	"github.com/perdure/perdure/store/sqlite"
)

// pages returns how many pages a database has, used or not.
func pages(t *testing.T, dir string) (n int) {
	t.Helper()
	db := bare(t, filepath.Join(dir, "perdure.db"))
	defer db.Close()
	if err := db.QueryRow(`PRAGMA page_count`).Scan(&n); err != nil {
		t.Fatal(err)
	}
	return n
}

// noise returns output that cannot be compressed or shared.
func noise(n int) []byte {
	p := make([]byte, n)
	for i := range p {
		p[i] = byte(rand.N(256))
	}
	return p
}

// TestRetentionKeepsTheDatabaseFlat adds tasks that write 32 pages of output each, end, and are
// forgotten: their pages are used again. Retention does not forget journals, so the law is about
// tasks and their rows.
func TestRetentionKeepsTheDatabaseFlat(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	s := withSession(t, sqlite.Config{Dir: dir})
	flat(t, dir, 40, func(n int) {
		at := noon.Add(time.Duration(n) * time.Minute)
		id := perdure.TaskID(fmt.Sprintf("task_%032x", n))
		write(t, s, func(tx store.Tx) error {
			_, _, err := tx.Tasks().Create(perdure.Task{ID: id, Session: theSession, State: perdure.TaskRunning,
				Attempt: 1, CreatedAt: at})
			return err
		})
		for range 2 {
			write(t, s, func(tx store.Tx) error { _, err := tx.Tasks().AppendLog(id, 1, "stdout", noise(64<<10)); return err })
		}
		write(t, s, func(tx store.Tx) error {
			if err := tx.Tasks().AddMessage(perdure.TaskMessage{ID: perdure.TaskMessageID(fmt.Sprintf("message_%d", n)),
				Task: id, Text: string(noise(4 << 10))}); err != nil {
				return err
			}
			_, err := tx.Tasks().Update(theSession, id, perdure.TaskUpdate{Attempt: 1, State: perdure.TaskCanceled})
			return err
		})
		write(t, s, func(tx store.Tx) error {
			gone, err := tx.Tasks().Prune(tx.Now().Add(time.Hour), 0)
			if err == nil && len(gone) != 1 {
				t.Errorf("round %d: forgot %d tasks, want one", n, len(gone))
			}
			return err
		})
	})
}

// TestDeletionKeepsTheDatabaseFlat adds sessions, fills journals and files, and deletes the
// sessions.
func TestDeletionKeepsTheDatabaseFlat(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	s := open(t, sqlite.Config{Dir: dir})
	flat(t, dir, 40, func(n int) {
		id := perdure.SessionID(fmt.Sprintf("session_%032x", n))
		write(t, s, func(tx store.Tx) error { return tx.Sessions().Create(store.Session{ID: id, CreatedAt: noon}) })
		write(t, s, func(tx store.Tx) error {
			var events []perdure.Event
			for i := range 50 {
				events = append(events, titled(fmt.Sprintf("event_%d_%d_%x", n, i, noise(500))))
			}
			if err := tx.Journal().Append(id, events); err != nil {
				return err
			}
			_, err := tx.Files().Put(id, store.File{Path: "/large", Content: noise(64 << 10)})
			return err
		})
		write(t, s, func(tx store.Tx) error { return tx.Sessions().Remove(id) })
	})
}

// flat requires that the database stops growing: the size after five rounds, plus a tenth, is
// enough for all later rounds.
func flat(t *testing.T, dir string, rounds int, round func(n int)) {
	t.Helper()
	var most int
	for n := range rounds {
		round(n)
		switch got := pages(t, dir); {
		case n < 5:
			most = max(most, got)
		case got > most+most/10:
			t.Fatalf("after %d rounds the database has %d pages, and %d after five", n+1, got, most)
		}
	}
	t.Logf("%d pages after %d rounds, at most %d after five", pages(t, dir), rounds, most)
}

package sessionsql_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/internal/sessionsql"
	"github.com/perdure/perdure/tool"
)

// copiesOf freezes a session while its databases are read.
func copiesOf(t *testing.T, s *sessionsql.Store, id perdure.SessionID) []sessionsql.Copy {
	t.Helper()
	frozen, err := s.Freeze(t.Context(), id)
	if err != nil {
		t.Fatal(err)
	}
	defer frozen.Release()
	copies, err := frozen.Copies(t.Context(), id)
	if err != nil {
		t.Fatal(err)
	}
	return copies
}

func fresh(t *testing.T) *sessionsql.Store {
	t.Helper()
	s, err := sessionsql.New(sessionsql.Config{Dir: t.TempDir(), MaxDatabases: 2, MaxDatabaseBytes: 1 << 20, MaxSessionBytes: 1 << 20})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return s
}

func runIn(t *testing.T, db tool.SQL, database, text string) {
	t.Helper()
	if _, err := db.Execute(t.Context(), tool.SQLStatement{Database: database, Text: text}); err != nil {
		t.Fatal(err)
	}
}

// TestCopies moves the databases of a session: they have the same rows at the destination, and
// copying them again yields the same bytes.
func TestCopies(t *testing.T) {
	t.Parallel()
	from, to := fresh(t), fresh(t)
	runIn(t, from.For("a"), "main", "CREATE TABLE note (word TEXT)")
	runIn(t, from.For("a"), "main", "INSERT INTO note VALUES ('one')")
	runIn(t, from.For("a"), "more", "CREATE VIEW v AS SELECT 1")
	copies := copiesOf(t, from, "a")
	runIn(t, to.For("b"), "left", "CREATE TABLE gone (word TEXT)")
	if err := to.Restore(t.Context(), "b", copies); err != nil {
		t.Fatal(err)
	}
	again := copiesOf(t, to, "b")
	if len(copies) != 2 || len(again) != 2 {
		t.Fatalf("%d databases, and then %d", len(copies), len(again))
	}
	for i := range copies {
		if copies[i].Name != again[i].Name || !bytes.Equal(copies[i].Content, again[i].Content) {
			t.Errorf("%s came as %s, %d bytes as %d", copies[i].Name, again[i].Name, len(copies[i].Content), len(again[i].Content))
		}
	}
	runIn(t, to.For("b"), "main", "INSERT INTO note VALUES ('two')")
	for id, want := range map[perdure.SessionID]string{"a": "[[one]]", "b": "[[one] [two]]"} {
		s := map[perdure.SessionID]*sessionsql.Store{"a": from, "b": to}[id]
		found, err := s.For(id).Query(t.Context(), tool.SQLStatement{Database: "main", Text: "SELECT word FROM note ORDER BY word"})
		if err != nil || fmt.Sprint(found.Rows) != want {
			t.Errorf("%s has %v, %v", id, found.Rows, err)
		}
	}
}

// TestFrozen: no statement of a frozen session runs, statements of another one do, and waiting ones
// continue after Release.
func TestFrozen(t *testing.T) {
	t.Parallel()
	s := fresh(t)
	frozen, err := s.Freeze(t.Context(), "b", "a", "a")
	if err != nil {
		t.Fatal(err)
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := s.For("a").Execute(ended, tool.SQLStatement{Text: "CREATE TABLE t (n)"}); !errors.Is(err, context.Canceled) {
		t.Errorf("a statement of a frozen session: %v", err)
	}
	if _, err := s.Freeze(ended, "a"); !errors.Is(err, context.Canceled) {
		t.Errorf("frozen twice: %v", err)
	}
	runIn(t, s.For("c"), "main", "CREATE TABLE t (n)")
	done := make(chan error)
	go func() {
		_, err := s.For("a").Execute(t.Context(), tool.SQLStatement{Text: "CREATE TABLE t (n)"})
		done <- err
	}()
	frozen.Release()
	frozen.Release()
	if err := <-done; err != nil {
		t.Error(err)
	}
}

// TestRestoreRefuses pins which copies from outside are accepted: single-file databases within the
// limits of a session.
func TestRestoreRefuses(t *testing.T) {
	t.Parallel()
	s := fresh(t)
	runIn(t, s.For("a"), "main", "CREATE TABLE note (word TEXT)")
	good := copiesOf(t, s, "a")[0]
	wal := sessionsql.Copy{Name: "main", Content: bytes.Clone(good.Content)}
	wal.Content[18] = 2
	for what, c := range map[string]struct {
		copies []sessionsql.Copy
		kind   error
	}{
		"no database":  {[]sessionsql.Copy{{Name: "main", Content: []byte(strings.Repeat("x", 8192))}}, perdure.Invalid},
		"half a page":  {[]sessionsql.Copy{{Name: "main", Content: good.Content[:len(good.Content)-1]}}, perdure.Invalid},
		"with a log":   {[]sessionsql.Copy{wal}, perdure.Invalid},
		"another path": {[]sessionsql.Copy{{Name: "../main", Content: good.Content}}, perdure.Invalid},
		"twice":        {[]sessionsql.Copy{good, good}, perdure.Invalid},
		"too many":     {make([]sessionsql.Copy, 3), perdure.Limit},
		"too large":    {[]sessionsql.Copy{{Name: "main", Content: append(bytes.Clone(good.Content), make([]byte, 1<<20)...)}}, perdure.Limit},
	} {
		if err := s.Restore(t.Context(), "b", c.copies); !errors.Is(err, c.kind) {
			t.Errorf("%s: %v", what, err)
		}
	}
	if left := copiesOf(t, s, "b"); len(left) != 0 {
		t.Errorf("of what was refused there is %+v", left)
	}
}

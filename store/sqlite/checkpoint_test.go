package sqlite_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/store"
	"github.com/perdure/perdure/store/sqlite"
)

// TestLogIsMoved writes several times what the log may hold. The log is moved into the database and
// restarted without a Close of the store.
func TestLogIsMoved(t *testing.T) {
	t.Parallel()
	cfg := sqlite.Config{Dir: t.TempDir()}
	st := withSession(t, cfg)
	for i := range 120 {
		e := []perdure.Event{titled(fmt.Sprint("event_", i))}
		e[0].Fact = perdure.SessionUpdated{Title: strings.Repeat("x", 500_000)}
		if err := st.InTx(t.Context(), func(tx store.Tx) error { return tx.Journal().Append(theSession, e) }); err != nil {
			t.Fatal(err)
		}
	}

	log, err := os.Stat(filepath.Join(cfg.Dir, "perdure.db-wal"))
	if err != nil || log.Size() > 32<<20 {
		t.Errorf("the log of 60 MB in all has %d bytes, %v; want at most 32 MiB", log.Size(), err)
	}
}

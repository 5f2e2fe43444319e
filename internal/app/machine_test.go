package app

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/internal/backup"
	"github.com/perdure/perdure/internal/egress"
	"github.com/perdure/perdure/store/sqlite"
)

// TestMachine: a data directory is measured, its backup is known, and all of it can be verified.
func TestMachine(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	st, err := sqlite.Open(t.Context(), sqlite.Config{Dir: dir})
	if err != nil {
		t.Fatal(err)
	}
	m := newServerMachine(dir, false)
	s, err := m.storage(t.Context())
	if err != nil || s.Store != sqliteStore || s.DatabaseBytes+s.LogBytes == 0 || s.LastBackup != nil || s.Path != dir {
		t.Errorf("got %+v, %v", s, err)
	}
	if got := m.api().Build; !strings.HasPrefix(got.SQLite, "3.") || got.Go == "" {
		t.Errorf("got %+v", got)
	}

	at := time.Date(2026, 3, 1, 2, 3, 4, 0, time.UTC)
	if err := backup.WriteLast(dir, backup.Last{CreatedAt: at, To: "/backups/one", SizeBytes: 7}); err != nil {
		t.Fatal(err)
	}
	if s, err = m.storage(t.Context()); err != nil || s.LastBackup == nil || !s.LastBackup.CreatedAt.Equal(at) || s.LastBackup.Path != "/backups/one" {
		t.Errorf("got %+v, %v", s, err)
	}
	if err := os.WriteFile(filepath.Join(dir, backup.LastFile), []byte("{"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := m.storage(t.Context()); !errors.Is(err, perdure.Invalid) {
		t.Errorf("got %v", err)
	}

	if v, err := m.verify(); err != nil || v.State != "running" || v.StartedAt.IsZero() {
		t.Errorf("got %+v, %v", v, err)
	}
	m.running.Wait()
	if v := m.verification(); v.State != "intact" || v.EndedAt.IsZero() {
		t.Errorf("got %+v", v)
	}
	m.close()
	if _, err := m.verify(); !errors.Is(err, perdure.Unavailable) {
		t.Errorf("a verification starts while the server stops: %v", err)
	}
	if err := st.Close(); err != nil {
		t.Fatal(err)
	}
}

// TestMachineRules: broken rules are shown as such.
func TestMachineRules(t *testing.T) {
	t.Parallel()
	m := newServerMachine(t.TempDir(), true)
	if err := (egress.Rules{Blocked: []string{"*"}}).Write(filepath.Join(m.dir, egress.RulesFile)); err != nil {
		t.Fatal(err)
	}
	if r := m.rules(); len(r.Blocked) != 1 || r.Allowed == nil || r.Broken != "" {
		t.Errorf("got %+v", r)
	}
	if err := os.WriteFile(filepath.Join(m.dir, egress.RulesFile), []byte("{"), 0o600); err != nil {
		t.Fatal(err)
	}
	if r := m.rules(); r.Broken == "" {
		t.Errorf("got %+v", r)
	}
	if m.api().Verify != nil {
		t.Error("a server on Postgres offers to verify a database that it does not have")
	}
}

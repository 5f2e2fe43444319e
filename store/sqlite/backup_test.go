package sqlite_test

import (
	"context"
	"errors"
	"path/filepath"
	"strings"
	"testing"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/store/sqlite"
)

// TestOpenRefusesABackup checks that a folder with the manifest of a backup is read and never
// written, even if the manifest is damaged or of a later version, and that a file of another
// program protects nothing.
func TestOpenRefusesABackup(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name, manifest string
		backup         bool
	}{
		{"a backup", `{"format": "perdure-backup", "version": 1}`, true},
		{"of a later version", `{"format": "perdure-backup", "version": 99, "more": {}}`, true},
		{"with a damaged manifest", `{"format": "perdure-backup", "vers`, true},
		{"another program's manifest", `{"name": "an app"}`, false},
		{"an empty file", ``, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			cfg := sqlite.Config{Dir: t.TempDir()}
			closed(t, withSession(t, cfg))
			writeFile(t, filepath.Join(cfg.Dir, sqlite.BackupManifest), []byte(c.manifest))

			st, err := sqlite.Open(context.Background(), cfg)

			if c.backup {
				var refused *sqlite.BackupError
				if !errors.As(err, &refused) || refused.Backup() != cfg.Dir || !errors.Is(err, perdure.Conflict) ||
					!strings.Contains(err.Error(), cfg.Dir+" is a backup") {
					t.Errorf("got %v, want a conflict that names the backup", err)
				}
				if err := sqlite.Compact(context.Background(), cfg); !errors.Is(err, perdure.Conflict) {
					t.Errorf("compacting it gave %v, want a conflict", err)
				}
			} else if err != nil {
				t.Fatal(err)
			} else {
				closed(t, st)
			}
			cfg.ReadOnly = true
			closed(t, open(t, cfg))
		})
	}
}

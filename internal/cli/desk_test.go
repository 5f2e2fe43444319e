package cli

import (
	"context"
	"strings"
	"testing"
)

// TestAdminLeavesADatabaseAlone runs every command of admin for a data directory with a Postgres
// database: it refuses, and names the equivalent. The data directory does not contain the sessions
// then.
func TestAdminLeavesADatabaseAlone(t *testing.T) {
	t.Parallel()
	for _, args := range []string{"backup x/copy", "restore x/copy", "verify", "gc", "gc --dry-run", "rotate-key"} {
		code, out, talk := command{args: "admin " + args + " --database postgres://u@host/name"}.run(context.Background())
		if code != exitUsage || out != "" || !strings.Contains(talk, "pg_dump") {
			t.Errorf("admin %s: got exit code %d, %q and %q, want %d and what backs a database up", args, code, out, talk, exitUsage)
		}
	}
}

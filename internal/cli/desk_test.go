package cli

import (
	"context"
	"strings"
	"testing"
)

// TestAdminLeavesADatabaseAlone gives every command of admin that works in a data directory a Postgres database: it refuses, and
// says what does the same there. What is in the data directory is not what the sessions are in.
func TestAdminLeavesADatabaseAlone(t *testing.T) {
	t.Parallel()
	for _, args := range []string{"backup x/copy", "restore x/copy", "verify", "gc", "gc --dry-run", "rotate-key"} {
		code, out, talk := command{args: "admin " + args + " --database postgres://u@host/name"}.run(context.Background())
		if code != exitUsage || out != "" || !strings.Contains(talk, "pg_dump") {
			t.Errorf("admin %s: got exit code %d, %q and %q, want %d and what backs a database up", args, code, out, talk, exitUsage)
		}
	}
}

package sessionsql_test

import (
	"testing"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/internal/sessionsql"
)

// TestMemoryIsWatched gives a statement unlimited time and little memory, where the system reports
// the memory of a process.
func TestMemoryIsWatched(t *testing.T) {
	t.Parallel()
	db := open(t, sessionsql.Config{MaxMemoryGrowth: 128 << 20}).For(owner)

	_, err := db.Query(t.Context(), text(endless+"SELECT x FROM c ORDER BY zeroblob(500000) || x"))

	refused(t, err, perdure.Limit, "too much memory")
}

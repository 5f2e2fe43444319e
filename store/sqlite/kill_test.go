package sqlite_test

import (
	"math/rand/v2"
	"strconv"
	"testing"
	"time"

	"github.com/perdure/perdure/store/sqlite"
)

// TestKill kills a writing program ten times, each time after some acknowledgement. Every
// acknowledged event is stored, and the journal has no gap.
func TestKill(t *testing.T) {
	t.Parallel()
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	random := rand.New(rand.NewPCG(seed, 0))
	cfg := sqlite.Config{Dir: t.TempDir()}
	closed(t, withSession(t, cfg))

	acknowledged := 0
	for range 10 {
		writer := startChild(t, "append", cfg.Dir)
		for range 1 + random.IntN(40) {
			acknowledged = seq(t, writer.line(t))
		}
		for _, line := range writer.kill() {
			acknowledged = seq(t, line)
		}
	}

	events := journal(t, open(t, cfg))
	if len(events) < acknowledged {
		t.Errorf("got %d events, want the %d that were acknowledged", len(events), acknowledged)
	}
	for i, e := range events {
		if e.Seq != int64(i+1) {
			t.Fatalf("event %d has seq %d: the journal has a gap", i, e.Seq)
		}
	}
}

func seq(t *testing.T, line string) int {
	t.Helper()
	n, err := strconv.Atoi(line)
	if err != nil {
		t.Fatalf("the child printed %q", line)
	}
	return n
}

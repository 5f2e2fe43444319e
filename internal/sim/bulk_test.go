package sim_test

import (
	"os"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/perdure/perdure/internal/sim"
)

func TestBulk(t *testing.T) {
	from, _ := strconv.Atoi(os.Getenv("FROM"))
	n, _ := strconv.Atoi(os.Getenv("N"))
	twice := os.Getenv("TWICE") != ""
	var mu sync.Mutex
	next := from
	commits, lives := 0, 0
	var virtual time.Duration
	for range 2 {
		t.Run("w", func(t *testing.T) {
			t.Parallel()
			for {
				mu.Lock()
				seed := next
				next++
				mu.Unlock()
				if seed >= from+n {
					return
				}
				p := sim.Make(uint64(seed))
				p.Sabotage = sim.Sabotage(os.Getenv("SAB"))
				out := play(t, p)
				mu.Lock()
				commits += out.Commits
				lives += out.Lives
				virtual += out.Took
				mu.Unlock()
				for i, v := range out.Broken {
					if i < 3 {
						t.Errorf("seed %d: %.300s", seed, v.Invariant+" "+string(v.Session)+" "+v.Text)
					}
				}
				if twice {
					again := play(t, p)
					if again.Hash != out.Hash {
						k := 0
						for k < len(out.Trace) && k < len(again.Trace) && out.Trace[k] == again.Trace[k] {
							k++
						}
						t.Errorf("seed %d differs at line %d of %d/%d", seed, k, len(out.Trace), len(again.Trace))
						for j := max(0, k-3); j < k+3; j++ {
							if j < len(out.Trace) {
								t.Logf("A %.300s", out.Trace[j])
							}
							if j < len(again.Trace) {
								t.Logf("B %.300s", again.Trace[j])
							}
						}
					}
				}
			}
		})
	}
	t.Cleanup(func() { t.Logf("%d commits, %d lives, %s", commits, lives, virtual) })
}

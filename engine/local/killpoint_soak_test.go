//go:build soak

package local_test

import (
	"fmt"
	"testing"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/internal/soak"
)

// TestR02KillPoints runs a turn, injects a fault into one call of one method of the store, and lets
// another engine finish: every method that the turn uses, every call of it, each way, each effect
// class. Nothing may be lost, doubled or stuck.
func TestR02KillPoints(t *testing.T) {
	t.Parallel()
	stride := soak.Count(t, "KILLPOINT_STRIDE", killStride, 1)
	for first, class := range []perdure.EffectClass{perdure.Pure, perdure.Idempotent, perdure.AtMostOnce} {
		t.Run(string(class), func(t *testing.T) {
			t.Parallel()
			m := &matrix{class: class, runs: t.TempDir()}
			defer m.abandoned.Wait()
			points, methods := m.points(t)
			played, reached := 0, 0
			for i := range points {
				if i%stride != first%stride && !points[i].early() || t.Failed() {
					continue
				}
				played++
				if m.play(t, points[i]) {
					reached++
				}
			}
			t.Logf("%d points: %d methods, %d calls, %d ways; played %d, came to %d of them", len(points), methods, len(points)/len(ways()), len(ways()), played, reached)
			if reached*2 < played {
				t.Errorf("of %d points only %d came to pass", played, reached)
			}
		})
	}
}

// TestStreamKilledEverywhere kills the engine at each of its transactions, including those of the
// checkpoints, before the commit and between the commit and its result (TN19, TN20). The
// conversation is complete, nothing appears twice, and no call of an incomplete answer was made.
func TestStreamKilledEverywhere(t *testing.T) {
	t.Parallel()
	for _, policy := range []perdure.RecoveryMode{perdure.RecoverContinue, perdure.RecoverFinalize, perdure.RecoverRestart} {
		for _, after := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s_after_%t", policy, after), func(t *testing.T) {
				t.Parallel()
				kept := 0
				for n := int64(1); ; n++ {
					text, died := killStream(t, policy, death{N: n, After: after})
					if !died {
						break
					}
					if text != "" {
						kept++
					}
				}
				if kept < 8 {
					t.Errorf("only %d deaths left a checkpoint", kept)
				}
			})
		}
	}
}

// TestSubagentCrashPoints kills the engine at each of its transactions, before the commit and
// between the commit and its result, and lets another one finish (SA2, SA9, I9).
func TestSubagentCrashPoints(t *testing.T) {
	t.Parallel()
	stride := int64(soak.Count(t, "FAMILY_STRIDE", 5, 1))
	for lane := range int64(4) {
		for _, after := range []bool{false, true} {
			t.Run(fmt.Sprintf("after_%t_%d", after, lane), func(t *testing.T) {
				t.Parallel()
				for n := 1 + lane*stride; !t.Failed(); n += 4 * stride {
					if !familyCrash(t, death{N: n, After: after}) {
						if n <= 30 {
							t.Errorf("the story has only %d transactions", n-1)
						}
						return
					}
				}
			})
		}
	}
}

package sim_test

import (
	"fmt"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/perdure/perdure/internal/sim"
	"github.com/perdure/perdure/internal/soak"
)

// The counts of the first tier; make soak runs more.
const (
	seeds     = 30 // of the simulation
	twice     = 2  // how many of those are run twice
	shrinking = 80 // maximum number of runs to shrink a failure
	sideways  = 4  // concurrent bubbles
	family    = 8  // the seed of a program with subagents
)

// play runs a program in a bubble of its own, which also detects leaked goroutines.
func play(t *testing.T, stage *sim.Stage, p sim.Program) (out sim.Outcome) {
	t.Helper()
	synctest.Test(t, func(*testing.T) { out = stage.Play(p) })
	return out
}

// eachSeed runs n seeds from one on, some concurrently.
func eachSeed(t *testing.T, from, n uint64, do func(t *testing.T, seed uint64)) {
	t.Helper()
	var next atomic.Uint64
	for worker := range sideways {
		t.Run(fmt.Sprint("part ", worker), func(t *testing.T) {
			t.Parallel()
			for k := next.Add(1) - 1; k < n; k = next.Add(1) - 1 {
				do(t, from+k)
			}
		})
	}
}

// judge reports the violations of a program, with the smallest program with the same violation, and
// the command that repeats it.
func judge(t *testing.T, stage *sim.Stage, p sim.Program, out sim.Outcome) {
	t.Helper()
	if len(out.Broken) == 0 {
		return
	}
	for _, v := range out.Broken {
		t.Errorf("seed %d: %s %s: %s", p.Seed, v.Invariant, v.Session, v.Text)
	}
	small := sim.Shrink(p, shrinking, func(smaller sim.Program) bool {
		for _, v := range play(t, stage, smaller).Broken {
			if v.Invariant == out.Broken[0].Invariant {
				return true
			}
		}
		return false
	})
	t.Errorf("shrunk: %s\nreplay: %s", small, sim.Replay(p.Seed))
}

// TestR18Simulation runs random programs against the whole runtime. FIRST_SEED is the first one;
// SEED runs one and, with -v, shows its trace.
func TestR18Simulation(t *testing.T) {
	t.Parallel()
	simulate(t, seeds)
}

func simulate(t *testing.T, n int) {
	t.Helper()
	stage := sim.NewStage()
	if one := uint64(soak.Count(t, "SEED", 0, 0)); one > 0 {
		p := sim.Make(one)
		out := play(t, stage, p)
		t.Log(p)
		for _, line := range out.Trace {
			t.Log(line)
		}
		t.Logf("trace hash %s: %d commits, %d engines, %s", out.Hash, out.Commits, out.Engines, out.Took)
		judge(t, stage, p, out)
		return
	}
	var commits, lives, virtual atomic.Int64
	t.Cleanup(func() {
		t.Logf("%d seeds: %d commits, %d engines, %s of virtual time", n, commits.Load(), lives.Load(), time.Duration(virtual.Load()))
	})
	eachSeed(t, firstSeed(t), uint64(n), func(t *testing.T, seed uint64) {
		p := sim.Make(seed)
		out := play(t, stage, p)
		commits.Add(int64(out.Commits))
		lives.Add(int64(out.Engines))
		virtual.Add(int64(out.Took))
		judge(t, stage, p, out)
	})
}

// firstSeed is the first seed.
func firstSeed(t *testing.T) uint64 {
	t.Helper()
	return uint64(soak.Count(t, "FIRST_SEED", 1, 1))
}

// TestR18SameSeedSameTrace runs seeds twice and wants the same traces. FIRST_SEED is the first one.
func TestR18SameSeedSameTrace(t *testing.T) {
	t.Parallel()
	sameTraces(t, twice)
}

func sameTraces(t *testing.T, n int) {
	t.Helper()
	stage := sim.NewStage()
	eachSeed(t, firstSeed(t), uint64(n), func(t *testing.T, seed uint64) {
		p := sim.Make(seed)
		first, again := play(t, stage, p), play(t, stage, p)
		if first.Hash == again.Hash {
			return
		}
		n := 0
		for n < len(first.Trace) && n < len(again.Trace) && first.Trace[n] == again.Trace[n] {
			n++
		}
		t.Errorf("seed %d: the traces differ from line %d on:\n%s\n%s\n%s", seed, n, line(first, n-1), line(first, n), line(again, n))
	})
}

func line(out sim.Outcome, n int) string {
	if n < 0 || n >= len(out.Trace) {
		return "(nothing)"
	}
	return out.Trace[n]
}

// TestWaitingAgentsTakeNoPlace: subagents that took up all slots of the process, and only wait for
// background work that they started, would wait for ever.
func TestWaitingAgentsTakeNoPlace(t *testing.T) {
	t.Parallel()
	p := sim.Program{Seed: 1, Sessions: 1, Settings: sim.Settings{Overflow: "queue", Drain: -1}, Steps: []sim.Step{{
		N: 1, Op: sim.Send, Text: "routed_agent#1[tell#2+bg_note#3] routed_agent#4[agent#5[agent#6[charge#7/soft#8!fail]+bg_ask#9!fail]!schema] serial#10",
	}}}
	for _, v := range play(t, sim.NewStage(), p).Broken {
		t.Errorf("%s %s: %s", v.Invariant, v.Session, v.Text)
	}
}

// TestShrink keeps what causes the violation and drops the rest.
func TestShrink(t *testing.T) {
	t.Parallel()
	p := sim.Make(family)
	want := []sim.Step{p.Steps[4], p.Steps[11]}

	small := sim.Shrink(p, 1_000, func(q sim.Program) bool {
		return slices.Contains(q.Steps, want[0]) && slices.Contains(q.Steps, want[1])
	})

	if !slices.Equal(small.Steps, want) || len(small.Faults) != 0 {
		t.Errorf("got %s", small)
	}
}

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
	hostSeeds = 10 // of the simulation with several hosts
	hostTwice = 2  // how many of those are run twice
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
	t.Errorf("shrunk: %s\nreplay: %s", small, sim.Replay(p))
}

// TestR18Simulation runs random programs against the whole runtime. FIRST_SEED is the first one;
// SEED runs one and, with -v, shows its trace.
func TestR18Simulation(t *testing.T) {
	t.Parallel()
	simulate(t, sim.Make, seeds)
}

// TestR18Hosts is TestR18Simulation with one to five hosts over one store, which work under the
// grants of a scheduler that is as bad as it may be.
func TestR18Hosts(t *testing.T) {
	t.Parallel()
	simulate(t, sim.MakeHosts, hostSeeds)
}

func simulate(t *testing.T, program func(seed uint64) sim.Program, n int) {
	t.Helper()
	stage := sim.NewStage()
	if one := uint64(soak.Count(t, "SEED", 0, 0)); one > 0 {
		p := program(one)
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
		p := program(seed)
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
	sameTraces(t, sim.Make, twice)
}

// TestR18HostsSameTrace is TestR18SameSeedSameTrace with several hosts.
func TestR18HostsSameTrace(t *testing.T) {
	t.Parallel()
	sameTraces(t, sim.MakeHosts, hostTwice)
}

func sameTraces(t *testing.T, program func(seed uint64) sim.Program, n int) {
	t.Helper()
	stage := sim.NewStage()
	eachSeed(t, firstSeed(t), uint64(n), func(t *testing.T, seed uint64) {
		p := program(seed)
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

// TestR18HostsSabotageIsNoticed gives several hosts a store without a fence, or a scheduler that
// forgets work for ever, and wants the simulation to notice it within its ordinary seeds.
func TestR18HostsSabotageIsNoticed(t *testing.T) {
	t.Parallel()
	stage := sim.NewStage()
	for sabotage, want := range map[sim.Sabotage][]string{
		sim.StaleGrants: {"GR1"}, sim.UnfencedEpochs: {"GR2"}, sim.ForgetDue: {"GR4", "I4"},
	} {
		t.Run(string(sabotage), func(t *testing.T) {
			t.Parallel()
			hunt{sim.MakeHosts, hostSeeds, sabotage, want}.run(t, stage)
		})
	}
}

// hunt is the search for the consequences of a sabotage.
type hunt struct {
	program  func(seed uint64) sim.Program
	most     uint64 // the number of programs
	sabotage sim.Sabotage
	want     []string // the invariants that must be broken in some of them
}

func (h hunt) run(t *testing.T, stage *sim.Stage) {
	t.Helper()
	var found []string
	missing := func(name string) bool { return !slices.Contains(found, name) }
	seed := uint64(1)
	for ; seed <= h.most && slices.ContainsFunc(h.want, missing); seed++ {
		p := h.program(seed)
		p.Sabotage = h.sabotage
		for _, v := range play(t, stage, p).Broken {
			if missing(v.Invariant) {
				t.Logf("seed %d: %s %s", seed, v.Invariant, v.Text)
				found = append(found, v.Invariant)
			}
		}
	}
	for _, name := range h.want {
		if missing(name) {
			t.Errorf("%s is not broken, only %v", name, found)
		}
	}
	t.Logf("%v within %d seeds", found, seed-1)
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

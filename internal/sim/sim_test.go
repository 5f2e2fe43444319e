package sim_test

import (
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/perdure/perdure/internal/sim"
)

// What is played when nobody says otherwise.
const (
	seeds     = 1000 // of the simulation
	twice     = 20   // of those, how many are played twice
	shrinking = 80   // plays that a failure may cost
	sideways  = 4    // bubbles side by side
	family    = 8    // the seed of a program with subagents
)

// play plays a program in a bubble of its own, which also finds goroutines that are left.
func play(t *testing.T, stage *sim.Stage, p sim.Program) (out sim.Outcome) {
	t.Helper()
	synctest.Test(t, func(*testing.T) { out = stage.Play(p) })
	return out
}

// setting reads a number from the environment.
func setting(t *testing.T, name string, otherwise uint64) uint64 {
	t.Helper()
	text := os.Getenv(name)
	if text == "" {
		return otherwise
	}
	n, err := strconv.ParseUint(text, 10, 64)
	if err != nil {
		t.Fatalf("%s=%q is no number", name, text)
	}
	return n
}

// eachSeed plays n seeds from one on, some side by side.
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

// judge tells what a program broke, with the smallest program that breaks the same, and the command that plays it again.
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

// TestR18Simulation plays random programs against the whole runtime. SEEDS is how many, FIRST_SEED where they begin; SEED
// plays one and, with -v, shows its trace.
func TestR18Simulation(t *testing.T) {
	t.Parallel()
	stage := sim.NewStage()
	if one := setting(t, "SEED", 0); one > 0 {
		p := sim.Make(one)
		out := play(t, stage, p)
		t.Log(p)
		for _, line := range out.Trace {
			t.Log(line)
		}
		t.Logf("trace hash %s: %d commits, %d engines, %s", out.Hash, out.Commits, out.Lives, out.Took)
		judge(t, stage, p, out)
		return
	}
	var commits, lives, virtual atomic.Int64
	n := setting(t, "SEEDS", seeds)
	t.Cleanup(func() {
		t.Logf("%d seeds: %d commits, %d engines, %s of virtual time", n, commits.Load(), lives.Load(), time.Duration(virtual.Load()))
	})
	eachSeed(t, setting(t, "FIRST_SEED", 1), n, func(t *testing.T, seed uint64) {
		p := sim.Make(seed)
		out := play(t, stage, p)
		commits.Add(int64(out.Commits))
		lives.Add(int64(out.Lives))
		virtual.Add(int64(out.Took))
		judge(t, stage, p, out)
	})
}

// TestR18SameSeedSameTrace plays seeds twice and wants the same traces. TWICE is how many, FIRST_SEED where they begin.
func TestR18SameSeedSameTrace(t *testing.T) {
	t.Parallel()
	stage := sim.NewStage()
	eachSeed(t, setting(t, "FIRST_SEED", 1), setting(t, "TWICE", twice), func(t *testing.T, seed uint64) {
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

// TestR18SabotageIsNoticed lets the store lie and wants the simulation to say so: one that cannot fail proves nothing.
func TestR18SabotageIsNoticed(t *testing.T) {
	t.Parallel()
	stage := sim.NewStage()
	for sabotage, want := range map[sim.Sabotage][]string{
		sim.LoseClaims: {"I2"}, sim.LoseSettles: {"I1"}, sim.LoseMessages: {"I1"}, sim.LoseCancels: {"I1"}, sim.LoseSpawns: {"I1"},
		sim.LoseDelivery: {"I1", "I16"},
	} {
		t.Run(string(sabotage), func(t *testing.T) {
			t.Parallel()
			var found []string
			missing := func(name string) bool { return !slices.Contains(found, name) }
			for seed := uint64(1); seed <= 100 && slices.ContainsFunc(want, missing); seed++ {
				p := sim.Make(seed)
				p.Sabotage = sabotage
				for _, v := range play(t, stage, p).Broken {
					if !slices.Contains(found, v.Invariant) {
						found = append(found, v.Invariant)
					}
				}
			}
			for _, name := range want {
				if missing(name) {
					t.Errorf("%s is not broken, only %v", name, found)
				}
			}
			t.Log(found)
		})
	}
}

// TestR18EveryCommit dies at the commits of one program with subagents: before, after, and after without telling. With
// KILLPOINTS=all at every commit in each way, else at every eighth, in one way after another.
func TestR18EveryCommit(t *testing.T) {
	t.Parallel()
	stage := sim.NewStage()
	p := sim.Make(family)
	p.Faults = nil
	whole := play(t, stage, p)
	if !slices.ContainsFunc(whole.Trace, func(line string) bool { return strings.Contains(line, `"lineage":`) }) {
		t.Fatalf("the program of seed %d has no subagent: choose another", family)
	}
	ways := []sim.Act{sim.DieBefore, sim.DieAfter, sim.DieUntold}
	var deaths []sim.Fault
	for commit := 1; commit <= whole.Commits; commit++ {
		switch {
		case os.Getenv("KILLPOINTS") == "all":
			for _, way := range ways {
				deaths = append(deaths, sim.Fault{Commit: commit, Act: way})
			}
		case commit%8 == 0:
			deaths = append(deaths, sim.Fault{Commit: commit, Act: ways[commit/8%len(ways)]})
		}
	}
	eachSeed(t, 0, uint64(len(deaths)), func(t *testing.T, n uint64) {
		q := p
		q.Faults = deaths[n : n+1]
		for _, v := range play(t, stage, q).Broken {
			t.Errorf("%+v: %s %s: %s", deaths[n], v.Invariant, v.Session, v.Text)
		}
	})
}

// TestWaitingAgentsTakeNoPlace: subagents that take all places of the process, and only wait for what theirs start in the
// background, would wait for ever.
func TestWaitingAgentsTakeNoPlace(t *testing.T) {
	t.Parallel()
	p := sim.Program{Seed: 1, Sessions: 1, Settings: sim.Settings{Overflow: "queue", Drain: -1}, Steps: []sim.Step{{
		N: 1, Op: sim.Send, Text: "routed_agent#1[tell#2+bg_note#3] routed_agent#4[agent#5[agent#6[charge#7/soft#8!fail]+bg_ask#9!fail]!schema] serial#10",
	}}}
	for _, v := range play(t, sim.NewStage(), p).Broken {
		t.Errorf("%s %s: %s", v.Invariant, v.Session, v.Text)
	}
}

// TestShrink keeps what matters and drops the rest.
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

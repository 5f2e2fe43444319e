//go:build soak

package sim_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/perdure/perdure/internal/sim"
	"github.com/perdure/perdure/internal/soak"
)

// TestR18SimulationSoak is TestR18Simulation with more programs.
func TestR18SimulationSoak(t *testing.T) {
	t.Parallel()
	simulate(t, sim.Make, soak.Count(t, "SEEDS", 250, 10_000))
}

// TestR18SameSeedSameTraceSoak is TestR18SameSeedSameTrace with more programs.
func TestR18SameSeedSameTraceSoak(t *testing.T) {
	t.Parallel()
	sameTraces(t, sim.Make, soak.Count(t, "TWICE", 20, 200))
}

// TestR18HostsSoak is TestR18Hosts with more programs.
func TestR18HostsSoak(t *testing.T) {
	t.Parallel()
	simulate(t, sim.MakeHosts, soak.Count(t, "SEEDS", 250, 10_000))
}

// TestR18HostsSameTraceSoak is TestR18HostsSameTrace with more programs.
func TestR18HostsSameTraceSoak(t *testing.T) {
	t.Parallel()
	sameTraces(t, sim.MakeHosts, soak.Count(t, "TWICE", 20, 200))
}

// TestR18ManyHosts runs a program of many hosts, with ten sessions for each of them.
func TestR18ManyHosts(t *testing.T) {
	t.Parallel()
	hosts := soak.Count(t, "HOSTS", 10, 20)
	p := sim.MakeMany(firstSeed(t), hosts, 10)
	began := time.Now()
	out := play(t, sim.NewStage(), p)
	t.Logf("%d hosts, %d sessions: %d commits, %d engines, %s of virtual time in %s",
		hosts, p.Sessions, out.Commits, out.Engines, out.Took, time.Since(began))
	for _, v := range out.Broken {
		t.Errorf("%s %s: %s", v.Invariant, v.Session, v.Text)
	}
}

// TestR18EveryCommit crashes at the commits of one program with subagents: before, after, and
// between the commit and its result. Under SCALE=full it crashes at every commit in each way, else
// at every eighth, in one way after another.
func TestR18EveryCommit(t *testing.T) {
	t.Parallel()
	everyCommit(t, sim.Make(family), []sim.Act{sim.DieBefore, sim.DieAfter, sim.DieUnanswered})
}

// TestR18HostsEveryCommit is TestR18EveryCommit with several hosts, of which one dies or freezes.
func TestR18HostsEveryCommit(t *testing.T) {
	t.Parallel()
	p := sim.MakeHosts(family)
	p.Hosts = 3
	everyCommit(t, p, []sim.Act{sim.FreezeBefore, sim.DieUnanswered, sim.FreezeAfter, sim.DieBefore, sim.DieAfter})
}

func everyCommit(t *testing.T, p sim.Program, ways []sim.Act) {
	t.Helper()
	stride := soak.Count(t, "COMMIT_STRIDE", 8, 1)
	stage := sim.NewStage()
	p.Faults = nil
	whole := play(t, stage, p)
	if !slices.ContainsFunc(whole.Trace, func(line string) bool { return strings.Contains(line, `"lineage":`) }) {
		t.Fatalf("the program of seed %d has no subagent: choose another", family)
	}
	var deaths []sim.Fault
	for commit := 1; commit <= whole.Commits; commit++ {
		switch {
		case stride == 1:
			for _, way := range ways {
				deaths = append(deaths, sim.Fault{Commit: commit, Act: way})
			}
		case commit%stride == 0:
			deaths = append(deaths, sim.Fault{Commit: commit, Act: ways[commit/stride%len(ways)]})
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

// TestR18HostsTokensAreNoticed is TestR18HostsSabotageIsNoticed for a fence that is rarely needed,
// because the epoch refuses most writes before it.
func TestR18HostsTokensAreNoticed(t *testing.T) {
	t.Parallel()
	hunt{sim.MakeHosts, 200, sim.UnfencedTokens, []string{"GR2"}}.run(t, sim.NewStage())
}

// TestR18SabotageIsNoticed gives the simulation a store with bugs and wants it to notice them: a
// simulation that cannot fail proves nothing.
func TestR18SabotageIsNoticed(t *testing.T) {
	t.Parallel()
	stage := sim.NewStage()
	for sabotage, want := range map[sim.Sabotage][]string{
		sim.LoseClaims: {"I2"}, sim.LoseSettles: {"I1"}, sim.LoseMessages: {"I1"}, sim.LoseCancels: {"I1"}, sim.LoseSpawns: {"I1"},
		sim.LoseDelivery: {"I1", "I16"},
	} {
		t.Run(string(sabotage), func(t *testing.T) {
			t.Parallel()
			hunt{sim.Make, 100, sabotage, want}.run(t, stage)
		})
	}
}

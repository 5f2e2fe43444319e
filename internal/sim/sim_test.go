package sim_test

import (
	"os"
	"strconv"
	"testing"
	"testing/synctest"

	"github.com/perdure/perdure/internal/sim"
)

var stage = sim.NewStage()

func play(t *testing.T, p sim.Program) (out sim.Outcome) {
	t.Helper()
	synctest.Test(t, func(*testing.T) { out = stage.Play(p) })
	return out
}

func TestOne(t *testing.T) {
	n, _ := strconv.Atoi(os.Getenv("SEED"))
	p := sim.Make(uint64(n))
	p.Sabotage = sim.Sabotage(os.Getenv("SAB"))
	out := play(t, p)
	if os.Getenv("V") != "" {
		t.Log(p)
		for _, l := range out.Trace {
			t.Log(l)
		}
	}
	for _, v := range out.Broken {
		t.Errorf("%+v", v)
	}
	t.Logf("%s %d commits %d lives %s", out.Hash, out.Commits, out.Lives, out.Took)
}

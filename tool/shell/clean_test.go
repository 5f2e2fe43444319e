package shell

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/internal/supervise"
	"github.com/perdure/perdure/tool"
)

// runs are the names of the run directories that are left.
func (b bench) runs(t *testing.T) []string {
	t.Helper()
	entries, err := os.ReadDir(b.config.RunsDir)
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, e := range entries {
		names = append(names, e.Name())
	}
	return names
}

// TestPrunedRunDirectory removes what the executions of a call left, including its unused ticket,
// and nothing of another call or of a running command (TK16).
func TestPrunedRunDirectory(t *testing.T) {
	t.Parallel()
	c := command(waits)
	b, _ := left(t, c, 0)
	other := c
	other.ID = "call_2"
	other.Args = command("echo other").Args
	wantAnswer(t, b.Run(t.Context(), other, tool.Env{LogBytes: 5}), answer{Stdout: "other\n"})
	second := c
	second.Execution, second.Args = 2, command("exit 3").Args
	wantAnswer(t, b.Run(t.Context(), second, tool.Env{}), answer{ExitCode: 3})
	third := c
	third.Execution = 3
	if err := b.Prepare(t.Context(), third); err != nil {
		t.Fatal(err)
	}

	next := b.reborn(t)
	if err := next.Clean(t.Context(), second); !errors.Is(err, supervise.Running) {
		t.Errorf("got %v of a running command, want Running", err)
	}
	want := []string{filepath.Base(b.runDir(c)), filepath.Base(b.runDir(other))}
	slices.Sort(want)
	if got := b.runs(t); !slices.Equal(got, want) {
		t.Errorf("left are %v, want the running one and the other call's: %v", got, want)
	}
	wantRemains(t, next, c, perdure.RemainsAlive)

	if err := next.Stop(t.Context(), c); err != nil {
		t.Fatal(err)
	}
	for range 2 { // again does nothing
		if err := next.Clean(t.Context(), second); err != nil {
			t.Error(err)
		}
	}
	if got, want := b.runs(t), []string{filepath.Base(b.runDir(other))}; !slices.Equal(got, want) {
		t.Errorf("left are %v, want the other call's: %v", got, want)
	}
}

package supervisetest

import (
	"context"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/perdure/perdure/internal/supervise"
)

func inspect(ctx context.Context, t *testing.T, h Harness) {
	r := h.NewRunner()
	look := func(name string, want supervise.Remains) supervise.Inspection {
		t.Helper()
		found, err := h.NewRunner().Inspect(ctx, h.dir(name))
		if err != nil || found.Remains != want {
			t.Fatalf("inspect %s: %+v, %v, want it %s", name, found, err, want)
		}
		return found
	}
	look("absent", supervise.Absent)
	if err := r.Prepare(ctx, h.dir("a")); err != nil {
		t.Fatal(err)
	}
	look("a", supervise.Prepared)
	run, err := r.Start(ctx, h.dir("a"), h.command("hold", "x"))
	if err != nil { // the ticket has not been revoked
		t.Fatal(err)
	}
	readUntil(ctx, t, run, "ready\n")

	found := look("a", supervise.Alive)
	if len(found.Tree) == 0 || found.Count != len(found.Tree) || found.Exit != nil {
		t.Fatalf("got %+v, want the processes", found)
	}
	first := found.Tree[0]
	if rec := found.Record; first.PID != rec.CommandPID || first.Parent != rec.PID || first.Group == 0 || first.Threads == 0 || first.State == 0 {
		t.Errorf("got %+v of %+v, want the command first", first, rec)
	}
	// A sandbox may have a process of its own above the program.
	program := found.Tree[len(found.Tree)-1]
	if !strings.HasSuffix(program.CommandLine, "hold x") || program.Dir != h.Dir {
		t.Errorf("got command line %q in %q", program.CommandLine, program.Dir)
	}
	if off := first.StartedAt.Sub(found.Record.StartedAt).Abs(); off > time.Minute {
		t.Errorf("the command has started %v from its supervisor", off)
	}
	if len(found.Files) != 1 || found.Files[0].Path != filepath.Join(h.dir("a"), "output") || found.Files[0].Bytes == 0 {
		t.Errorf("got the files %+v", found.Files)
	}

	if err := run.Stop(ctx, time.Minute); err != nil {
		t.Fatal(err)
	}
	want := follow(ctx, t, run, 0).exit
	found = look("a", supervise.Ended)
	if found.Exit == nil || !reflect.DeepEqual(*found.Exit, want) || len(found.Tree) > 0 || found.Record.PID == 0 {
		t.Errorf("got %+v, want exit %+v and no process", found, want)
	}
}

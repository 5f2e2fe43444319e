package supervisetest

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/perdure/perdure/internal/supervise"
)

// ticketProperties test when a command runs: once, or never (RC20).
func ticketProperties() []property {
	return []property{
		{"a run that was never prepared is absent", neverPrepared},
		{"prepare again does nothing", prepareAgain},
		{"a revoked ticket never starts", revokedNeverStarts},
		{"a run starts once", startsOnce},
		{"an invalid command starts nothing", refusesInvalidCommand},
		{"a cancelled context starts nothing", cancelledStartsNothing},
		{"list shows every run and revokes none", listRevokesNone},
		{"the record names the processes", recordNames},
	}
}

func neverPrepared(ctx context.Context, t *testing.T, h Harness) {
	r := h.NewRunner()

	h.find(ctx, t, r, "a", supervise.Absent)

	if _, err := r.Start(ctx, h.dir("a"), h.command("exit", "0")); err == nil {
		t.Error("Start of an absent run returns no error")
	}
	if all, err := r.List(ctx, h.Root); err != nil || len(all) != 0 {
		t.Errorf("List answers %v, %v; want nothing", all, err)
	}
	h.find(ctx, t, r, "a", supervise.Absent)
}

func prepareAgain(ctx context.Context, t *testing.T, h Harness) {
	r := h.NewRunner()

	for range 3 {
		if err := r.Prepare(ctx, h.dir("deep/er")); err != nil {
			t.Fatal(err)
		}
	}

	run, err := r.Start(ctx, h.dir("deep/er"), h.command("exit", "4"))
	if err != nil {
		t.Fatal(err)
	}
	wantCode(t, follow(ctx, t, run, 0).exit, 4)
}

func revokedNeverStarts(ctx context.Context, t *testing.T, h Harness) {
	r := h.NewRunner()
	if err := r.Prepare(ctx, h.dir("a")); err != nil {
		t.Fatal(err)
	}

	h.find(ctx, t, h.NewRunner(), "a", supervise.Revoked)

	_, err := r.Start(ctx, h.dir("a"), h.command("exit", "0"))
	wantKind(t, err, supervise.NotStarted)
	wantKind(t, r.Prepare(ctx, h.dir("a")), supervise.Spent)
	h.find(ctx, t, r, "a", supervise.Revoked)
}

func startsOnce(ctx context.Context, t *testing.T, h Harness) {
	run := h.start(ctx, t, "a", h.command("hold"))

	r := h.NewRunner()
	_, err := r.Start(ctx, h.dir("a"), h.command("exit", "0"))
	wantKind(t, err, supervise.Spent)
	wantKind(t, r.Prepare(ctx, h.dir("a")), supervise.Spent)

	readUntil(ctx, t, run, "ready\n")
	if err := run.Stop(ctx, 30*time.Second); err != nil {
		t.Fatal(err)
	}
	wantCode(t, follow(ctx, t, run, 0).exit, 7)
	_, err = r.Start(ctx, h.dir("a"), h.command("exit", "0"))
	wantKind(t, err, supervise.Spent)
}

func refusesInvalidCommand(ctx context.Context, t *testing.T, h Harness) {
	r := h.NewRunner()
	if err := r.Prepare(ctx, h.dir("a")); err != nil {
		t.Fatal(err)
	}

	for _, c := range []supervise.Command{
		{Dir: h.Dir},
		{Argv: []string{""}, Dir: h.Dir},
		{Argv: h.Argv("exit", "0"), Dir: "relative"},
		{Argv: h.Argv("exit", "\x00"), Dir: h.Dir},
		{Argv: h.Argv("exit", "0"), Dir: h.Dir, Timeout: -1},
		{Argv: h.Argv("exit", "0"), Dir: h.Dir, OutputMaxBytes: -1},
	} {
		if _, err := r.Start(ctx, h.dir("a"), c); err == nil {
			t.Errorf("Start takes %+v", c)
		}
	}

	h.find(ctx, t, r, "a", supervise.Revoked)
}

func cancelledStartsNothing(ctx context.Context, t *testing.T, h Harness) {
	r := h.NewRunner()
	if err := r.Prepare(ctx, h.dir("a")); err != nil {
		t.Fatal(err)
	}
	why := errors.New("why")
	gone, cancel := context.WithCancelCause(ctx)
	cancel(why)

	_, err := r.Start(gone, h.dir("a"), h.command("exit", "0"))
	wantKind(t, err, why)
	_, _, err = r.Find(gone, h.dir("a"))
	wantKind(t, err, why)

	run, err := r.Start(ctx, h.dir("a"), h.command("exit", "0"))
	if err != nil {
		t.Fatal(err)
	}
	wantCode(t, follow(ctx, t, run, 0).exit, 0)
}

func listRevokesNone(ctx context.Context, t *testing.T, h Harness) {
	r := h.NewRunner()
	h.start(ctx, t, "alive", h.command("hold"))
	follow(ctx, t, h.start(ctx, t, "ended", h.command("exit", "0")), 0)
	for _, name := range []string{"prepared", "revoked"} {
		if err := r.Prepare(ctx, h.dir(name)); err != nil {
			t.Fatal(err)
		}
	}
	h.find(ctx, t, r, "revoked", supervise.Revoked)

	for range 2 {
		all, err := r.List(ctx, h.Root)
		if err != nil {
			t.Fatal(err)
		}
		want := []supervise.Remains{supervise.Alive, supervise.Ended, supervise.Prepared, supervise.Revoked}
		if len(all) != len(want) {
			t.Fatalf("List finds %d runs, want %d", len(all), len(want))
		}
		for i, f := range all {
			if f.Dir != h.dir(want[i].String()) || f.Remains != want[i] || f.Err != nil {
				t.Errorf("List finds %+v, want %s", f, want[i])
			}
		}
		if all[2].Run != nil || all[0].Run == nil || all[1].Run == nil {
			t.Error("List gives a Run to a prepared run, or none to one that started")
		}
	}

	if err := h.find(ctx, t, r, "alive", supervise.Alive).Stop(ctx, 0); err != nil {
		t.Error(err)
	}
	if _, err := r.Start(ctx, h.dir("prepared"), h.command("exit", "0")); err != nil {
		t.Errorf("List has used the ticket: %v", err)
	}
	follow(ctx, t, h.find(ctx, t, r, "ended", supervise.Ended), 0)
}

func recordNames(ctx context.Context, t *testing.T, h Harness) {
	c := h.command("hold")
	run := h.start(ctx, t, "a", c)

	readUntil(ctx, t, run, "ready\n")
	rec := h.find(ctx, t, h.NewRunner(), "a", supervise.Alive).Record()

	if rec.PID != run.Record().PID || rec.PID <= 1 || rec.Program != c.Argv[0] || rec.StartTime == 0 || rec.Host == "" {
		t.Errorf("got record %+v", rec)
	}
	if err := run.Stop(ctx, 0); err != nil {
		t.Error(err)
	}
}
